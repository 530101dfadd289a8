"""A callback of transformers' Trainer that logs how faithful explanations are while the model trains.

trainer.add_callback(CompareCallback(trainer, texts))
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers

from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.errors import UnsupportedError
from explearn.evaluation.run import evaluate
from explearn.methods.base.explainer import Explainer
from explearn.methods.finding import find_explainers
from explearn.predictors.pretrained import as_predictor
from explearn.subject.texts import given_texts

METRICS = ("aopc_comprehensiveness", "aopc_sufficiency")
"""Figures that are logged for each method."""

logger = logging.getLogger(__name__)


class CompareCallback(transformers.TrainerCallback):
    """A callback that explains some texts by several methods after each evaluation, and logs their faithfulness.

    The figures are reported like the Trainer's, as `eval_METHOD_aopc_comprehensiveness` and
    `eval_METHOD_aopc_sufficiency`. Training is not affected.

    Args:
        trainer: a Trainer with a tokenizer as its processing_class.
        texts: a list, file or table of texts, as in `explearn.compare`.
        methods: rosters, names and explainers, as in `explearn.compare`. 50 texts with the roster `quick` take about
            50 x 15 model passes.
        seed: seed of methods that draw at random.
    """

    def __init__(
        self,
        trainer: transformers.Trainer,
        texts: Any,
        methods: str | Sequence[str | Explainer] = "quick",
        seed: int = 13,
    ) -> None:
        self.trainer = trainer
        self.texts = given_texts(texts).examples
        self.explainers = find_explainers(methods, seed)

    def on_evaluate(
        self,
        args: transformers.TrainingArguments,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **_: Any,
    ) -> None:
        if not state.is_world_process_zero:
            return
        model: Any = self.trainer.accelerator.unwrap_model(self.trainer.model)
        python_state = random.getstate()
        numpy_state = np.random.get_state()
        try:
            with torch.random.fork_rng():
                figures = self._figures((model, self.trainer.processing_class))
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
        self.trainer.log(figures)

    @inputs_left_as_they_came
    def _figures(self, model_and_tokenizer: tuple[Any, Any]) -> dict[str, float]:
        """Explain the texts by each method, and return the figures of those that can explain the model."""
        classifier = as_predictor(model_and_tokenizer)
        labels = classifier.predict(self.texts)
        attributions = {}
        for name, explainer in self.explainers.items():
            try:
                attributions[name] = explainer.explain(classifier, self.texts, labels)
            except UnsupportedError as error:
                logger.warning("%s: left out: %s", name, error)
        evaluation = evaluate(classifier, attributions, metrics=METRICS, texts=self.texts)
        figures = {}
        for method, values in evaluation.figures.items():
            for metric in METRICS:
                figures[f"eval_{method}_{metric}"] = float(values[metric] or 0)
        return figures
