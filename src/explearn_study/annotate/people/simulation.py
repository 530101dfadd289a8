"""Forward simulation: do explanations help people to predict the model? (Doshi-Velez and Kim, 2017).

Every person sees half of the texts with a method's top words marked, half without, and predicts the model's class. A
text that one person sees with marks, the next sees without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.seeds import hash_order
from explearn.metrics.plausibility import ranking
from explearn.metrics.protocols import top_count
from explearn_study.annotate.people.sheets import SheetRow, cell_of, read_mask, sheet_rows
from explearn_study.annotate.task import take_in_turn

TEXTS_A_SHEET = 40
"""Most texts per person."""
RESAMPLES = 9999
"""Permutations in the permutation test, if there are more in all."""


class Guess(NamedTuple):
    """A person's prediction for a text: whether it is right, and whether they saw the explanation."""

    example_id: str
    person: str
    explained: bool
    right: bool


def draw_texts(
    examples: Iterable[Example], explained: Mapping[str, Attribution], count: int, seed: int
) -> list[Example]:
    """Return at most `count` examples by seed, as balanced as possible over true and predicted classes.

    If the model were right on nearly all texts, anyone who knows the task could predict it without explanations.
    """
    by_id = {example.id: example for example in examples if example.id in explained}

    def classes(example: Example) -> tuple[str, str]:
        return example.label, explained[example.id].predicted

    groups: dict[tuple[str, str], list[Example]] = defaultdict(list)
    for item in hash_order(by_id, seed):
        groups[classes(by_id[item])].append(by_id[item])
    return sorted(take_in_turn(groups.values())[:count], key=classes)


def sheet_of(
    person: int, texts: Sequence[Example], explained: Mapping[str, Attribution], percent: int, seed: int
) -> list[SheetRow]:
    """Return a person's rows, in an order of their own.

    Every second text, in the order of `draw_texts`, has its top `percent` % of words marked; for the next person these
    are the other texts.
    """
    rows = {}
    for number, example in enumerate(texts):
        mask = np.zeros(len(example.all_words), dtype=bool)
        if (number + person) % 2 == 0:
            mask[ranking(explained[example.id].filled())[: top_count(len(mask), percent)]] = True
        rows[example.id] = SheetRow(example, tuple(mask.tolist()))
    return [rows[item] for item in hash_order(rows, seed + 1 + person)]


def read_guesses(
    paths: Iterable[Path], examples: Iterable[Example], explained: Mapping[str, Attribution], labels: Sequence[str]
) -> list[Guess]:
    """Read filled-in sheets; rows without an answer are left out.

    Raises:
        DataError: a row of another kind of sheet, an unknown text or label, a row without a name, or a text repeated by
            one person (names file, row and field); or no answer at all.
    """
    seen = [example for example in examples if example.id in explained]
    guesses: dict[tuple[str, str], Guess] = {}
    for path in paths:
        for _, example, row in sheet_rows(path, ["predict"], seen, "that this method explains"):
            answer = cell_of(row, "verdict").strip()
            person = cell_of(row, "annotator").strip()
            if not answer:
                continue
            if answer not in labels:
                raise row.error("verdict", answer, f"{', '.join(labels)}, or nothing")
            if not person:
                raise row.error("annotator", person, "a name")
            if (example.id, person) in guesses:
                raise row.error("id", example.id, f"each text once for {person!r}")
            right = answer == explained[example.id].predicted
            shown = any(read_mask(row, "shown", example))
            guesses[example.id, person] = Guess(example.id, person, shown, right)
    if not guesses:
        raise DataError("the sheets have no answers; expected a label under verdict, in at least one row")
    return list(guesses.values())


def simulation_figures(guesses: Sequence[Guess], seed: int) -> dict[str, Any]:
    """Return accuracies with and without explanations, by person and overall, their difference and its test.

    If texts were answered both ways, as the sheets are designed, the permutation test exchanges the two ways within
    each text (`paired`). Otherwise, as with one person, answers are permuted over the ways (`independent`). p_value is
    None if one way has no answers.
    """
    from scipy.stats import permutation_test

    by_person: dict[str, list[Guess]] = defaultdict(list)
    by_text: dict[str, list[Guess]] = defaultdict(list)
    for guess in guesses:
        by_person[guess.person].append(guess)
        by_text[guess.example_id].append(guess)
    both = [_by_way(answers) for answers in by_text.values()]
    both = [ways for ways in both if all(ways)]
    test = "independent"
    samples = list(_by_way(guesses))
    if len(both) > 1:
        test = "paired"
        samples = [[float(np.mean(ways[0])) for ways in both], [float(np.mean(ways[1])) for ways in both]]
    figures: dict[str, Any] = {
        "people": {name: _accuracy(by_person[name]) for name in sorted(by_person)},
        "all": _accuracy(guesses),
        "test": test,
        "texts_both_ways": len(both),
        "difference": None,
        "p_value": None,
    }
    if all(samples) and len(guesses) > 2:
        result = permutation_test(
            samples,
            lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
            permutation_type="samples" if test == "paired" else "independent",
            n_resamples=RESAMPLES,
            rng=np.random.default_rng(seed),
        )
        figures["difference"] = float(result.statistic)
        figures["p_value"] = float(result.pvalue)
    return figures


def _by_way(guesses: Iterable[Guess]) -> tuple[list[float], list[float]]:
    """Return 1 for each right guess and 0 for each wrong one: those with explanations, and those without."""
    ways: tuple[list[float], list[float]] = ([], [])
    for guess in guesses:
        ways[0 if guess.explained else 1].append(float(guess.right))
    return ways


def _accuracy(guesses: Iterable[Guess]) -> dict[str, float | int | None]:
    figures: dict[str, float | int | None] = {}
    for name, rights in zip(("with", "without"), _by_way(guesses), strict=True):
        figures[name] = float(np.mean(rights)) if rights else None
        figures[f"texts_{name}"] = len(rights)
    return figures
