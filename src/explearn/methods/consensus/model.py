"""The consensus's model: a logistic regression over the features of a word, calibrated to the density of marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit

from explearn.core.arrays import Array, Counts, Mask
from explearn.core.errors import DataError
from explearn.lens.word_signals import SIGNALS, WordSignals
from explearn.methods.base.task import TaskData
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.consensus.signals import signals_of
from explearn.methods.consensus.word_features import feature_names, word_matrix
from explearn.metrics.significance import mean_interval

CONFIDENCE = 0.95
"""Confidence level of the coefficients' intervals."""

LEAST_SLOPE = 0.01
"""Smallest slope of the calibration. A model that does not transfer to a left-out task gets nearly constant
probabilities, but the order of the words stays."""

MOST_ITERATIONS = 200

COPIES_SHARE = 0.25
"""Share of a task's weight that belongs to its copies with missing signals."""

INVERSE_PENALTY = 0.3
"""Inverse strength of the regression's L2 penalty."""

WORDS_PER_TASK = 5000
"""Number of words that each task counts as, relative to the penalty, whatever its real number of words."""


class MarkedText(NamedTuple):
    """A text with its marks: mask[i] is True where word i is evidence."""

    signals: WordSignals
    mask: Sequence[bool]


LEAST_SKILL = 0.1
"""Weight of a classifier near or below chance: the marks of its texts still say something about the words."""


def weight_of_skill(mcc: float | None) -> float:
    """Return the weight of a task: the square of its classifier's MCC on validation texts, at least LEAST_SKILL.

    The signals of a classifier that has not learned its task say little about what is marked. None (unknown): 1.
    """
    return 1.0 if mcc is None else max(mcc, LEAST_SKILL) ** 2


def marked_texts(task: TaskData) -> list[MarkedText]:
    """Return the correctly predicted texts with marks among a task's training rationales, with their signals."""
    split = task.rationale_split
    labels = {example.id: example.label for example in task.examples(split) if example.id in task.gold}
    if not labels:
        return []
    texts = []
    for signals in signals_of(task, split):
        if labels.get(signals.example_id) == signals.predicted and signals.read.any():
            texts.append(MarkedText(signals, task.gold[signals.example_id]))
    return texts


def source_weights(task: TaskData, names: Iterable[str]) -> dict[str, float]:
    """Return the weight of each named task among the other tasks, by its classifier's skill."""
    skills = {other.name: other.skill for other in task.others}
    return {name: weight_of_skill(skills[name]) for name in names}


ARRAYS = ("mean", "scale", "coefficients", "intercept", "calibration", "intervals")
"""The numbers of a WordModel, as its file names them."""


