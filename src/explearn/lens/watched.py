"""A classifier's own forward pass, with the attention probabilities of its layers and the inputs of its blocks kept.

For architectures whose blocks `anatomy` does not take apart: rotary positions, grouped keys, masks and norms stay the
model's own, and attention alone is written out, so that it has a gradient. Nothing is set on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from explearn.core.errors import UnsupportedError
from explearn.lens.anatomy import activation_of
from explearn.lens.capture import layer_count
from explearn.lens.patterns import AttentionCalls, Call
from explearn.lens.threads import here_only
from explearn.model.architectures import architecture, blocks_in_order, unusual_build
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


@dataclass(slots=True)
class Watched:
    """What a forward pass left; b = batch, h = heads, n = tokens, d = width.

    Attributes:
        attentions: probabilities, (b, h, n, n), of the layers from the first one watched on.
        inputs: of their blocks, (b, n, d).
        states: the encoder's output, (b, n, d), behind its last norm where it ends with one.
        logits: (b, C).
    """

    attentions: list[torch.Tensor] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)
    states: torch.Tensor | None = None
    logits: torch.Tensor | None = None


@contextmanager
def hooked(handles: Sequence[Any]) -> Iterator[None]:
    """Take hooks away at the end, also after an exception."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def watch(
    classifier: Classifier,
    batch: Batch,
    first_layer: int = 0,
    attend: Callable[[Call], torch.Tensor] | None = None,
) -> Watched:
    """Run a classifier and keep what is said in Watched; its graph starts at the input of block `first_layer`.

    Args:
        first_layer: counted from 0, or from the end when negative. Layers below it build no graph and are not kept.
        attend: computes a layer's attention in the place of the model, which then is not kept; of models with fused
            attention.

    Under `torch.inference_mode()` or `torch.no_grad()` there is no graph. Raises UnsupportedError where attention
    cannot be captured (see `capture.layer_count`), or is not computed by calls that can be seen.
    """
    count = layer_count(classifier.model)
    first = first_layer % count
    model: Any = classifier.model
    found = Watched()
    calls = 0

    def on_block(number: int) -> Any:
        def hook(_module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[Any, ...] | None:
            if number < first:
                return None
            hidden = args[0]
            if number == first and torch.is_grad_enabled():
                # The classifier's parameters are frozen: the graph starts here.
                hidden = hidden.detach().requires_grad_()
            found.inputs.append(hidden)
            return (hidden, *args[1:])

        return hook

    def on_call(call: Call) -> torch.Tensor | None:
        nonlocal calls
        calls += 1
        if calls <= first:
            return None
        if attend is not None:
            return attend(call)
        attention = call.written_out()
        found.attentions.append(attention)
        return attention if call.value is None else attention.to(call.value.dtype) @ call.value

    def on_encoder(_module: nn.Module, _args: object, output: Any) -> None:
        found.states = output[0]

    blocks = blocks_in_order(model.base_model)
    handles = [block.register_forward_pre_hook(here_only(on_block(number))) for number, block in enumerate(blocks)]
    handles.append(model.base_model.register_forward_hook(here_only(on_encoder)))
    with hooked(handles), AttentionCalls(on_call):
        found.logits = model(**batch.model_inputs()).logits
    if calls != count:
        raise UnsupportedError(
            f"this {model.config.model_type!r} model has {count} layers, and {calls} of them computed attention with "
            "torch's own functions; load it with attn_implementation 'sdpa' or 'eager'"
        )
    return found


def head_states(classifier: Classifier, states: torch.Tensor) -> tuple[torch.Tensor, nn.Linear]:
    """What the head's last linear map reads of each vector (..., d), put where the head expects one, and that map.

    Raises UnsupportedError for a head that is not built as `models.architectures` says.
    """
    model: Any = classifier.model
    head = architecture(model.config).head
    assert head is not None
    with unusual_build(model.config):
        if head.dense is not None:
            states = attrgetter(head.dense)(model)(states)
        if head.activation is not None:
            states = activation_of(model, head.activation)(states)
        if head.norm is not None:
            states = attrgetter(head.norm)(model)(states)
        last = attrgetter(head.classifier)(model)
        if not isinstance(last, nn.Linear):
            raise AttributeError(f"its classifier is a {type(last).__name__}, not a linear map")
    return states, last
