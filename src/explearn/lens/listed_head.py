"""Whether a classifier's head is the one that `predictors.architectures` lists; the model itself is asked, once."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from explearn.core.errors import UnsupportedError
from explearn.lens.anatomy import activation_of, check_head, check_outputs, linear_map
from explearn.lens.attention import layer_count, read_weights
from explearn.lens.hooks import Hooks
from explearn.lens.watch import watch
from explearn.predictors.architectures import architecture, unusual_build
from explearn.predictors.checks import same_logits
from explearn.predictors.labelled import check_logits
from explearn.predictors.quantised import is_quantised

if TYPE_CHECKING:
    from explearn.predictors.transformer import TransformerPredictor

Found = TypeVar("Found")

READ_ELSEWHERE = 0.01
"""Share of the largest gradient at the encoder's output that may be rounding."""


class _Facts(NamedTuple):
    """What a model's head turned out to be.

    Attributes:
        reads: whether it reads the tokens that the table says, and no others.
        listed: whether the parts in the table give its logits.
    """

    reads: bool
    listed: bool


def check_reads(classifier: TransformerPredictor) -> None:
    """Raise UnsupportedError for a head that does not read the token, or the mean, that the table says.

    A model without a classification head passes.
    """
    layer_count(classifier.model)
    if not getattr(classifier.model, "no_head", "") and not _once(classifier, _head_facts).reads:
        raise UnsupportedError(_unusual(classifier, "reads other tokens than"))


def check_listed_head(classifier: TransformerPredictor) -> None:
    """Raise UnsupportedError for a head whose logits the parts in the table, and their weights, do not give."""
    check_head(classifier.model)
    check_outputs(classifier.model)
    if not _once(classifier, _head_facts).listed:
        raise UnsupportedError(_unusual(classifier, "gives other logits than"))
    check_weights(classifier, nn.Linear, nn.LayerNorm)


def check_weights(classifier: TransformerPredictor, *kinds: type[nn.Module]) -> None:
    """Raise UnsupportedError for a model with a part that gives something else than its weights say.

    A hook does this, or a `forward` that somebody replaced; a method that reads the weights would not see it.

    Args:
        classifier: the classifier.
        kinds: kinds of parts whose weights are read: `nn.Linear`, `nn.LayerNorm`.
    """
    for kind, path in _once(classifier, _changed_parts):
        if issubclass(kind, kinds):
            raise UnsupportedError(
                f"{classifier.name}: its {path} gives something else than its weights say, as "
                "after a hook, and this method reads weights; expected a model without the hook, or attcat, "
                "input_x_gradient, integrated_gradients or occlusion"
            )


def _changed_parts(classifier: TransformerPredictor) -> list[tuple[type[nn.Module], str]]:
    """Return kind and path of the linear maps and layer norms that give something else than their weights say."""
    batch = classifier.batch(classifier.read_samples("a b c d"))
    changed: list[tuple[type[nn.Module], str]] = []
    with Hooks() as hooks:
        runs = {}
        for path, module in classifier.model.named_modules():
            if isinstance(module, nn.Linear | nn.LayerNorm) and not is_quantised(module):
                runs[path] = (module, hooks.record(module))
        classifier.logits(batch)
    for path, (module, run) in runs.items():
        if not isinstance(run.input, Tensor) or not isinstance(run.output, Tensor):
            continue  # it did not run, or is a mixture's router, which gives several
        inputs = run.input.to(module.weight.device)
        if isinstance(module, nn.Linear):
            expected = functional.linear(inputs, module.weight, module.bias)
        else:
            expected = functional.layer_norm(inputs, module.normalized_shape, module.weight, module.bias, module.eps)
        if run.output.shape != expected.shape or not same_logits(classifier, run.output.to(expected), expected):
            changed.append((type(module), path))
    return changed


_measured: WeakKeyDictionary[nn.Module, tuple[object, dict[Callable[..., Any], Any]]] = WeakKeyDictionary()
"""Model -> its parts and their hooks when it was measured, and by function what was found."""


def _once(classifier: TransformerPredictor, measure: Callable[[TransformerPredictor], Found]) -> Found:
    """Return what a function finds in a classifier's model; it is called again once parts or hooks are others."""
    model = classifier.model
    parts = []
    for module in model.modules():
        given = [module.__dict__.get("forward"), *module._forward_pre_hooks.values(), *module._forward_hooks.values()]
        # Hooks of our own come and go with each pass.
        parts.append((id(module), *(id(code) for code in given if getattr(code, "__module__", "") != Hooks.__module__)))
    before, found = _measured.get(model, (None, {}))
    if before != parts:
        found = {}
        _measured[model] = (parts, found)
    if measure not in found:
        with torch.inference_mode(False), torch.enable_grad(), classifier.gathered(), classifier.autocast():
            found[measure] = measure(classifier)
    return found[measure]  # type: ignore[no-any-return]


def _head_facts(classifier: TransformerPredictor) -> _Facts:
    """Compare a text's logits, and their gradient at the encoder's output, with what the table says."""
    model = classifier.model
    batch = classifier.batch(classifier.read_samples("a b c d"))
    run = watch(classifier, batch, first_layer=-1)
    check_logits(run.logits.detach().float().cpu().numpy(), classifier.name)
    weights = read_weights(model, batch).to(run.states)
    # Unequal weights: the two logits of a model with one output add up to 0.
    total = (run.logits * torch.arange(1, run.logits.shape[-1] + 1, device=run.logits.device)).sum()
    (gradient,) = torch.autograd.grad(total, run.states)
    expected = weights[..., None] * gradient.sum(1, keepdim=True)
    elsewhere = float((gradient - expected).abs().max())
    try:
        activated, last = head_states(model, torch.einsum("bn,bnd->bd", weights, run.states))
        by_token, _ = head_states(model, run.states)
        logits = [
            last(activated),
            torch.einsum("bn,bnc->bc", weights, last(by_token)),
        ]  # mean before or behind the head
        listed = any(same_logits(classifier, one.detach(), run.logits.detach()) for one in logits)
    except (RuntimeError, UnsupportedError):  # parts that do not fit each other, or are not there
        listed = False
    return _Facts(listed or elsewhere <= READ_ELSEWHERE * float(gradient.abs().max()), listed)


def _unusual(classifier: TransformerPredictor, does: str) -> str:
    return (
        f"{classifier.name} has a head of its own, which {does} that of other "
        f"{classifier.model.config.model_type!r} models; attn_lrp, attcat, input_x_gradient, integrated_gradients and "
        "occlusion explain it"
    )


def head_states(model: Any, states: Tensor) -> tuple[Tensor, nn.Linear]:
    """Return what the head's last linear map reads of each vector (..., d), put where it expects one, and the map.

    Raises:
        UnsupportedError: the head is not built as the table says.
    """
    head = architecture(model.config).head
    assert head is not None
    with unusual_build(model.config):
        for part in (head.dense, head.activation, head.norm):
            if part is not None:
                states = activation_of(model, part)(states)
        return states, linear_map(attrgetter(head.classifier)(model))
