"""How much longer `explearn compare` takes than the methods that it compares, and how soon it says something.

    python benchmarks/compare_overhead.py [--classifier FOLDER] [--texts 200] [--methods light] [--processor]

Compares a roster on headlines of the embedded corpus, on the embedded encoder with a new head unless a classifier is
given, in a process of its own, from the import of the package to the written page. The methods' own times are what each
took to explain all texts. The rest is loading, timing, judging, the sanity checks and the page; it is printed by part.
With `--processor` all clocks read processor seconds of all threads, which other processes disturb less. Exits with 1
where all takes more than 1.2 times the sum of the methods' own times, or the first method's line comes after more than
20 s.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

FACTOR, FIRST_SECONDS = 1.2, 20.0


def measure(classifier: Path, table: Path, methods: str, processor: bool) -> None:
    """Compare, print what took how long, and exit with 1 above the limits. For a process that has imported nothing."""
    if processor:
        # The package reads its durations from here.
        time.perf_counter = time.process_time
    started = time.perf_counter()
    # Imported here, for what importing takes is part of the figure.
    import explearn

    lines: list[float] = []

    def tell(line: str) -> None:
        lines.append(time.perf_counter() - started)
        print(f"{lines[-1]:6.1f} s  {line}", flush=True)

    found = explearn.compare(classifier, table, methods=methods, out=table.with_suffix(".html"), tell=tell)
    total = time.perf_counter() - started

    import torch

    parts = dict(found.seconds)
    own = parts.pop("explain")
    print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items()))
    # The first line says what will be compared.
    first = lines[1]
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {len(found.methods)} methods, {found.texts} "
        f"texts: {total:.1f} {'processor seconds' if processor else 's'} in all, {own:.1f} of the methods' own: "
        f"{total / own:.2f} x, at most {FACTOR}; first result after {first:.1f}, at most {FIRST_SECONDS:.0f}"
    )
    sys.exit(total > FACTOR * own or first > FIRST_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder (default: the embedded encoder with a new head)")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--methods", default="light", help="a roster, or names")
    parser.add_argument("--processor", action="store_true", help="processor seconds in the place of the clock's")
    options = parser.parse_args()
    # Not above, for the process that measures imports this module too.
    from _timing import CORPUS, load_classifier, load_texts

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.classifier or Path(temporary) / "classifier"
        if options.classifier is None:
            load_classifier(None).save_pretrained(folder)
        table = Path(temporary) / "texts.csv"
        with table.open("w", encoding="utf-8", newline="") as file:
            texts = load_texts(CORPUS.with_name("topics.jsonl"), options.texts)
            csv.writer(file).writerows([["text"], *([text] for text in texts)])
        child = get_context("spawn").Process(
            target=measure, args=(folder, table, options.methods, options.processor), name="compare"
        )
        child.start()
        child.join()
    sys.exit(child.exitcode)


if __name__ == "__main__":
    main()
