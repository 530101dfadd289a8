"""The metrics of interest, measured on the classifier while maps are made: those of `explearn.metrics.faithfulness`,
each alone, so that no more passes are made than the metric needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explearn.core.attribution import filled
from explearn.methods.aml.params import Metric
from explearn.metrics.catalogue import CATALOGUE
from explearn.metrics.plausibility import ranking
from explearn.metrics.predictions import Predictions
from explearn.metrics.protocols import FaithfulnessProtocol, as_sub_tokens, log_probability
from explearn.predictors.encoding import Encoding
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import aggregate

RIDGE = 1.0
"""Penalty on the squared weights of `MapJudge.worth`, in squared probabilities."""

PERCENTS = (1, 5, 10, 20, 50)
"""Shares of the words that an AOPC is over, in percent (AML, A.5)."""

HEADLINE_PERCENT = 20
"""Share of the words that a single value is for, in percent (AML, A.5)."""

Map = NDArray[np.float32]
"""Attributions in [0, 1], one a position of the text, (tokens,)."""

Part = tuple[str, int]
"""A change of a text, `without` or `only` its top units or with them `masked`, and the share of the top in percent."""


def protocol_of(protocol: str) -> FaithfulnessProtocol:
    """Return how the metrics of interest are taken, from pAML's option `protocol`: the words of a top are deleted."""
    return FaithfulnessProtocol(protocol, "delete", PERCENTS, HEADLINE_PERCENT)  # type: ignore[arg-type]


def parts_of(metric: Metric, protocol: FaithfulnessProtocol) -> list[Part]:
    """Return the parts of a text whose probabilities a metric reads."""
    if metric == "log_odds":
        return [("masked", protocol.headline_percent)]
    shares = protocol.percents if metric.startswith("aopc") else (protocol.headline_percent,)
    changes = {"comprehensiveness": ("without",), "sufficiency": ("only",), "difference": ("without", "only")}
    return [(change, share) for change in changes[metric.removeprefix("aopc_")] for share in shares]


class JudgedText:
    """A text whose maps are judged, with the classifier's answers about it so far.

    Its units are its words, or its sub-tokens under the protocol `aml`.

    Attributes:
        target: index of the class explained.
        owners: unit of each position, below 0 for none.
        kept: by row of the predictions, the units that the input left in the text.
        tops: by size of a cut, the tops judged, and the row of each change that the first metric reads for them.
    """

    def __init__(self, encoding: Encoding, target: int, protocol: FaithfulnessProtocol) -> None:
        self.encoding, self.target = encoding, target
        self.text = as_sub_tokens(encoding) if protocol.by_sub_token else encoding
        self.owners = np.array(self.text.word_ids)
        self.units = len(encoding.positions) if protocol.by_sub_token else len(encoding.words)
        self.kept: dict[int, list[int]] = {}
        self.tops: dict[int, dict[frozenset[int], dict[str, int]]] = {}

    def values(self, scores: Map) -> NDArray[np.float32]:
        """Return each unit's score, that of its best piece; NaN for a word that was not read."""
        return aggregate(scores, self.text.word_ids, self.units, "max")

    def order(self, scores: Map) -> list[int]:
        """Return the units from the best to the worst; those that were not read come last."""
        return [int(unit) for unit in ranking(filled(self.values(scores)))] if self.units else []


