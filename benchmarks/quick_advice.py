"""How much better than what the roster `quick` recommends the best method of at most five times classifying's cost is.

    python benchmarks/quick_advice.py FOLDER [FOLDER ...] [--texts 100] [--train 1500] [--seeds 13] [--most 5]
        [--kept build/quick_advice]

Each FOLDER holds train.jsonl and test.jsonl (text, label). On each, the embedded encoder is fine-tuned for five epochs,
and all methods of a few passes are compared on test texts. Prints, for each classifier: the method of `quick` with the
best AOPC comprehensiveness; the best of all methods whose measured time is at most `--most` times classifying's; and by
how much it is better. `--kept` keeps classifiers and scores, so that a second run computes neither.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import explearn
from explearn.core.documents import read_jsonl
from explearn.methods.finding import find_explainers

METRIC = "aopc_comprehensiveness"


def drawn(source: Path, count: int) -> list[dict[str, str]]:
    """Return some rows of a file, drawn at random."""
    rows = [{"text": row["text"], "label": row["label"]} for _, row in read_jsonl(source)]
    return random.Random(0).sample(rows, min(count, len(rows)))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folders", nargs="+", type=Path)
    arguments.add_argument("--texts", type=int, default=100)
    arguments.add_argument("--train", type=int, default=1500)
    arguments.add_argument("--seeds", default="13")
    arguments.add_argument("--most", type=float, default=5.0)
    arguments.add_argument("--kept", type=Path, default=Path("build/quick_advice"))
    given = arguments.parse_args()
    quick = [name for name in find_explainers("quick", 13) if name != "random"]
    cheap = [name for name in find_explainers("complete", 13) if not explearn.get_info(name).costly]
    columns = explearn.TextColumns(text="text", label="label")
    print(f"{'classifier':<22} {'quick says':<14} {'AOPC':>6}  {'best affordable':<24} {'AOPC':>6}  {'behind':>6}")
    for seed in map(int, given.seeds.split(",")):
        for folder in given.folders:
            kept = given.kept / f"{folder.name}-{seed}"
            kept.mkdir(parents=True, exist_ok=True)
            if not (kept / "classifier").exists():
                train = drawn(folder / "train.jsonl", given.train)
                explearn.finetune("embedded", train, kept / "classifier", columns=columns, seed=seed, epochs=5)
            result = explearn.compare(
                kept / "classifier",
                drawn(folder / "test.jsonl", given.texts),
                columns=columns,
                methods=cheap,
                out=kept / "report.html",
                work=kept / "work",
            )
            figures = {name: float(of[METRIC] or 0) for name, of in result.figures.items()}
            times = {name: float(of["time"] or 1) for name, of in result.figures.items()}
            advised = max(quick, key=lambda name: figures.get(name, -1.0))
            affordable = [name for name in figures if times[name] <= given.most]
            best = max(affordable, key=figures.__getitem__)
            print(
                f"{kept.name:<22} {advised:<14} {figures[advised]:6.3f}  {f'{best} ({times[best]:.1f} x)':<24} "
                f"{figures[best]:6.3f}  {figures[best] - figures[advised]:6.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
