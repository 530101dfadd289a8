"""fAML: the trained attribution model, fine-tuned anew on every text that is explained (AML, section 3.1).

Beyond the paper, the search can also try maps that no G gave (option `samples`): the best map so far with two words
exchanged, and the best tops of all maps joined into one.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from explearn.core.errors import ModelError
from explearn.lens.hooks import Hooks
from explearn.methods.aml.attribution_model import EncoderModel, ModelInput, StatesModel
from explearn.methods.aml.loss import DivergedError, loss_terms, weighted
from explearn.methods.aml.paml import PAML, prediction_information
from explearn.methods.aml.params import FAMLParams, Metric
from explearn.methods.aml.target_metric import EvaluatedText, Map, MapEvaluator, Values, indicators
from explearn.methods.base.explainer import About, BatchExplainer, BatchScores, Variant, resolve_targets
from explearn.predictors.encoding import Batch, text_seed
from explearn.predictors.labelled import ONE_CLASS
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
"""One standard deviation of the effects multiplies a word's odds of being drawn by e to this power."""
TIE = 1e-6
"""Effects (probabilities) with a smaller spread than this are equal up to rounding, and drawn uniformly."""


# ---- what of G changes for a text ------------------------------------------------------------------------------------


class LowRankChange(nn.Module):
    """Each text's addition to the output of a linear layer: x down up + bias, or x up + bias without a rank.

    Args:
        layer: the linear layer, which does not change.
        texts: b, number of texts.
        rank: r; None: `up` has full rank.
        generator: draws the first values of `down`.

    Attributes:
        down: (b, in, r), at first the same random values for every text.
        up: (b, r, out), or (b, in, out) without a rank; at first 0.
        bias: (b, out), at first 0.
    """

    def __init__(self, layer: nn.Linear, texts: int, rank: int | None, generator: torch.Generator) -> None:
        super().__init__()
        self.layer = layer
        self.down = None
        width = layer.in_features
        if rank is not None:
            start = torch.randn(width, rank, generator=generator) * width**-0.5
            self.down = nn.Parameter(start.to(layer.weight).repeat(texts, 1, 1))
            width = rank
        self.up = nn.Parameter(layer.weight.new_zeros(texts, width, layer.out_features))
        self.bias = nn.Parameter(layer.weight.new_zeros(texts, layer.out_features))

    def add(self, _layer: nn.Module, inputs: tuple[Tensor], _options: object, output: Tensor) -> Tensor:
        """Return the layer's output with the change; used as a forward hook."""
        (narrow,) = inputs
        if self.down is not None:
            narrow = narrow @ self.down.to(narrow.dtype)
        return output + narrow @ self.up.to(narrow.dtype) + self.bias.to(narrow.dtype)[:, None]


class LowRankTuning(nn.Module):
    """A G on the classifier's states whose linear layers change by low rank, differently for each text.

    The frozen weights are shared by all texts of a batch. The last layer changes in full.

    Args:
        model: G, which does not change.
        texts: number of texts.
        seed: decides the changes' first values.
    """

    def __init__(self, model: StatesModel, texts: int, seed: int) -> None:
        super().__init__()
        self.model = model
        network = model.network
        generator = torch.Generator().manual_seed(seed)
        linear = [part for part in network.block.modules() if isinstance(part, nn.Linear)]
        changes = [LowRankChange(layer, texts, RANK, generator) for layer in (network.read, *linear)]
        self.changes = nn.ModuleList([*changes, LowRankChange(network.head, texts, None, generator)])

    def forward(self, classifier: TransformerPredictor, inputs: ModelInput, predictions: Tensor) -> Tensor:
        """Return what G returns, (b, n), with each text's changes."""
        changes: Any = self.changes
        with Hooks() as hooks:
            for change in changes:
                hooks.after(change.layer, change.add)
            scores: Tensor = self.model(classifier, inputs, predictions)
        return scores


# ---- maps made from a map --------------------------------------------------------------------------------------------


