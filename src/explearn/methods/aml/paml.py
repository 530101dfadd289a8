"""pAML: the attribution model trained once on many texts, and one pass of it to explain (AML, section 3)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
import transformers
from pydantic import Field
from torch import nn

from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError
from explearn.core.validation import Count, Number
from explearn.lens.words import check_words
from explearn.methods.aml.attribution_model import (
    AttributionModel,
    Bridge,
    EncoderModel,
    StatesModel,
    check_tokenizer,
    load_backbone,
    without_pooler,
)
from explearn.methods.aml.loss import DivergedError, Weights, loss_terms, removes, weighted
from explearn.methods.aml.params import STATES, PAMLParams
from explearn.methods.aml.target_metric import JudgedText, Map, MapJudge, protocol_of
from explearn.methods.aml.weight_search import search
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import BoundExplainer, TrainedState
from explearn.methods.base.task import TaskData, check_task
from explearn.methods.base.training import BestWeights, descend, epoch_bar, seeded
from explearn.methods.info import About
from explearn.metrics.catalogue import CATALOGUE
from explearn.metrics.protocols import FaithfulnessProtocol
from explearn.predictors.batching import random_batches, run_batches
from explearn.predictors.encoding import Batch, Encoding, max_length
from explearn.predictors.heads.question_answering import QuestionPredictor
from explearn.predictors.heads.token_classification import TokenPredictor
from explearn.predictors.loading import check_sizes, errors_of_loading
from explearn.predictors.problems import ONE_CLASS
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.sampling import texts_to_explain

BACKBONE_FOLDER = "backbone"
MOST_STANDARDISED = 500
"""Texts over which G's inputs are standardised."""
SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together: less padding, and the order stays random."""
WEIGHT_DECAY = 0.01
"""Of AdamW (Loshchilov and Hutter, 2017)."""
WARMUP = 0.1
"""Fraction of all steps over which the learning rates rise; they fall linearly to 0 afterwards."""


# ---- training --------------------------------------------------------------------------------------------------


def train(
    model: AttributionModel,
    classifier: TransformerPredictor,
    texts: Sequence[Encoding],
    validation: Sequence[Encoding],
    judge: MapJudge,
    removed: bool,
    weights: Weights,
    options: PAMLParams,
    description: str | None = None,
    after_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Minimise the mean loss over the texts with AdamW; leave the weights in `model` that were best on the metric.

    Args:
        texts: to train on. validation: other texts, on which the metric is watched.
        removed: see `loss.masked_logits`.
        options: the seed decides the order of texts and dropout.
        after_epoch: called after each epoch; what it raises ends the training.

    Returns for each epoch, 0 being before training, its number, the means of the loss's terms over its texts (None for
    epoch 0) and the metric of interest on the validation texts after it. Raises DivergedError, naming the epoch, where
    the loss or a map is not finite.
    """
    generator = torch.Generator().manual_seed(options.seed)
    lengths = [len(encoding) for encoding in texts]
    parameters = list(model.parameters())
    pretrained = set(model.pretrained())
    groups = [
        {"params": [p for p in parameters if p in pretrained], "lr": options.learning_rate},
        {"params": [p for p in parameters if p not in pretrained], "lr": options.head_learning_rate},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY, fused=True)
    steps = options.epochs * -(-len(texts) // options.batch_size)
    rising = max(1, round(WARMUP * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rising, (steps - step) / max(1, steps - rising))
    )
    history: list[dict[str, Any]] = []
    best = BestWeights(model)

    def end_epoch(epoch: int, prediction: Any = None, size: Any = None, inverse: Any = None) -> None:
        model.eval()
        metric = mean_metric(model, classifier, validation, judge, epoch)
        sign = 1 if judge.larger_is_better else -1
        if not history or sign * metric > max(sign * earlier["metric"] for earlier in history):
            best.keep()
        history.append({"epoch": epoch, "prediction": prediction, "size": size, "inverse": inverse, "metric": metric})

    end_epoch(0)
    # Dropout draws from the global generator.
    with seeded(options.seed, classifier.device), epoch_bar(options.epochs, description) as bar:
        for epoch in bar:
            model.train()
            sums = np.zeros(3)
            for indices in random_batches(lengths, options.batch_size, generator, SORTED_BATCHES):
                totals = []
                # Where padding shows in the classifier's answers, texts of each length go by themselves.
                parts = [indices]
                if classifier.same_length:
                    parts = [[i for i in indices if lengths[i] == n] for n in sorted({lengths[i] for i in indices})]
                for part in parts:
                    reading = model.read(classifier, classifier.batch([texts[i] for i in part]))
                    y = classifier.probabilities(reading.logits)
                    scores = model(classifier, reading, y)
                    terms = loss_terms(classifier, reading.batch, scores, y, weights, removed)
                    totals.append(weighted(terms, weights))
                    sums += terms.detach().sum(1).tolist()
                loss = torch.cat(totals).mean()
                if not loss.isfinite():
                    raise _diverged(epoch, "the loss is not finite")
                descend(loss, optimizer, parameters)
                schedule.step()
            end_epoch(epoch, *(sums / len(texts)).tolist())
            bar.set_postfix({judge.metrics[0]: f"{history[-1]['metric']:.4f}"})
            if after_epoch is not None:
                after_epoch(history[-1])
    best.restore()
    model.eval()
    return history


@torch.inference_mode()
def mean_metric(
    model: AttributionModel, classifier: TransformerPredictor, texts: Sequence[Encoding], judge: MapJudge, epoch: int
) -> float:
    """Return the mean over the texts of the judge's first metric, for maps of the predicted classes.

    Raises DivergedError for a map that is not finite.
    """

    def run(indices: list[int]) -> list[tuple[JudgedText, Map]]:
        reading = model.read(classifier, classifier.batch([texts[i] for i in indices]))
        maps = model(classifier, reading, classifier.probabilities(reading.logits)).sigmoid().cpu().numpy()
        targets = reading.logits.argmax(-1).tolist()
        return [
            (judge.text(texts[i], target), row[: len(texts[i])])
            for i, target, row in zip(indices, targets, maps, strict=True)
        ]

    judged = run_batches([len(encoding) for encoding in texts], classifier, run)
    for encoding, (_, scores) in zip(texts, judged, strict=True):
        if not np.isfinite(scores).all():
            raise _diverged(epoch, f"the map of validation text {encoding.example_id!r} is not finite")
    return float(judge.measure(judged)[:, 0].mean())


def _diverged(epoch: int, why: str) -> DivergedError:
    return DivergedError(
        f"pAML: training diverged in epoch {epoch}: {why}; a smaller learning_rate or head_learning_rate may help"
    )


# ---- the explainer -------------------------------------------------------------------------------------------------

_WEIGHTS = Annotated[dict[Literal["prediction", "size", "inverse"], Number], Field(min_length=3)]


class PAML(BoundExplainer, BatchExplainer):
    """A model trained to mask all but the words that keep the prediction, and whose absence changes it.

    Attributions a = sigmoid(G(x, y)) in [0, 1]: how much of each token a mask keeps (AML, eq. 1).

    G is trained so that the text masked with a keeps its prediction, that masked with 1 - a loses it, and a is small:

        lambda_p CE(F(M(a, x)), y) + lambda_a mean_i(-log(1 - a_i)) + lambda_inv (-log(1 - F(M(1 - a, x))[target]))

    y is the classifier's prediction F(x); for a target other than the predicted class, the one-hot vector of it.
    G is a small network on the hidden states of the pass that gives y, or an encoder, as in the paper (`backbone`).

    Options: `PAMLParams`. The seed decides new weights, the choice and order of texts, and all else that is random.
    """

    about = About(
        name="paml",
        family="learned",
        cost="one forward pass, and one of its own network",
        uncounted=True,
    )
    aggregation = "max"
    signed = False
    problems = ONE_CLASS
    Options = PAMLParams
    options: PAMLParams
    weights_file = "aml.safetensors"
    kept: ClassVar = {"history": list[dict[str, Any]]}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.model: AttributionModel | None = None
        self.weights = Weights(self.options.prediction_weight, self.options.size_weight, self.options.inverse_weight)
        self.history: list[dict[str, Any]] = []

    @property
    def protocol(self) -> FaithfulnessProtocol:
        """The protocol by which the metric of interest is taken."""
        return protocol_of(self.options.protocol)

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train G on the task's split `train`, with the metric watched on `validation`. No label or rationale is used.

        Of both splits at most `max_texts` and `validation_texts` texts are taken, drawn by the seed.

        Raises:
            DataError: no text to train or to watch the metric on.
            ParamsError: a pretrained encoder is needed and the task has none.
            ModelError: the backbone cannot be loaded, or cannot be G's.
            UnsupportedError: the model answers questions or classifies tokens, does not choose one class of several, or
                does not give the hidden states that are to be read.
            DivergedError: the loss, or a map, is not finite.
        """
        check_task(task)
        options, classifier = self.options, task.classifier
        self.check_problem(classifier)
        if isinstance(classifier, QuestionPredictor | TokenPredictor):
            raise UnsupportedError(f"{self.name}: masks whole texts for their class, and this model {classifier.does}")
        splits = []
        for split, most, what in (
            ("train", options.max_texts, "train on"),
            ("validation", options.validation_texts, "watch the metric on"),
        ):
            if not (rows := task.examples(split)):
                raise DataError(f"there is no text to {what}; expected at least one")
            splits.append(texts_to_explain(rows, (), most, options.seed))
        texts, validation = (classifier.encode(rows) for rows in splits)
        model = self._start(classifier, texts, task.encoder, task.encoder_revision)
        self.model, self.trained_classifier = None, ""
        judge, removed = MapJudge(classifier, [options.metric], self.protocol), removes(classifier)

        def run(
            model: AttributionModel, weights: Weights, after_epoch: Callable[[dict[str, Any]], None] | None = None
        ) -> list[dict[str, Any]]:
            return train(
                model, classifier, texts, validation, judge, removed, weights, options, description, after_epoch
            )

        if options.trials:

            def objective(weights: Weights, report: Callable[[int, float], None]) -> float:
                history = run(copy.deepcopy(model), weights, lambda epoch: report(epoch["epoch"], epoch["metric"]))
                values: list[float] = [epoch["metric"] for epoch in history]
                return max(values) if judge.larger_is_better else min(values)

            self.weights = search(
                objective,
                options.trials,
                larger_is_better=judge.larger_is_better,
                first=self.weights,
                seed=options.seed,
            )
        self.history = run(model, self.weights)
        self.model = model.requires_grad_(False).eval()
        self.trained_classifier = classifier.fingerprint
        return self

    def _start(
        self, classifier: TransformerPredictor, texts: Sequence[Encoding], encoder: str | None, revision: str | None
    ) -> AttributionModel:
        """Return a G with new weights, on the classifier's states or around a pretrained encoder."""
        options, bridge, name = self.options, None, self.options.backbone
        check_words(classifier)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            if name == STATES:
                return StatesModel.start(classifier, texts[:MOST_STANDARDISED]).to(classifier.device)
            if name == "encoder":
                if encoder is None:
                    raise ParamsError(
                        "backbone 'encoder' needs the name of the classifier's pretrained encoder; got none"
                    )
                backbone, tokenizer = load_backbone(encoder, revision)
            else:
                # The encoder's revision says nothing of a model that was named.
                backbone, tokenizer = load_backbone(name)
            if tokenizer.get_vocab() != classifier.tokenizer.get_vocab():
                bridge = Bridge(tokenizer, backbone.config)
            model = EncoderModel(backbone, len(classifier.labels), bridge).to(classifier.device)
        model.verify(name, classifier)
        longest = max_length(backbone.config, classifier.tokenizer)
        if bridge is None and longest < classifier.max_length:
            raise ModelError(
                f"backbone {name!r} reads {longest} sub-tokens a text, the classifier {classifier.max_length}; "
                "expected one that reads as many"
            )
        return model.requires_grad_(True)

    # ---- explaining ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        model = self._trained(self.model).to(classifier.device)
        reading = model.read(classifier, batch)
        chosen = resolve_targets(reading.logits, targets)
        y = prediction_information(classifier, reading.logits, chosen)
        scores: torch.Tensor = model(classifier, reading, y)
        return BatchScores(scores.sigmoid(), reading.logits, chosen, unread=reading.unread)

    def notes(self) -> dict[str, Any]:
        """Return what the report shows: the metric watched in training, the loss's weights, epochs and trials."""
        values = [epoch["metric"] for epoch in self.history]
        return {
            "metric": self.options.metric,
            "weights": self.weights._asdict(),
            "epochs": self.history,
            "best_epoch": values.index((max if CATALOGUE[self.options.metric].larger_is_better else min)(values)),
            "trials": self.options.trials,
        }

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        model = self._trained(self.model)
        record: dict[str, Any] = {"classifier": self.trained_classifier, "weights": self.weights._asdict()}
        if isinstance(model, StatesModel):
            record["layers"] = model.layers
        elif isinstance(model, EncoderModel):
            record["own_tokenizer"] = model.bridge is not None
        return TrainedState(model.state_dict(), record)

    def _save_more(self, folder: Path) -> None:
        """The encoder's configuration, and its tokenizer where that is not the classifier's."""
        if isinstance(self.model, EncoderModel):
            self.model.backbone.config.save_pretrained(folder / BACKBONE_FOLDER)
            if self.model.bridge is not None:
                self.model.bridge.tokenizer.save_pretrained(folder / BACKBONE_FOLDER)

    def _restore(self, state: TrainedState, folder: Path) -> None:
        self.trained_classifier = state.value("classifier", str)
        self.weights = Weights(**state.value("weights", _WEIGHTS))
        if self.options.backbone == STATES:
            inputs, classes = state.size("reader.read.weight", 1), state.size("reader.head.bias")
            layers = state.value("layers", Annotated[list[Count], Field(min_length=1)])
            self.model = state.restore(lambda: StatesModel(inputs, classes, layers))
            return
        place, bridge = folder / BACKBONE_FOLDER, None
        classes = state.size("prediction") - 1
        with errors_of_loading(str(place), "a backbone"):
            config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False)
            check_sizes(config.to_dict(), [tensor.shape for tensor in state.tensors.values()], str(place))
            if state.value("own_tokenizer", bool):
                tokenizer = transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=False)
                bridge = Bridge(check_tokenizer(tokenizer, str(place)), config)

        def make() -> EncoderModel:
            with errors_of_loading(str(place), "a backbone"):
                backbone: Any = transformers.AutoModel.from_config(config)
            return EncoderModel(without_pooler(backbone), classes, bridge)

        self.model = state.restore(make)


def prediction_information(
    classifier: TransformerPredictor, logits: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Return y, (b, C): predicted probabilities where the target is the predicted class, else its one-hot row."""
    one_hot = nn.functional.one_hot(targets, logits.shape[-1]).to(torch.float32)
    predicted = logits.argmax(-1) == targets
    return torch.where(predicted[:, None], classifier.probabilities(logits).to(torch.float32), one_hot)
