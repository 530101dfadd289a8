"""fAML: the trained attribution model, fine-tuned anew on every text that is explained (AML, section 3.1).

Beyond the paper, the search also tries maps that no G gave: the best map so far with two words exchanged, and the best
tops of all maps joined into one.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from explearn.core.attribution import filled
from explearn.core.errors import ModelError
from explearn.lens.threads import here_only
from explearn.methods.aml.attribution_model import AttributionModel, EncoderModel, Reading, StatesModel
from explearn.methods.aml.loss import DivergedError, Weights, loss_terms, removes, weighted
from explearn.methods.aml.paml import PAML, prediction_information
from explearn.methods.aml.params import FAMLParams, Metric
from explearn.methods.aml.target_metric import JudgedText, Map, MapJudge
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import RefiningExplainer
from explearn.methods.info import About
from explearn.metrics.plausibility import ranking
from explearn.predictors.encoding import Batch, text_seed
from explearn.predictors.problems import ONE_CLASS
from explearn.predictors.transformer import TransformerPredictor

ADAM_EPSILON = 1e-6
"""Larger than torch's, so that gradients that are only rounding errors (of key biases) have no effect."""
RANK = 8
"""Rank of the changes to a network on the classifier's states."""
PATIENCE = 10
"""Steps without a better map before a text is done."""
MARGIN = 1e-5
"""Smallest gain of the metric for a map to count as better; less is rounding."""
DRAWS = 4
"""Exchanges drawn for each one needed: most exchanges near a good map have been evaluated before."""
SHARPNESS = 2.0
"""One standard deviation of worth multiplies a word's odds of being drawn by e to this power."""
TIE = 1e-6
"""Worths (probabilities) with a smaller spread than this are equal up to rounding, and drawn uniformly."""


# ---- what of G changes for a text ------------------------------------------------------------------------------------


class FullTuning:
    """Tuning of a copy of G, except the prediction's embeddings, for one text, as in the paper."""

    def __init__(
        self, model: EncoderModel, classifier: TransformerPredictor, reading: Reading, predictions: torch.Tensor
    ) -> None:
        self._model = copy.deepcopy(model).requires_grad_(True).eval()
        self._model.prediction.requires_grad_(False)
        self._classifier, self._reading, self._predictions = classifier, reading, predictions

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def scores(self) -> torch.Tensor:
        """Return the logits of the attributions at the classifier's sub-tokens, (1, n)."""
        scores: torch.Tensor = self._model(self._classifier, self._reading, self._predictions)
        return scores


