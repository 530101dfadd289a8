"""Models with another head in the place of a sequence classifier: its logits are made from what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn

from explearn.predictors.architectures import tells_segments_apart

if TYPE_CHECKING:
    import transformers

SEGMENT = 1
"""Bit of `token_type_ids` that is the model's own segment; the others say which tokens the logits are made from."""


class WrappedModel(nn.Module):
    """Base of such models; all attributes that it does not have are the model's.

    It takes the model's own inputs, by keyword, with bits beside SEGMENT in `token_type_ids`.

    Args:
        config: the model's configuration.
        model: the model (default: a new one with random weights).
    """

    loader: ClassVar[str]
    """Class of transformers that loads models with the head."""

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        import transformers

        super().__init__()
        self.model: Any = getattr(transformers, self.loader).from_config(config) if model is None else model
        self.base_model_prefix = f"model.{self.model.base_model_prefix}"

    def __getattr__(self, name: str) -> Any:
        model = self.__dict__.get("_modules", {}).get("model")
        if name == "model" or model is None:
            return super().__getattr__(name)
        return getattr(model, name)

    def outputs(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, **options: Any
    ) -> Any:
        """Return what the model gives, which sees no bit but SEGMENT."""
        if tells_segments_apart(self.config):
            options["token_type_ids"] = token_type_ids & SEGMENT
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **options)
