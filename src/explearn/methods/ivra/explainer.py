"""IvRA and Attention-SMaT as explainers.

Source: Xie, Vosoughi, Hassanpour (2024), "IvRA: A Framework to Enhance Attention-Based Explanations for Language Models
with Interpretability-Driven Training"; Attention-SMaT: Fernandes et al. (2022), "Learning to Scaffold".
"""

from __future__ import annotations

import copy
import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.records import Example
from explearn.core.settings import check_section
from explearn.core.storage import atomic_folder, read_json, write_json
from explearn.introspection.representations import aggregate_states, word_embeddings
from explearn.methods.base.explainer import BatchExplainer, BatchScores, LearnedExplainer, resolve_targets
from explearn.methods.base.info import About
from explearn.methods.ivra.attention import AttentionModule, HeadAttention, InterpretableAttention
from explearn.methods.ivra.params import (
    AttentionScheduleParams,
    ConsistencyLossParams,
    CriterionWeights,
    FaithfulnessLossParams,
    IvRAParams,
    SMaTParams,
    StudentParams,
)
from explearn.methods.ivra.training import JointTrainer, Labelled, explain_batch
from explearn.metrics.consistency import consistency
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams, SimulatabilityParams
from explearn.metrics.simulatability import simulatability
from explearn.models.classifier import Classifier, QuestionAnswerer
from explearn.models.encoding import Batch
from explearn.models.finetune import class_weights, load_encoder
from explearn.models.question_answering import reached
from explearn.pipeline.params import Params
from explearn.pipeline.workspace import Workspace

logger = logging.getLogger(__name__)

CONFIG = "config.json"
WEIGHTS = "attention.safetensors"
CHOOSING_REPEATS = 20
"""Partitions of the validation texts where simulatability chooses the epoch: over few, it differs more by them."""

CLASSIFIER = "classifier"
"""Folder, inside the explainer's own, of the classifier that was trained with it."""