def exchange_words(text: EvaluatedText, scores: Map, effects: Values, draws: np.random.Generator) -> Map:
    """Return the map with the scores of two words exchanged, one from above a cut and one from below, once or twice.

    A metric of removed words depends only on the sets above its cuts, so an exchange within one is useless. Every
    second time the two words lie between the neighbouring cuts, so that one set changes and few passes are needed.
    Words above the cut are drawn the more likely the smaller their effect, words below it the larger it is. All pieces
    of the two words get the other word's score.

    Args:
        text: the text; one of its cuts is drawn. Without cuts the map is returned unchanged.
        scores: the map.
        effects: effect of each unit, see `MapEvaluator.unit_effects`; only order and spread matter.
        draws: random numbers.
    """
    bounds = [0, *(cut for cut in sorted(set(text.cuts)) if cut < text.read), text.read]
    if len(bounds) == 2:
        return scores
    values = text.unit_scores(scores)
    changed = scores.copy()
    for _ in range(draws.integers(1, 3)):
        order = text.order(values)[: text.read]
        cut = int(draws.integers(1, len(bounds) - 1))
        above = order[: bounds[cut]]
        below = order[bounds[cut] :]
        if draws.random() < 0.5:
            above = order[bounds[cut - 1] : bounds[cut]]
            below = order[bounds[cut] : bounds[cut + 1]]
        pair = [draw_unit(above, -effects, draws), draw_unit(below, effects, draws)]
        values[pair] = values[pair[::-1]]
        for unit in pair:
            changed[text.owners == unit] = values[unit]
    return changed


def draw_unit(units: NDArray[np.intp], effects: Values, draws: np.random.Generator) -> np.intp:
    """Draw one of some units, by softmax of their standardised effects."""
    effects = effects[units]
    spread = float(effects.std())
    odds = np.ones(len(units))
    if spread > TIE:
        odds = np.exp(SHARPNESS * (effects - effects.max()) / spread)
    unit: np.intp = draws.choice(units, p=odds / odds.sum())
    return unit


def rearrange(text: EvaluatedText, scores: Map, tops: Sequence[frozenset[int]]) -> Map:
    """Return the map with its scores reassigned, so that the sets `tops` are on top of the ranking of words.

    Within a set, and between two sets, words keep their order. All pieces of a word get the same score.

    Args:
        text: the text.
        scores: the map.
        tops: units, each set within the next one; see `MapEvaluator.best_nested_tops`.
    """
    values = text.unit_scores(scores)
    # Unread words come last in every set, and have no score to reassign.
    order = text.order(values)[: text.read]
    sets = indicators(tops, text.units).sum(axis=0)
    changed = scores.copy()
    for unit, value in zip(order[np.argsort(-sets[order], kind="stable")], values[order], strict=True):
        changed[text.owners == unit] = value
    return changed


# ---- the search ------------------------------------------------------------------------------------------------------


class MapSearch:
    """The search for a text's best map, among the maps of its G and those derived from them.

    Attributes:
        text: the text.
        own: the latest map of its G.
        scores: the best map so far, attributions in [0, 1], (tokens,).
        best_step: step at which it was found; 0 is pAML's map.
        steps: number of steps taken.
        judged: (metrics, metrics), row i the values of all metrics for the map that is best on metric i.
    """

    def __init__(self, text: EvaluatedText, seed: int) -> None:
        self.text = text
        self.own: Map = np.empty(0, dtype=np.float32)
        self.scores = self.own
        self.best_step = 0
        self.steps = 0
        self.judged: Values = np.empty((0, 0))
        self._best: Values = np.empty(0)
        self._evaluated: set[object] = set()
        self._draws = np.random.default_rng(text_seed(seed, text.encoding))

    def update(self, step: int, scores: Map, values: Values, signs: Values) -> None:
        """Keep a map if it is the first or better than the best.

        Args:
            step: step at which it was made.
            scores: the map.
            values: its metrics, (metrics,).
            signs: 1 where larger values are better, else -1, (metrics,).
        """
        self.steps = step
        better = values * signs
        if not self.judged.size:
            self.scores = scores
            self.judged = np.tile(values, (len(values), 1))
            self._best = better
            return
        gains = better > self._best + MARGIN
        if gains[0]:
            self.scores = scores
            self.best_step = step
        self._best = np.where(gains, better, self._best)
        self.judged[gains] = values

    def is_new(self, scores: Map) -> bool:
        """Return whether the metric distinguishes a map from all maps that this was called with."""
        tops = self.text.top_sets(scores)
        is_new = tops not in self._evaluated
        self._evaluated.add(tops)
        return is_new

    def exchanges(self, effects: Values, samples: int) -> list[Map]:
        """Return up to `samples` new maps that differ from the best one by an exchange of words."""
        maps: list[Map] = []
        for _ in range(DRAWS * samples):
            candidate = exchange_words(self.text, self.scores, effects, self._draws)
            if self.is_new(candidate):
                maps.append(candidate)
            if len(maps) == samples:
                break
        return maps


