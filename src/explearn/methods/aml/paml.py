"""pAML: the attribution model trained once on many texts, and one pass of it to explain (AML, section 3)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import torch
import transformers
from torch import nn

from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError
from explearn.core.records import Example
from explearn.core.seeds import hash_order
from explearn.lens.words import check_words
from explearn.methods.aml.attribution_model import AttributionModel, load_backbone, load_tokenizer, trimmed
from explearn.methods.aml.fitted_stand_in import fit_stand_in
from explearn.methods.aml.left_out import check_removable
from explearn.methods.aml.loss import Weights
from explearn.methods.aml.masks import LearnedMasking, Masking, make_masking
from explearn.methods.aml.params import PAMLParams
from explearn.methods.aml.target_metric import MapJudge, MetricOptions
from explearn.methods.aml.tokenizer_bridge import Bridge
from explearn.methods.aml.training import Epoch, TrainingTexts, train
from explearn.methods.aml.two_tokenizers import attribution_logits, read
from explearn.methods.aml.weight_search import Trial, search
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import LearnedExplainer, TrainedState
from explearn.methods.base.task import TaskData, check_task
from explearn.methods.info import About
from explearn.model.classifier import Classifier, fingerprint
from explearn.model.encoding import Batch, Encoding, max_length
from explearn.model.problems import ONE_CLASS
from explearn.model.question_answering import QuestionAnswerer

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

    Options: `PAMLParams`. The seed decides new weights, the choice and order of texts, and all else that is random.
    """

    about = About(
        name="paml",
        family="learned",
        cost="one forward pass, and one of its own model",
        uncounted=True,
    )
    aggregation = "max"
    signed = False
    problems = ONE_CLASS
    Options = PAMLParams
    options: PAMLParams
    weights_file = "aml.safetensors"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
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
        self.stand_in_history: list[float] = []

    @property
    def given_weights(self) -> Weights:
        """The weights among the options; those trained with, `weights`, differ from them after a search."""
        return Weights(self.options.prediction_weight, self.options.size_weight, self.options.inverse_weight)

    @property
    def metric_options(self) -> MetricOptions:
        return MetricOptions.of(self.options)

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train G on the task's split `train`, with the metric watched on `validation`. No label or rationale is used.

        Of both splits at most `max_texts` and `validation_texts` texts are taken, drawn by the seed.

        Raises:
            DataError: no text to train or to watch the metric on.
            ParamsError: a pretrained encoder, or a file for the search, is needed and the task has none.
            ModelError: the backbone or the masked language model cannot be loaded, or the backbone cannot be G's.
            UnsupportedError: the vocabulary of the masked language model is not the classifier's, words cannot be left
                out of the classifier, or the model answers questions, or does not choose one class of several.
            DivergedError: the loss, or a map, is not finite.
        """
        check_task(task)
        texts, validation = task.examples("train"), task.examples("validation")
        classifier = task.classifier
        self.check_problem(classifier)
        if isinstance(classifier, QuestionAnswerer):
            raise UnsupportedError(QUESTIONS)
        for rows, what in ((texts, "train on"), (validation, "watch the metric on")):
            if not rows:
                raise DataError(f"there is no text to {what}; expected at least one")
        search_file = task.scratch(self.name or "paml")
        if self.options.trials and search_file is None:
            raise ParamsError(
                f"trials: got {self.options.trials} without a file for the search; expected a task that has one, "
                "or trials=0"
            )
        self.history, self.study, self.stand_in_history = [], [], []
        try:
            self._start(classifier, task.encoder, task.encoder_revision)
            self._learn(classifier, texts, validation, [task.encoder, task.encoder_revision], search_file, description)
        except BaseException:
            self.model = None
            raise
        return self

    def _learn(
        self,
        classifier: Classifier,
        texts: Sequence[Example],
        validation: Sequence[Example],
        encoder: list[str | None],
        search_file: Path | None,
        description: str | None,
    ) -> None:
        """Search for the weights where `trials` asks for it, and train the model that `_start` made."""
        chosen = (
            _draw(texts, self.options.max_texts, self.options.seed),
            _draw(validation, self.options.validation_texts, self.options.seed),
        )
        split_texts = [TrainingTexts.of(classifier, classifier.encode(rows)) for rows in chosen]
        train_texts, watched = split_texts
        if self.strategy.fits(classifier):
            self._fit_stand_in(classifier, train_texts.encodings, watched.encodings)

        def run(weights: Weights, model: AttributionModel, after: Callable[[Epoch], None] | None) -> list[Epoch]:
            if isinstance(self.strategy, LearnedMasking):
                self.strategy.embedding = model.mask_embedding
            return train(
                model,
                classifier,
                self.bridge,
                train_texts,
                watched,
                judge,
                self.strategy,
                weights,
                self.options,
                self.options.seed,
                description,
                after,
            )

        assert self.model is not None
        judge = MapJudge(classifier, [self.options.metric], self.metric_options)
        self.weights, self.study = self.given_weights, []
        if self.options.trials:
            assert search_file is not None
            untrained = self.model

            def objective(weights: Weights, report: Callable[[int, float], None]) -> float:
                history = run(weights, copy.deepcopy(untrained), lambda epoch: report(epoch.epoch, epoch.metric))
                values = [epoch.metric for epoch in history]
                return max(values) if judge.larger_is_better else min(values)

            self.weights, self.study = search(
                objective,
                self.options.trials,
                larger_is_better=judge.larger_is_better,
                first=self.given_weights,
                seed=self.options.seed,
                file=search_file,
                identity={
                    "options": {name: value for name, value in self.options.model_dump().items() if name != "trials"},
                    # Where padding shows, texts are read length by length; an earlier version padded them.
                    "training": f"{TRAINING}, by length" if classifier.same_length else TRAINING,
                    "classifier": classifier.fingerprint,
                    "encoder": encoder,
                    "start": fingerprint(untrained),
                    "texts": [
                        [[encoding.example_id, *encoding.words] for encoding in t.encodings] for t in split_texts
                    ],
                },
            )
        self.history = run(self.weights, self.model, None)
        self.model.requires_grad_(False).eval()

    def _fit_stand_in(self, classifier: Classifier, texts: Sequence[Encoding], watched: Sequence[Encoding]) -> None:
        assert self.model is not None
        found, self.stand_in_history = fit_stand_in(classifier, texts, watched, self.options.seed)
        if self.model.mask_embedding is not None:
            self.model.mask_embedding.data.copy_(found)
        else:
            self.model.stand_in = self.strategy.embedding = found

    def _start(self, classifier: Classifier, encoder: str | None, revision: str | None) -> None:
        """A G with new head and prediction embeddings around the backbone, and the masking strategy."""
        if self.options.backbone == "encoder" and encoder is None:
            raise ParamsError("backbone 'encoder' needs the name of the classifier's pretrained encoder; got none")
        if self.options.masking == "mlm" and (self.options.masked_lm or encoder) is None:
            raise ParamsError("masking 'mlm' needs a masked language model; name one as masked_lm")
        check_words(classifier)
        self.bridge, name = None, self.options.backbone
        if self.options.backbone == "classifier":
            classifier.check_one_device("paml with backbone 'classifier'")
            own: Any = classifier.model
            backbone = trimmed(copy.deepcopy(getattr(own, own.base_model_prefix)), self.options.layers)
            if backbone.dtype in (torch.bfloat16, torch.float16):
                # AdamW's steps are too small for half precision.
                copied: Any = backbone
                copied.float()
                copied.config.dtype = torch.float32
        elif self.options.backbone == "encoder":
            assert encoder is not None
            backbone, name = load_backbone(encoder, self.options.layers, revision), encoder
        else:
            backbone = load_backbone(self.options.backbone, self.options.layers)
        if self.options.backbone != "classifier":
            # A model that was named is not the encoder, and the encoder's revision says nothing of it.
            tokenizer = load_tokenizer(name, revision if self.options.backbone == "encoder" else None)
            if tokenizer.get_vocab() != classifier.tokenizer.get_vocab():
                self.bridge = Bridge(tokenizer, backbone.config, self.options.merge)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.options.seed)
            self.model = AttributionModel(backbone, len(classifier.labels), self.options.head == "by_class")
        self.model.to(classifier.device)
        self.model.verify(name, read(classifier, self.bridge, classifier.encode(["one text"])).source)
        longest = max_length(backbone.config, classifier.tokenizer)
        if self.bridge is None and longest < classifier.max_length:
            raise ModelError(
                f"backbone {name!r} reads {longest} sub-tokens a text, the classifier {classifier.max_length}; "
                "expected one that reads as many"
            )
        self.language_model = (self.options.masked_lm, None) if self.options.masked_lm else (encoder, revision)
        self.strategy = make_masking(self.options.masking, *self.language_model)
        if isinstance(self.strategy, LearnedMasking):
            self.model.mask_embedding = self.strategy.begin(classifier)
        if self.strategy.removes:
            check_removable(classifier)
        self.model.requires_grad_(True)
        self.classifier = classifier.fingerprint
        self.labels = list(classifier.labels)
        self.vocabulary = len(classifier.tokenizer)

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Classifier) -> None:
        if self.model is None:
            raise self._untrained()
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
        scores = self.attribute(classifier, batch.encodings, prediction_information(classifier, logits, chosen))
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
        """metric: watched in training. weights: of the loss. epochs, trials: see Epoch and Trial.

        stand_in, where one was fitted: its divergence before and after (`fit_stand_in`).
        """
        found = {
            "metric": self.options.metric,
            "weights": asdict(self.weights),
            "epochs": [asdict(epoch) for epoch in self.history],
            "trials": [asdict(trial) for trial in self.study],
        }
        return {**found, **self._stand_in_record()}

    def _stand_in_record(self) -> dict[str, Any]:
        return {"stand_in": self.stand_in_history} if self.stand_in_history else {}

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        if self.model is None:
            raise self._untrained()
        record = {
            "language_model": self.language_model,
            "classifier": self.classifier,
            "labels": self.labels,
            "vocabulary": self.vocabulary,
            "own_tokenizer": self.bridge is not None,
            "weights": asdict(self.weights),
            "history": [asdict(epoch) for epoch in self.history],
            "study": [asdict(trial) for trial in self.study],
            **self._stand_in_record(),
        }
        return TrainedState(self.model.state_dict(), record)

    def _save_more(self, folder: Path) -> None:
        """The backbone's configuration, and its tokenizer where that is not the classifier's."""
        assert self.model is not None
        self.model.backbone.config.save_pretrained(folder / BACKBONE_FOLDER)
        if self.bridge is not None:
            self.bridge.tokenizer.save_pretrained(folder / BACKBONE_FOLDER)

    def _restore(self, state: TrainedState, folder: Path) -> None:
        record = state.record
        self.classifier = str(record["classifier"])
        name, revision = record["language_model"]
        self.language_model = (name, revision)
        self.labels = [str(label) for label in record["labels"]]
        self.vocabulary = int(record["vocabulary"])
        self.weights = Weights(**record["weights"])
        self.history = [Epoch(**epoch) for epoch in record["history"]]
        self.study = [Trial(**{**trial, "by_epoch": tuple(trial["by_epoch"])}) for trial in record["study"]]
        self.stand_in_history = [float(value) for value in record.get("stand_in", [])]
        config = transformers.AutoConfig.from_pretrained(folder / BACKBONE_FOLDER, trust_remote_code=False)
        untrained = transformers.AutoModel.from_config(config)  # type: ignore[no-untyped-call]
        backbone = trimmed(untrained, None)
        model = AttributionModel(backbone, len(self.labels), self.options.head == "by_class")
        self.strategy = make_masking(self.options.masking, name, revision)
        if isinstance(self.strategy, LearnedMasking):
            model.mask_embedding = nn.Parameter(state.tensors["mask_embedding"])
            self.strategy.embedding = model.mask_embedding
        if "stand_in" in state.tensors:
            model.stand_in = self.strategy.embedding = state.tensors["stand_in"].clone()
        model.load_state_dict(dict(state.tensors))
        if record["own_tokenizer"]:
            tokenizer = load_tokenizer(str(folder / BACKBONE_FOLDER))
            self.bridge = Bridge(tokenizer, backbone.config, self.options.merge)
        self.model = model.requires_grad_(False).eval()


def prediction_information(classifier: Classifier, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """y, (b, C): the predicted probabilities where the target is the predicted class, else the target's one-hot row."""
    one_hot = nn.functional.one_hot(targets, logits.shape[-1]).to(torch.float32)
    predicted = logits.argmax(-1) == targets
    return torch.where(predicted[:, None], classifier.probabilities(logits).to(torch.float32), one_hot)


def _draw(rows: Sequence[Example], most: int, seed: int) -> list[Example]:
    """At most `most` examples, the same whenever ids and seed are, in the order given."""
    if len(rows) <= most:
        return list(rows)
    chosen = set(list(hash_order([row.id for row in rows], seed))[:most])
    return [row for row in rows if row.id in chosen]
