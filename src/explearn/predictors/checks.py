"""Checks of a loaded model and its tokenizer, before it predicts anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from explearn.core.errors import ModelError
from explearn.core.examples import label_problem
from explearn.predictors.architectures import word_table

if TYPE_CHECKING:
    import transformers


def check_config(config: Any, name: str) -> None:
    """Raise ModelError for a configuration without distinct class names, or without layers."""
    names: Mapping[int, Any] = config.id2label
    problem = label_problem([str(label) for label in names.values()]) if names else "has no classes"
    if sorted(names, key=str) != sorted(range(len(names)), key=str):
        problem = f"its classes are numbered {', '.join(str(i) for i in list(names)[:20])}"
    if problem is not None:
        raise ModelError(
            f"{name}: {problem}; expected the names of its classes, numbered from 0, in its config.json (id2label)"
        )


def check_runs(model: Any, tokenizer: transformers.PreTrainedTokenizerBase, name: str) -> None:
    """Raise ModelError for a model without weights, for attention without gradients on the model's device, and for a
    tokenizer whose ids exceed the model's table."""
    if model.device.type == "meta":
        raise ModelError(f"{name}: its weights are on the device 'meta', which holds none; expected a loaded model")
    if "flex" in str(getattr(model.config, "_attn_implementation", "")) and not torch.cuda.is_available():
        raise ModelError(
            f"{name}: flex attention has no gradients on a CPU; load it with attn_implementation 'sdpa' or 'eager'"
        )
    table: Any = word_table(model)
    last = max(tokenizer.get_vocab().values(), default=0)
    if isinstance(table, torch.nn.Embedding) and last >= (known := table.weight.shape[0]):
        raise ModelError(
            f"{name}: its tokenizer has token ids up to {last}, the model knows {known} tokens; expected its own"
        )