class LowRankChange:
    """Each text's addition to the output of a linear map: x down up + bias, or x up + bias without a rank.

    down: (b, in, r), the same random values for every text. up: (b, r, out), or (b, in, out). bias: (b, out). Both are
    0 at first.
    """

    def __init__(self, layer: nn.Linear, texts: int, rank: int | None, generator: torch.Generator) -> None:
        weight = layer.weight
        self.layer, self.down = layer, None
        if rank is not None:
            start = torch.randn(layer.in_features, rank, generator=generator) * layer.in_features**-0.5
            self.down = nn.Parameter(start.to(weight).repeat(texts, 1, 1))
        self.up = nn.Parameter(weight.new_zeros(texts, rank or layer.in_features, layer.out_features))
        self.bias = nn.Parameter(weight.new_zeros(texts, layer.out_features))

    def add(self, _layer: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        """Return the layer's output with the change; used as a forward hook."""
        narrow = inputs[0] if self.down is None else inputs[0] @ self.down.to(inputs[0].dtype)
        return output + narrow @ self.up.to(narrow.dtype) + self.bias.to(narrow.dtype)[:, None]


class LowRankTuning:
    """Low-rank tuning of the linear layers of a G on the classifier's states, with one set of changes per text.

    The frozen weights are shared by all texts of a batch. The last layer changes in full.
    """

    def __init__(
        self,
        model: StatesModel,
        classifier: TransformerPredictor,
        reading: Reading,
        predictions: torch.Tensor,
        seed: int,
    ) -> None:
        self._model, self._classifier, self._reading, self._predictions = model, classifier, reading, predictions
        generator, texts, reader = torch.Generator().manual_seed(seed), len(reading.batch), model.reader
        layers = [reader.read, *(part for part in reader.block.modules() if isinstance(part, nn.Linear))]
        self._changes = [LowRankChange(layer, texts, RANK, generator) for layer in layers]
        self._changes.append(LowRankChange(reader.head, texts, None, generator))

    def parameters(self) -> list[nn.Parameter]:
        return [p for change in self._changes for p in (change.down, change.up, change.bias) if p is not None]

    def scores(self) -> torch.Tensor:
        """Return the logits of the attributions at the classifier's sub-tokens, (b, n)."""
        handles = [change.layer.register_forward_hook(here_only(change.add)) for change in self._changes]
        try:
            scores: torch.Tensor = self._model(self._classifier, self._reading, self._predictions)
        finally:
            for handle in handles:
                handle.remove()
        return scores


# ---- maps made from a map --------------------------------------------------------------------------------------------


def exchanged(
    text: JudgedText, scores: Map, cuts: Sequence[int], worth: NDArray[np.float64], draws: np.random.Generator
) -> Map:
    """Return the map with the scores of two words exchanged, one from above a cut and one from below, once or twice.

    A metric of removed words depends only on the sets above its cuts, so an exchange within one is useless. Every
    second time the two words lie between the neighbouring cuts, so that one set changes and few passes are needed.
    Words above the cut are drawn the more likely the less they are worth, words below it the more they are worth. All
    pieces of the two words get the other word's score.

    Args:
        cuts: see `MapJudge.cuts`; one is drawn. Without cuts the map is returned unchanged.
        worth: worth of each unit, see `MapJudge.worth`; only its order and spread matter.
    """
    values = text.values(scores)
    # Words that were not read have no score to exchange.
    known = len(values) - int(np.isnan(values).sum())
    places = [0, *(cut for cut in sorted(set(cuts)) if cut < known), known]
    if len(places) == 2:
        return scores
    changed = scores.copy()
    for _ in range(draws.integers(1, 3)):
        order = ranking(filled(values))[:known]
        place = int(draws.integers(1, len(places) - 1))
        near = draws.random() < 0.5
        highest, lowest = (places[place - 1], places[place + 1]) if near else (0, len(order))
        upper = drawn(order[highest : places[place]], -worth, draws)
        lower = drawn(order[places[place] : lowest], worth, draws)
        values[[upper, lower]] = values[[lower, upper]]
        changed[text.owners == upper], changed[text.owners == lower] = values[upper], values[lower]
    return changed


def arranged(text: JudgedText, scores: Map, tops: Sequence[frozenset[int]]) -> Map:
    """Return the map with its scores reassigned, so that the sets `tops` are on top of the ranking of words.

    Within a set, and between two sets, words keep their order. All pieces of a word get the same score.

    Args:
        tops: units, each set within the next one; see `MapJudge.chain`. Without any the map stays as it is.
    """
    if not tops:
        return scores
    values = text.values(scores)
    # Unread words come last in every set, and have no score to reassign.
    order = ranking(filled(values))[: len(values) - int(np.isnan(values).sum())]
    layers = [next((layer for layer, top in enumerate(tops) if unit in top), len(tops)) for unit in order.tolist()]
    changed = scores.copy()
    for unit, value in zip(order[np.argsort(layers, kind="stable")], values[order], strict=True):
        changed[text.owners == unit] = value
    return changed


def drawn(units: NDArray[np.intp], worth: NDArray[np.float64], draws: np.random.Generator) -> np.intp:
    """Draw one of the units, by softmax of its standardised worth."""
    of_units = worth[units]
    spread = float(of_units.std())
    odds = np.exp(SHARPNESS * (of_units - of_units.max()) / spread) if spread > TIE else np.ones(len(units))
    chosen: np.intp = draws.choice(units, p=odds / odds.sum())
    return chosen


# ---- the search ------------------------------------------------------------------------------------------------------


class RefinedMap:
    """The best map of one text so far, among the maps of its G and those derived from them.

    Attributes:
        scores: attributions in [0, 1], (tokens,). step: step at which it was found; 0 is pAML's map.
        steps: number of steps taken.
        judged: (metrics, metrics), row i the values of all metrics for the map that is best on metric i.
    """

    def __init__(self, text: JudgedText, draws: np.random.Generator) -> None:
        self.text, self._draws = text, draws
        self.scores: Map = np.empty(0, dtype=np.float32)
        self.step = self.steps = 0
        self.judged: NDArray[np.float64] = np.empty((0, 0))
        self._best: NDArray[np.float64] = np.empty(0)
        self._seen: set[object] = set()

    def see(self, step: int, scores: Map, values: NDArray[np.float64], better: NDArray[np.float64]) -> None:
        """Keep a map, whose metrics are `values`, if it is the first or better; larger `better` is better."""
        self.steps = step
        if not self.judged.size:
            self.scores, self._best, self.judged = scores, better.copy(), np.tile(values, (len(values), 1))
            return
        gains = better > self._best + MARGIN
        if gains[0]:
            self.scores, self.step = scores, step
        self._best = np.where(gains, better, self._best)
        self.judged[gains] = values

    def is_new(self, judge: MapJudge, scores: Map) -> bool:
        """Return whether the metric distinguishes a map from all maps evaluated before."""
        tops = judge.tops(self.text, scores)
        new = tops not in self._seen
        self._seen.add(tops)
        return new

    def exchanges(self, judge: MapJudge, samples: int) -> list[Map]:
        """Return up to `samples` new maps that differ from the best one by an exchange of words."""
        cuts, worth = judge.cuts(self.text), judge.worth(self.text)
        maps: list[Map] = []
        for _ in range(DRAWS * samples):
            candidate = exchanged(self.text, self.scores, cuts, worth, self._draws)
            if self.is_new(judge, candidate):
                maps.append(candidate)
                if len(maps) == samples:
                    break
        return maps


def refine(
    model: AttributionModel,
    classifier: TransformerPredictor,
    reading: Reading,
    predictions: torch.Tensor,
    targets: Sequence[int],
    removed: bool,
    weights: Weights,
    judge: MapJudge,
    options: FAMLParams,
) -> list[RefinedMap]:
    """Fine-tune G on each text, starting from `model`, which is not changed.

    After each step the metric is measured for G's map, for `options.samples` maps that differ from the best one so far
    by an exchange of two words, and for the map whose tops, at the metric's cuts, are the best of those measured in any
    map. A text is finished when PATIENCE steps have not improved its map, or G diverges on it. Up to rounding, a text's
    result does not depend on the rest of the batch.

    Args:
        reading: of one text if G is an encoder.
        predictions: y, (b, C). targets: indices of the explained classes.
        removed: see `loss.masked_logits`.
        judge: evaluates maps; its first metric is the metric of interest.

    Raises DivergedError where `model` gives a map that is not finite.
    """
    encodings = reading.batch.encodings
    tuning: FullTuning | LowRankTuning
    if isinstance(model, StatesModel):
        tuning = LowRankTuning(model, classifier, reading, predictions, options.seed)
    else:
        assert isinstance(model, EncoderModel)
        tuning = FullTuning(model, classifier, reading, predictions)
    optimizer = torch.optim.AdamW(
        tuning.parameters(), lr=options.learning_rate, eps=ADAM_EPSILON, weight_decay=0.0, fused=True
    )
    refined = [
        RefinedMap(judge.text(encoding, target), np.random.default_rng(text_seed(options.seed, encoding)))
        for encoding, target in zip(encodings, targets, strict=True)
    ]
    active = list(range(len(encodings)))
    for step in range(options.steps + 1):
        scores = tuning.scores()
        maps = scores.detach().sigmoid().float().cpu().numpy()
        active = [i for i in active if np.isfinite(maps[i, : len(encodings[i])]).all()]
        if not step and len(active) < len(encodings):
            raise DivergedError("pAML's map of a text is not finite; its G diverged in training")
        of_models = [(refined[i], maps[i, : len(encodings[i])].copy()) for i in active]
        candidates = list(of_models)
        for one, scores_of_model in of_models:
            one.is_new(judge, scores_of_model)
            if step and options.samples:
                candidates += [(one, made) for made in one.exchanges(judge, options.samples)]
        _judge_maps(judge, candidates, step)
        if step and options.samples:
            joined = [(one, arranged(one.text, one.scores, judge.chain(one.text))) for one, _ in of_models]
            _judge_maps(judge, [(one, made) for one, made in joined if one.is_new(judge, made)], step)
        active = [i for i in active if step - refined[i].step < PATIENCE]
        if step == options.steps or not active:
            break
        terms = loss_terms(classifier, reading.batch, scores, predictions, weights, removed)
        optimizer.zero_grad()
        # A sum: each text's gradient is its own, whatever the number of texts.
        weighted(terms, weights).sum().backward()
        optimizer.step()
    return refined


def _judge_maps(judge: MapJudge, candidates: Sequence[tuple[RefinedMap, Map]], step: int) -> None:
    values = judge.measure([(one.text, scores) for one, scores in candidates])
    for (one, scores), of_map, better in zip(candidates, values, judge.better(values), strict=True):
        one.see(step, scores, of_map, better)


# ---- the explainer -------------------------------------------------------------------------------------------------


class FAML(RefiningExplainer, BatchExplainer):
    """pAML's model fine-tuned on each text; of its maps the one that is best on a metric, which it looks at.

    Attributions of G after some steps of AdamW on AML's loss of the text itself, from pAML's G.

    After each step the metric of interest is measured on the classifier, for G's map and for some maps near the best
    one so far, and the best map is kept; the first is pAML's. So this method sees the metric while it explains: by that
    metric it is at least as good as pAML by construction. `notes` has the metrics used.

    The weights of the loss, the masking, the metric's protocol and the embeddings of the prediction are those of the
    trained pAML and do not change.

    Options: `FAMLParams`. The seed decides the changes' first values and the maps tried.
    """

    about = About(
        name="faml",
        family="learned",
        cost="forward and backward passes of the classifier and of its own model for each step, and "
        "forward passes for the metric of every map it tries",
        needs=frozenset({"gradients"}),
        costly=True,
        uncounted=True,
        watches_metric=True,
        base="paml",
    )
    aggregation = "max"
    signed = False
    problems = ONE_CLASS
    passes = 4
    Options = FAMLParams
    options: FAMLParams

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.start: PAML | None = None
        self._refined: list[RefinedMap] = []

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **options: Any) -> Self:
        explainer = cls(**options)
        explainer.start = PAML.from_pretrained(folder)
        return explainer

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metric of interest, then the others, which are measured for the report."""
        assert self.start is not None
        first = self.options.metric or self.start.options.metric
        return (first, *(name for name in get_args(Metric) if name != first))

    def notes(self) -> dict[str, Any]:
        """Return means over the texts explained since the last call of `explain` or `explain_each`.

        optimised_for: the metric of interest. steps, best_step: steps taken, and the step of the kept map. judged:
        metric optimised -> metric evaluated -> value.
        """
        if not self._refined:
            return {}
        names, judged = self.metrics, np.mean([one.judged for one in self._refined], axis=0).tolist()
        return {
            "optimised_for": names[0],
            "steps": float(np.mean([one.steps for one in self._refined])),
            "best_step": float(np.mean([one.step for one in self._refined])),
            "judged": {by: dict(zip(names, row, strict=True)) for by, row in zip(names, judged, strict=True)},
        }

    def check(self, classifier: TransformerPredictor) -> None:
        if self.start is None:
            raise ModelError(
                "fAML starts from a trained pAML; get_explainer('faml', path=FOLDER OF A TRAINED PAML), "
                "or --explainer FOLDER on the command line"
            )
        self.start.any_classifier = self.any_classifier
        self.start.check(classifier)
        self._refined = []

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        start = self.start
        assert start is not None and start.model is not None
        start.model.to(classifier.device)
        parts = [batch] if isinstance(start.model, StatesModel) else [classifier.batch([e]) for e in batch.encodings]
        readings = [start.model.read(classifier, part) for part in parts]
        logits = torch.cat([reading.logits for reading in readings])
        chosen = resolve_targets(logits, targets)
        predictions = prediction_information(classifier, logits, chosen)
        judge, removed = MapJudge(classifier, self.metrics, start.protocol), removes(classifier)
        scores = torch.zeros(batch.input_ids.shape)
        first = 0
        # inference_mode(False) turns gradients on inside no_grad, too.
        with torch.inference_mode(False), torch.enable_grad():
            for reading in readings:
                of_part = slice(first, first + len(reading.batch))
                y, classes = predictions[of_part], chosen[of_part].tolist()
                refined = refine(
                    start.model, classifier, reading, y, classes, removed, start.weights, judge, self.options
                )
                for row, one in enumerate(refined, start=first):
                    scores[row, : len(one.scores)] = torch.from_numpy(one.scores)
                self._refined += refined
                first = of_part.stop
        unread = [count for reading in readings for count in reading.unread]
        return BatchScores(scores, logits, chosen, unread=unread)
