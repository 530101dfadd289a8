"""Phrases against single words: IOU F1 with what people marked.

    python benchmarks/phrases.py [--root .] [--tasks reviews,civility,topics] [--methods marker,consensus]
        [--levels .4,.5,.6] [--costs 0,.1,.2]

After `make repro`. Of the test texts that plausibility is judged on, chosen by each method's words of the largest
expected F1, and by the phrases of `find_phrases` that speak for the class, for each word's and phrase's cost.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from explearn.core.storage import read_attributions
from explearn.core.words import Span
from explearn.metrics.plausibility import iou_f1, select_expected_f1, span_counts, spans_of_mask
from explearn.text import units
from explearn_study.example_files import read_examples
from explearn_study.params import load_params
from explearn_study.workspace import Workspace


def phrases(scores: NDArray[np.float32], pair_start: int | None) -> list[Span]:
    """Return the phrases that speak for the class."""
    return [(first, end) for first, end in units.find_phrases(scores, pair_start) if scores[first] > 0]


def expected_f1(scores: NDArray[np.float32], pair_start: int | None) -> list[Span]:
    """Return the runs of the words of the largest expected F1."""
    return spans_of_mask(select_expected_f1(scores), pair_start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path())
    for name, default in (("tasks", "reviews,civility,topics"), ("methods", "marker,consensus")):
        parser.add_argument(f"--{name}", type=lambda given: given.split(","), default=default)
    for name, default in (("levels", ".4,.5,.6"), ("costs", "0,.1,.2")):
        parser.add_argument(f"--{name}", type=lambda given: [float(one) for one in given.split(",")], default=default)
    options = parser.parse_args()
    workspace, params = Workspace(options.root), load_params(options.root / "params.yaml")
    print(" " * 32 + "".join(f"{task:>10}" for task in options.tasks))
    for method in options.methods:
        judged = []
        for task in options.tasks:
            gold = workspace.read_gold(task, params)
            tests = read_examples(options.root / "data" / "examples" / task / "test.parquet")
            labels = {one.id: one.label for one in tests}
            rows = read_attributions(workspace.attributions(task) / f"{method}.parquet")
            right = [row for row in rows if row.predicted == labels[row.example_id] and row.example_id in gold]
            judged.append([(row.filled(), row.pair_start, gold[row.example_id]) for row in right])

        def show(
            rule: str, choose: Callable[..., list[Span]], method: str = method, judged: list[Any] = judged
        ) -> None:
            figures = []
            for texts in judged:
                true = [spans_of_mask(mask, start) for _, start, mask in texts]
                counts = span_counts([choose(scores, start) for scores, start, _ in texts], true)
                figures.append(iou_f1(counts, np.ones((1, len(texts)), dtype=np.int64))[0])
            print(f"{method + ', ' + rule:32}" + "".join(f"{figure:10.3f}" for figure in figures))

        show("expected F1", expected_f1)
        for level in options.levels:
            for cost in options.costs:
                with mock.patch.multiple(units, PHRASE_LEVEL=level, PHRASE_COST=cost):
                    show(f"phrases {level:g}, {cost:g}", phrases)


if __name__ == "__main__":
    main()
