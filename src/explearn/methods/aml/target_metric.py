"""The metrics of interest, measured on the classifier while maps are made.

They are those of `explearn.metrics.faithfulness`, each alone, so that no more passes are made than the metric needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, product

import numpy as np
from numpy.typing import NDArray

from explearn.core.arrays import Array, Array32
from explearn.core.attribution import filled
from explearn.methods.aml.params import Metric
from explearn.metrics.faithfulness import BY_NAME
from explearn.metrics.params import EvaluateParams
from explearn.metrics.plausibility import ranking
from explearn.metrics.protocols import (
    aopc_steps,
    as_sub_tokens,
    by_sub_token,
    log_probability,
    only,
    unit_count,
    without,
)
from explearn.predictors.answers import Answers
from explearn.predictors.encoding import Encoding
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import aggregate

RIDGE = 1.0
"""Penalty on the squared weights of `MapEvaluator.unit_effects`, in squared probabilities."""

CHANGES = {
    "comprehensiveness": ("without",),
    "sufficiency": ("only",),
    "difference": ("without", "only"),
    "log_odds": ("masked",),
}
"""How each metric changes a text: without its top units, with only these, or with these masked."""

NO_MASK = -1
"""Stands for the mask token where units are deleted."""

Map = Array32
"""Attributions in [0, 1], one for each position of the text, (tokens,)."""

Values = Array
Part = tuple[str, int]
"""One of the changes of a text, and the share of its top in percent."""


def gain_of(change: str, p: float, whole: float) -> float:
    """Return how much better a metric is for the target's probability on a changed text, given that on the whole one.

    A metric is better the more probable the target is with only the top units, and the less without them.
    """
    if change == "masked":
        return float(log_probability(whole) - log_probability(p))
    if change == "only":
        return p - whole
    return whole - p


def parts_of(metric: Metric, protocol: EvaluateParams) -> list[Part]:
    """Return the changed texts whose probabilities a metric reads."""
    shares: Sequence[int] = (protocol.headline_percent,)
    if metric.startswith("aopc"):
        shares = protocol.percents
    return list(product(CHANGES[metric.removeprefix("aopc_")], shares))


def indicators(sets: Collection[Collection[int]], units: int) -> Values:
    """Return 1 where a set holds a unit, else 0: (sets, units)."""
    table = np.zeros((len(sets), units))
    for row, members in enumerate(sets):
        table[row, list(members)] = 1.0
    return table


class EvaluatedText:
    """A text whose maps are evaluated, and the changed texts that they led to.

    Its units are its words, or its sub-tokens under the protocol `aml`.

    Attributes:
        encoding: the text.
        target: index of the class explained.
        by_unit: the text with its units as words.
        owners: unit of each position, below 0 for none, (tokens,).
        units: number of units.
        read: number of units that the classifier reads.
        cuts: number of units in the top, one for each share of the first metric at which the order matters; shares of
            a short text may give the same number.
        rows: the changes of the text and the tops that they were made for -> the row of the predictions.
    """

    def __init__(self, encoding: Encoding, target: int, protocol: EvaluateParams, parts: Sequence[Part]) -> None:
        self.encoding = encoding
        self.target = target
        self.by_unit = encoding
        self.units = len(encoding.words)
        if by_sub_token(protocol):
            self.by_unit = as_sub_tokens(encoding)
            self.units = len(encoding.positions)
        self.owners = np.array(self.by_unit.word_ids)
        self.read = len(np.unique(self.owners[self.owners >= 0]))
        shares = dict.fromkeys(share for _, share in parts)
        sizes = [unit_count(protocol, self.units, share) for share in shares]
        self.cuts = [size for size in sizes if 0 < size < self.units]
        self.rows: dict[tuple[str, frozenset[int]], int] = {}

    def unit_scores(self, scores: Map) -> Array32:
        """Return each unit's score, that of its best piece; NaN for a word that was not read."""
        return aggregate(scores, self.by_unit.word_ids, self.units, "max")

    def order(self, unit_scores: Array32) -> NDArray[np.intp]:
        """Return the units from the best to the worst; those that were not read come last."""
        if not self.units:
            return np.empty(0, dtype=np.intp)
        return ranking(filled(unit_scores))

    def top_sets(self, scores: Map) -> tuple[frozenset[int], ...]:
        """Return all that the first metric distinguishes in a map: the units above each of its cuts."""
        order = self.order(self.unit_scores(scores)).tolist()
        return tuple(frozenset(order[:cut]) for cut in self.cuts)


