"""IvRA and Attention-SMaT as explainers.

Source: Xie, Vosoughi, Hassanpour (2024), "IvRA: A Framework to Enhance Attention-Based Explanations for Language Models
with Interpretability-Driven Training"; Attention-SMaT: Fernandes et al. (2022), "Learning to Scaffold".
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field

from explearn.core.compute import check_weights
from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.core.examples import Example
from explearn.core.validation import Units
from explearn.lens.representations import aggregate_states, word_embeddings
from explearn.methods.base.attributions import attribution_of
from explearn.methods.base.explainer import (
    About,
    Batch,
    BatchExplainer,
    BatchScores,
    Variant,
)
from explearn.methods.base.learned import DIVERGED, BoundExplainer, TaskData, TrainedState
from explearn.methods.base.training import History
from explearn.methods.ivra.attention import (
    AttentionModule,
    HeadAttention,
    InterpretableAttention,
    explain_batch,
    size_of,
)
from explearn.methods.ivra.objectives import PERCENTS
from explearn.methods.ivra.params import LEAST_TEXTS, IvRAParams, SMaTParams
from explearn.methods.ivra.simulatability import SimulatabilityLoss
from explearn.methods.ivra.training import JointTrainer
from explearn.metrics.consistency import consistency
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams, SimulatabilityParams
from explearn.metrics.simulatability import simulatability
from explearn.predictors.architectures import architecture
from explearn.predictors.finetune import class_weights
from explearn.predictors.labelled import ONE_CLASS, check_use
from explearn.predictors.predictor import read_labelled
from explearn.predictors.transformer import TransformerPredictor
from explearn.predictors.windows import Windowed
from explearn.show.blocks import several
from explearn.text.equal import split_texts

logger = logging.getLogger(__name__)

CHOOSING_REPEATS = 20
"""Partitions of the validation texts when simulatability chooses the epoch: with few, it depends on the partitions."""

STUDENT_SHARE = 0.5
"""Share of the validation texts that the student of criterion sim learns from; the others choose the best epoch."""

CLASSIFIER = "classifier"
"""Folder, inside the explainer's own, of the classifier that was trained with it."""

_SIZES = Annotated[dict[Literal["layers", "heads", "head_size"], Units], Field(min_length=3)]
"""Sizes of the classifier whose attention a trained module weighs."""


