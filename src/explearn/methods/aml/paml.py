"""pAML: the attribution model trained once on many texts, and one pass of it to explain (AML, section 3)."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.records import Example
from explearn.core.seeds import hash_order
from explearn.core.settings import check_section
from explearn.core.storage import atomic_folder, read_json, write_json
from explearn.methods.aml.attribution_model import AttributionModel, load_backbone, load_tokenizer, trimmed
from explearn.methods.aml.loss import Weights
from explearn.methods.aml.masks import LearnedMasking, Masking, make_masking
from explearn.methods.aml.params import PAMLParams
from explearn.methods.aml.target_metric import Metric, MetricOptions, Monitor
from explearn.methods.aml.tokenizer_bridge import Bridge, Merge
from explearn.methods.aml.training import Epoch, TrainingTexts, train
from explearn.methods.aml.two_tokenizers import attribution_logits, read
from explearn.methods.aml.weight_search import Trial, search
from explearn.methods.base.explainer import BatchExplainer, BatchScores, LearnedExplainer, resolve_targets
from explearn.methods.base.info import About
from explearn.models.classifier import Classifier, QuestionAnswerer, fingerprint, max_length
from explearn.models.encoding import Batch, Encoding
from explearn.pipeline.params import Params
from explearn.pipeline.workspace import Workspace

MaskingName = Literal["soft", "hard", "random", "mlm", "learned"]

WEIGHTS_FILE = "aml.safetensors"
CONFIG_FILE = "config.json"
BACKBONE_FOLDER = "backbone"
QUESTIONS = "AML masks texts for classes; a model that answers questions has none"
TRAINING = 1
"""Raised by one where training changes what it comes to: trials of a search made before no longer count then."""


class PAML(LearnedExplainer, BatchExplainer):
    """A model trained to mask all but the words that keep the prediction, and whose absence changes it.

    Attributions a = sigmoid(G(x, y)) in [0, 1]: how much of each token a mask keeps (AML, eq. 1).

    G is trained so that the text masked with a keeps its prediction, that masked with 1 - a loses it, and a is small:

        lambda_p CE(F(M(a, x)), y) + lambda_a mean_i(-log(1 - a_i)) + lambda_inv (-log(1 - F(M(1 - a, x))[target]))

    y is the classifier's prediction F(x); for a target other than the predicted class, the one-hot vector of it.
    Explaining takes one pass of the classifier, for y, and one of G.

    Args:
        backbone: encoder that G starts from: `encoder` (the pretrained one that the classifier comes from),
            `classifier` (the classifier's own, fine-tuned), or an encoder's name or folder, which may have another
            tokenizer.
        layers: lowest blocks of it that are kept (None: all).
        merge: what a sub-token of the classifier gets of several of the backbone's: their `max` or `mean`.
        masking: what stands in for masked tokens; see `explearn.methods.aml.masks`.
        masked_lm: masked language model of masking `mlm`, a hub name or a folder; None: the classifier's pretrained
            encoder.
        prediction_weight, size_weight, inverse_weight: lambda_p, lambda_a, lambda_inv; 0 leaves a term out.
        max_texts, validation_texts: most texts to train on, and to watch the metric on.
        epochs, batch_size, weight_decay: AdamW; batches are of texts.
        learning_rate, head_learning_rate, warmup: of the backbone and of all that is new; both rise over the fraction
            `warmup` of the steps, then fall linearly to 0.
        metric: the metric of interest; the checkpoint that is best on it is kept.
        protocol, removal, percents, headline_percent: how the metric is taken, as under `evaluate`.
        trials: of a search for the three weights, but for those given as 0; without trials all are as given. See
            `explearn.methods.aml.weight_search`.
        seed: of new weights, the choice and order of texts, and all else that is random.
    """

    about = About(
        name="paml",
        family="learned",
        cost="one forward pass, and one of its own model",
        uncounted=True,
    )
    aggregation = "max"
    signed = False

    def __init__(
        self,
        backbone: str = "classifier",
        layers: int | None = None,
        merge: Merge = "max",
        masking: MaskingName = "soft",
        masked_lm: str | None = None,
        prediction_weight: float = 0.5,
        size_weight: float = 0.5,
        inverse_weight: float = 1.0,
        max_texts: int = 1000,
        validation_texts: int = 100,
        epochs: int = 5,
        batch_size: int = 8,
        learning_rate: float = 5e-5,
        head_learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        warmup: float = 0.1,
        metric: Metric = "aopc_difference",
        protocol: Literal["default", "aml"] = "default",
        removal: Literal["delete", "mask"] = "delete",
        percents: Sequence[int] = (1, 5, 10, 20, 50),
        headline_percent: int = 20,
        trials: int = 0,
        seed: int = 13,
    ) -> None:
        self.backbone = backbone
        self.layers = layers
        self.merge: Merge = merge
        self.masking: MaskingName = masking
        self.masked_lm = masked_lm
        self.prediction_weight = prediction_weight
        self.size_weight = size_weight
        self.inverse_weight = inverse_weight
        self.max_texts = max_texts
        self.validation_texts = validation_texts
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.head_learning_rate = head_learning_rate
        self.weight_decay = weight_decay
        self.warmup = warmup
        self.metric: Metric = metric
        self.protocol: Literal["default", "aml"] = protocol
        self.removal: Literal["delete", "mask"] = removal
        self.percents = list(percents)
        self.headline_percent = headline_percent
        self.trials = trials
        self.seed = seed
        check_section(PAMLParams, {name: getattr(self, name) for name in PAMLParams.model_fields})
        self.model: AttributionModel | None = None
        self.bridge: Bridge | None = None
        self.strategy: Masking = Masking()
        self.language_model: tuple[str | None, str | None] = (None, None)
        self.classifier = ""
        self.labels: list[str] = []
        self.vocabulary = 0
        self.weights = self.given_weights
        self.history: list[Epoch] = []
        self.study: list[Trial] = []

    @property
    def given_weights(self) -> Weights:
        """The weights among the options; those trained with, `weights`, differ from them after a search."""
        return Weights(self.prediction_weight, self.size_weight, self.inverse_weight)

    @property
    def metric_options(self) -> MetricOptions:
        return MetricOptions(self.protocol, self.removal, tuple(self.percents), self.headline_percent)

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(
        self,
        classifier: Classifier,
        texts: Sequence[Example],
        validation: Sequence[Example],
        encoder: str | None = None,
        encoder_revision: str | None = None,
        study_file: str | os.PathLike[str] | None = None,
        description: str | None = None,
    ) -> Self:
        """Train G for a classifier. No label or rationale is used.

        Args:
            texts, validation: what to train on and where the metric is watched; at most `max_texts` and
                `validation_texts` of them, drawn by `seed`.
            encoder: pretrained encoder that the classifier comes from; needed for backbone `encoder` and for masking
                `mlm` without a `masked_lm`.
            encoder_revision: git revision of it, of its masked language model, too.
            study_file: where the search for the weights keeps its trials; needed where `trials` is not 0.

        Raises:
            DataError: no text to train or to watch the metric on.
            ParamsError: an encoder, or a file for the search, is needed and none is given.
            ModelError: the backbone or the masked language model cannot be loaded, or the backbone cannot be G's.
            UnsupportedError: the vocabulary of the masked language model is not the classifier's, or the model answers
                questions.
            DivergedError: the loss, or a map, is not finite.
        """
        if isinstance(classifier, QuestionAnswerer):
            raise UnsupportedError(QUESTIONS)
        for rows, what in ((texts, "train on"), (validation, "watch the metric on")):
            if not rows:
                raise DataError(f"there is no text to {what}; expected at least one")
            for number, row in enumerate(rows, start=1):
                if not isinstance(row, Example):
                    raise DataError(f"text {number} to {what}: got {type(row).__name__}; expected explearn.Example")
        if self.trials and study_file is None:
            raise ParamsError(f"trials: got {self.trials} without a file for the search; give study_file, or trials=0")
        self.history, self.study = [], []
        try:
            self._start(classifier, encoder, encoder_revision)
            self._learn(classifier, texts, validation, encoder, encoder_revision, study_file, description)
        except BaseException:
            self.model = None
            raise
        return self

    def _learn(
        self,
        classifier: Classifier,
        texts: Sequence[Example],
        validation: Sequence[Example],
        encoder: str | None,
        encoder_revision: str | None,
        study_file: str | os.PathLike[str] | None,
        description: str | None,
    ) -> None:
        """Search for the weights where `trials` asks for it, and train the model that was begun."""
        chosen = (_draw(texts, self.max_texts, self.seed), _draw(validation, self.validation_texts, self.seed))
        split_texts = [TrainingTexts.of(classifier, classifier.encode(rows)) for rows in chosen]
        train_texts, watched = split_texts

        def run(weights: Weights, model: AttributionModel, after: Callable[[Epoch], None] | None) -> list[Epoch]:
            if isinstance(self.strategy, LearnedMasking):
                self.strategy.embedding = model.mask_embedding
            return train(
                model,
                classifier,
                self.bridge,
                train_texts,
                watched,
                monitor,
                self.strategy,
                weights,
                epochs=self.epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                head_learning_rate=self.head_learning_rate,
                weight_decay=self.weight_decay,
                warmup=self.warmup,
                seed=self.seed,
                description=description,
                after_epoch=after,
            )

        assert self.model is not None
        monitor = Monitor(classifier, [self.metric], self.metric_options)
        self.weights, self.study = self.given_weights, []
        if self.trials:
            assert study_file is not None
            untrained = self.model

            def objective(weights: Weights, report: Callable[[int, float], None]) -> float:
                history = run(weights, copy.deepcopy(untrained), lambda epoch: report(epoch.epoch, epoch.metric))
                values = [epoch.metric for epoch in history]
                return max(values) if monitor.larger_is_better else min(values)

            self.weights, self.study = search(
                objective,
                self.trials,
                larger_is_better=monitor.larger_is_better,
                first=self.given_weights,
                seed=self.seed,
                file=Path(study_file),
                identity={
                    "options": {name: value for name, value in self.options().items() if name != "trials"},
                    "training": TRAINING,
                    "classifier": classifier.fingerprint,
                    "encoder": [encoder, encoder_revision],
                    "start": fingerprint(untrained),
                    "texts": [
                        [[encoding.example_id, *encoding.words] for encoding in t.encodings] for t in split_texts
                    ],
                },
            )
        self.history = run(self.weights, self.model, None)
        self.model.requires_grad_(False).eval()

    def fit_task(
        self, workspace: Workspace, params: Params, task: str, compute: ComputeOptions, description: str | None = None
    ) -> Self:
        """Train on the task's train split; the metric is watched on its validation split."""
        texts, validation = (workspace.read_examples(task, split) for split in ("train", "validation"))
        classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
        study_file = workspace.study(task, self.name or "paml")
        return self.fit(classifier, texts, validation, params.encoder, params.encoder_revision, study_file, description)

    def _start(self, classifier: Classifier, encoder: str | None, revision: str | None) -> None:
        """A G with new head and prediction embeddings around the backbone, and the masking strategy."""
        if self.backbone == "encoder" and encoder is None:
            raise ParamsError("backbone 'encoder' needs the name of the classifier's pretrained encoder; got none")
        if self.masking == "mlm" and (self.masked_lm or encoder) is None:
            raise ParamsError("masking 'mlm' needs a masked language model; name one as masked_lm")
        self.bridge, name = None, self.backbone
        if self.backbone == "classifier":
            own: Any = classifier.model
            backbone = trimmed(copy.deepcopy(getattr(own, own.base_model_prefix)), self.layers)
        elif self.backbone == "encoder":
            assert encoder is not None
            backbone, name = load_backbone(encoder, self.layers, revision), encoder
        else:
            backbone = load_backbone(self.backbone, self.layers)
        if self.backbone != "classifier":
            # A model that was named is not the encoder, and the encoder's revision says nothing of it.
            tokenizer = load_tokenizer(name, revision if self.backbone == "encoder" else None)
            if tokenizer.get_vocab() != classifier.tokenizer.get_vocab():
                self.bridge = Bridge(tokenizer, backbone.config, self.merge)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.model = AttributionModel(backbone, len(classifier.labels))
        self.model.to(classifier.device)
        self.model.verify(name, read(classifier, self.bridge, classifier.encode(["one text"])).source)
        longest = max_length(backbone.config, classifier.tokenizer)
        if self.bridge is None and longest < classifier.max_length:
            raise ModelError(
                f"backbone {name!r} reads {longest} sub-tokens a text, the classifier {classifier.max_length}; "
                "expected one that reads as many"
            )
        self.language_model = (self.masked_lm, None) if self.masked_lm else (encoder, revision)
        self.strategy = make_masking(self.masking, *self.language_model)
        if isinstance(self.strategy, LearnedMasking):
            self.model.mask_embedding = self.strategy.begin(classifier)
        self.model.requires_grad_(True)
        self.classifier = classifier.fingerprint
        self.labels = list(classifier.labels)
        self.vocabulary = len(classifier.tokenizer)

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Classifier) -> None:
        if self.model is None:
            raise ModelError(
                "this pAML is not trained; load a trained one with get_explainer(name, path=FOLDER), "
                "or --explainer FOLDER on the command line"
            )
        if (len(classifier.labels), len(classifier.tokenizer)) != (len(self.labels), self.vocabulary):
            raise UnsupportedError(
                f"this pAML was trained for a classifier of {len(self.labels)} classes and {self.vocabulary:,} "
                f"sub-tokens, this one has {len(classifier.labels)} and {len(classifier.tokenizer):,}; train one for it"
            )
        if isinstance(classifier, QuestionAnswerer):
            raise UnsupportedError(QUESTIONS)
        if not self.any_classifier and classifier.fingerprint != self.classifier:
            raise UnsupportedError(
                "this pAML has learned what another classifier looks at; train one for the classifier given"
            )

    @torch.inference_mode()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        logits = classifier.logits(batch)
        chosen = resolve_targets(logits, targets)
        scores = self.attribute(classifier, batch.encodings, prediction_information(logits, chosen))
        return BatchScores(scores.sigmoid(), logits, chosen, unread=self.unread(batch.encodings))

    def unread(self, encodings: Sequence[Encoding]) -> tuple[int, ...]:
        """Of each text how many words the classifier reads and a backbone with another tokenizer does not."""
        if self.bridge is None:
            return (0,) * len(encodings)
        sources = self.bridge.read(encodings)
        return tuple(len(set(e.word_ids) - set(s.word_ids)) for e, s in zip(encodings, sources, strict=True))

    def attribute(
        self, classifier: Classifier, encodings: Sequence[Encoding], predictions: torch.Tensor
    ) -> torch.Tensor:
        """Logits of the attributions, (b, n), float32; predictions: y, (b, C)."""
        assert self.model is not None
        self.model.to(classifier.device)
        return attribution_logits(self.model, classifier, read(classifier, self.bridge, encodings), predictions)

    def notes(self) -> dict[str, Any]:
        """metric: watched in training. weights: of the loss. epochs, trials: see Epoch and Trial."""
        return {
            "metric": self.metric,
            "weights": asdict(self.weights),
            "epochs": [asdict(epoch) for epoch in self.history],
            "trials": [asdict(trial) for trial in self.study],
        }

    # ---- files ---------------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*PAMLParams.model_fields, "seed")}

    def save(self, folder: str | os.PathLike[str]) -> None:
        if self.model is None:
            raise ModelError("this pAML is not trained; there is nothing to save")
        with atomic_folder(folder) as partial:
            tensors = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
            save_file(tensors, partial / WEIGHTS_FILE)
            self.model.backbone.config.save_pretrained(partial / BACKBONE_FOLDER)
            if self.bridge is not None:
                self.bridge.tokenizer.save_pretrained(partial / BACKBONE_FOLDER)
            config = {
                "explainer": "PAML",
                "options": self.options(),
                "language_model": self.language_model,
                "classifier": self.classifier,
                "labels": self.labels,
                "vocabulary": self.vocabulary,
                "own_tokenizer": self.bridge is not None,
                "weights": asdict(self.weights),
                "history": [asdict(epoch) for epoch in self.history],
                "study": [asdict(trial) for trial in self.study],
            }
            write_json(partial / CONFIG_FILE, config)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        folder = Path(folder)
        try:
            config = read_json(folder / CONFIG_FILE)
            if config["explainer"] != "PAML":
                raise ModelError(f"its config names explainer {config['explainer']!r}; expected PAML")
            tensors = load_file(folder / WEIGHTS_FILE)
            for tensor, value in tensors.items():
                if not value.isfinite().all():
                    raise ModelError(f"{WEIGHTS_FILE}: {tensor} holds a value that is not finite")
            explainer = cls(**config["options"])
            explainer.classifier = str(config["classifier"])
            name, revision = config["language_model"]
            explainer.language_model = (name, revision)
            explainer.labels = [str(label) for label in config["labels"]]
            explainer.vocabulary = int(config["vocabulary"])
            explainer.weights = Weights(**config["weights"])
            explainer.history = [Epoch(**epoch) for epoch in config["history"]]
            explainer.study = [Trial(**{**trial, "by_epoch": tuple(trial["by_epoch"])}) for trial in config["study"]]
            settings = transformers.AutoConfig.from_pretrained(folder / BACKBONE_FOLDER, trust_remote_code=False)
            untrained = transformers.AutoModel.from_config(settings)  # type: ignore[no-untyped-call]
            backbone = trimmed(untrained, None)
            model = AttributionModel(backbone, len(explainer.labels))
            explainer.strategy = make_masking(explainer.masking, name, revision)
            if isinstance(explainer.strategy, LearnedMasking):
                model.mask_embedding = nn.Parameter(tensors["mask_embedding"])
                explainer.strategy.embedding = model.mask_embedding
            model.load_state_dict(tensors)
            if config["own_tokenizer"]:
                tokenizer = load_tokenizer(str(folder / BACKBONE_FOLDER))
                explainer.bridge = Bridge(tokenizer, backbone.config, explainer.merge)
        except (ExplearnError, SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{folder}: not a trained pAML ({first_line(error)})") from error
        explainer.model = model.requires_grad_(False).eval()
        return explainer


def prediction_information(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """y, (b, C): the predicted probabilities where the target is the predicted class, else the target's one-hot row."""
    one_hot = nn.functional.one_hot(targets, logits.shape[-1]).to(torch.float32)
    predicted = logits.argmax(-1) == targets
    return torch.where(predicted[:, None], logits.softmax(-1).to(torch.float32), one_hot)


def _draw(rows: Sequence[Example], most: int, seed: int) -> list[Example]:
    """At most `most` examples, the same whenever ids and seed are, in the order given."""
    if len(rows) <= most:
        return list(rows)
    chosen = set(list(hash_order([row.id for row in rows], seed))[:most])
    return [row for row in rows if row.id in chosen]
