"""The metrics of interest, measured on the classifier while maps are made: those of `explearn.judge.faithfulness`,
each alone, so that no more passes are made than the metric needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explearn.core.records import filled
from explearn.judge.catalogue import CATALOGUE
from explearn.judge.plausibility import ranking
from explearn.judge.predictions import Predictions
from explearn.judge.protocols import FaithfulnessProtocol, as_sub_tokens, log_probability
from explearn.methods.aml.params import Metric
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding
from explearn.text.alignment import aggregate

RIDGE = 1.0
"""Penalty on the squared weights of `MapJudge.worth`, in squared probabilities."""

MetricOptions = FaithfulnessProtocol
"""How the metrics are taken; protocol default or aml."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the predictions: the text, the text without and only the top words by share, and with them masked."""

    full: int
    without: dict[int, int]
    only: dict[int, int]
    masked: int | None


_Pair = tuple[int | None, int | None]
"""Rows of the predictions: of a text without a top (or with it masked), and of the top alone; None where not asked."""


class TriedMaps:
    """What the maps of one text, for one target, led to so far; kept by whoever looks for a map of the text.

    asked: by row of the predictions, the words (or sub-tokens) that the input left in the text. tops: by size, the tops
    asked about, and the rows that the first metric reads for each.
    """

    def __init__(self) -> None:
        self.asked: dict[int, list[int]] = {}
        self.tops: dict[int, dict[frozenset[int], _Pair]] = {}