class IvRA(BoundExplainer, BatchExplainer):
    """Attention of all layers, weighted by feature, head and layer, trained for chosen criteria.

    The module: `explearn.methods.ivra.attention.InterpretableAttention` (eq. 1 to 5). A token's score is its share
    of r, which is on the simplex over the text's tokens; a word's is the sum of its tokens' (IvRA, appendix H). The
    scores do not depend on the class. The criteria are losses added to the task's cross-entropy: sim (a student learns
    from the explanations), comp and suff (the classifier without the top words, and with only these), cons (texts with
    similar states have similar explanations). A copy of the classifier is trained with the module, and the explainer
    explains only that copy; in the variant `ivra_frozen` the classifier stays as it is.

    Options: `IvRAParams`. The seed decides the order of texts, dropout and the student.
    """

    about = About(
        name="ivra",
        family="learned",
        cost="one forward pass",
        needs={"attentions"},
        own_model=True,
    )
    variants: ClassVar = {
        "ivra_frozen": Variant(
            summary="IvRA's attention weights alone, trained for a classifier that stays as it is.",
            options={
                "frozen": True,
                "criteria": ["comp", "suff"],
                "schedule": {"epochs": 4, "batch_size": 16, "module_learning_rate": 3e-2, "decay": 0.6},
            },
        )
    }
    Options: ClassVar[type[SMaTParams]] = IvRAParams
    options: Any
    aggregation = "sum"
    problems = ONE_CLASS
    weights_file = "attention.safetensors"
    kept: ClassVar = {**BoundExplainer.kept, "history": History}

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        self.attention: AttentionModule | None = None
        self.classifier: TransformerPredictor | None = None
        if self.options.own_model:
            self.instead = f"load the one in its folder {CLASSIFIER!r}"

    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        """Make the module for a classifier of this size, with its initial weights."""
        return InterpretableAttention(layers, heads, head_size, self.options.norm, self.options.levels)

    # ---- training ------------------------------------------------------------------------------------------------

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train an attention module, and a copy of a task's classifier with it unless `frozen`.

        `self.classifier` is the classifier that is explained: that copy or, if frozen, the task's.

        The split `train` is used for the task loss and comp, suff and cons; `validation` chooses the best epoch, and
        with criterion sim the student learns from STUDENT_SHARE of it. The task's classifier is not changed. Warns if
        no epoch was better than the start, so that nothing was learned.

        Args:
            task: the task; its texts need labels.
            description: text of a progress bar. None: no bar.

        Returns:
            The trained explainer itself.

        Raises:
            DataError: there are too few texts for the criteria, or a criterion's metric is undefined on the validation
                texts.
            UnknownNameError: the classifier does not have a label.
            UnsupportedError: the architecture's attention cannot be captured.
            ParamsError: training does not support the precision.
            ModelError: a gradient is not finite.
        """
        options = self.options
        classifier: TransformerPredictor = self.check_problem(task.classifier)
        if options.own_model or classifier.spread is not None:
            classifier.check_plain("training ivra")
        self._check_criteria(classifier)
        validation = task.examples("validation")
        check_count("validation", validation, self.options)
        train = task.examples("train")
        encodings, labels = read_labelled(classifier, train)
        if train:
            rows = classifier.trainable(encodings)
            train = [train[row] for row in rows]
            labels = [labels[row] for row in rows]
        check_count("train", train, self.options)
        weights = None
        if task.balanced:
            weights = torch.tensor(class_weights(labels, len(classifier.labels)), device=classifier.device)
        explained = classifier
        if options.own_model:
            explained = classifier.with_model(copy.deepcopy(classifier.model))
        module = self._sized(*size_of(explained.model)).to(classifier.device)
        generator = torch.Generator().manual_seed(options.seed)
        order = np.random.default_rng(options.seed).permutation(len(validation)).tolist()
        sim = None
        if "sim" in options.criteria:
            by_id = {validation[i].id: validation[i] for i in order}
            for_student = split_texts(by_id, _for_the_student)
            shown = [i for i in order if for_student[validation[i].id]]
            order = [i for i in order if not for_student[validation[i].id]]
            encodings = classifier.read([validation[i] for i in shown])
            # A student has nothing to read in a text without pieces.
            texts = [encoding for encoding in encodings if encoding.positions]
            if min(len(texts), len(order)) < 2:
                raise DataError(
                    f"criterion 'sim': of {len(validation)} validation texts the student would learn from {len(texts)} "
                    f"and be judged on {len(order)}; expected at least 2 for each"
                )
            sim = SimulatabilityLoss(explained, module, texts, generator)
        judged = [validation[i] for i in order]
        self.attention = module
        self.classifier = explained
        self.trained_classifier = ""
        self.history = []
        trainer = JointTrainer(
            explained, module, train, sim, options, generator, weights, lambda: self._validate(judged)
        )
        self.history = trainer.run(description)
        explained.weights_changed()
        self.trained_classifier = explained.fingerprint
        if self.best_epoch == 0:
            logger.warning(
                "%s: none of %d epochs was better than the start, so module and classifier are untrained; lower "
                "learning rates or a larger schedule.accuracy_tolerance may help",
                description or type(self).__name__,
                len(self.history) - 1,
            )
        return self

    def _check_criteria(self, classifier: TransformerPredictor) -> None:
        """Raise where the criteria cannot be trained for with this classifier."""
        criteria = self.options.criteria
        config = classifier.model.config
        if classifier.dtype is torch.float16:
            raise ParamsError("precision: got fp16; expected fp32 or bf16 for joint training")
        if {"comp", "suff"} & set(criteria) and architecture(config).attention == "calls":
            raise UnsupportedError(
                "criteria comp and suff: they remove a token by closing its gate in attention, which does not work for "
                f"a {config.model_type!r} model's last token, local attention or distances; train with criteria sim "
                "or cons"
            )
        if "sim" in criteria:
            check_use(classifier, "students")

    def _validate(self, examples: Sequence[Example]) -> tuple[float, dict[str, float | None]]:
        """Return the accuracy on some texts, and each criterion's metric on the first of them, None if undefined."""
        classifier = self._trained(self.classifier)
        encodings, labels = read_labelled(classifier, examples)
        accuracy = float(np.mean(classifier.predict_proba(encodings).argmax(-1) == np.array(labels)))
        # Of questions, those with the model's own answer, as they are explained.
        texts = [
            replace(text, example_id=str(number))
            for number, text in enumerate(classifier.read(examples[: self.options.schedule.validation_texts]))
        ]
        attributions = [
            attribution_of(classifier, Windowed.at_once(text), [scores], self.name, self.aggregation, self.signed)
            for text, scores in zip(texts, self.score_texts(classifier, texts, None), strict=True)
        ]
        word_scores = {"": [attribution.filled(0.0) for attribution in attributions]}
        criteria = self.options.criteria
        values: dict[str, float | None] = {}
        if "comp" in criteria or "suff" in criteria:
            by_id = {text.example_id: text for text in texts}
            params = EvaluateParams(percents=list(PERCENTS))
            means = faithfulness(classifier, by_id, {"": attributions}, params)[""].means()
            values["comp"] = means["aopc_comprehensiveness"]
            sufficiency = means["aopc_sufficiency"]
            # Larger is better for all criteria.
            values["suff"] = sufficiency and -sufficiency
        if "cons" in criteria:
            values["cons"] = consistency(aggregate_states(classifier, texts), word_scores)[""].figure
        if "sim" in criteria:
            classes = [classifier.labels.index(attribution.predicted) for attribution in attributions]
            values["sim"] = None
            # One class is predicted by a student that has seen nothing else, whatever it was shown.
            if len(set(classes)) > 1:
                students = SimulatabilityParams(repeats=CHOOSING_REPEATS)
                embeddings = word_embeddings(classifier, texts)
                results = simulatability(embeddings, classes, word_scores, students, self.options.seed)
                values["sim"] = float(results[""].gain.mean())
        return accuracy, {name: values[name] for name in criteria}

    # ---- explaining ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        attention = self._trained(self.attention).to(classifier.device)
        with torch.inference_mode():
            explained = explain_batch(classifier, attention, batch)
        return BatchScores(explained.r, explained.logits, targets)

    def notes(self) -> dict[str, Any]:
        """Return what the report shows: the course of training, criteria, coefficients, and `accuracy`.

        The latter is that of the explained classifier on validation texts, before training and at the best epoch.
        """
        return {
            **super().notes(),
            "criteria": self.options.criteria,
            "accuracy": [self.history[epoch]["accuracy"] for epoch in (0, self.best_epoch)],
            "coefficients": self._trained(self.attention).coefficients(),
        }

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        attention = self._trained(self.attention)
        sizes = {name: getattr(attention, name) for name in ("layers", "heads", "head_size")}
        return TrainedState(attention.state_dict(), {"encoder": sizes})

    def _save_more(self, folder: Path) -> None:
        """Write the classifier that was trained with the module, for load_classifier."""
        if self.options.own_model:
            classifier = self._trained(self.classifier)
            check_weights(classifier.model.named_parameters(), "IvRA's classifier diverged in training", DIVERGED)
            classifier.save_pretrained(folder / CLASSIFIER)

    def _restore(self, state: TrainedState) -> None:
        """Restore the module; its classifier is left in the folder's subfolder `classifier`."""
        sizes = state.value("encoder", _SIZES)
        self.attention = state.restore(lambda: self._sized(**sizes))


