"""A student against its teacher on the same texts, after L2E (sections 4.4 to 5).

Under `ranking` an explanation is a text's top words by weight, whatever their sign; both sides have equally many. Under
`labelling` it is the words of positive levels, and those of negative ones. Agreement and log-odds take equally many of
each kind from both sides, as many as both have, the best ones by score. Stability does not: it compares all words of a
side whose level is not neutral. (In the paper, section 5, both sides have equally many there, too.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError, UnsupportedError
from explearn.judge.catalogue import CATALOGUE
from explearn.judge.faithfulness import logit
from explearn.judge.plausibility import ranking
from explearn.judge.protocols import top_count
from explearn.judge.significance import paired_tests
from explearn.judge.stability import stability
from explearn.text.alignment import NO_WORD

if TYPE_CHECKING:
    from explearn.judge.predictions import Predictions
    from explearn.model.encoding import Encoding

Array = NDArray[np.float64]
SIDES = ("teacher", "student", "random")

COMPARED = (
    "agreement",
    "delta_log_odds_positive",
    "delta_log_odds_negative",
    "stability_semantic",
    "stability_lexical",
    "stability_semantic_content",
    "stability_lexical_content",
    "precision",
    "recall",
    "f1",
)
"""Metrics that teacher and student are compared by."""


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """One side's explanations of n texts.

    scores: one array (words,) a text, larger for more evidence (ranking: for more weight). levels: int8, (words,), of
    L2E's levels; None under `ranking`.
    """

    scores: Sequence[NDArray[np.float64]]
    levels: Sequence[NDArray[np.int8]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Words of a text that make its explanation: for the class, against it; and the levels that stability compares."""

    positive: list[int]
    negative: list[int]
    levels: NDArray[np.int8]


def choose(
    teacher: Explained, student: Explained, percent: int, seed: int
) -> tuple[list[Choice], list[Choice], list[Choice]]:
    """What teacher, student and chance choose in each text, equally many words each.

    Args:
        percent: share of the words taken under `ranking`.
        seed: of the random words, as many as the others have; no word is both for and against.

    Raises DataError where the sides differ in their texts, words or formulation.
    """
    if len(teacher.scores) != len(student.scores) or (teacher.levels is None) != (student.levels is None):
        raise DataError("teacher and student explain different texts or in different ways; expected the same")
    rng = np.random.default_rng(seed)
    sides: tuple[list[Choice], list[Choice], list[Choice]] = ([], [], [])
    for text, (a, b) in enumerate(zip(teacher.scores, student.scores, strict=True)):
        if a.shape != b.shape:
            raise DataError(f"text {text}: scores of {a.size} words and of {b.size}; expected the same words")
        by_chance = rng.random(len(a))
        if teacher.levels is None or student.levels is None:
            count, against = top_count(len(a), percent), 0
            orders = [ranking(scores) for scores in (a, b, by_chance)]
            marks = [np.zeros(len(a), dtype=np.int8) for _ in SIDES]
            for mark, order in zip(marks, orders, strict=True):
                mark[order[:count]] = 1
        else:
            found = [teacher.levels[text], student.levels[text]]
            count = min(int((of_side > 0).sum()) for of_side in found)
            against = min(int((of_side < 0).sum()) for of_side in found)
            # By chance: as many words of each level as the teacher has.
            marks = [*found, rng.permutation(found[0])]
            orders = [np.lexsort((-s, -np.sign(m))) for s, m in zip((a, b, by_chance), marks, strict=True)]
        for side, order, mark in zip(sides, orders, marks, strict=True):
            side.append(Choice(order[:count].tolist(), order[::-1][:against].tolist(), mark))
    return sides


