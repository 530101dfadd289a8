"""A student against its teacher on the same texts, after L2E (sections 4.4 to 5).

Under `ranking` an explanation is a text's top words by weight, whatever their sign; both sides have equally many. Under
`labelling` it is the words of positive levels, and those of negative ones; both have equally many of each kind, as many
as the side with fewer has, the best ones by score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array, Mask
from explearn.metrics.arrays import mean_where_defined
from explearn.metrics.faithfulness import logit
from explearn.metrics.plausibility import ranking
from explearn.metrics.protocols import top_count
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.metrics.stability import stability

if TYPE_CHECKING:
    from explearn.predictors.cached import CachedPredictions
    from explearn.predictors.encoding import Encoding

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


class SideScores(NamedTuple):
    """One side's explanations of n texts.

    Attributes:
        scores: one array (words,) for each text, larger for more evidence (ranking: for more weight).
        levels: L2E's levels, int8, (words,), for each text; None under `ranking`.
    """

    scores: Sequence[Array]
    levels: Sequence[NDArray[np.int8]] | None = None


class ChosenWords(NamedTuple):
    """The words of a text that make its explanation.

    Attributes:
        positive: words for the class, by index.
        negative: words against it.
        levels: int8, (words,); 0 where a word is not chosen.
    """

    positive: list[int]
    negative: list[int]
    levels: NDArray[np.int8]


Choices = tuple[list[ChosenWords], list[ChosenWords], list[ChosenWords]]
"""The words that each of SIDES chooses in each text."""


def choose(teacher: SideScores, student: SideScores, percent: int, seed: int) -> Choices:
    """Choose the words of teacher, student and chance in each text, equally many each.

    Args:
        teacher: the teacher's explanations.
        student: the student's explanations of the same texts.
        percent: share of the words taken under `ranking`.
        seed: seed of the random words; no word is both for and against.
    """
    rng = np.random.default_rng(seed)
    choices: Choices = ([], [], [])
    for text, (a, b) in enumerate(zip(teacher.scores, student.scores, strict=True)):
        scores = [a, b, rng.random(len(a))]
        if teacher.levels is None or student.levels is None:
            count = top_count(len(a), percent)
            against = 0
            orders = [ranking(side) for side in scores]
            marks = [np.ones(len(a), dtype=np.int8) for _ in SIDES]
        else:
            levels = [teacher.levels[text], student.levels[text]]
            count = min(int((side > 0).sum()) for side in levels)
            against = min(int((side < 0).sum()) for side in levels)
            # By chance: as many words of each level as the teacher has.
            marks = [*levels, rng.permutation(levels[0])]
            orders = [np.lexsort((-side, -np.sign(mark))) for side, mark in zip(scores, marks, strict=True)]
        for side, order, mark in zip(choices, orders, marks, strict=True):
            # The first words are those for the class, the last ones those against it.
            positive = order[:count].tolist()
            negative = order[::-1][:against].tolist()
            chosen = np.isin(np.arange(len(mark)), [*positive, *negative])
            side.append(ChosenWords(positive, negative, np.where(chosen, mark, 0).astype(np.int8)))
    return choices


def judge(
    choices: Choices,
    orders: Mapping[str, Sequence[Array]],
    encodings: Sequence[Encoding],
    predictions: CachedPredictions,
    neighbours: Mapping[str, NDArray[np.intp]],
    gold: Sequence[Mask | None],
    k: int,
) -> dict[str, dict[str, Array]]:
    """Return the metrics of teacher, student and chance on each text.

    agreement: 1 where the positive words alone are given the text's own class. `both`: 1 where those of teacher and
    student are given the same class. delta_log_odds_*: logit p(x) - logit p(x with those words masked), NaN where there
    are none. stability_*: as `explearn.metrics.stability.stability`. precision, recall, f1: of the k best words against
    the marked ones.

    Args:
        choices: words of teacher, student and chance.
        orders: side -> scores by which its k best words are chosen.
        encodings: encodings of the texts.
        predictions: predictions of the classifier that is explained.
        neighbours: `semantic` and `lexical` -> (n, k), as `explearn.metrics.stability.nearest` gives them.
        gold: marked words, (words,); None for texts that are not judged.
        k: number of words compared with the marked ones.

    Returns:
        Metric -> side (of SIDES) -> value on each text, (n,), NaN where undefined; and `both` of agreement.
    """
    mask = predictions.predictor.mask_token_id
    full = [predictions.request(encoding) for encoding in encodings]
    only: dict[str, list[Any]] = {}
    masked: dict[tuple[str, str], list[Any]] = {}
    for side, words in zip(SIDES, choices, strict=True):
        pairs = list(zip(encodings, words, strict=True))
        only[side] = [predictions.request(e.keep(chosen.positive)) for e, chosen in pairs]
        masked[side, "positive"] = [predictions.request(e.mask(chosen.positive, mask)) for e, chosen in pairs]
        masked[side, "negative"] = [predictions.request(e.mask(chosen.negative, mask)) for e, chosen in pairs]
    predictions.evaluate("teacher and student")
    p = predictions.values
    targets = p[full].argmax(axis=1)
    classes = {side: p[rows].argmax(axis=1) for side, rows in only.items()}
    texts = [encoding.words for encoding in encodings]
    values: dict[str, dict[str, Array]] = {name: {} for name in COMPARED}
    for side, words in zip(SIDES, choices, strict=True):
        values["agreement"][side] = (classes[side] == targets).astype(np.float64)
        for name in ("positive", "negative"):
            some = np.array([bool(getattr(chosen, name)) for chosen in words])
            change = logit(p[full], targets) - logit(p[masked[side, name]], targets)
            values[f"delta_log_odds_{name}"][side] = np.where(some, change, np.nan)
        levels = [chosen.levels for chosen in words]
        for kind, near in neighbours.items():
            values[f"stability_{kind}"][side] = stability(levels, texts, near)
            values[f"stability_{kind}_content"][side] = stability(levels, texts, near, content_words=True)
        for name in ("precision", "recall", "f1"):
            values[name][side] = np.full(len(gold), np.nan)
        for text, marked in enumerate(gold):
            if marked is not None and marked.any():
                best = ranking(orders[side][text])[:k]
                hits = float(marked[best].sum())
                values["precision"][side][text] = hits / len(best)
                values["recall"][side][text] = hits / marked.sum()
                values["f1"][side][text] = 2 * hits / (len(best) + marked.sum())
    values["agreement"]["both"] = (classes["teacher"] == classes["student"]).astype(np.float64)
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
            values = np.array([seed[name][side] for seed in by_seed], dtype=np.float64)
            # A text counts where it is defined for every seed.
            means[side] = values.mean(axis=0)
            figures[side] = mean_where_defined(means[side])
            figures[f"{side}_error"] = _standard_error(means[side][~np.isnan(means[side])])
            if side == "student":
                seed_means = [mean_where_defined(row) for row in values]
                figures["seeds_error"] = _standard_error([mean for mean in seed_means if mean is not None])
        test = paired_tests(
            name,
            {side: figures[side] for side in ("teacher", "student")},
            {side: means[side] for side in ("teacher", "student")},
            CATALOGUE[name].larger_is_better,
        )
        figures["texts"] = 0
        figures["p_value"] = None
        if len(test.methods) == 2:
            figures["texts"] = int(test.texts[0, 1])
            if test.texts[0, 1]:
                figures["p_value"] = float(test.p_values[0, 1])
        summary[name] = figures
    return summary


def _standard_error(values: Sequence[float] | Array) -> float | None:
    """Return the standard error of a mean; None of fewer than two values."""
    count = len(values)
    return float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else None
