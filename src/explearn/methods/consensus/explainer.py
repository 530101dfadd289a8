"""The consensus: several signals combined to one score per word, trained on the marks of other tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import torch

from explearn.core.arrays import Array
from explearn.core.errors import DataError, ModelError, ParamsError
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import LearnedExplainer, TaskData, TrainedState
from explearn.methods.consensus.model import MarkedText, WordModel, fit_model, marked_texts, source_weights
from explearn.methods.consensus.params import ConsensusParams, Signal
from explearn.methods.consensus.signals import PASSES, available_signals, batch_signals, text_signals
from explearn.methods.consensus.word_features import feature_names
from explearn.predictors.transformer import TransformerPredictor

SHIPPED = Path(__file__).parent / "weights"
"""Weights that come with the package: in with_words, and, without the features of the word itself, in signals_alone.
scripts/make_consensus.py writes them."""


class Consensus(LearnedExplainer, BatchExplainer):
    """Many methods' scores of a word, weighed as marks of other tasks have taught.

    p = sigmoid(a z + b), z = w . x + w0, with x the features of a word: of each signal its z-score, rank and share
    within the text, the mean of the ranks, the same at the words around, and the word itself
    (`word_features.word_matrix`).

    w, w0: logistic regression on the marked texts of the other tasks that their classifiers get right; a task is
    weighted by its classifier's skill (`model.weight_of_skill`), its marked and unmarked words equally; copies of texts
    with missing signals train it to work without them. a, b: calibration (Platt 1999) on tasks left out of training.
    Every piece of a word gets the word's probability. Signals that an architecture does not support are missing.

    Without training it uses weights that come with the package, learned from this project's own corpus.

    Options: `ConsensusParams`. The seed decides which signals the copies miss.
    """

    reads_weights = True
    about = About(
        name="consensus",
        family="learned",
        cost="one forward and two backward passes",
        needs={"gradients", "training_rationales", "other_tasks"},
        binarisation="expected_f1",
        ready=True,
    )
    Options = ConsensusParams
    options: ConsensusParams
    weights_file = "consensus.safetensors"
    passes = PASSES

    _model: WordModel | None = None
    _record: Mapping[str, Any]
    _shipped = False

    @property
    def model(self) -> WordModel:
        """Return the trained model, or the one that comes with the package.

        Raises:
            ModelError: the one that comes with the package is damaged.
            ParamsError: that one is needed, and the option `signals` is empty.
        """
        if self._model is None:
            if not self.options.signals:
                raise ParamsError(
                    "signals: got none; the weights that come with the package read signals; train a consensus, or "
                    "name some"
                )
            shipped = _shipped(self.options.word_features)
            self._model = shipped.model
            self._record = shipped._record
            self._shipped = True
        return self._model

    @property
    def trained_on(self) -> list[str]:
        """Return the names of the tasks whose marks it learned from."""
        assert self.model
        return list(self._record["trained_on"])

    # ---- training ------------------------------------------------------------------------------------------------

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Learn from the other tasks' marks on texts that their classifiers get right.

        Args:
            task: the task that will be explained, with the others.
            description: not used; learning takes a second.

        Raises:
            ParamsError: there is no other task.
            DataError: none of them has usable marks, or all words of one are marked or none.
        """
        if not task.others:
            raise ParamsError(
                f"consensus learns from the marks of other tasks than {task.name!r}, but there are none; "
                "add one to tasks"
            )
        texts = {other.name: marked_texts(other) for other in task.others}
        tasks = {name: marked for name, marked in texts.items() if marked}
        if not tasks:
            raise DataError(
                f"none of the tasks {', '.join(texts)} has a text with both marks and a right prediction; consensus "
                "has nothing to learn from"
            )
        return self.fit_tasks(tasks, source_weights(task, tasks))

    def fit_tasks(
        self,
        tasks: dict[str, list[MarkedText]],
        weights: Mapping[str, float],
    ) -> Self:
        """Learn from the marked texts of some tasks.

        Args:
            tasks: name of a task -> its marked texts.
            weights: how much each task counts.

        Raises:
            DataError: the marks of a task are all of one class.
        """
        self._model = fit_model(tasks, self.options, weights)
        self._record = {
            "trained_on": list(tasks),
            "texts": {name: len(texts) for name, texts in tasks.items()},
            "weights": dict(weights),
            "signals": list(self._model.signals),
            "features": list(self._model.names),
        }
        return self

    # ---- explaining ----------------------------------------------------------------------------------------------

    @property
    def signals(self) -> tuple[str, ...]:
        """Return the signals that are computed: of those learned, the ones in the options."""
        return tuple(name for name in self.model.signals if name in self.options.signals)

    def check(self, classifier: TransformerPredictor) -> None:
        if self.signals:
            available_signals(classifier, self.signals)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        if self.signals:
            scores, logits, chosen = batch_signals(classifier, batch, targets, self.signals)
        else:
            scores = {}
            with torch.inference_mode():
                logits = classifier.logits(batch)
            chosen = resolve_targets(logits, targets)
        texts = text_signals(classifier, batch.encodings, scores, logits, chosen)
        probabilities = batch.token_scores(map(self.word_probabilities, texts))
        return BatchScores(probabilities.to(logits.device), logits, chosen)

    def word_probabilities(self, text: WordSignals) -> Array:
        """Return the probability that each word of a text is evidence, float64, (words,)."""
        return self.model.probabilities(self.model.features(text))

    def notes(self) -> dict[str, Any]:
        """Return its coefficients.

        Returns:
            `coefficients`, by feature, the change of the logit for one standard deviation; `intervals`, their 95 %
            intervals over the texts, empty if unknown; `trained_on`, the tasks.
        """
        model = self.model
        intervals = {}
        if model.intervals is not None:
            intervals = dict(zip(model.names, model.intervals.T.tolist(), strict=True))
        notes: dict[str, Any] = {
            "coefficients": dict(zip(model.names, model.coefficients.tolist(), strict=True)),
            "intervals": intervals,
            "signals": list(model.signals),
            "trained_on": self.trained_on,
        }
        if self._shipped:
            notes["shipped"] = True
        return notes

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        return TrainedState(self.model.tensors(), self._record)

    def _restore(self, state: TrainedState) -> None:
        state.value("trained_on", list[str])
        signals = state.value("signals", list[Signal])
        features = state.value("features", list[str])
        if list(feature_names(signals, self.options.word_features)) != features:
            raise ModelError("its features are not those of this version; train it again")
        width = len(features)
        sizes: dict[str, tuple[int, ...]] = {
            "mean": (width,),
            "scale": (width,),
            "coefficients": (width,),
            "intercept": (1,),
            "calibration": (2,),
        }
        if "intervals" in state.tensors:
            sizes["intervals"] = (2, width)
        state.check_sizes(sizes)
        arrays = {name: tensor.double().numpy() for name, tensor in state.tensors.items()}
        self._model = WordModel(tuple(signals), self.options.word_features, **arrays)
        self._record = dict(state.record)


@cache
def _shipped(word_features: bool) -> Consensus:
    """Return the consensus that comes with the package; raise ModelError if it is missing or damaged."""
    return Consensus.from_pretrained(SHIPPED / ("with_words" if word_features else "signals_alone"))