class MapJudge:
    """Values of some metrics for maps of texts; what the classifier was asked once is not asked again.

    Attributes:
        passes: inputs that the classifier was asked about.
    """

    def __init__(self, classifier: Classifier, metrics: Sequence[Metric], options: MetricOptions) -> None:
        self.classifier = classifier
        self.metrics = tuple(metrics)
        self.options = options
        self._pool = Predictions(classifier)
        shares = set()
        if any(name.startswith("aopc") for name in metrics):
            shares |= set(options.percents)
        single = {"sufficiency", "comprehensiveness", "difference"} & set(metrics)
        if single:
            shares.add(options.headline_percent)
        self._shares = tuple(sorted(shares))
        self._without = any("sufficiency" not in name and name != "log_odds" for name in metrics)
        self._only = any("comprehensiveness" not in name and name != "log_odds" for name in metrics)

    @property
    def passes(self) -> int:
        return self._pool.distinct

    @property
    def larger_is_better(self) -> bool:
        """Direction of the first metric."""
        return CATALOGUE[self.metrics[0]].larger_is_better

    @property
    def by_sub_token(self) -> bool:
        """Whether sub-tokens are taken away, one by one, or whole words."""
        return self.options.by_sub_token

    def cuts(self, encoding: Encoding) -> list[int]:
        """Where the first metric cuts a text's ranking: numbers of words (or sub-tokens) in the top, one a share.

        Cuts that take none or all of them are left out: no other order would change anything there.
        """
        units = self._units(encoding)
        single = not self.metrics[0].startswith("aopc")
        shares = (self.options.headline_percent,) if single else self.options.percents
        return [count for share in shares if 0 < (count := self.options.count(units, share)) < units]

    def _units(self, encoding: Encoding) -> int:
        return len(encoding.positions) if self.by_sub_token else len(encoding.words)

    def tops(self, encoding: Encoding, scores: NDArray[np.float32]) -> tuple[frozenset[int], ...]:
        """What a map is to the first metric: the words (or sub-tokens) above each of its cuts."""
        order = self._ranked(encoding, scores)
        return tuple(frozenset(order[:cut]) for cut in self.cuts(encoding))

    def _ranked(self, encoding: Encoding, scores: NDArray[np.float32]) -> list[int]:
        if not self.by_sub_token:
            return _order(encoding, scores)
        positions = encoding.positions
        return [int(unit) for unit in ranking(scores[positions])] if positions else []

    def values(
        self,
        encodings: Sequence[Encoding],
        scores: Sequence[NDArray[np.float32]],
        targets: Sequence[int],
        all_tried: Sequence[TriedMaps] | None = None,
    ) -> NDArray[np.float64]:
        """Each text's metrics, (texts, metrics).

        Args:
            scores: of every position of each text, (tokens,) or longer by padding.
            targets: indices of the classes explained.
            all_tried: the maps tried so far of each text; what is asked is added to them.
        """
        kept = [TriedMaps() for _ in encodings] if all_tried is None else all_tried
        rows = [self._request(e, s, tried) for e, s, tried in zip(encodings, scores, kept, strict=True)]
        self._pool.evaluate("metric of interest")
        found = [self._measure(row, target) for row, target in zip(rows, targets, strict=True)]
        return np.array(found, dtype=np.float64).reshape(len(rows), len(self.metrics))

    def worth(self, encoding: Encoding, target: int, tried: TriedMaps) -> NDArray[np.float64]:
        """What each word (or sub-token) adds to the target's probability, (units,).

        A ridge regression of the probabilities on which units an input leaves in the text, over the inputs that the
        text's maps led to so far. It asks the classifier nothing. Before the first call of `values` all are worth 0.
        """
        units = self._units(encoding)
        asked = tried.asked
        kept = np.zeros((len(asked), units))
        for row, left in enumerate(asked.values()):
            kept[row, left] = 1.0
        if not asked:
            return np.zeros(units)
        p = self._pool.probabilities[list(asked), target]
        kept -= kept.mean(axis=0)
        return np.asarray(np.linalg.solve(kept.T @ kept + RIDGE * np.eye(units), kept.T @ (p - p.mean())))

    def chain(self, encoding: Encoding, target: int, tried: TriedMaps) -> list[frozenset[int]]:
        """The nested tops that the first metric values most, one a size of `cuts`, the smallest first.

        They are sought among the tops of all maps of the text so far, by dynamic programming; the classifier is asked
        nothing. Empty before the first call of `values`, and where the metric cuts nowhere.
        """
        cuts = self.cuts(encoding)
        units = self._units(encoding)
        known = tried.tops
        if not cuts or not known:
            return []
        sizes = sorted(set(cuts))
        levels = [list(known[size]) for size in sizes]
        best: NDArray[np.float64] = np.zeros(1)
        inside = np.zeros((1, units))
        choices: list[NDArray[np.intp]] = []
        for size, tops in zip(sizes, levels, strict=True):
            held = np.zeros((len(tops), units))
            for row, top in enumerate(tops):
                held[row, list(top)] = 1.0
            gains = cuts.count(size) * np.array([self._gain(pair, target) for pair in known[size].values()])
            # Row: a top of this size; column: one of the size before, if it lies within.
            reachable = np.where((1.0 - held) @ inside.T == 0.0, best, -np.inf)
            choices.append(reachable.argmax(axis=1))
            best, inside = gains + reachable.max(axis=1), held
        found = []
        row = int(best.argmax())
        for tops, choice in zip(reversed(levels), reversed(choices), strict=True):
            found.append(tops[row])
            row = int(choice[row])
        return found[::-1]

    def _gain(self, pair: _Pair, target: int) -> float:
        """What a top adds to the first metric at its cut, up to a constant and a factor, larger being better."""
        without, only = pair
        p = self._pool.probabilities[:, target]
        if self.metrics[0] == "log_odds":
            assert without is not None
            return -float(log_probability(p[without]))
        return float((0.0 if only is None else p[only]) - (0.0 if without is None else p[without]))

    def better(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same with the sign turned where smaller is better: larger is better for all."""
        signs = [1.0 if CATALOGUE[name].larger_is_better else -1.0 for name in self.metrics]
        return np.asarray(values * np.array(signs))

    def _request(self, encoding: Encoding, scores: NDArray[np.float32], tried: TriedMaps) -> _Rows:
        pool, options = self._pool, self.options
        text = as_sub_tokens(encoding) if self.by_sub_token else encoding
        order = self._ranked(encoding, scores)
        mask = self.classifier.mask_token_id if options.removal == "mask" or "log_odds" in self.metrics else -1
        asked = tried.asked
        without, only = {}, {}
        for share in self._shares:
            count = self.options.count(len(order), share)
            top, rest = order[:count], order[count:]
            if self._without:
                without[share] = pool.request(options.without(text, top, mask))
                asked[without[share]] = rest
            if self._only:
                only[share] = pool.request(options.only(text, top, rest, mask))
                asked[only[share]] = top or rest
        masked = None
        if "log_odds" in self.metrics:
            count = self.options.count(len(order), options.headline_percent)
            masked = pool.request(text.mask(order[:count], mask))
            asked[masked] = order[count:]
        for size in self.cuts(encoding):
            pair = self._pair(size, len(order), without, only, masked)
            tried.tops.setdefault(size, {})[frozenset(order[:size])] = pair
        return _Rows(pool.request(encoding), without, only, masked)

    def _pair(self, size: int, units: int, without: dict[int, int], only: dict[int, int], masked: int | None) -> _Pair:
        """The rows that the first metric reads for a top of this size."""
        first = self.metrics[0]
        if first == "log_odds":
            return masked, None
        share = next(share for share in self._shares if self.options.count(units, share) == size)
        return (
            None if first.endswith("sufficiency") else without[share],
            None if first.endswith("comprehensiveness") else only[share],
        )

    def _measure(self, rows: _Rows, target: int) -> list[float]:
        p = self._pool.probabilities[:, target]
        options = self.options

        def fall(where: dict[int, int], single: bool) -> float:
            if single:
                return float(p[rows.full] - p[where[options.headline_percent]])
            return float(sum(p[rows.full] - p[where[share]] for share in options.percents) / options.aopc_steps)

        found = []
        for name in self.metrics:
            single = not name.startswith("aopc")
            if name == "log_odds":
                assert rows.masked is not None
                found.append(float(log_probability(p[rows.masked]) - log_probability(p[rows.full])))
            elif name.endswith("difference"):
                found.append(fall(rows.without, single) - fall(rows.only, single))
            else:
                found.append(fall(rows.only if name.endswith("sufficiency") else rows.without, single))
        return found


def _order(encoding: Encoding, scores: NDArray[np.float32]) -> list[int]:
    """Words from the best to the worst, each scored by its best piece; those that were not read come last."""
    words, _ = aggregate(scores, encoding.word_ids, len(encoding.words), "max")
    return [int(word) for word in ranking(filled(words))]