@dataclass(frozen=True, slots=True, eq=False)
class WordModel:
    """A linear model of F features of a word: logit = intercept + sum_f coefficients_f (x_f - mean_f) / scale_f.

    Attributes:
        signals: signals whose features it uses; see `word_features.feature_names`.
        word_features: whether it uses features of the word itself.
        mean: weighted mean of each feature in training, float64, (F,).
        scale: its standard deviation, float64, (F,).
        coefficients: change of the logit for one standard deviation, float64, (F,).
        intercept: logit of a word with mean features, (1,).
        calibration: slope a and offset b of p = sigmoid(a logit + b), (2,).
        intervals: low and high end of each coefficient's 95 % interval over the texts, (2, F); None if unknown.
    """

    signals: tuple[str, ...]
    word_features: bool
    mean: Array
    scale: Array
    coefficients: Array
    intercept: Array
    calibration: Array
    intervals: Array | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the features."""
        return feature_names(self.signals, self.word_features)

    def features(self, text: WordSignals) -> Array:
        """Return the model's features of a text's words, (words, F)."""
        return word_matrix(text, self.signals, self.word_features)

    def logits(self, features: Array) -> Array:
        """Return logits, (words, F) -> (words,). Marked and other words weigh the same in training, so 0 is neutral."""
        return np.asarray(((features - self.mean) / self.scale) @ self.coefficients + self.intercept)

    def probabilities(self, features: Array) -> Array:
        """Return each word's probability of a mark, (words,), calibrated to the density of marks in training."""
        slope, offset = self.calibration
        return np.asarray(expit(slope * self.logits(features) + offset))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return its numbers by name, float64."""
        values = {name: getattr(self, name) for name in ARRAYS}
        return {name: torch.from_numpy(value) for name, value in values.items() if value is not None}


class TaskRows(NamedTuple):
    """The training words of one task.

    Attributes:
        x: features, (words, F).
        y: marks, bool, (words,).
        text: number of each word's text, (words,).
        weight: weight of each word in training, (words,).
        copied: whether a word belongs to a copy, bool, (words,).
        texts: number of texts.
        share: weight of the task.
    """

    x: Array
    y: Mask
    text: Counts
    weight: Array
    copied: Mask
    texts: int
    share: float


def fit_model(
    tasks: Mapping[str, Sequence[MarkedText]],
    options: ConsensusParams,
    weights: Mapping[str, float],
) -> WordModel:
    """Learn from the marks of one or more tasks.

    Within a task, marked words as a whole weigh as much as the others. Words that the classifier did not read are left
    out. Calibration (Platt, 1999) uses logits of models that have not seen the task, if there are two tasks or more;
    tasks weigh as in training.

    Args:
        tasks: task -> its marked texts.
        options: options of the consensus.
        weights: weight of each task.

    Raises:
        DataError: a task's words are all marked, or none is.
    """
    generator = np.random.default_rng(options.seed)
    rows = [task_rows(name, texts, options, weights[name], generator) for name, texts in tasks.items()]
    model = _fit(rows, options)
    logits: list[Array] = []
    marks: list[Mask] = []
    weighed: list[Array] = []
    for row in rows:
        others = [other for other in rows if other is not row]
        judge = _fit(others, options) if others else model
        plain = ~row.copied
        logits.append(judge.logits(row.x[plain]))
        marks.append(row.y[plain])
        weighed.append(np.full(plain.sum(), row.share / plain.sum()))
    calibration = platt(np.concatenate(logits), np.concatenate(marks), np.concatenate(weighed))
    return replace(model, calibration=calibration, intervals=_intervals(rows, model))


def task_rows(
    name: str, task: Sequence[MarkedText], options: ConsensusParams, share: float, generator: np.random.Generator
) -> TaskRows:
    """Return features of a task's words, then those of its copies, whose missing signals `generator` draws.

    Raises:
        DataError: all words are marked, or none is.
    """
    x: list[Array] = []
    y: list[Mask] = []
    text: list[Counts] = []
    copied: list[Mask] = []
    columns = [SIGNALS.index(name) for name in options.signals]
    for copy in range(options.copies + 1):
        for number, (signals, mask) in enumerate(task):
            read = signals.read
            scores = signals.scores.copy()
            if copy > 0 and len(columns) > 1:
                # A copy lacks some signals: their number is drawn evenly from 1 to all but one, then the signals.
                count = generator.integers(1, len(columns))
                missing = generator.permutation(len(columns))[:count]
                scores[:, np.array(columns)[missing]] = np.nan
            x.append(word_matrix(replace(signals, scores=scores), options.signals, options.word_features)[read])
            y.append(np.asarray(mask, dtype=bool)[read])
            text.append(np.full(read.sum(), number))
            copied.append(np.full(read.sum(), copy > 0))
    marks = np.concatenate(y)
    copies = np.concatenate(copied)
    density = float(marks.mean())
    if not 0 < density < 1:
        which = "every word is marked" if density else "no word is marked"
        raise DataError(f"task {name!r}: {which} in its {len(task)} texts; expected marked words and others")
    weight = np.where(marks, 0.5 / density, 0.5 / (1 - density))
    if options.copies:
        weight *= np.where(copies, COPIES_SHARE / options.copies, 1 - COPIES_SHARE)
    weight *= share * WORDS_PER_TASK / weight.sum()
    return TaskRows(np.concatenate(x), marks, np.concatenate(text), weight, copies, len(task), share)


def _fit(rows: Sequence[TaskRows], options: ConsensusParams) -> WordModel:
    # It takes a second to import.
    from sklearn.linear_model import LogisticRegression

    plain = np.concatenate([row.x[~row.copied] for row in rows])
    weight = np.concatenate([row.weight[~row.copied] for row in rows])
    mean = np.average(plain, axis=0, weights=weight)
    scale = np.sqrt(np.average((plain - mean) ** 2, axis=0, weights=weight))
    scale = np.where(scale > 1e-9, scale, 1.0)
    # Few columns and many rows: Newton's method with a small Hessian is the fastest.
    regression: Any = LogisticRegression(
        C=INVERSE_PENALTY, solver="newton-cholesky", max_iter=MOST_ITERATIONS, warm_start=True
    )
    x, y = _pooled(rows, mean, scale)
    regression.fit(x, y, np.concatenate([row.weight for row in rows]))
    return WordModel(
        tuple(options.signals),
        options.word_features,
        mean,
        scale,
        coefficients=regression.coef_[0].astype(np.float64),
        intercept=regression.intercept_.astype(np.float64),
        calibration=np.array([1.0, 0.0]),
    )


def _pooled(rows: Sequence[TaskRows], mean: Array, scale: Array) -> tuple[Array, Mask]:
    """Return the standardised features and the marks of all tasks' words."""
    x = np.concatenate([row.x for row in rows])
    return (x - mean) / scale, np.concatenate([row.y for row in rows])


