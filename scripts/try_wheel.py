"""Build the wheel, install it into an empty environment as users do, and explain a text with it.

    python scripts/try_wheel.py [--folder FOLDER] [--newest]

Fails where the core brings more packages than it may, cannot explain a local classifier, where `explearn demo`, after
the extra `demo`, takes longer than a minute of CPU, or what docs/apps/onnx.md installs does not suffice to read ONNX.
Needs a package index, and nothing installed but Python.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
ONNX_PAGE = ROOT / "docs/apps/onnx.md"
MOST_PACKAGES = 60
MOST_DEMO_SECONDS = 60
METHODS = ("attcat", "gae", "occlusion", "integrated_gradients", "consensus")
TEXT = "a warm funny sequel that nobody asked for"
CLASSIFIER = """
from explearn.testing import make_classifier
made = make_classifier("bert")
made.model.save_pretrained("classifier"), made.tokenizer.save_pretrained("classifier")
"""


def reader_environment() -> dict[str, str]:
    """The caller's environment without what points to the checkout; pip's own settings stay."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EXPLEARN"))}


def run(folder: Path, *command: str | Path) -> str:
    """Run a command in `folder` and return what it prints; its failure ends the script."""
    print("+", *command, flush=True)
    done = subprocess.run(command, cwd=folder, env=reader_environment(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{Path(command[0]).name}: exit code {done.returncode}")
    return done.stdout


def cpu_seconds(folder: Path, *command: str | Path) -> float:
    """CPU seconds of a command and what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(folder, *command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def new_environment(folder: Path) -> Path:
    """An empty environment; returns the folder of its programs."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def install_torch(folder: Path, python: Path) -> None:
    """Install torch as locked, before all else: where an index without CUDA is known to pip, its build is taken."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    run(folder, python, "-m", "pip", "install", "--quiet", *project["tool"]["uv"]["constraint-dependencies"])


def write_constraints(folder: Path) -> Path:
    """Write the versions of the lock: with its hashes, pip would install nothing that has none, as our wheel."""
    path = folder / "constraints.txt"
    path.write_text(re.sub(r" \\\n +--hash=\S+", "", LOCK.read_text(encoding="utf-8")), encoding="utf-8")
    return path


@contextmanager
def working_folder(folder: Path | None) -> Iterator[Path]:
    """The folder named, made where it is missing, else a temporary one."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="explearn-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()


def build(folder: Path) -> Path:
    tools = new_environment(folder / "tools")
    run(folder, tools / "python", "-m", "pip", "install", "--quiet", "build")
    run(folder, tools / "python", "-m", "build", "--outdir", folder / "dist", ROOT)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--folder", type=Path, help="Folder to work in, which is kept (default: a temporary one).")
    arguments.add_argument("--newest", action="store_true", help="Newest versions, not those of requirements.lock.")
    options = arguments.parse_args()
    with working_folder(options.folder) as folder:
        check(folder, options.newest)


def check(folder: Path, newest: bool) -> None:
    wheel = build(folder)
    programs = new_environment(folder / "core")
    python = programs / "python"
    explearn = programs / "explearn"
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
    if not newest:
        install_torch(folder, python)
        pip += ["-c", write_constraints(folder)]
    run(folder, *pip, wheel)
    run(folder, python, "-m", "pip", "check")
    packages = json.loads(run(folder, python, "-m", "pip", "list", "--format", "json"))
    names = {package["name"].lower() for package in packages}
    # torch's build for CUDA brings NVIDIA's libraries on Linux: torch's choice, not the core's.
    count = len([name for name in names if not name.startswith(("nvidia-", "cuda-", "triton"))])
    run(folder, python, "-I", "-c", CLASSIFIER)
    methods = [f"--method={name}" for name in METHODS]
    lines = run(folder, explearn, "explain", "--classifier", "classifier", *methods, "--json", TEXT).splitlines()
    explained = [record["method"] for record in map(json.loads, lines) if record["words"] == TEXT.split()]
    help_seconds = min(cpu_seconds(folder, explearn, "--help") for _ in range(3))
    torch_seconds = min(cpu_seconds(folder, python, "-I", "-c", "import torch") for _ in range(2))
    one = min(cpu_seconds(folder, explearn, "explain", "--classifier", "classifier", TEXT) for _ in range(2))
    run(folder, *pip, f"{wheel}[demo]")
    demo_seconds = cpu_seconds(folder, explearn, "demo", TEXT)
    reader = new_environment(folder / "onnx") / "python"
    (packages,) = re.findall(r"pip install (onnxruntime .*)", ONNX_PAGE.read_text(encoding="utf-8"))
    run(folder, reader, "-m", "pip", "install", "--quiet", *packages.split())
    run(folder, reader, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    run(folder, reader, "-I", "-c", "import explearn_apps.onnx, rich, tokenizers")
    print(
        f"Python {sys.version.split()[0]}: {count} packages (pip and Explearn among them); CPU seconds: "
        f"explearn --help {help_seconds:.2f}, import torch {torch_seconds:.2f}, explearn explain {one:.2f}, "
        f"explearn demo {demo_seconds:.1f}"
    )
    if count > MOST_PACKAGES:
        sys.exit(f"the core brings {count} packages; expected at most {MOST_PACKAGES}")
    if explained != list(METHODS):
        sys.exit(f"explained by {', '.join(explained) or 'no method'}; expected {', '.join(METHODS)}")
    if demo_seconds > MOST_DEMO_SECONDS:
        sys.exit(f"explearn demo took {demo_seconds:.0f} s of CPU; expected at most {MOST_DEMO_SECONDS}")


if __name__ == "__main__":
    main()
