"""A student against its teacher on the same texts, after L2E (sections 4.4 to 5).

Under `ranking` an explanation is a text's top words by weight, whatever their sign; both sides have equally many. Under
`labelling` it is the words of positive levels, and those of negative ones; both have equally many of each kind, as many
as the side with fewer has, the best ones by score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.metrics.arrays import mean_where_defined
from explearn.metrics.faithfulness import logit
from explearn.metrics.plausibility import ranking
from explearn.metrics.protocols import top_count
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.metrics.stability import stability

if TYPE_CHECKING:
    from explearn.metrics.predictions import Predictions
    from explearn.predictors.encoding import Encoding

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
class SideScores:
    """One side's explanations of n texts.

    scores: one array (words,) a text, larger for more evidence (ranking: for more weight). levels: int8, (words,), of
    L2E's levels; None under `ranking`.
    """

    scores: Sequence[NDArray[np.float64]]
    levels: Sequence[NDArray[np.int8]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ChosenWords:
    """Words of a text that make its explanation: for the class, against it; and all levels, 0 where not chosen."""

    positive: list[int]
    negative: list[int]
    levels: NDArray[np.int8]


def choose(
    teacher: SideScores, student: SideScores, percent: int, seed: int
) -> tuple[list[ChosenWords], list[ChosenWords], list[ChosenWords]]:
    """Choose the words of teacher, student and chance in each text, equally many each.

    Args:
        percent: share of the words taken under `ranking`.
        seed: of the random words, as many as the others have; no word is both for and against.
    """
    rng = np.random.default_rng(seed)
    sides: tuple[list[ChosenWords], list[ChosenWords], list[ChosenWords]] = ([], [], [])
    for text, (a, b) in enumerate(zip(teacher.scores, student.scores, strict=True)):
        by_chance = rng.random(len(a))
        if teacher.levels is None or student.levels is None:
            count, against = top_count(len(a), percent), 0
            orders = [ranking(scores) for scores in (a, b, by_chance)]
            marks = [np.ones(len(a), dtype=np.int8) for _ in SIDES]
        else:
            levels = [teacher.levels[text], student.levels[text]]
            count = min(int((of_side > 0).sum()) for of_side in levels)
            against = min(int((of_side < 0).sum()) for of_side in levels)
            # By chance: as many words of each level as the teacher has.
            marks = [*levels, rng.permutation(levels[0])]
            orders = [np.lexsort((-s, -np.sign(m))) for s, m in zip((a, b, by_chance), marks, strict=True)]
        for side, order, mark in zip(sides, orders, marks, strict=True):
            positive, negative = order[:count].tolist(), order[::-1][:against].tolist()
            chosen = np.isin(np.arange(len(a)), [*positive, *negative])
            side.append(ChosenWords(positive, negative, np.where(chosen, mark, 0).astype(np.int8)))
    return sides


def judge(
    choices: tuple[Sequence[ChosenWords], Sequence[ChosenWords], Sequence[ChosenWords]],
    orders: Mapping[str, Sequence[NDArray[np.float64]]],
    encodings: Sequence[Encoding],
    predictions: Predictions,
    neighbours: Mapping[str, NDArray[np.intp]],
    gold: Sequence[NDArray[np.bool_] | None],
    k: int,
) -> dict[str, dict[str, Array]]:
    """Return metric -> side (of SIDES) -> value on each text, (n,), NaN where undefined; and `both` of agreement.

    agreement: 1 where the positive words alone are given the text's own class. `both`: 1 where those of teacher and
    student are given the same class. delta_log_odds_*: logit p(x) - logit p(x with those words masked), NaN where there
    are none. stability_*: as `explearn.metrics.stability.stability`. precision, recall, f1: of the k best words against
    the marked ones.

    Args:
        choices: of teacher, student and chance.
        orders: side -> scores by which its k best words are chosen.
        encodings: of the texts.
        predictions: of the classifier that is explained.
        neighbours: `semantic` and `lexical` -> (n, k), as of `explearn.metrics.stability.nearest`.
        gold: marked words, (words,); None for texts that are not judged.
        k: words compared with the marked ones.
    """
    mask = predictions.classifier.mask_token_id
    full = [predictions.request(encoding) for encoding in encodings]
    pairs = [list(zip(encodings, side, strict=True)) for side in choices]
    only = [[predictions.request(e.keep(words.positive)) for e, words in side] for side in pairs]
    positive = [[predictions.request(e.mask(words.positive, mask)) for e, words in side] for side in pairs]
    negative = [[predictions.request(e.mask(words.negative, mask)) for e, words in side] for side in pairs]
    predictions.evaluate("teacher and student")
    p = predictions.probabilities
    targets = p[full].argmax(axis=1)
    texts = [encoding.words for encoding in encodings]
    values: dict[str, dict[str, Array]] = {name: {} for name in COMPARED}
    classes = [p[rows].argmax(axis=1) for rows in only]
    for number, side in enumerate(SIDES):
        of_side = choices[number]
        values["agreement"][side] = (classes[number] == targets).astype(np.float64)
        for name, rows in (("positive", positive[number]), ("negative", negative[number])):
            some = np.array([bool(getattr(words, name)) for words in of_side])
            change = logit(p[full], targets) - logit(p[rows], targets)
            values[f"delta_log_odds_{name}"][side] = np.where(some, change, np.nan)
        levels = [words.levels for words in of_side]
        for kind, near in neighbours.items():
            values[f"stability_{kind}"][side] = stability(levels, texts, near)
            values[f"stability_{kind}_content"][side] = stability(levels, texts, near, content_words=True)
        agreement = np.full((3, len(gold)), np.nan)
        for text, (scores, marked) in enumerate(zip(orders[side], gold, strict=True)):
            if marked is not None and marked.any():
                best = ranking(scores)[:k]
                hits = float(marked[best].sum())
                agreement[:, text] = hits / len(best), hits / marked.sum(), 2 * hits / (len(best) + marked.sum())
        values["precision"][side], values["recall"][side], values["f1"][side] = agreement
    values["agreement"]["both"] = (classes[0] == classes[1]).astype(np.float64)
    return values


def summarise(by_seed: Sequence[Mapping[str, Mapping[str, ArrayLike]]]) -> dict[str, dict[str, float | int | None]]:
    """Return metric -> figures, from `judge`'s values for the students of several seeds.

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
            figures[side] = mean_where_defined(means[side])
            figures[f"{side}_error"] = _standard_error(known)
            if side == "student":
                figures["seeds_error"] = _standard_error(
                    [mean for row in values if (mean := mean_where_defined(row)) is not None]
                )
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


def _standard_error(values: Sequence[float] | Array) -> float | None:
    """Return the standard error of a mean; None of fewer than two values."""
    count = len(values)
    return float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else None