def refine(
    start: PAML,
    evaluator: MapEvaluator,
    inputs: ModelInput,
    predictions: Tensor,
    targets: Sequence[int],
    options: FAMLParams,
) -> list[MapSearch]:
    """Fine-tune G on each text, starting from pAML's, which is not changed.

    After each step the metric is measured for G's map, for `options.samples` maps that differ from the best one so far
    by an exchange of two words, and for the map whose tops, at the metric's cuts, are the best of those measured in any
    map. A text is finished when PATIENCE steps have not improved its map, or G diverges on it. Up to rounding, a text's
    result does not depend on the rest of the batch.

    Args:
        start: the trained pAML.
        evaluator: evaluates maps; its first metric is the metric of interest.
        inputs: the texts; a single one if G is an encoder.
        predictions: y, (b, C).
        targets: indices of the explained classes.
        options: fAML's.

    Raises:
        DivergedError: pAML gives a map that is not finite.
    """
    classifier = evaluator.classifier
    encodings = inputs.batch.encodings
    tuned: nn.Module
    if isinstance(start.model, StatesModel):
        tuned = LowRankTuning(start.model, len(encodings), options.seed)
    else:
        assert isinstance(start.model, EncoderModel)
        # As in the paper, all but the prediction's embeddings change.
        tuned = copy.deepcopy(start.model).requires_grad_(True).eval()
        tuned.prediction.requires_grad_(False)
    optimizer = torch.optim.AdamW(
        [parameter for parameter in tuned.parameters() if parameter.requires_grad],
        lr=options.learning_rate,
        eps=ADAM_EPSILON,
        weight_decay=0.0,
        fused=True,
    )
    searches = [
        MapSearch(evaluator.text(encoding, target), options.seed)
        for encoding, target in zip(encodings, targets, strict=True)
    ]
    active = searches
    for step in range(options.steps + 1):
        scores = tuned(classifier, inputs, predictions)
        maps = scores.detach().sigmoid().float().cpu().numpy()
        for search, row in zip(searches, maps, strict=True):
            search.own = row[: len(search.text.encoding)].copy()
        active = [search for search in active if np.isfinite(search.own).all()]
        if not step and len(active) < len(searches):
            raise DivergedError("pAML's map of a text is not finite; its G diverged in training")
        evaluate_maps(evaluator, active, step, options.samples)
        active = [search for search in active if step - search.best_step < PATIENCE]
        if step == options.steps or not active:
            break
        terms = loss_terms(classifier, inputs.batch, scores, predictions, start.weights)
        optimizer.zero_grad()
        # A sum: each text's gradient is its own, whatever the number of texts.
        weighted(terms, start.weights).sum().backward()
        optimizer.step()
    return searches


def evaluate_maps(evaluator: MapEvaluator, searches: Sequence[MapSearch], step: int, samples: int) -> None:
    """Evaluate the maps of one step: G's and, after step 0, `samples` exchanges and the best tops joined."""
    candidates = [(search, search.own) for search in searches]
    for search in searches:
        search.is_new(search.own)
        if step and samples:
            effects = evaluator.unit_effects(search.text)
            candidates += [(search, scores) for scores in search.exchanges(effects, samples)]
    measure_maps(evaluator, candidates, step)
    if step and samples:
        joined = []
        for search in searches:
            scores = rearrange(search.text, search.scores, evaluator.best_nested_tops(search.text))
            if search.is_new(scores):
                joined.append((search, scores))
        measure_maps(evaluator, joined, step)


def measure_maps(evaluator: MapEvaluator, candidates: Sequence[tuple[MapSearch, Map]], step: int) -> None:
    """Measure maps, and keep those that are better than their texts' best."""
    values = evaluator.measure([(search.text, scores) for search, scores in candidates])
    for (search, scores), row in zip(candidates, values, strict=True):
        search.update(step, scores, row, evaluator.signs)


# ---- the explainer -------------------------------------------------------------------------------------------------