def platt(logits: Array, marks: Mask, weights: Array) -> Array:
    """Fit sigmoid(slope logit + offset) by maximum likelihood; return slope, at least LEAST_SLOPE, and offset, (2,)."""
    from sklearn.linear_model import LogisticRegression

    weights = weights / weights.sum()
    centre = float(weights @ logits)
    spread = float(logits.std()) or 1.0
    # This tiny penalty keeps the slope finite if the logits separate the marks perfectly, and changes nothing else.
    regression = LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-10, max_iter=MOST_ITERATIONS)
    regression.fit(((logits - centre) / spread)[:, None], marks, weights * len(logits))
    slope = float(regression.coef_[0, 0]) / spread
    if slope >= LEAST_SLOPE:
        return np.array([slope, regression.intercept_[0] - slope * centre])
    # Such a flat curve equals the density of marks at the centre, and keeps the order of the words.
    density = float(weights @ marks)
    return np.array([LEAST_SLOPE, np.log(density / (1 - density)) - LEAST_SLOPE * centre])


def _intervals(rows: Sequence[TaskRows], model: WordModel) -> Array:
    """Return low and high ends of the coefficients' intervals over the texts, (2, F); means and scales stay fixed.

    To first order, a coefficient is the mean of one value for each of n texts: the coefficient plus n times the text's
    influence, -H^-1 g, minus the mean influence in its task (Jaeckel 1972, The infinitesimal jackknife). H is the
    Hessian of the penalised loss, g the gradient of the text's words.
    """
    x, y = _pooled(rows, model.mean, model.scale)
    weight = np.concatenate([row.weight for row in rows]) * INVERSE_PENALTY
    share = expit(x @ model.coefficients + model.intercept)
    x = np.column_stack([x, np.ones(len(x))])
    penalty = np.diag([*np.ones(len(model.coefficients)), 0.0])  # the intercept is not penalised
    hessian = penalty + x.T @ (x * (weight * share * (1 - share))[:, None])
    influence = -np.linalg.solve(hessian, (x * (weight * (share - y))[:, None]).T).T[:, :-1]
    ends = np.cumsum([len(row.y) for row in rows])[:-1]
    centred = []
    for row, word_influence in zip(rows, np.split(influence, ends), strict=True):
        text_influence = (np.arange(row.texts)[:, None] == row.text) @ word_influence  # (texts, F)
        centred.append(text_influence - text_influence.mean(axis=0))
    texts = sum(row.texts for row in rows)
    values = model.coefficients + texts * np.concatenate(centred)
    intervals = np.array([mean_interval(column, CONFIDENCE) for column in values.T], dtype=np.float64).T
    # All texts agree on a coefficient that none of them has an influence on.
    return np.where(np.isnan(intervals), model.coefficients, intervals)