class MapJudge:
    """Values of some metrics for maps of texts; each distinct input is classified once."""

    def __init__(
        self, classifier: TransformerPredictor, metrics: Sequence[Metric], protocol: FaithfulnessProtocol
    ) -> None:
        self.classifier, self.metrics, self.protocol = classifier, tuple(metrics), protocol
        self._pool = Predictions(classifier)
        self._parts = {metric: parts_of(metric, protocol) for metric in metrics}

    @property
    def larger_is_better(self) -> bool:
        """Direction of the first metric."""
        return CATALOGUE[self.metrics[0]].larger_is_better

    def text(self, encoding: Encoding, target: int) -> JudgedText:
        return JudgedText(encoding, target, self.protocol)

    def cuts(self, text: JudgedText) -> list[int]:
        """Return where the first metric cuts a text's ranking: numbers of units in the top, one a share.

        Cuts that take none or all of them are left out: no other order would change anything there.
        """
        shares = dict.fromkeys(share for _, share in self._parts[self.metrics[0]])
        return [count for share in shares if 0 < (count := self.protocol.count(text.units, share)) < text.units]

    def tops(self, text: JudgedText, scores: Map) -> tuple[frozenset[int], ...]:
        """Return what a map is to the first metric: the units above each of its cuts."""
        order = text.order(scores)
        return tuple(frozenset(order[:cut]) for cut in self.cuts(text))

    def measure(self, maps: Sequence[tuple[JudgedText, Map]]) -> NDArray[np.float64]:
        """Return each map's metrics, (maps, metrics), and remember in the texts which inputs they needed."""
        rows = [self._request(text, scores) for text, scores in maps]
        self._pool.evaluate("metric of interest")
        values = []
        for (text, _), (full, parts) in zip(maps, rows, strict=True):
            p = self._pool.probabilities[:, text.target]
            at = {part: float(p[row]) for part, row in parts.items()}
            values.append([self._value(metric, float(p[full]), at) for metric in self.metrics])
        return np.array(values, dtype=np.float64).reshape(len(maps), len(self.metrics))

    def better(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn the sign of metrics of which smaller values are better: larger is better for all."""
        signs = [1.0 if CATALOGUE[name].larger_is_better else -1.0 for name in self.metrics]
        return np.asarray(values * np.array(signs))

    def worth(self, text: JudgedText) -> NDArray[np.float64]:
        """Return what each unit adds to the target's probability, (units,).

        A ridge regression of the probabilities on which units an input leaves in the text, over the inputs that the
        text's maps led to so far. It asks the classifier nothing. Before the first measurement all are worth 0.
        """
        if not text.kept:
            return np.zeros(text.units)
        kept = np.zeros((len(text.kept), text.units))
        for row, units in enumerate(text.kept.values()):
            kept[row, units] = 1.0
        p = self._pool.probabilities[list(text.kept), text.target]
        kept -= kept.mean(axis=0)
        return np.asarray(np.linalg.solve(kept.T @ kept + RIDGE * np.eye(text.units), kept.T @ (p - p.mean())))

    def chain(self, text: JudgedText) -> list[frozenset[int]]:
        """Return the nested tops that the first metric values most, one a size of `cuts`, the smallest first.

        They are sought among the tops of all maps of the text so far, by dynamic programming; the classifier is asked
        nothing. Empty before the first measurement, and where the metric cuts nowhere.
        """
        if not text.tops:
            return []
        cuts = self.cuts(text)
        p = self._pool.probabilities[:, text.target]
        best: NDArray[np.float64] = np.zeros(1)
        inside = np.zeros((1, text.units))
        levels: list[tuple[list[frozenset[int]], NDArray[np.intp]]] = []
        for size in sorted(set(cuts)):
            tops = list(text.tops[size])
            held = np.zeros((len(tops), text.units))
            for row, top in enumerate(tops):
                held[row, list(top)] = 1.0
            gains = cuts.count(size) * np.array([_gain(p, rows) for rows in text.tops[size].values()])
            # Row: a top of this size; column: one of the size before, if it lies within.
            reachable = np.where((1.0 - held) @ inside.T == 0.0, best, -np.inf)
            levels.append((tops, reachable.argmax(axis=1)))
            best, inside = gains + reachable.max(axis=1), held
        chain: list[frozenset[int]] = []
        row = int(best.argmax())
        for tops, before in reversed(levels):
            chain.insert(0, tops[row])
            row = int(before[row])
        return chain

    def _request(self, text: JudgedText, scores: Map) -> tuple[int, dict[Part, int]]:
        """Ask for the text and for the parts that the metrics read; rows of the predictions."""
        pool, protocol = self._pool, self.protocol
        order = text.order(scores)
        parts = dict.fromkeys(part for of_metric in self._parts.values() for part in of_metric)
        mask = self.classifier.mask_token_id if any(change == "masked" for change, _ in parts) else -1
        rows: dict[Part, int] = {}
        for change, share in parts:
            count = protocol.count(len(order), share)
            top, rest = order[:count], order[count:]
            if change == "masked":
                changed, kept = text.text.mask(top, mask), rest
            elif change == "without":
                changed, kept = protocol.without(text.text, top, mask), rest
            else:
                changed, kept = protocol.only(text.text, top, rest, mask), top or rest
            rows[change, share] = row = pool.request(changed)
            text.kept[row] = kept
        for change, share in self._parts[self.metrics[0]]:
            size = protocol.count(len(order), share)
            text.tops.setdefault(size, {}).setdefault(frozenset(order[:size]), {})[change] = rows[change, share]
        return pool.request(text.encoding), rows

    def _value(self, metric: Metric, full: float, at: dict[Part, float]) -> float:
        """Return a metric from the target's probabilities on the whole text and on its parts."""
        parts = self._parts[metric]
        if metric == "log_odds":
            return float(log_probability(at[parts[0]]) - log_probability(full))
        turned = metric.endswith("difference")
        falls = [-(full - at[part]) if turned and part[0] == "only" else full - at[part] for part in parts]
        return sum(falls) / (self.protocol.aopc_steps if metric.startswith("aopc") else 1)


def _gain(p: NDArray[np.float64], rows: dict[str, int]) -> float:
    """Return what a top adds to the first metric at its cut, up to a constant and a factor, larger being better."""
    signs = {"only": 1.0, "without": -1.0, "masked": -1.0}
    return sum(
        signs[change] * float(log_probability(p[row]) if change == "masked" else p[row]) for change, row in rows.items()
    )