class MapEvaluator:
    """Evaluates maps of texts by some metrics; each distinct input is classified once.

    Args:
        classifier: the model that is explained.
        metrics: names; the first is the metric of interest.
        protocol: how units are counted and removed.

    Attributes:
        signs: 1 where larger values of a metric are better, else -1, (metrics,).
    """

    def __init__(self, classifier: TransformerPredictor, metrics: Sequence[Metric], protocol: EvaluateParams) -> None:
        self.classifier = classifier
        self.metrics = metrics
        self.protocol = protocol
        self.signs = np.array([1.0 if BY_NAME[name].larger_is_better else -1.0 for name in metrics])
        self._parts = {metric: parts_of(metric, protocol) for metric in metrics}
        self._predictions = Answers(classifier)

    def text(self, encoding: Encoding, target: int) -> EvaluatedText:
        """Return a text, so that its maps can be evaluated.

        Args:
            encoding: the text.
            target: index of the class explained.
        """
        return EvaluatedText(encoding, target, self.protocol, self._parts[self.metrics[0]])

    def measure(self, maps: Sequence[tuple[EvaluatedText, Map]]) -> Values:
        """Return each map's metrics, (maps, metrics), and note in the texts which inputs they needed."""
        parts = dict.fromkeys(chain.from_iterable(self._parts.values()))
        requests = []
        for text, scores in maps:
            order = text.order(text.unit_scores(scores)).tolist()
            rows = {part: self._request_part(text, part, order) for part in parts}
            requests.append((rows, self._predictions.request(text.encoding)))
        self._predictions.evaluate("metric of interest")
        values = np.empty((len(maps), len(self.metrics)))
        for number, ((text, _), (rows, whole)) in enumerate(zip(maps, requests, strict=True)):
            p = self._predictions.probabilities[:, text.target]
            for column, metric in enumerate(self.metrics):
                gain = 0.0
                for part in self._parts[metric]:
                    gain += gain_of(part[0], float(p[rows[part]]), float(p[whole]))
                if metric.startswith("aopc"):
                    gain /= aopc_steps(self.protocol)
                values[number, column] = self.signs[column] * gain
        return values

    def unit_effects(self, text: EvaluatedText) -> Values:
        """Return how much each unit adds to the target's probability, (units,).

        A ridge regression of the probabilities on which units are left in an input, over the inputs that the text's
        maps led to so far. The classifier is not called. Before the first measurement all effects are 0.
        """
        if not text.rows:
            return np.zeros(text.units)
        everything = frozenset(range(text.units))
        left_by_row = {}
        for (change, top), row in text.rows.items():
            left_by_row[row] = top if change == "only" and top else everything - top
        left = indicators(left_by_row.values(), text.units)
        left -= left.mean(axis=0)
        p = self._predictions.probabilities[list(left_by_row), text.target]
        return np.asarray(np.linalg.solve(left.T @ left + RIDGE * np.eye(text.units), left.T @ (p - p.mean())))

    def best_nested_tops(self, text: EvaluatedText) -> list[frozenset[int]]:
        """Return the nested tops that are best by the first metric, one for each size of `text.cuts`, smallest first.

        They are chosen among the tops of all maps of the text so far, by dynamic programming. The classifier is not
        called. Empty before the first measurement, and where the metric has no cut.
        """
        if not text.rows:
            return []
        changes = CHANGES[self.metrics[0].removeprefix("aopc_")]
        p = self._predictions.probabilities[:, text.target]
        # By top of the size before: the best nested tops that end with it, and their value.
        chains: list[list[frozenset[int]]] = [[]]
        values = np.zeros(1)
        smaller = np.zeros((1, text.units))
        for size in sorted(set(text.cuts)):
            tops = [top for change, top in text.rows if change == changes[0] and len(top) == size]
            held = indicators(tops, text.units)
            # Row: a top of this size; column: one of the size before, if it lies within.
            reachable = np.where((1.0 - held) @ smaller.T == 0.0, values, -np.inf)
            inner = reachable.argmax(axis=1)
            chains = [[*chains[before], top] for before, top in zip(inner, tops, strict=True)]
            gains = np.zeros(len(tops))
            for change in changes:
                for number, top in enumerate(tops):
                    gains[number] += gain_of(change, p[text.rows[change, top]], 0.0)
            values = text.cuts.count(size) * gains + reachable.max(axis=1)
            smaller = held
        return chains[int(values.argmax())]

    def _request_part(self, text: EvaluatedText, part: Part, order: list[int]) -> int:
        change, share = part
        size = unit_count(self.protocol, len(order), share)
        top = order[:size]
        rest = order[size:]
        if change == "masked":
            changed = text.by_unit.mask(top, self.classifier.mask_token_id)
        elif change == "without":
            changed = without(self.protocol, text.by_unit, top, NO_MASK)
        else:
            changed = only(self.protocol, text.by_unit, top, rest, NO_MASK)
        row = self._predictions.request(changed)
        text.rows[change, frozenset(top)] = row
        return row