class FAML(BatchExplainer):
    """pAML's model fine-tuned on each text; of its maps the one that is best on a metric, which it looks at.

    Attributions of G after some steps of AdamW on AML's loss of the text itself, from pAML's G.

    After each step the metric of interest is measured on the classifier, and the best map is kept; the first is
    pAML's. With `samples`, which the paper does not have, maps near the best one so far are measured, too. So this
    method sees the metric while it explains: by that metric it is at least as good as pAML by construction. `notes` has
    the metrics used.

    The weights of the loss, the masking, the metric's protocol and the embeddings of the prediction are those of the
    trained pAML and do not change.

    Options: `FAMLParams`. The seed decides the changes' first values and the maps tried.
    """

    about = About(
        name="faml",
        family="learned",
        cost="forward and backward passes of the classifier and of its own model for each step, and "
        "forward passes for the metric of every map it tries",
        needs={"gradients"},
        costly=True,
        uncounted=True,
        watches_metric=True,
        base="paml",
    )
    variants: ClassVar = {
        "faml_states": Variant(
            summary="fAML from paml_states; it keeps the best of its maps and of others near them.",
            options={"learning_rate": 5e-3, "samples": 16},
            base="paml_states",
        )
    }
    problems = ONE_CLASS
    passes = 4
    Options = FAMLParams
    options: FAMLParams

    start: PAML | None = None
    _searches: Sequence[MapSearch] = ()

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], /, **options: Any) -> Self:
        """Make the method from the folder of a trained pAML, which it starts from.

        Args:
            folder: the folder.
            options: fAML's options.

        Raises:
            ModelError: a file is missing or damaged.
            ParamsError: an option has a bad value.
        """
        explainer = cls(**options)
        explainer.start = PAML.from_pretrained(folder)
        return explainer

    def __repr__(self) -> str:
        if self.start is None:
            return super().__repr__()
        return f"{super().__repr__()} from {self.start!r}"

    @property
    def metrics(self) -> list[Metric]:
        """The metric of interest, then the others, which are measured for the report."""
        assert self.start is not None
        first: Metric = self.options.metric or self.start.options.metric
        return list(dict.fromkeys([first, *get_args(Metric)]))

    def notes(self) -> dict[str, Any]:
        """Return means over the texts explained since the last call of `explain` or `iter_explain`.

        Returns:
            `optimised_for`, the metric of interest; `steps`, number of steps taken; `best_step`, step of the best map;
            and `judged`, metric optimised -> metric evaluated -> value. Empty if no text was explained.
        """
        if not self._searches:
            return {}
        metrics = self.metrics
        judged = np.mean([search.judged for search in self._searches], axis=0).tolist()
        return {
            "optimised_for": metrics[0],
            "steps": float(np.mean([search.steps for search in self._searches])),
            "best_step": float(np.mean([search.best_step for search in self._searches])),
            "judged": {name: dict(zip(metrics, row, strict=True)) for name, row in zip(metrics, judged, strict=True)},
        }

    def check(self, classifier: TransformerPredictor) -> None:
        if self.start is None:
            raise ModelError(
                "fAML starts from a trained pAML; explearn.load(FOLDER OF A TRAINED PAML, method='faml'), "
                "or --explainer FOLDER on the command line"
            )
        self.start.check(classifier)
        self._searches = ()

    def check_trained_for(self, classifier: TransformerPredictor) -> None:
        if self.start is not None:
            self.start.check_trained_for(classifier)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        start = self.start
        assert start is not None and start.model is not None
        model = start.model.to(classifier.device)
        parts = [batch]
        if isinstance(model, EncoderModel):
            parts = [classifier.batch([encoding]) for encoding in batch.encodings]
        inputs = [model.prepare(classifier, part) for part in parts]
        logits = torch.cat([part.logits for part in inputs])
        chosen = resolve_targets(logits, targets)
        predictions = prediction_information(classifier, logits, chosen)
        evaluator = MapEvaluator(classifier, self.metrics, start.protocol)
        searches: list[MapSearch] = []
        # inference_mode(False) turns gradients on inside no_grad, too.
        with torch.inference_mode(False), torch.enable_grad():
            for part in inputs:
                rows = slice(len(searches), len(searches) + len(part.batch))
                searches += refine(start, evaluator, part, predictions[rows], chosen[rows].tolist(), self.options)
        self._searches = [*self._searches, *searches]
        scores = torch.zeros(batch.input_ids.shape)
        for row, search in zip(scores, searches, strict=True):
            row[: len(search.scores)] = torch.from_numpy(search.scores)
        unread = [count for part in inputs for count in part.unread]
        return BatchScores(scores, logits, chosen, unread=unread)
