"""A callback of transformers' Trainer that logs how faithful explanations are while the model trains.

trainer.add_callback(CompareCallback(trainer, texts))
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from explearn.comparison.run import compare
from explearn.core.compute import ComputeOptions
from explearn.methods.base.explainer import Explainer

METRICS = ("aopc_comprehensiveness", "aopc_sufficiency")
"""Figures that are logged for each method."""


class CompareCallback(transformers.TrainerCallback):
    """A callback that compares methods on some texts after each evaluation, and logs their figures.

    They are reported like the Trainer's, as `eval_METHOD_aopc_comprehensiveness` and `eval_METHOD_aopc_sufficiency`.
    The page of the last comparison is `explanations.html` in the `output_dir`. Training is not affected.

    Args:
        trainer: a Trainer with a tokenizer as its processing_class.
        texts, methods: as in `explearn.compare`. 50 texts with the roster `quick` take about 50 x 15 model passes.
        options: other arguments of `explearn.compare`, such as `labels`.

    An evaluation raises what `explearn.compare` raises.
    """

    def __init__(
        self,
        trainer: transformers.Trainer,
        texts: Any,
        methods: str | Sequence[str | Explainer] = "quick",
        **options: Any,
    ) -> None:
        self.trainer, self.texts, self.methods, self.options = trainer, texts, methods, options

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
        training, learned = model.training, [weight for weight in model.parameters() if weight.requires_grad]
        drawn = random.getstate(), np.random.get_state()
        try:
            with torch.random.fork_rng():
                result = compare(
                    (model, self.trainer.processing_class),
                    self.texts,
                    methods=self.methods,
                    out=Path(str(args.output_dir)) / "explanations.html",
                    compute=ComputeOptions(device=str(model.device)),
                    **self.options,
                )
        finally:
            random.setstate(drawn[0])
            np.random.set_state(drawn[1])
            for weight in learned:
                weight.requires_grad_(True)
            model.train(training)
        self.trainer.log(
            {f"eval_{method}_{name}": float(of[name] or 0) for method, of in result.methods.items() for name in METRICS}
        )
