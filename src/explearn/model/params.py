"""Options of fine-tuning, with types, units and ranges."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from explearn.core.settings import MOST_ROUNDS, MOST_UNITS, Fraction, Rounds, Section, Units


class LoraParams(Section):
    """Fine-tuning by low-rank adapters (LoRA); needs the extra `lora`."""

    rank: Units = 8
    """r, of each adapter."""
    alpha: Annotated[int, Field(gt=0, le=10_000)] = 16
    """Adapters count alpha / r times."""
    targets: list[str] = Field(default_factory=list)
    """Last part of the names of the linear maps to adapt, such as `query` or `q_proj`; none: all of the encoder's."""


class ScratchParams(Section):
    """The decoder that `encoder: scratch` makes: GPT-2's architecture, random weights, a tokenizer of the texts."""

    layers: Units = 4
    heads: Units = 4
    width: Units = 128
    """Of the states; a multiple of `heads`."""
    vocabulary: Annotated[int, Field(ge=300, le=MOST_UNITS)] = 4000
    """Most sub-tokens, learned from the training texts; all 256 bytes are among them."""
    dropout: Fraction = 0.1

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width: got {self.width}, for {self.heads} heads; expected a multiple of their number")
        return self


class FinetuneParams(Section):
    epochs: Rounds = 6
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Fraction = 0.1
    """Share of all steps in which the learning rate rises."""
    batch_size: Units = 32
    """Examples per step."""
    max_length: Annotated[int, Field(ge=8, le=MOST_ROUNDS)] = 256
    """Most sub-tokens per text, special tokens included; longer texts are cut."""
    class_weights: Literal["balanced", "none"] = "balanced"
    """balanced: each class weighs n / (C n_c) in the loss."""
    patience: Rounds = 2
    """Epochs without a better validation metric (see `selection`) before training stops."""
    selection: Literal["macro_f1", "accuracy", "mcc"] = "macro_f1"
    """Validation metric that picks the checkpoint."""
    lora: LoraParams | None = None
    """Train adapters and the head alone; they are merged when the classifier is saved."""
    scratch: ScratchParams = ScratchParams()
    """Sizes of the decoder that `encoder: scratch` makes."""
