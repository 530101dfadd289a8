"""IvRA and Attention-SMaT as explainers.

Source: Xie, Vosoughi, Hassanpour (2024), "IvRA: A Framework to Enhance Attention-Based Explanations for Language Models
with Interpretability-Driven Training"; Attention-SMaT: Fernandes et al. (2022), "Learning to Scaffold".
"""

from __future__ import annotations

import copy
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError
from explearn.core.finite import check_weights
from explearn.core.records import Example
from explearn.judge.consistency import consistency
from explearn.judge.faithfulness import faithfulness
from explearn.judge.params import EvaluateParams, SimulatabilityParams
from explearn.judge.simulatability import simulatability
from explearn.lens.representations import aggregate_states, word_embeddings
from explearn.methods.base.attributions import attribution_of
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import DIVERGED, LearnedExplainer, TrainedState
from explearn.methods.base.task import TaskData, check_task
from explearn.methods.info import About
from explearn.methods.ivra.attention import AttentionModule, HeadAttention, InterpretableAttention
from explearn.methods.ivra.forward import Labelled, explain_batch
from explearn.methods.ivra.params import IvRAParams, SMaTParams
from explearn.methods.ivra.training import JointTrainer
from explearn.model.architectures import architecture
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch
from explearn.model.finetune import class_weights
from explearn.model.problems import ONE_CLASS
from explearn.model.question_answering import QuestionAnswerer, reached
from explearn.model.windows import Windowed

logger = logging.getLogger(__name__)

CHOOSING_REPEATS = 20
"""Partitions of the validation texts where simulatability chooses the epoch: over few, it differs more by them."""

CLASSIFIER = "classifier"
"""Folder, inside the explainer's own, of the classifier that was trained with it."""


