"""pAML: the attribution model trained once on many texts, and one pass of it to explain (AML, section 3)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
import transformers
from pydantic import Field
from torch import Tensor, nn

from explearn.core.errors import DataError, ModelError, ParamsError
from explearn.core.extras import need
from explearn.core.validation import Number
from explearn.lens.words import check_words
from explearn.methods.aml.attribution_model import (
    AttributionModel,
    EncoderModel,
    StatesModel,
    check_tokenizer,
    load_backbone,
    without_pooler,
)
from explearn.methods.aml.loss import DivergedError, Weights, loss_terms, weighted
from explearn.methods.aml.params import ENCODER, STATES, PAMLParams
from explearn.methods.aml.target_metric import EvaluatedText, Map, MapEvaluator
from explearn.methods.base.explainer import (
    About,
    Batch,
    BatchExplainer,
    BatchScores,
    Encoding,
    Variant,
    resolve_targets,
)
from explearn.methods.base.learned import BoundExplainer, LayerList, TaskData, TrainedState
from explearn.methods.base.training import History, seeded, train_epochs
from explearn.metrics.params import EvaluateParams
from explearn.predictors.architectures import max_length
from explearn.predictors.batching import random_batches, run_batches
from explearn.predictors.labelled import ONE_CLASS, check_use
from explearn.predictors.loading import check_sizes, errors_of_loading
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.sampling import texts_to_explain

STARTUP_TRIALS = 5
"""Trials before TPE models anything, which are random, and before any trial is pruned."""

BACKBONE_FOLDER = "backbone"
MOST_STANDARDISED = 500
"""Texts over which G's inputs are standardised."""
SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together: less padding, and the order stays random."""
WEIGHT_DECAY = 0.01
"""Of AdamW (Loshchilov and Hutter, 2017)."""
WARMUP = 0.1
"""Fraction of all steps over which the learning rates rise; they fall linearly to 0 afterwards."""

LossWeights = Annotated[dict[Literal["prediction", "size", "inverse"], Number], Field(min_length=3)]


# ---- training --------------------------------------------------------------------------------------------------


def train(
    model: AttributionModel,
    texts: Sequence[Encoding],
    validation: Sequence[Encoding],
    evaluator: MapEvaluator,
    weights: Weights,
    options: PAMLParams,
    description: str | None = None,
    after_epoch: Callable[[int, float], None] | None = None,
) -> History:
    """Minimise the mean loss over the texts with AdamW; leave the weights in `model` that were best on the metric.

    Args:
        model: G.
        texts: to train on.
        validation: other texts, on which the metric is measured.
        evaluator: holds the classifier and the metric of interest.
        weights: of the loss.
        options: pAML's; the seed decides the order of texts and dropout.
        description: text of a progress bar. None: no bar.
        after_epoch: called after each epoch with its number and the metric, negated if smaller is better; may raise to
            end the training.

    Returns:
        The epochs, 0 being before training, with the means of the loss's terms over its texts (None for epoch 0), and
        the metric of interest on the validation texts after it.

    Raises:
        DivergedError: the loss or a map is not finite.
    """
    classifier = evaluator.classifier
    generator = torch.Generator().manual_seed(options.seed)
    lengths = [len(encoding) for encoding in texts]
    parameters = list(model.parameters())
    pretrained = set(model.backbone.parameters()) if isinstance(model, EncoderModel) else set()
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
    sums = np.zeros(3)

    def batches() -> Iterator[list[int]]:
        sums.fill(0)
        return random_batches(lengths, options.batch_size, generator, SORTED_BATCHES)

    def batch_loss(indices: list[int]) -> Tensor:
        parts = [indices]
        if classifier.same_length:
            # Padding changes this classifier's predictions: texts of each length go by themselves.
            indices = sorted(indices, key=lengths.__getitem__)
            parts = [list(part) for _, part in groupby(indices, lengths.__getitem__)]
        losses = []
        for part in parts:
            inputs = model.prepare(classifier, classifier.batch([texts[i] for i in part]))
            y = classifier.problem.probabilities(inputs.logits)
            terms = loss_terms(classifier, inputs.batch, model(classifier, inputs, y), y, weights)
            losses.append(weighted(terms, weights))
            sums[:] += terms.detach().sum(1).tolist()
        loss = torch.cat(losses).mean()
        if not loss.isfinite():
            raise diverged(len(history), "the loss is not finite")
        return loss

    def validate(epoch: int, _losses: list[float]) -> float:
        metric = mean_metric(model, validation, evaluator, epoch)
        terms = (sums / len(texts)).tolist() if epoch else [None] * 3
        history.append({**dict(zip(Weights._fields, terms, strict=True)), "metric": metric})
        score = float(evaluator.signs[0] * metric)
        if epoch and after_epoch is not None:
            after_epoch(epoch, score)
        return score

    # Dropout draws from the global generator.
    with seeded(options.seed, classifier.device):
        course = train_epochs(
            [model],
            optimizer,
            batches,
            batch_loss,
            options.epochs,
            clipped=parameters,
            schedule=schedule,
            validate=validate,
            validate_first=True,
            description=description,
        )
    return course.history(history)


@torch.inference_mode()
def mean_metric(model: AttributionModel, texts: Sequence[Encoding], evaluator: MapEvaluator, epoch: int) -> float:
    """Return the mean over some texts of the metric of interest, for maps of the predicted classes.

    Args:
        model: G.
        texts: the texts.
        evaluator: holds the classifier and the metric.
        epoch: number of the epoch, for the error.

    Raises:
        DivergedError: a map is not finite.
    """
    classifier = evaluator.classifier

    def make_maps(indices: list[int]) -> Iterator[tuple[EvaluatedText, Map]]:
        inputs = model.prepare(classifier, classifier.batch([texts[i] for i in indices]))
        maps = model(classifier, inputs, classifier.problem.probabilities(inputs.logits)).sigmoid().cpu().numpy()
        for index, target, row in zip(indices, inputs.logits.argmax(-1).tolist(), maps, strict=True):
            yield evaluator.text(texts[index], target), row[: len(texts[index])]

    maps = run_batches([len(encoding) for encoding in texts], classifier, make_maps)
    for text, scores in maps:
        if not np.isfinite(scores).all():
            raise diverged(epoch, f"the map of validation text {text.encoding.example_id!r} is not finite")
    return float(evaluator.measure(maps)[:, 0].mean())


def diverged(epoch: int, reason: str) -> DivergedError:
    return DivergedError(
        f"pAML: training diverged in epoch {epoch}: {reason}; a smaller learning_rate or head_learning_rate may help"
    )


def chosen_texts(task: TaskData, split: str, most: int, seed: int, purpose: str) -> list[Encoding]:
    """Return at most `most` texts of a split, drawn by seed; raise DataError, with the purpose, if there is none."""
    examples = task.examples(split)
    if not examples:
        raise DataError(f"there is no text to {purpose}; expected at least one")
    return task.classifier.read(texts_to_explain(examples, (), most, seed))


def initial_model(
    classifier: TransformerPredictor,
    texts: Sequence[Encoding],
    options: PAMLParams,
    encoder: str | None = None,
    revision: str | None = None,
) -> AttributionModel:
    """Return a G with new weights, on the classifier's states or around a pretrained encoder.

    Args:
        classifier: the classifier to explain.
        texts: texts over which a network's inputs are standardised.
        options: pAML's.
        encoder: the classifier's pretrained encoder.
        revision: git revision of `encoder`.
    """
    check_words(classifier)
    name = options.backbone
    with seeded(options.seed, classifier.device):
        if name == STATES:
            return StatesModel.start(classifier, texts[:MOST_STANDARDISED]).to(classifier.device)
        if name != ENCODER:
            backbone, tokenizer = load_backbone(name)
        elif encoder is not None:
            backbone, tokenizer = load_backbone(encoder, revision)
        else:
            raise ParamsError(
                "backbone: got 'encoder', and which one the classifier was fine-tuned from is not known; expected its "
                "hub name or folder, or train paml_states, which reads the classifier's states instead"
            )
        shared = tokenizer.get_vocab() == classifier.tokenizer.get_vocab()
        model = EncoderModel(backbone, len(classifier.labels), None if shared else tokenizer).to(classifier.device)
    longest = max_length(backbone.config, classifier.tokenizer)
    if shared and longest < classifier.max_length:
        raise ModelError(
            f"backbone {name!r} reads {longest} sub-tokens a text, the classifier {classifier.max_length}; "
            "expected one that reads as many"
        )
    return model.requires_grad_(True)


# ---- the explainer -------------------------------------------------------------------------------------------------


def search_weights(
    objective: Callable[[Weights, Callable[[int, float], None]], float], trials: int, first: Weights, seed: int
) -> Weights:
    """Search for the best weights of the loss in some trials (AML, section 4): TPE over [0, 1] each.

    Args:
        objective: trains with some weights and returns a number, larger being better. It calls its second argument with
            each epoch and the number after it; that call prunes a hopeless trial (below the median of earlier trials at
            that epoch). A DivergedError raised by it also ends the trial.
        trials: number of trials.
        first: weights of the first trial. A term whose weight is 0 there stays out of all trials.
        seed: seed of the search.

    Returns:
        The best weights of all completed trials.

    Raises:
        DivergedError: no trial was completed.
    """
    optuna = need("optuna", extra="pipeline", what="the search for AML's weights")
    # An error that ends a trial ends the search and is raised there; a warning would add its traceback.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    searched = {name: weight for name, weight in first._asdict().items() if weight}
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=1),
    )
    study.enqueue_trial(searched)

    def run(trial: Any) -> float:
        def report(epoch: int, value: float) -> None:
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

        weights = {name: trial.suggest_float(name, 0.0, 1.0) for name in searched}
        try:
            return objective(first._replace(**weights), report)
        except DivergedError as error:
            raise optuna.TrialPruned from error

    study.optimize(run, n_trials=trials)
    if not any(trial.state.name == "COMPLETE" for trial in study.trials):
        raise DivergedError(
            f"pAML: none of {trials} trials was completed; a smaller learning_rate or head_learning_rate may help"
        )
    return first._replace(**study.best_params)


class PAML(BoundExplainer, BatchExplainer):
    """A model trained to mask all but the words that keep the prediction, and whose absence changes it.

    Attributions a = sigmoid(G(x, y)) in [0, 1]: how much of each token a mask keeps (AML, eq. 1).

    G is trained so that the text masked with a keeps its prediction, that masked with 1 - a loses it, and a is small:

        lambda_p CE(F(M(a, x)), y) + lambda_a mean_i(-log(1 - a_i)) + lambda_inv (-log(1 - F(M(1 - a, x))[target]))

    y is the classifier's prediction F(x); for a target other than the predicted class, the one-hot vector of it.
    G is an encoder that reads the text or, in the variant `paml_states`, a small network on the hidden states of the
    pass that gives y (`backbone`).

    Options: `PAMLParams`. The seed decides new weights, the choice and order of texts, and all else that is random.
    """

    about = About(
        name="paml",
        family="learned",
        cost="one forward pass, and one of its own network",
        uncounted=True,
    )
    variants: ClassVar = {
        "paml_states": Variant(
            summary="pAML whose model is a small network on the classifier's hidden states.",
            options={"backbone": STATES},
        )
    }
    problems = ONE_CLASS
    Options = PAMLParams
    options: PAMLParams
    weights_file = "aml.safetensors"
    kept: ClassVar = {**BoundExplainer.kept, "history": History}

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        self.model: AttributionModel | None = None
        self.weights = Weights(self.options.prediction_weight, self.options.size_weight, self.options.inverse_weight)

    @property
    def protocol(self) -> EvaluateParams:
        """How the metric of interest is taken: words are deleted, by the shares of AML, A.5, which are the default."""
        return EvaluateParams(protocol=self.options.protocol)

    # ---- training ------------------------------------------------------------------------------------------------

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train G on the task's split `train`, with the metric watched on `validation`. No label or rationale is used.

        Of the two splits at most `max_texts` and `validation_texts` texts are taken, drawn by the seed.

        Args:
            task: the data to learn from.
            description: text of a progress bar. None: no bar.

        Returns:
            The trained explainer itself.

        Raises:
            DataError: no text to train or to watch the metric on.
            ParamsError: a pretrained encoder is needed and the task has none.
            ModelError: the backbone cannot be loaded, or cannot be G's.
            UnsupportedError: the model answers questions or classifies tokens, does not choose one class of several, or
                does not give the hidden states that are to be read.
            DivergedError: the loss, or a map, is not finite.
        """
        options = self.options
        classifier: TransformerPredictor = self.check_problem(task.classifier)
        check_use(classifier, "masks")
        texts = chosen_texts(task, "train", options.max_texts, options.seed, "train on")
        validation = chosen_texts(task, "validation", options.validation_texts, options.seed, "watch the metric on")
        model = initial_model(classifier, texts, options, task.encoder, task.encoder_revision)
        self.model = None
        self.trained_classifier = ""
        evaluator = MapEvaluator(classifier, [options.metric], self.protocol)

        def objective(weights: Weights, report: Callable[[int, float], None]) -> float:
            history = train(copy.deepcopy(model), texts, validation, evaluator, weights, options, description, report)
            return max(float(evaluator.signs[0] * epoch["metric"]) for epoch in history)

        if options.trials:
            self.weights = search_weights(objective, options.trials, self.weights, options.seed)
        self.history = train(model, texts, validation, evaluator, self.weights, options, description)
        self.model = model.requires_grad_(False).eval()
        self.trained_classifier = classifier.fingerprint
        return self

    # ---- explaining ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        model: Any = self._trained(self.model).to(classifier.device)
        inputs = model.prepare(classifier, batch)
        chosen = resolve_targets(inputs.logits, targets)
        scores = model(classifier, inputs, prediction_information(classifier, inputs.logits, chosen))
        return BatchScores(scores.sigmoid(), inputs.logits, chosen, unread=inputs.unread)

    def notes(self) -> dict[str, Any]:
        """Return what the report shows: the course of training, its metric, the loss's weights, epochs and trials."""
        return {
            **super().notes(),
            "metric": self.options.metric,
            "weights": self.weights._asdict(),
            "trials": self.options.trials,
        }

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        model = self._trained(self.model)
        record: dict[str, Any] = {"weights": self.weights._asdict()}
        if isinstance(model, StatesModel):
            record["layers"] = model.layers
        else:
            record["own_tokenizer"] = model.tokenizer is not None
        return TrainedState(model.state_dict(), record)

    def _save_more(self, folder: Path) -> None:
        """Write the encoder's configuration, and its tokenizer where that is not the classifier's."""
        if isinstance(self.model, EncoderModel):
            self.model.config.save_pretrained(folder / BACKBONE_FOLDER)
            if self.model.tokenizer is not None:
                self.model.tokenizer.save_pretrained(folder / BACKBONE_FOLDER)

    def _restore(self, state: TrainedState) -> None:
        self.weights = Weights(**state.value("weights", LossWeights))
        if self.options.backbone != STATES:
            self.model = restored_encoder(state, state.folder / BACKBONE_FOLDER)
            return
        inputs = state.size("network.read.weight", 1)
        classes = state.size("network.head.bias")
        layers = state.value("layers", LayerList)
        self.model = state.restore(lambda: StatesModel(inputs, classes, layers))


def restored_encoder(state: TrainedState, folder: Path) -> EncoderModel:
    """Return the trained G whose encoder's configuration, and tokenizer of its own, are in a folder."""
    classes = state.size("prediction") - 1
    with errors_of_loading(str(folder), "a backbone"):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
        check_sizes(config.to_dict(), [tensor.shape for tensor in state.tensors.values()], str(folder))
        tokenizer = None
        if state.value("own_tokenizer", bool):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            check_tokenizer(tokenizer, str(folder))

        def make() -> EncoderModel:
            return EncoderModel(without_pooler(transformers.AutoModel.from_config(config)), classes, tokenizer)

        return state.restore(make)


def prediction_information(classifier: TransformerPredictor, logits: Tensor, targets: Tensor) -> Tensor:
    """Return y, (b, C): predicted probabilities where the target is the predicted class, else its one-hot row."""
    one_hot = nn.functional.one_hot(targets, logits.shape[-1]).to(torch.float32)
    predicted = logits.argmax(-1) == targets
    return torch.where(predicted[:, None], classifier.problem.probabilities(logits).to(torch.float32), one_hot)