def judge(
    choices: tuple[Sequence[Choice], Sequence[Choice], Sequence[Choice]],
    orders: Mapping[str, Sequence[NDArray[np.float64]]],
    encodings: Sequence[Encoding],
    predictions: Predictions,
    neighbours: Mapping[str, NDArray[np.intp]],
    gold: Sequence[NDArray[np.bool_] | None],
    k: int,
) -> dict[str, dict[str, Array]]:
    """metric -> side (of SIDES) -> value on each text, (n,), NaN where undefined; and `both` of the metric agreement.

    agreement: 1 where the positive words alone are given the text's own class. `both`: 1 where those of teacher and
    student are given the same class. delta_log_odds_*: logit p(x) - logit p(x with those words masked), NaN where there
    are none. stability_*: as `explearn.judge.stability.stability`. precision, recall, f1: of the k best words against
    the marked ones.

    Args:
        choices: of teacher, student and chance.
        orders: side -> scores by which its k best words are found.
        encodings: of the texts.
        predictions: of the classifier that is explained.
        neighbours: `semantic` and `lexical` -> (n, k), as of `explearn.judge.stability.nearest`.
        gold: marked words, (words,); None for texts that are not judged.
        k: words compared with the marked ones.
    """
    if predictions.classifier.problem not in ("single_label", "binary"):
        raise UnsupportedError(
            f"got a {predictions.classifier.problem} classifier; students and teachers compare on one class of several"
        )
    mask = predictions.classifier.mask_token_id

    def requested(perturb: Callable[[Encoding, Choice], Encoding]) -> list[list[int]]:
        """Rows of the predictions for each side's perturbed texts."""
        return [
            [predictions.request(perturb(e, choice)) for e, choice in zip(encodings, side, strict=True)]
            for side in choices
        ]

    full = [predictions.request(encoding) for encoding in encodings]
    only = requested(lambda encoding, choice: encoding.keep(choice.positive))
    positive = requested(lambda encoding, choice: encoding.mask(choice.positive, mask))
    negative = requested(lambda encoding, choice: encoding.mask(choice.negative, mask))
    predictions.evaluate("teacher and student")
    p = predictions.probabilities
    targets = p[full].argmax(axis=1)
    words = [encoding.words for encoding in encodings]
    found: dict[str, dict[str, Array]] = {name: {} for name in COMPARED}
    given = [p[rows].argmax(axis=1) for rows in only]
    for number, side in enumerate(SIDES):
        of_side = choices[number]
        found["agreement"][side] = (given[number] == targets).astype(np.float64)
        for name, rows in (("positive", positive[number]), ("negative", negative[number])):
            some = np.array([bool(getattr(choice, name)) for choice in of_side])
            change = logit(p[full], targets) - logit(p[rows], targets)
            found[f"delta_log_odds_{name}"][side] = np.where(some, change, np.nan)
        levels = [choice.levels for choice in of_side]
        for kind, near in neighbours.items():
            found[f"stability_{kind}"][side] = stability(levels, words, near)
            found[f"stability_{kind}_content"][side] = stability(levels, words, near, content_words=True)
        found["precision"][side], found["recall"][side], found["f1"][side] = _overlap(orders[side], gold, k)
    found["agreement"]["both"] = (given[0] == given[1]).astype(np.float64)
    return found


def _overlap(
    scores: Sequence[NDArray[np.float64]], gold: Sequence[NDArray[np.bool_] | None], k: int
) -> tuple[Array, Array, Array]:
    """Precision, recall and F1 of each text's k best words, NaN for texts without marked words."""
    found = np.full((3, len(scores)), np.nan)
    for text, (of_text, marked) in enumerate(zip(scores, gold, strict=True)):
        if marked is not None and marked.any():
            chosen = ranking(of_text)[:k]
            hits = float(marked[chosen].sum())
            found[:, text] = hits / len(chosen), hits / marked.sum(), 2 * hits / (len(chosen) + marked.sum())
    return found[0], found[1], found[2]


def summarise(by_seed: Sequence[Mapping[str, Mapping[str, ArrayLike]]]) -> dict[str, dict[str, float | int | None]]:
    """metric -> figures, from `judge`'s values for the students of several seeds.

    `teacher`, `student`, `random` and, of agreement, `both`: means over texts and seeds; NAME_error: standard error
    over the texts of the seeds' mean; `seeds_error`: standard error of the student's mean over the seeds (None of one
    seed); `texts`: where both are defined; `p_value`: of Wilcoxon's signed-rank test of student against teacher over
    the texts, not corrected.
    """
    summary: dict[str, dict[str, float | int | None]] = {}
    for name in by_seed[0]:
        figures: dict[str, float | int | None] = {}
        means: dict[str, Array] = {}
        for side in by_seed[0][name]:
            values = np.array([of_seed[name][side] for of_seed in by_seed], dtype=np.float64)
            # A text counts where it is defined for every seed.
            means[side] = values.mean(axis=0)
            known = means[side][~np.isnan(means[side])]
            figures[side] = float(known.mean()) if known.size else None
            figures[f"{side}_error"] = float(known.std(ddof=1) / np.sqrt(known.size)) if known.size > 1 else None
            if side == "student":
                of_seeds = [float(row[~np.isnan(row)].mean()) for row in values if not np.isnan(row).all()]
                spread = float(np.std(of_seeds, ddof=1) / np.sqrt(len(of_seeds))) if len(of_seeds) > 1 else None
                figures["seeds_error"] = spread
        test = paired_tests(
            name,
            {side: figures[side] for side in ("teacher", "student")},
            {side: means[side] for side in ("teacher", "student")},
            CATALOGUE[name].larger_is_better,
        )
        both = len(test.methods) == 2
        figures["texts"] = int(test.texts[0, 1]) if both else 0
        figures["p_value"] = float(test.p_values[0, 1]) if both and test.texts[0, 1] else None
        summary[name] = figures
    return summary


def has_words(encoding: Encoding) -> bool:
    """Whether any sub-token of a word is left of a text."""
    return any(word != NO_WORD for word in encoding.word_ids)
