"""Parameters of fine-tuning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.settings import Fraction, PositiveInt, Section


class FinetuneParams(Section):
    epochs: PositiveInt = 6
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Fraction = 0.1
    """Share of all steps in which the learning rate rises."""
    batch_size: PositiveInt = 32
    """Examples per step."""
    max_length: Annotated[int, Field(ge=8)] = 256
    """Most sub-tokens per text, special tokens included; longer texts are cut."""
    class_weights: Literal["balanced", "none"] = "balanced"
    """balanced: each class weighs n / (C n_c) in the loss."""
    patience: PositiveInt = 2
    """Epochs without a better validation metric (see `selection`) before training stops."""
    selection: Literal["macro_f1", "accuracy", "mcc"] = "macro_f1"
    """Validation metric that picks the checkpoint."""
