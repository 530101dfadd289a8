"""What `explearn explain` takes from its start to the first explanation, beside what it stands on.

    python benchmarks/cold_start.py [--classifier FOLDER] [--method attcat] [--runs 5]

Processor seconds, for they depend less on what else the machine does, each of a process of its own:

* `import torch`;
* transformers alone: a script that imports it, loads the classifier and its tokenizer, and classifies a text;
* `explearn explain` of one text, from the command line to its end.

They run in turn, and the least of each is taken. Then what the steps within such a process take, once: the command
line's modules, torch, transformers, loading for the first time (which imports the model's code) and again (which only
reads weights and tokenizer), explaining.

Loading is what transformers alone takes beyond `import torch`. Exits with 1 where `explearn explain` takes more than
twice `import torch` and loading. The stricter sum, with the second loading in place of the first, is printed as well.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from _timing import load_classifier

TEXT = "Shares fell on Monday."

TRANSFORMERS = """
import sys, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
with torch.inference_mode():
    model(**tokenizer(sys.argv[3], return_tensors="pt"))
"""

STEPS = """
import resource, sys
from explearn.core.garbage import start_up

def step(name):
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{used.ru_utime + used.ru_stime:.3f} {name}")

step("Python")
folder, method, text = sys.argv[1:]
import explearn.cli.app, explearn.cli.outputs
step("the command line's modules")
with start_up():
    import torch
    step("import torch")
    import transformers
    step("import transformers")
    from explearn.methods.base.registry import get_explainer
    from explearn.models.classifier import Classifier
    explainer = get_explainer(method)
    step("the method's and the classifier's modules")
    classifier = Classifier.from_pretrained(folder, device="cpu")
    step("loading, the model's code in transformers among it")
list(explainer.explain(classifier, [text]))
step("explaining")
Classifier.from_pretrained(folder, device="cpu")
step("loading again")
"""


def run(*arguments: str) -> tuple[float, str]:
    """Processor seconds of a new Python, user's and system's, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


def steps(folder: str, method: str) -> dict[str, float]:
    """Processor seconds of each step within a process."""
    found, before = {}, 0.0
    for line in run("-c", STEPS, folder, method, TEXT)[1].splitlines():
        until, name = line.split(" ", 1)
        found[name], before = float(until) - before, float(until)
    return found


def measure(folder: str, method: str, runs: int) -> bool:
    """Print what was measured; whether it is within the limit."""
    explain = ("-m", "explearn.cli.app", "explain", "--device", "cpu", "--classifier", folder, "--method", method, TEXT)
    commands = {
        "import torch": ("-c", "import torch"),
        "transformers alone": ("-c", TRANSFORMERS, folder, method, TEXT),
        "explearn explain": explain,
    }
    for command in commands.values():
        run(*command)  # what is compiled, or read from the disk, for the first time
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            found[name].append(run(*command)[0])
    for name, values in found.items():
        print(f"{name}: {min(values):.2f} s (largest of {runs}: {max(values):.2f})")
    parts = steps(folder, method)
    for name, value in parts.items():
        print(f"  {name}: {value:.2f} s")
    torch, alone, whole = (min(values) for values in found.values())
    limit = 2 * torch + alone - torch
    strict = 2 * torch + parts["loading again"]
    print(f"limit, twice import torch and loading: {limit:.2f} s; explearn explain takes {whole / limit:.2f} of it")
    print(f"with loading as reading weights and tokenizer alone: {strict:.2f} s; {whole / strict:.2f} of it")
    return whole <= limit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--classifier", type=Path, help="folder (default: the carried encoder with a new head)")
    parser.add_argument("--method", default="attcat")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.classifier is not None:
        sys.exit(not measure(str(options.classifier), options.method, options.runs))
    classifier = load_classifier(None)
    with tempfile.TemporaryDirectory() as folder:
        classifier.save_pretrained(folder)
        sys.exit(not measure(folder, options.method, options.runs))


if __name__ == "__main__":
    main()