class _Regularised(LearnedExplainer, BatchExplainer):
    """What IvRA and SMaT share: joint training, explaining, files."""

    aggregation = "sum"
    signed = False
    section: ClassVar[type[SMaTParams]]

    def __init__(self, options: Mapping[str, Any], seed: int) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        check_section(self.section, given)
        self.settings = self.section.model_validate(given)
        self.seed = seed
        self.attention: AttentionModule | None = None
        self.classifier: Classifier | None = None
        self.trained_classifier = ""
        self.history: list[dict[str, Any]] = []

    @abstractmethod
    def _module(self, classifier: Classifier) -> AttentionModule:
        """The module with its initial weights, for a classifier."""

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(
        self,
        classifier: Classifier,
        train: Sequence[Example],
        validation: Sequence[Example],
        balanced: bool = True,
        untrained: Callable[[], torch.nn.Module] | None = None,
        description: str | None = None,
    ) -> Self:
        """Train a copy of a classifier together with its attention module; `self.classifier` is that copy.

        Args:
            classifier: fine-tuned on the task; stays as it is.
            train: labelled texts of the task loss and of comp, suff and cons.
            validation: labelled texts that choose the best epoch; with criterion sim, the student learns from a share.
            balanced: weigh classes in the task loss as fine-tuning does.
            untrained: makes the encoder before fine-tuning with a new head, for a student of kind encoder.
            description: what a progress bar should say (default: no bar).

        Raises, before training starts: DataError where there are too few texts for the criteria, or a criterion's
        metric is undefined on the validation texts, UnknownNameError for
        a label that the classifier has not, UnsupportedError for an architecture whose attention cannot be captured,
        ParamsError for a precision or student that training has not. ModelError where a loss or gradient is not finite.

        Warns where no epoch was better than the start, so that nothing was learned.
        """
        if classifier.dtype is torch.float16:
            raise ParamsError("precision fp16: joint training knows fp32 and bf16; expected one of them")
        settings = self.settings
        parts = {"train": train, "validation": validation}
        for split, rows in parts.items():
            if not rows:
                raise DataError(f"split {split!r} has no text; expected some to train on and to choose the best epoch")
        if "sim" in settings.criteria and isinstance(classifier, QuestionAnswerer):
            raise DataError(
                "criterion 'sim': a student foretells classes, and the answers to questions are none; "
                "expected comp, suff or cons"
            )
        copied = classifier.with_model(copy.deepcopy(classifier.model))
        module = self._module(copied).to(classifier.device)
        data = {split: Labelled(*classifier.encode_labelled(rows), rows) for split, rows in parts.items()}
        data["train"] = data["train"].take(reached(data["train"].encodings, classifier.max_length))
        least = settings.consistency.least_texts
        if "cons" in settings.criteria and len(data["train"]) < least:
            raise DataError(
                f"criterion 'cons' compares texts with each other, and there are {len(data['train'])} to train on; "
                f"its loss {settings.consistency.loss!r} takes {least} or more"
            )
        order = np.random.default_rng(self.seed).permutation(len(validation)).tolist()
        learning = 0
        if "sim" in settings.criteria:
            learning = round(settings.student.share * len(order))
            if learning < 2 or len(order) - learning < 2:
                raise DataError(
                    f"criterion 'sim': of {len(order)} validation texts the student would learn from {learning} and be "
                    f"judged on {len(order) - learning}; expected spare texts for both, at least 2 each (student.share)"
                )
            if settings.student.kind == "encoder" and untrained is None:
                raise ParamsError("student.kind: got 'encoder'; expected the encoder before fine-tuning as `untrained`")
        judged = order[learning:]
        measured = min(len(judged), settings.schedule.validation_texts)
        if "cons" in settings.criteria and measured < 3:
            raise DataError(
                f"criterion 'cons': {measured} validation texts would choose the best epoch; expected at least 3, for "
                "consistency is a rank correlation over pairs"
            )
        weights = None
        if balanced:
            found = class_weights(data["train"].labels, len(classifier.labels))
            weights = torch.tensor(found, device=classifier.device)
        trainer = JointTrainer(
            copied,
            module,
            data["train"],
            data["validation"].take(order[:learning]),
            untrained() if untrained is not None and learning and settings.student.kind == "encoder" else None,
            settings,
            weights,
            lambda: self._measure(data["validation"].take(judged)),
            self.seed,
        )
        self.attention, self.classifier, self.history = module, copied, []
        try:
            self.history = trainer.run(description)
        except BaseException:
            self.attention, self.classifier = None, None
            raise
        copied.__dict__.pop("fingerprint", None)
        self.trained_classifier = copied.fingerprint
        if self.best_epoch == 0:
            logger.warning(
                "%s: none of %d epochs was better than the start: this is the untrained module on the classifier as it "
                "came; lower learning rates or a larger schedule.accuracy_tolerance may help",
                description or type(self).__name__,
                len(self.history) - 1,
            )
        return self

    @property
    def best_epoch(self) -> int:
        """Which epoch of the training was kept, 0 being its start. Raises ModelError before training."""
        if not self.history:
            raise ModelError(f"this {type(self).__name__} is not trained; fit it, or load a trained one")
        return [entry["best"] for entry in self.history].index(True)

    def _measure(self, data: Labelled) -> tuple[float, dict[str, float | None]]:
        """Accuracy on the validation texts, and each criterion's metric on the first of them, None if undefined."""
        assert self.classifier is not None
        classifier, criteria = self.classifier, self.settings.criteria
        predicted = classifier.predict_proba(data.encodings).argmax(-1)
        accuracy = float(np.mean(predicted == np.array(data.labels)))
        # Of questions, those with the model's own answer, as they are explained.
        few = classifier.encode(data.examples[: self.settings.schedule.validation_texts])
        scored = self.score_texts(classifier, few, None)
        found = [self._attribution(classifier, e, s) for e, s in zip(few, scored, strict=True)]
        keyed = [f"{number}" for number in range(len(few))]
        measured: dict[str, float | None] = {}
        if "comp" in criteria or "suff" in criteria:
            named = [replace(a, example_id=key) for a, key in zip(found, keyed, strict=True)]
            percents = EvaluateParams(percents=self.settings.faithfulness.percents)
            result = faithfulness(classifier, dict(zip(keyed, few, strict=True)), {"": named}, percents)[""].means()
            suff = result["aopc_sufficiency"]
            measured["comp"], measured["suff"] = result["aopc_comprehensiveness"], None if suff is None else -suff
        scores = [a.scores for a in found]
        if "cons" in criteria:
            measured["cons"] = consistency(aggregate_states(classifier, few), scores, bootstrap_samples=100).value
        if "sim" in criteria:
            classes = [classifier.labels.index(a.predicted) for a in found]
            students = SimulatabilityParams(repeats=CHOOSING_REPEATS)
            taught = simulatability(word_embeddings(classifier, few), classes, {"": scores}, students, self.seed)
            # One class is foretold by a student that has seen nothing else, whatever it was shown.
            measured["sim"] = float(taught[""].gain.mean()) if len(set(classes)) > 1 else None
        return accuracy, {name: measured[name] for name in criteria}

    def fit_task(
        self, workspace: Workspace, params: Params, task: str, compute: ComputeOptions, description: str | None = None
    ) -> Self:
        """Train on the task's texts, from the task's own fine-tuned classifier."""
        classifier = Classifier.from_pretrained(workspace.classifier(task), compute)

        def untrained() -> torch.nn.Module:
            model, _ = load_encoder(
                params.encoder, classifier.labels, params.finetune.max_length, params.encoder_revision
            )
            return model

        return self.fit(
            classifier,
            workspace.read_examples(task, "train"),
            workspace.read_examples(task, "validation"),
            params.finetune.class_weights == "balanced",
            untrained,
            description,
        )

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Classifier) -> None:
        name = type(self).__name__
        if self.attention is None:
            raise ModelError(
                f"this {name} is not trained; load a trained one with get_explainer(name, path=FOLDER), "
                "or --explainer FOLDER on the command line"
            )
        expected = type(self.attention).of(classifier.model)
        for what in ("layers", "heads", "head_size"):
            mine, found = getattr(self.attention, what), getattr(expected, what)
            if mine != found:
                raise UnsupportedError(f"this {name} was trained with {mine} {what}, the classifier has {found}")
        if not self.any_classifier and classifier.fingerprint != self.trained_classifier:
            raise UnsupportedError(
                f"this {name} explains the classifier that was trained with it, and got another; "
                f"load the one in its folder {CLASSIFIER!r}"
            )

    @torch.no_grad()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        assert self.attention is not None
        if next(self.attention.parameters()).device != classifier.device:
            self.attention.to(classifier.device)
        with torch.inference_mode():
            found = explain_batch(classifier, self.attention, batch, keep_graph=False)
        return BatchScores(found.r, found.logits, resolve_targets(found.logits, targets))

    # ---- files ---------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the module, its configuration and history, and the classifier trained with it, in its own folder."""
        if self.attention is None or self.classifier is None:
            raise ModelError(f"this {type(self).__name__} was not trained here; there is nothing to save")
        with atomic_folder(folder) as partial:
            weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self.attention.state_dict().items()}
            save_file(weights, partial / WEIGHTS)
            self.classifier.model.save_pretrained(partial / CLASSIFIER)
            self.classifier.tokenizer.save_pretrained(partial / CLASSIFIER)
            sizes = {name: getattr(self.attention, name) for name in ("layers", "heads", "head_size")}
            config = {
                "explainer": type(self).__name__,
                "options": {**self.settings.model_dump(), "seed": self.seed},
                "encoder": sizes,
                "classifier": self.trained_classifier,
                "coefficients": self.attention.coefficients(),
                "history": self.history,
                "best_epoch": self.best_epoch,
            }
            write_json(partial / CONFIG, config)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the module; the classifier is in the folder's subfolder `classifier`, for Classifier.from_pretrained."""
        folder = Path(folder)
        try:
            config = read_json(folder / CONFIG)
            if config["explainer"] != cls.__name__:
                raise ModelError(f"holds a {config['explainer']}")
            explainer = cls(**config["options"])
            sizes = config["encoder"]
            module = explainer._sized(int(sizes["layers"]), int(sizes["heads"]), int(sizes["head_size"]))
            weights = load_file(folder / WEIGHTS)
            for name, tensor in weights.items():
                if not tensor.isfinite().all():
                    raise ModelError(f"{WEIGHTS}: {name} holds a value that is not finite")
            module.load_state_dict(weights)
            explainer.trained_classifier = str(config["classifier"])
            explainer.history = list(config["history"])
        except (ExplearnError, SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{folder}: not a trained {cls.__name__} ({first_line(error)})") from error
        explainer.attention = module.requires_grad_(False).eval()
        return explainer

    @abstractmethod
    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        """The module for a classifier of this size, to load weights into."""


class IvRA(_Regularised):
    """Weighted attention of all layers, trained with a classifier of its own for chosen criteria.

    Attention of all layers, weighted by feature, head and layer, trained with its classifier for chosen criteria.

    The module: `explearn.methods.ivra.attention.InterpretableAttention` (eq. 1 to 5). A token's score is its share
    of r, which is on the simplex over the text's tokens; a word's is the sum of its tokens' (IvRA, appendix H). The
    class explained plays no part. The criteria are losses beside the task's cross-entropy, on classifier and module
    together: sim (a student learns from the explanations), comp and suff (the classifier without the top words, and
    with them alone), cons (texts near in the model's states have near explanations). The explainer explains the
    classifier trained with it and no other.

    Args:
        criteria: any of sim, comp, suff, cons. weights: of their losses.
        norm: softmax or sparsemax. levels: whose weights are learned.
        schedule, faithfulness, consistency, student: see `explearn.pipeline.params`; mappings or sections.
        seed: of the order of texts, dropout and student.
    """

    about = About(
        name="ivra",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"attentions"}),
        own_model=True,
    )
    section = IvRAParams

    def __init__(
        self,
        criteria: Sequence[str] | None = None,
        weights: Mapping[str, float] | CriterionWeights | None = None,
        norm: str | None = None,
        levels: Sequence[str] | None = None,
        schedule: Mapping[str, Any] | AttentionScheduleParams | None = None,
        faithfulness: Mapping[str, Any] | FaithfulnessLossParams | None = None,
        consistency: Mapping[str, Any] | ConsistencyLossParams | None = None,
        student: Mapping[str, Any] | StudentParams | None = None,
        seed: int = 13,
    ) -> None:
        given = {
            "criteria": criteria,
            "weights": weights,
            "norm": norm,
            "levels": levels,
            "schedule": schedule,
            "faithfulness": faithfulness,
            "consistency": consistency,
            "student": student,
        }
        super().__init__(given, seed)

    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        assert isinstance(self.settings, IvRAParams)
        return InterpretableAttention(layers, heads, head_size, self.settings.norm, self.settings.levels)

    def _module(self, classifier: Classifier) -> AttentionModule:
        assert isinstance(self.settings, IvRAParams)
        found: AttentionModule = InterpretableAttention.of(
            classifier.model, norm=self.settings.norm, levels=self.settings.levels
        )
        return found


