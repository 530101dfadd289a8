"""Forward simulation: do explanations help people to predict what the model answers? (Doshi-Velez and Kim, 2017).

Every person sees half of the texts with the words that a method puts first, half without any, and says which class the
model gives. Of two people, one sees a text with its words where the other sees it without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from explearn.core.errors import DataError
from explearn.core.records import Attribution, Example
from explearn.core.seeds import hash_order
from explearn.judge.plausibility import ranking
from explearn.judge.protocols import top_count
from explearn.text.rows import read_file
from explearn_study.annotate.people.sheets import COLUMNS, SheetRow, cell_of, mask_of

TEXTS_A_SHEET = 40
"""Most texts that a person is asked about."""

RESAMPLES = 9999
"""Of the permutation test, where there are more permutations than that."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A person's guess at the model's answer for a text: whether it is right, and whether they saw the explanation."""

    example_id: str
    person: str
    explained: bool
    right: bool


def draw_texts(
    examples: Iterable[Example], explained: Mapping[str, Attribution], count: int, seed: int
) -> list[Example]:
    """Return at most `count` examples by seed, as even as may be over true and predicted classes.

    Where the model is right on nearly all of them, whoever knows the task predicts it without any explanation.
    """
    by_id = {example.id: example for example in examples if example.id in explained}
    groups: dict[tuple[str, str], list[Example]] = {}
    for item in hash_order(by_id, seed):
        groups.setdefault((by_id[item].label, explained[item].predicted), []).append(by_id[item])
    rounds = [one for one in chain(*zip_longest(*groups.values())) if one is not None][:count]
    return sorted(rounds, key=lambda example: (example.label, explained[example.id].predicted))


def sheet_of(
    person: int, texts: Sequence[Example], explained: Mapping[str, Attribution], percent: int, seed: int
) -> list[SheetRow]:
    """Return a person's rows in an order of their own.

    Every other text, of those in `draw_texts`' order, has its first `percent` % of the words marked; those are the
    others for the next person.
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
    """Read sheets that came back; rows without an answer are left out.

    Raises DataError naming file, row and field for a row of another kind of sheet, an unknown text or label, a row
    without a name, and a text that one person has twice; and where nobody has answered anything.
    """
    by_id = {example.id: example for example in examples if example.id in explained}
    guesses: dict[tuple[str, str], Guess] = {}
    for path in paths:
        for row in read_file(path, COLUMNS):
            if row.value("sheet")[1] != "predict":
                raise row.error("sheet", row.value("sheet")[1], "predict")
            example = by_id.get(cell_of(row, "id"))
            if example is None:
                raise row.error("id", row.value("id")[1], "the id of a text that this method explains")
            answer, person = cell_of(row, "verdict").strip(), cell_of(row, "annotator").strip()
            if not answer:
                continue
            if answer not in labels:
                raise row.error("verdict", answer, f"{', '.join(labels)}, or nothing")
            if not person:
                raise row.error("annotator", person, "a name")
            if (example.id, person) in guesses:
                raise row.error("id", example.id, f"each text once for {person!r}")
            right = answer == explained[example.id].predicted
            shown = any(mask_of(row, "shown", example))
            guesses[example.id, person] = Guess(example.id, person, shown, right)
    if not guesses:
        raise DataError("the sheets hold no answer; expected a label under verdict, in one row or more")
    return list(guesses.values())


def simulation_figures(guesses: Sequence[Guess], seed: int) -> dict[str, Any]:
    """Return accuracies with and without explanations, by person and in all, their difference and its test.

    Where texts were answered both ways, the test is a permutation test of their mean differences, the two ways of a
    text exchanged (`paired`); that is how the sheets were drawn. Otherwise, as with one person, answers are permuted
    over the ways (`independent`). p_value is None where one way has no answer.
    """
    from scipy.stats import permutation_test

    def accuracy(of: Iterable[Guess]) -> dict[str, float | int | None]:
        ways: dict[str, list[bool]] = {"with": [], "without": []}
        for guess in of:
            ways["with" if guess.explained else "without"].append(guess.right)
        shares = {name: float(np.mean(rights)) if rights else None for name, rights in ways.items()}
        return {**shares, **{f"texts_{name}": len(rights) for name, rights in ways.items()}}

    by_text: dict[str, tuple[list[bool], list[bool]]] = {}
    for guess in guesses:
        by_text.setdefault(guess.example_id, ([], []))[guess.explained].append(guess.right)
    both = [(np.mean(shown), np.mean(bare)) for bare, shown in by_text.values() if bare and shown]
    paired = len(both) > 1
    ways = [[float(guess.right) for guess in guesses if guess.explained is way] for way in (True, False)]
    samples = list(zip(*both, strict=True)) if paired else ways
    test = None
    if all(samples) and len(guesses) > 2:
        test = permutation_test(
            samples,
            lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
            permutation_type="samples" if paired else "independent",
            n_resamples=RESAMPLES,
            rng=np.random.default_rng(seed),
        )
    names = sorted({guess.person for guess in guesses})
    return {
        "people": {name: accuracy(guess for guess in guesses if guess.person == name) for name in names},
        "all": accuracy(guesses),
        "test": "paired" if paired else "independent",
        "texts_both_ways": len(both),
        "difference": None if test is None else float(test.statistic),
        "p_value": None if test is None else float(test.pvalue),
    }