class TrainedAttention(LearnedExplainer, BatchExplainer):
    """What IvRA and SMaT share: training a classifier and its attention module together, explaining, files."""

    aggregation = "sum"
    signed = False
    problems = ONE_CLASS
    options: SMaTParams
    weights_file = "attention.safetensors"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.attention: AttentionModule | None = None
        self.classifier: Classifier | None = None
        self.trained_classifier = ""
        self.history: list[dict[str, Any]] = []

    @abstractmethod
    def _module(self, classifier: Classifier) -> AttentionModule:
        """The module with its initial weights, for a classifier."""

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train a copy of a task's classifier together with its attention module; `self.classifier` is that copy.

        The split `train` is for the task loss and comp, suff and cons; `validation` chooses the best epoch, and with
        criterion sim the student learns from a share of it. The task's classifier stays as it is.

        Raises, before training starts: DataError where there are too few texts for the criteria, or a criterion's
        metric is undefined on the validation texts, UnknownNameError for a label that the classifier has not,
        UnsupportedError for an architecture whose attention cannot be captured, ParamsError for a precision or student
        that training has not. ModelError where a loss or gradient is not finite.

        Warns where no epoch was better than the start, so that nothing was learned.
        """
        check_task(task)
        classifier, options = task.classifier, self.options
        self.check_problem(classifier)
        parts = {split: task.examples(split) for split in ("train", "validation")}
        self._check_task(classifier, parts)
        classifier.check_one_device("training ivra, which trains the classifier with it,")
        copied = classifier.with_model(copy.deepcopy(classifier.model))
        module = self._module(copied).to(classifier.device)
        data = {split: Labelled(*classifier.encode_labelled(rows), rows) for split, rows in parts.items()}
        data["train"] = data["train"].take(reached(data["train"].encodings, classifier.max_length))
        shown, judged = self._validation_parts(len(data["train"]), len(parts["validation"]))
        untrained = None
        if shown and options.student.kind == "encoder":
            if task.untrained_encoder is None:
                raise ParamsError(
                    "student.kind: got 'encoder'; expected a task that has the encoder before fine-tuning"
                )
            untrained = task.untrained_encoder()
        weights = None
        if task.balanced:
            found = class_weights(data["train"].labels, len(classifier.labels))
            weights = torch.tensor(found, device=classifier.device)
        trainer = JointTrainer(
            copied,
            module,
            data["train"],
            data["validation"].take(shown),
            untrained,
            options,
            weights,
            lambda: self._measure(data["validation"].take(judged)),
            self.options.seed,
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

    def _check_task(self, classifier: Classifier, parts: Mapping[str, Sequence[Example]]) -> None:
        """Raise where this classifier, or a split, cannot be trained with."""
        if classifier.dtype is torch.float16:
            raise ParamsError("precision fp16: joint training knows fp32 and bf16; expected one of them")
        kind = classifier.model.config.model_type
        gated = architecture(classifier.model.config).attention != "calls"
        if {"comp", "suff"} & set(self.options.criteria) and not gated:
            raise UnsupportedError(
                "criteria comp and suff: they take a token away by closing its gate in attention, which says nothing "
                f"of a {kind!r} model's last token, local attention or distances; train with criteria sim or cons"
            )
        for split, rows in parts.items():
            if not rows:
                raise DataError(f"split {split!r} has no text; expected some to train on and to choose the best epoch")
        if "sim" in self.options.criteria and isinstance(classifier, QuestionAnswerer):
            raise DataError(
                "criterion 'sim': a student predicts classes, and the answers to questions are none; "
                "expected comp, suff or cons"
            )

    def _validation_parts(self, training: int, validation: int) -> tuple[list[int], list[int]]:
        """Which validation texts the student learns from, and which choose the best epoch.

        Args:
            training, validation: numbers of texts.

        Raises DataError where there are too few for the criteria.
        """
        options = self.options
        least = options.consistency.least_texts
        if "cons" in options.criteria and training < least:
            raise DataError(
                f"criterion 'cons' compares texts with each other, and there are {training} to train on; "
                f"its loss {options.consistency.loss!r} takes {least} or more"
            )
        order = np.random.default_rng(self.options.seed).permutation(validation).tolist()
        shown = 0
        if "sim" in options.criteria:
            shown = round(options.student.share * len(order))
            if shown < 2 or len(order) - shown < 2:
                raise DataError(
                    f"criterion 'sim': of {len(order)} validation texts the student would learn from {shown} and be "
                    f"judged on {len(order) - shown}; expected spare texts for both, at least 2 each (student.share)"
                )
        measured = min(len(order) - shown, options.schedule.validation_texts)
        if "cons" in options.criteria and measured < 3:
            raise DataError(
                f"criterion 'cons': {measured} validation texts would choose the best epoch; expected at least 3, for "
                "consistency is a rank correlation over pairs"
            )
        return order[:shown], order[shown:]

    @property
    def best_epoch(self) -> int:
        """Which epoch of the training was kept, 0 being its start. Raises ModelError before training."""
        if not self.history:
            raise ModelError(f"this {type(self).__name__} is not trained; fit it, or load a trained one")
        return [entry["best"] for entry in self.history].index(True)

    def _measure(self, data: Labelled) -> tuple[float, dict[str, float | None]]:
        """Accuracy on the validation texts, and each criterion's metric on the first of them, None if undefined."""
        assert self.classifier is not None
        classifier, criteria = self.classifier, self.options.criteria
        predicted = classifier.predict_proba(data.encodings).argmax(-1)
        accuracy = float(np.mean(predicted == np.array(data.labels)))
        # Of questions, those with the model's own answer, as they are explained.
        few = classifier.encode(data.examples[: self.options.schedule.validation_texts])
        scored = self.score_texts(classifier, few, None)
        found = [
            attribution_of(classifier, Windowed.at_once(text), [one], self.name, self.aggregation, self.signed)
            for text, one in zip(few, scored, strict=True)
        ]
        keyed = [f"{number}" for number in range(len(few))]
        measured: dict[str, float | None] = {}
        if "comp" in criteria or "suff" in criteria:
            named = [replace(a, example_id=key) for a, key in zip(found, keyed, strict=True)]
            percents = EvaluateParams(percents=self.options.faithfulness.percents)
            result = faithfulness(classifier, dict(zip(keyed, few, strict=True)), {"": named}, percents)[""].means()
            suff = result["aopc_sufficiency"]
            measured["comp"], measured["suff"] = result["aopc_comprehensiveness"], None if suff is None else -suff
        scores = [a.filled(0.0) for a in found]
        if "cons" in criteria:
            measured["cons"] = consistency(aggregate_states(classifier, few), {"": scores}, bootstrap_samples=100)[
                ""
            ].value
        if "sim" in criteria:
            classes = [classifier.labels.index(a.predicted) for a in found]
            students = SimulatabilityParams(repeats=CHOOSING_REPEATS)
            taught = simulatability(
                word_embeddings(classifier, few), classes, {"": scores}, students, self.options.seed
            )
            # One class is predicted by a student that has seen nothing else, whatever it was shown.
            measured["sim"] = float(taught[""].gain.mean()) if len(set(classes)) > 1 else None
        return accuracy, {name: measured[name] for name in criteria}

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Classifier) -> None:
        name = type(self).__name__
        if self.attention is None:
            raise self._untrained()
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

    def _state(self) -> TrainedState:
        if self.attention is None or self.classifier is None:
            raise ModelError(f"this {self.name} was not trained here; there is nothing to save")
        record = {
            "encoder": {name: getattr(self.attention, name) for name in ("layers", "heads", "head_size")},
            "classifier": self.trained_classifier,
            "coefficients": self.attention.coefficients(),
            "history": self.history,
            "best_epoch": self.best_epoch,
        }
        return TrainedState(self.attention.state_dict(), record)

    def _save_more(self, folder: Path) -> None:
        """The classifier that was trained with the module, for Classifier.from_pretrained."""
        assert self.classifier is not None
        check_weights(self.classifier.model.named_parameters(), "IvRA's classifier diverged in training", DIVERGED)
        self.classifier.save_pretrained(folder / CLASSIFIER)

    def _restore(self, state: TrainedState, folder: Path) -> None:
        """The module; its classifier is left in the folder's subfolder `classifier`."""
        sizes = state.record["encoder"]
        module = self._sized(int(sizes["layers"]), int(sizes["heads"]), int(sizes["head_size"]))
        module.load_state_dict(dict(state.tensors))
        self.trained_classifier = str(state.record["classifier"])
        self.history = list(state.record["history"])
        self.attention = module.requires_grad_(False).eval()

    @abstractmethod
    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        """The module for a classifier of this size, to load weights into."""