def _for_the_student(texts: Sequence[str]) -> dict[str, bool]:
    """Return whether the student learns from a text, by its id: the first STUDENT_SHARE of them."""
    return {name: number < round(STUDENT_SHARE * len(texts)) for number, name in enumerate(texts)}


def check_count(split: str, examples: Sequence[Example], options: SMaTParams) -> None:
    """Raise DataError if a split has too few texts for the criteria."""
    least = LEAST_TEXTS if "cons" in options.criteria else 1
    if len(examples) < least:
        raise DataError(f"split {split!r} has {several(len(examples), 'text')}; expected {least} or more")


class SMaT(IvRA):
    """Attention of all layers, weighted by head alone, trained for chosen criteria.

    Attention-SMaT: logits of attention, weighted by head. The module: `explearn.methods.ivra.attention.HeadAttention`.
    Criteria and losses are those of IvRA; the original trains for simulatability, with sparsemax.

    Options: `SMaTParams`. The seed decides the order of texts, dropout and the student.
    """

    about = IvRA.about.model_copy(update={"name": "smat"})
    variants: ClassVar = {}
    Options = SMaTParams

    def _sized(self, layers: int, heads: int, head_size: int) -> AttentionModule:
        return HeadAttention(layers, heads, head_size, self.options.norm)
