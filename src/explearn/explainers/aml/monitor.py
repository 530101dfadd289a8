"""The metrics of interest, measured on the classifier while maps are made: those of `explearn.metrics.faithfulness`,
each alone, so that no more passes are made than the metric needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from explearn.data.alignment import NO_WORD
from explearn.explainer import aggregate
from explearn.metrics.faithfulness import EPSILON, top_count
from explearn.metrics.plausibility import ranking
from explearn.metrics.predictions import Predictions
from explearn.models.classifier import Classifier
from explearn.models.encoding import Encoding

Metric = Literal[
    "sufficiency",
    "comprehensiveness",
    "log_odds",
    "aopc_sufficiency",
    "aopc_comprehensiveness",
    "difference",
    "aopc_difference",
]
"""Those of `faithfulness`; differences are comprehensiveness - sufficiency, single (the headline percent) or AOPC."""

RIDGE = 1.0
"""Penalty on the squared weights of `Monitor.worth`, in squared probabilities."""

SMALLER_IS_BETTER = frozenset({"sufficiency", "log_odds", "aopc_sufficiency"})


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """How the metrics are taken; as in `explearn.params.EvaluateParams`, protocol default or aml."""

    protocol: Literal["default", "aml"]
    removal: Literal["delete", "mask"]
    percents: tuple[int, ...]
    headline_percent: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the predictions: the text, the text without and only the top words by share, and with them masked."""

    full: int
    without: dict[int, int]
    only: dict[int, int]
    masked: int | None


class Monitor:
    """Values of some metrics for maps of texts; what the classifier was asked once is not asked again.

    Attributes:
        passes: inputs that the classifier was asked about.
    """

    def __init__(self, classifier: Classifier, metrics: Sequence[Metric], options: MetricOptions) -> None:
        self.classifier = classifier
        self.metrics = tuple(metrics)
        self.options = options
        self._pool = Predictions(classifier)
        # By text: rows of the predictions, and the words (or sub-tokens) that each left in the text.
        self._asked: dict[object, dict[int, list[int]]] = {}
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
        return self.metrics[0] not in SMALLER_IS_BETTER

    @property
    def by_sub_token(self) -> bool:
        """Whether sub-tokens are taken away, one by one, or whole words."""
        return self.options.protocol == "aml"

    def cuts(self, encoding: Encoding) -> list[int]:
        """Where the first metric cuts a text's ranking: numbers of words (or sub-tokens) in the top, one a share.

        Cuts that take none or all of them are left out: no other order would change anything there.
        """
        units = len(encoding.positions) if self.by_sub_token else len(encoding.words)
        single = not self.metrics[0].startswith("aopc")
        shares = (self.options.headline_percent,) if single else self.options.percents
        return [count for share in shares if 0 < (count := self._count(units, share)) < units]

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
        self, encodings: Sequence[Encoding], scores: Sequence[NDArray[np.float32]], targets: Sequence[int]
    ) -> NDArray[np.float64]:
        """Each text's metrics, (texts, metrics).

        Args:
            scores: of every position of each text, (tokens,) or longer by padding.
            targets: indices of the classes explained.
        """
        rows = [self._request(e, s) for e, s in zip(encodings, scores, strict=True)]
        self._pool.evaluate("metric of interest")
        found = [self._measure(row, target) for row, target in zip(rows, targets, strict=True)]
        return np.array(found, dtype=np.float64).reshape(len(rows), len(self.metrics))

    def worth(self, encoding: Encoding, target: int) -> NDArray[np.float64]:
        """What each word (or sub-token) adds to the target's probability, (units,), in the inputs of this text so far.

        A ridge regression of the probabilities on which units an input leaves in the text; it asks the classifier
        nothing. Before the first call of `values` all are worth 0.
        """
        units = len(encoding.positions) if self.by_sub_token else len(encoding.words)
        asked = self._asked.get(encoding.key, {})
        kept = np.zeros((len(asked), units))
        for row, left in enumerate(asked.values()):
            kept[row, left] = 1.0
        if not asked:
            return np.zeros(units)
        p = self._pool.probabilities[list(asked), target]
        kept -= kept.mean(axis=0)
        return np.asarray(kept.T @ np.linalg.solve(kept @ kept.T + RIDGE * np.eye(len(asked)), p - p.mean()))

    def better(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same with the sign turned where smaller is better: larger is better for all."""
        signs = [-1.0 if name in SMALLER_IS_BETTER else 1.0 for name in self.metrics]
        return np.asarray(values * np.array(signs))

    def _request(self, encoding: Encoding, scores: NDArray[np.float32]) -> _Rows:
        pool, options = self._pool, self.options
        text = as_sub_tokens(encoding) if self.by_sub_token else encoding
        order = self._ranked(encoding, scores)
        mask = self.classifier.mask_token_id if options.removal == "mask" or "log_odds" in self.metrics else -1
        asked = self._asked.setdefault(encoding.key, {})
        without, only = {}, {}
        for share in self._shares:
            count = self._count(len(order), share)
            top, rest = order[:count], order[count:]
            if self._without:
                without[share] = pool.request(text.delete(top) if options.removal == "delete" else text.mask(top, mask))
                asked[without[share]] = rest
            if self._only:
                if not top:
                    only[share] = pool.request(text)
                elif options.removal == "delete":
                    only[share] = pool.request(text.keep(top))
                else:
                    only[share] = pool.request(text.mask(rest, mask))
                asked[only[share]] = top or rest
        masked = None
        if "log_odds" in self.metrics:
            count = self._count(len(order), options.headline_percent)
            masked = pool.request(text.mask(order[:count], mask))
            asked[masked] = order[count:]
        return _Rows(pool.request(encoding), without, only, masked)

    def _count(self, units: int, share: int) -> int:
        return units * share // 100 if self.options.protocol == "aml" else top_count(units, share)

    def _measure(self, rows: _Rows, target: int) -> list[float]:
        p = self._pool.probabilities[:, target]
        options = self.options
        steps = len(options.percents) + (options.protocol == "aml")

        def fall(where: dict[int, int], single: bool) -> float:
            if single:
                return float(p[rows.full] - p[where[options.headline_percent]])
            return float(sum(p[rows.full] - p[where[share]] for share in options.percents) / steps)

        found = []
        for name in self.metrics:
            single = not name.startswith("aopc")
            if name == "log_odds":
                assert rows.masked is not None
                found.append(float(np.log(max(p[rows.masked], EPSILON)) - np.log(max(p[rows.full], EPSILON))))
            elif name.endswith("difference"):
                found.append(fall(rows.without, single) - fall(rows.only, single))
            else:
                found.append(fall(rows.only if name.endswith("sufficiency") else rows.without, single))
        return found


def _order(encoding: Encoding, scores: NDArray[np.float32]) -> list[int]:
    """Words from the best to the worst, each scored by its best piece."""
    words, _ = aggregate(scores, encoding.word_ids, len(encoding.words), "max")
    return [int(word) for word in ranking(words)]


def as_sub_tokens(encoding: Encoding) -> Encoding:
    """The text with each sub-token, special ones excepted, a word of its own."""
    free = np.array([not special for special in encoding.special])
    owners = np.where(free, np.cumsum(free) - 1, NO_WORD)
    return replace(encoding, word_ids=tuple(owners.tolist()))