class IvRA(TrainedAttention):
    """Attention of all layers, weighted by feature, head and layer, trained with a classifier for chosen criteria.

    The module: `explearn.methods.ivra.attention.InterpretableAttention` (eq. 1 to 5). A token's score is its share
    of r, which is on the simplex over the text's tokens; a word's is the sum of its tokens' (IvRA, appendix H). The
    class explained plays no part. The criteria are losses beside the task's cross-entropy, on classifier and module
    together: sim (a student learns from the explanations), comp and suff (the classifier without the top words, and
    with them alone), cons (texts near in the model's states have near explanations). The explainer explains the
    classifier trained with it and no other.

    Options: `IvRAParams`. The seed decides the order of texts, dropout and the student.
    """

    about = About(
        name="ivra",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"attentions"}),
        own_model=True,
    )
    Options = IvRAParams
    options: IvRAParams

    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        return InterpretableAttention(layers, heads, head_size, self.options.norm, self.options.levels)

    def _module(self, classifier: Classifier) -> AttentionModule:
        found: AttentionModule = InterpretableAttention.of(
            classifier.model, norm=self.options.norm, levels=self.options.levels
        )
        return found


class SMaT(TrainedAttention):
    """Attention of all layers, weighted by head alone, trained with a classifier for chosen criteria.

    Attention-SMaT: logits of attention, weighted by head. The module: `explearn.methods.ivra.attention.HeadAttention`.
    Criteria and losses are those of IvRA; the original trains for simulatability, with sparsemax.

    Options: `SMaTParams`. The seed decides the order of texts, dropout and the student.
    """

    about = About(
        name="smat",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"attentions"}),
        own_model=True,
    )
    Options = SMaTParams

    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        return HeadAttention(layers, heads, head_size, self.options.norm)

    def _module(self, classifier: Classifier) -> AttentionModule:
        found: AttentionModule = HeadAttention.of(classifier.model, norm=self.options.norm)
        return found
