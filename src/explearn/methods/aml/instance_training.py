"""Fine-tuning G on single texts, with the metric of interest watched: the second phase of AML (section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from explearn.methods.aml.attribution_model import AttributionModel
from explearn.methods.aml.candidates import arranged, exchanged
from explearn.methods.aml.instance_parameters import (
    FullTuning,
    RestrictedTuning,
    Tuning,
    bytes_per_text,
    make_optimizer,
    narrowed_optimizer,
)
from explearn.methods.aml.loss import Weights, loss_terms
from explearn.methods.aml.masks import Masking
from explearn.methods.aml.params import FAMLParams
from explearn.methods.aml.target_metric import MapJudge, TriedMaps
from explearn.methods.aml.tokenizer_bridge import Bridge
from explearn.methods.aml.training import DivergedError
from explearn.methods.aml.two_tokenizers import Reading, read
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding, text_seed

MARGIN = 1e-5
"""A map counts as better where the metric gains more than this; less is rounding."""
CHANGES_BYTES = 2 << 30
"""Memory that the changes of a batch's texts may take; the batch itself is bounded by the classifier's budget."""
DRAWS = 4
"""Exchanges drawn for each that is wanted: most of those around a good map have been judged before."""


@dataclass(frozen=True, slots=True)
class Refined:
    """The map of one text that is best on the first metric: of those that its G went through, and the exchanges tried.

    scores: attributions in [0, 1], (tokens,). step: after which step it came; 0 is pAML's map. steps: those taken.
    judged: (metrics, metrics), row i the values of all metrics for the map that is best on metric i.
    """

    scores: NDArray[np.float32]
    step: int
    steps: int
    judged: NDArray[np.float64]


class _BestMap:
    """The best map of a text so far, by each metric."""

    def __init__(self) -> None:
        self.scores: NDArray[np.float32] = np.empty(0, dtype=np.float32)
        self.step = 0
        self.taken = 0
        self._worth: NDArray[np.float64] = np.empty(0)
        self._judged: NDArray[np.float64] = np.empty((0, 0))

    def see(
        self, step: int, scores: NDArray[np.float32], values: NDArray[np.float64], worth: NDArray[np.float64]
    ) -> None:
        self.taken = step
        if step == 0:
            self.scores, self._worth, self._judged = scores, worth.copy(), np.tile(values, (len(values), 1))
            return
        gains = worth > self._worth + MARGIN
        if gains[0]:
            self.scores, self.step = scores, step
        self._worth = np.where(gains, worth, self._worth)
        self._judged[gains] = values

    def result(self) -> Refined:
        return Refined(self.scores, self.step, self.taken, self._judged)


def refine(
    model: AttributionModel,
    classifier: Classifier,
    bridge: Bridge | None,
    encodings: Sequence[Encoding],
    predictions: torch.Tensor,
    targets: Sequence[int],
    masking: Masking,
    weights: Weights,
    judge: MapJudge,
    options: FAMLParams,
    seed: int,
) -> list[Refined]:
    """Fine-tune G on each text, starting from `model`, which stays as it is.

    After each step the metric is measured for G's map and for `options.samples` maps that differ from the best one so
    far by an exchange of two words; see `explearn.methods.aml.candidates`. Then for the map whose tops, at the
    metric's cuts, are the best of all that were measured in any map.

    With scope `full`, one text follows the other. Otherwise they go in batches as large as `CHANGES_BYTES` allows, and
    a text leaves its batch once `options.patience` steps have not improved its map. But for rounding, a text's result
    does not depend on the others of the batch.

    Args:
        predictions: y, (b, C). targets: indices of the classes explained.
        judge: its first metric is the one of interest.

    A text whose G diverges is done, with the best map that it had until then.

    Raises UnsupportedError for a backbone that cannot be taken apart, unless the scope is `full`, DivergedError where
    `model` gives a map that is not finite.
    """
    size = 1
    if options.scope != "full":
        size = max(1, CHANGES_BYTES // bytes_per_text(model, options.scope, options.rank, options.blocks))
    found = []
    for first in range(0, len(encodings), size):
        part = slice(first, first + size)
        found += _refine_batch(
            model,
            classifier,
            bridge,
            encodings[part],
            predictions[part],
            targets[part],
            masking,
            weights,
            judge,
            options,
            seed,
        )
    return found


def _refine_batch(
    model: AttributionModel,
    classifier: Classifier,
    bridge: Bridge | None,
    encodings: Sequence[Encoding],
    predictions: torch.Tensor,
    targets: Sequence[int],
    masking: Masking,
    weights: Weights,
    judge: MapJudge,
    options: FAMLParams,
    seed: int,
) -> list[Refined]:
    reading = read(classifier, bridge, encodings)
    tuning = _tuning(model, classifier, reading, predictions, options, seed)
    optimizer = make_optimizer(tuning.parameters(), options.learning_rate)
    best = [_BestMap() for _ in encodings]
    seen: list[set[object]] = [set() for _ in encodings]
    all_tried = [TriedMaps() for _ in encodings]
    draws = [np.random.default_rng(text_seed(seed, encoding)) for encoding in encodings]
    active = list(range(len(encodings)))
    for step in range(options.steps + 1):
        scores = tuning.scores()
        maps = scores.detach().sigmoid().float().cpu().numpy()
        # Each candidate: the number of the text, and a map of it.
        candidates = [(i, maps[row, : len(encodings[i])].copy()) for row, i in enumerate(active)]
        # A text whose G has diverged is done: it keeps the best map that it had.
        candidates = [(i, found) for i, found in candidates if np.isfinite(found).all()]
        finite = {i for i, _ in candidates}
        if not step and len(candidates) < len(active):
            raise DivergedError("pAML's map of a text is not finite; its G diverged in training")
        for i, found in tuple(candidates):
            seen[i].add(judge.tops(encodings[i], found))
            if step:
                worth = judge.worth(encodings[i], targets[i], all_tried[i])
                beside = _exchanges(encodings[i], best[i].scores, judge, worth, options.samples, seen[i], draws[i])
                candidates += [(i, one) for one in beside]
        _judge_maps(candidates, encodings, targets, judge, all_tried, best, step)
        if step and options.samples:
            chains = {i: judge.chain(encodings[i], targets[i], all_tried[i]) for i in active if i in finite}
            candidates = [
                (i, one)
                for i, chain in chains.items()
                for one in _joined_tops(encodings[i], best[i].scores, judge, chain, seen[i])
            ]
            _judge_maps(candidates, encodings, targets, judge, all_tried, best, step)
        if step == options.steps:
            break
        going = [row for row, i in enumerate(active) if i in finite and step - best[i].step < options.patience]
        if not going:
            break
        y = predictions[torch.tensor(active, device=predictions.device)]
        terms = loss_terms(classifier, reading.target, scores, y, masking, weights, draw=seed)
        optimizer.zero_grad()
        # A sum: each text's gradient is its own, whatever the number of texts.
        terms.total(weights).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if len(going) < len(active) and isinstance(tuning, RestrictedTuning):
            active = [active[row] for row in going]
            reading = read(classifier, bridge, [encodings[i] for i in active])
            renewed: dict[nn.Parameter, nn.Parameter] = tuning.keep(going, reading)
            optimizer = narrowed_optimizer(optimizer, renewed, going)
    return [found.result() for found in best]


def _judge_maps(
    candidates: Sequence[tuple[int, NDArray[np.float32]]],
    encodings: Sequence[Encoding],
    targets: Sequence[int],
    judge: MapJudge,
    all_tried: Sequence[TriedMaps],
    best: Sequence[_BestMap],
    step: int,
) -> None:
    """Measure maps (text, map) and keep those that are better."""
    texts = [i for i, _ in candidates]
    values = judge.values(
        [encodings[i] for i in texts],
        [m for _, m in candidates],
        [targets[i] for i in texts],
        [all_tried[i] for i in texts],
    )
    for (i, found), value, gain in zip(candidates, values, judge.better(values), strict=True):
        best[i].see(step, found, value, gain)


def _joined_tops(
    encoding: Encoding,
    scores: NDArray[np.float32],
    judge: MapJudge,
    chain: Sequence[frozenset[int]],
    seen: set[object],
) -> list[NDArray[np.float32]]:
    """The map of the best tops so far, where it is not in `seen`, to which it is added."""
    candidate = arranged(encoding, scores, chain, judge.by_sub_token)
    tops = judge.tops(encoding, candidate)
    if tops in seen:
        return []
    seen.add(tops)
    return [candidate]


def _exchanges(
    encoding: Encoding,
    scores: NDArray[np.float32],
    judge: MapJudge,
    worth: NDArray[np.float64],
    samples: int,
    seen: set[object],
    draws: np.random.Generator,
) -> list[NDArray[np.float32]]:
    """Up to `samples` maps beside one that the metric tells from all in `seen`, where they are added."""
    cuts = judge.cuts(encoding)
    found = []
    for _ in range(DRAWS * samples):
        candidate = exchanged(encoding, scores, cuts, judge.by_sub_token, worth, draws)
        tops = judge.tops(encoding, candidate)
        if tops not in seen:
            seen.add(tops)
            found.append(candidate)
            if len(found) == samples:
                break
    return found


def _tuning(
    model: AttributionModel,
    classifier: Classifier,
    reading: Reading,
    predictions: torch.Tensor,
    options: FAMLParams,
    seed: int,
) -> Tuning:
    if options.scope == "full":
        return FullTuning(model, classifier, reading, predictions)
    return RestrictedTuning(model, classifier, reading, predictions, options.scope, options.rank, options.blocks, seed)