class SMaT(_Regularised):
    """The same with weights for whole heads alone.

    Attention-SMaT: attention logits of all heads, weighted by head, trained as IvRA is.

    The module: `explearn.methods.ivra.attention.HeadAttention`. Criteria, losses and arguments are those of IvRA;
    the original trains for simulatability, with sparsemax.
    """

    about = About(
        name="smat",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"attentions"}),
        own_model=True,
    )
    section = SMaTParams

    def __init__(
        self,
        criteria: Sequence[str] | None = None,
        weights: Mapping[str, float] | CriterionWeights | None = None,
        norm: str | None = None,
        schedule: Mapping[str, Any] | AttentionScheduleParams | None = None,
        faithfulness: Mapping[str, Any] | FaithfulnessLossParams | None = None,
        consistency: Mapping[str, Any] | ConsistencyLossParams | None = None,
        student: Mapping[str, Any] | StudentParams | None = None,
        seed: int = 13,
    ) -> None:
        given = {
            "criteria": criteria,
            "weights": weights,
            "norm": norm,
            "schedule": schedule,
            "faithfulness": faithfulness,
            "consistency": consistency,
            "student": student,
        }
        super().__init__(given, seed)

    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        return HeadAttention(layers, heads, head_size, self.settings.norm)

    def _module(self, classifier: Classifier) -> AttentionModule:
        found: AttentionModule = HeadAttention.of(classifier.model, norm=self.settings.norm)
        return found
