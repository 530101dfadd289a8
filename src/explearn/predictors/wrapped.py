"""Models with another head in the place of a sequence classifier: its logits are made from what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

if TYPE_CHECKING:
    import transformers


class WrappedModel(nn.Module):
    """Base of such models; all attributes that it does not have are the model's.

    It takes the model's own inputs, by keyword, and the marks of positions (`explearn.text.encoding.POSITION_MARKS`).

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
