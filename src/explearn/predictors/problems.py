"""The kinds of output that a model can have: one class of several, labels that each hold or not, or a value.

The configuration of a saved model gives it as `problem_type` and by the number of outputs (`problem_of`).

A head with one output z, whose probability is sigmoid(z), becomes one with two: -z for the class that the model does
not name and z for the one it does (`with_both_classes`). So every method has two classes to explain, and gradients and
relevance of one are the negative of the other's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from explearn.core.errors import ModelError, ParamsError
from explearn.predictors.adapters import put_trained_parts
from explearn.predictors.labelled import Problem
from explearn.predictors.quantised import is_quantised

if TYPE_CHECKING:
    import transformers

PROBLEM_TYPES = {
    "none": "regression",
    "sigmoid": "multi_label_classification",
    "softmax": "single_label_classification",
}
"""Function that a pipeline of transformers applies to the outputs -> `problem_type` of a configuration."""

ONE_OUTPUT = "one_output"
"""Field in the configuration of a model whose head got its second class here; it is saved with the model."""


OutputFunction = Callable[[Tensor], Tensor]
"""Logits, (texts, C) -> values, (texts,) or (texts, values)."""


def changed_logits(logits: Tensor, change: OutputFunction) -> Tensor:
    """Return values, (texts, values), of logits, (texts, C).

    Raises:
        ParamsError: `change` does not give a row for each text.
    """
    values = change(logits)
    if values.shape == logits.shape[:1]:
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(logits):
        raise ParamsError(f"output: gave shape {tuple(values.shape)}; expected one value a text")
    return values


def with_values(model: Any, classes: int, labels: Sequence[str], change: OutputFunction, rows: Tensor | None) -> Any:
    """Make a model with changed outputs, in its head if that is one linear map; all weights are shared.

    Args:
        model: the model.
        classes: number of its outputs.
        labels: names of the new ones.
        change: from logits to values.
        rows: the matrix, (values, classes), by which `change` multiplies. None: it does something else.
    """
    copied = sharing_copy(model)
    copied.config.update(label_maps(labels))
    heads = _output_layers(copied, classes)
    in_head = not getattr(copied, "outputs_changed", False)
    if rows is not None and in_head and len(heads) == 1 and not is_quantised(heads[0][1]):
        _set_head(copied, *heads[0], rows)
        return copied

    def on_outputs(_model: nn.Module, _inputs: object, outputs: Any) -> Any:
        outputs.logits = changed_logits(outputs.logits, change)
        return outputs

    copied.register_forward_hook(on_outputs)
    copied.outputs_changed = True
    return copied


def sharing_copy(model: Any) -> Any:
    """Copy the modules of a model; its parameters and buffers, including those offloaded by accelerate, are shared."""
    shared = [*model.parameters(), *model.buffers()]
    hooks: list[Any] = [getattr(module, "_hf_hook", None) for module in model.modules()]
    shared += [hook.weights_map for hook in hooks if getattr(hook, "weights_map", None) is not None]
    return copy.deepcopy(model, {id(tensors): tensors for tensors in shared})


def not_compiled(model: Any) -> Any:
    """Return a model without torch.compile, whose code passes by the hooks that methods set; weights are shared."""
    model = getattr(model, "_orig_mod", model)
    if any(module._compiled_call_impl is not None for module in model.modules()):
        return sharing_copy(model)  # a copy is not compiled
    return model


def _output_layers(model: Any, outputs: int) -> list[tuple[str, nn.Linear]]:
    """Return the linear maps to so many outputs, by path, outside the encoder, where adapters may have as many."""
    layers = []
    for path, layer in model.named_modules():
        inside = path.startswith(f"{model.base_model_prefix}.")
        if isinstance(layer, nn.Linear) and layer.out_features == outputs and not inside:
            layers.append((path, layer))
    return layers


def _set_head(model: Any, path: str, layer: nn.Linear, rows: Tensor) -> None:
    """Replace a model's last linear map by one whose outputs are `rows`, (values, C), times the old outputs."""
    model.set_submodule(path, changed_linear(layer, lambda value: rows.to(value) @ value))


def changed_linear(layer: nn.Linear, change: Callable[[Tensor], Tensor]) -> nn.Linear:
    """Return a linear map with other outputs.

    Args:
        layer: a linear map.
        change: from its weights, (outputs, d), to the new ones; and from its bias, (outputs,), to the new one.
    """
    values = {name: change(value.detach()) for name, value in layer.named_parameters()}
    changed = nn.Linear(layer.in_features, len(values["weight"]), bias="bias" in values, device="meta")
    for name, value in values.items():
        setattr(changed, name, nn.Parameter(value, requires_grad=False))
    return changed


def label_maps(labels: Iterable[str]) -> dict[str, Any]:
    """Return the entries of a model's configuration that name its classes."""
    names = list(labels)
    return {"id2label": dict(enumerate(names)), "label2id": {label: index for index, label in enumerate(names)}}


def problem_of(config: Any) -> Problem:
    """Return the kind of a model's outputs, by its configuration.

    `problem_type` decides; without one, `function_to_apply` does, or the activation of a cross-encoder of
    sentence-transformers. A single output is otherwise taken as the logit of a class.
    """
    problem_type = getattr(config, "problem_type", None)
    if problem_type is None:
        problem_type = PROBLEM_TYPES.get(_function_of(config))
    if problem_type == "regression":
        return Problem.REGRESSION
    if len(config.id2label) == 1 or getattr(config, ONE_OUTPUT, False):
        return Problem.BINARY
    if problem_type == "multi_label_classification":
        return Problem.MULTI_LABEL
    return Problem.SINGLE_LABEL


def _function_of(config: Any) -> str:
    """Return the name of the function that a configuration says is applied to the outputs; empty if it says none."""
    saved: Any = getattr(config, "sentence_transformers", None) or {}
    activation = str(saved.get("activation_fn") or getattr(config, "sbert_ce_default_activation_function", ""))
    if activation.endswith(".Sigmoid"):
        return "sigmoid"
    if len(config.id2label) == 1 and activation.endswith(".Identity"):
        return "none"
    return str(getattr(config, "function_to_apply", "")).lower()


def with_both_classes(model: transformers.PreTrainedModel, name: str) -> transformers.PreTrainedModel:
    """Make a model with two outputs, -z and z, from one with the output z; return others as they are.

    All weights but those of the last layer are shared with the given model, which does not change. The classes are
    "not NAME" and NAME, with the model's own name of its class.

    Raises:
        ModelError: several layers could give the output.
    """
    if problem_of(model.config) is not Problem.BINARY or len(model.config.id2label or ()) != 1:
        return model
    copied = sharing_copy(model)
    put_trained_parts(copied)
    layers = _output_layers(copied, 1)
    if len(layers) != 1:
        raise ModelError(
            f"{name}: has one output, and {len(layers)} linear layers that could give it; expected "
            "one, to add the other class to"
        )
    _set_head(copied, *layers[0], torch.tensor([[-1.0], [1.0]]))
    (label,) = copied.config.id2label.values()
    copied.config.update({**label_maps([f"not {label}", str(label)]), ONE_OUTPUT: True})
    copied.num_labels = 2
    return copied  # type: ignore[no-any-return]
