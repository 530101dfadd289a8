"""A model that accelerate has spread over several devices, and code that looks into it as if it were on one.

accelerate hooks each module so that its inputs come to the device where its weights are. Weights that find no room on a
GPU stay in the machine's memory or on its disk, and come to the main device for as long as their module computes. The
answer comes back to the main device. A state taken out of a layer lies where the layer is: `OnOneDevice` brings it to
the rest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError, UnsupportedError, first_line
from explearn.core.extras import need
from explearn.model.architectures import blocks_in_order

OFFLOADED = (
    "reads weights by themselves, and some are offloaded to memory or disk; expected devices that hold all of them "
    "(EXPLEARN_MAX_MEMORY), or a method that runs the model as it is, such as attcat, integrated_gradients or occlusion"
)
"""Why a method cannot explain a classifier with offloaded weights."""

_ELSEWHERE = ("cpu", "disk")

_BETWEEN_DEVICES = frozenset({torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward, torch.Tensor.copy_})
"""Functions that take tensors of several devices. A gradient at a copy would be none at the tensor itself."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The places of the parts of a model.

    Attributes:
        devices: those that compute; the first is the main one, where inputs go and answers come from.
        offloaded: whether some weights are elsewhere until their module computes.
        folder: of the weights on disk; it is removed with this object.
    """

    devices: tuple[torch.device, ...]
    offloaded: bool
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)


def spread_of(model: nn.Module) -> Spread | None:
    """Return how a model is spread that accelerate has put in its places; None for a model on one device."""
    hook: Any = getattr(model, "_hf_hook", None)
    if hook is None:
        return None
    places: Any = [hook.execution_device, *getattr(model, "hf_device_map", {}).values()]
    devices = dict.fromkeys(torch.device(_device(place)) for place in places if place not in _ELSEWHERE)
    offloaded = any(parameter.device.type == "meta" for parameter in model.parameters())
    return Spread(tuple(devices) or (torch.device("cpu"),), offloaded)


def spread(model: nn.Module, compute: ComputeOptions, name: str) -> Spread | None:
    """Put the parts of a model where `compute.device_map` says; return None where that is one device.

    The model is in the machine's memory. Raises MissingExtraError without accelerate, DeviceError for a device that is
    not there, ParamsError for a map that does not fit the model, UnsupportedError for one that cannot be divided.
    """
    accelerate = need("accelerate", extra="large", what="device-map")
    places: Any = compute.device_map
    of_any_kind: Any = model
    try:
        for place in (*(places.values() if isinstance(places, Mapping) else ()), *(compute.max_memory or ())):
            if place not in _ELSEWHERE:
                ComputeOptions(_device(place)).resolve_device()
        if not isinstance(places, Mapping):
            memory: Any = None if compute.max_memory is None else dict(compute.max_memory)
            # Classes of modules that stay on one device: terms that a block adds up must be in one place.
            kinds = {kind for module in model.modules() for kind in getattr(module, "_no_split_modules", None) or ()}
            kinds = kinds or {type(block).__name__ for block in blocks_in_order(of_any_kind.base_model)}
            embeddings = {type(m).__name__ for path, m in model.named_modules() if path.endswith("embeddings")}
            whole = sorted(kinds | embeddings)
            if places == "sequential":
                memory = accelerate.utils.get_max_memory(memory)
            else:
                memory = accelerate.utils.get_balanced_memory(
                    model, memory, no_split_module_classes=whole, low_zero=places == "balanced_low_0"
                )
            places = accelerate.infer_auto_device_map(model, memory, no_split_module_classes=whole)
        if "" in places:
            # accelerate writes weights to disk by the names of modules, and "" is none.
            children = {path: places[""] for path, module in model.named_children() if module.state_dict()}
            places = children | {path: place for path, place in places.items() if path}
        folder = tempfile.TemporaryDirectory(prefix="explearn-offload-") if "disk" in places.values() else None
        accelerate.dispatch_model(model, dict(places), offload_dir=folder and folder.name)
    except ValueError as error:
        raise ParamsError(f"device-map: does not fit {name} ({first_line(error):.200})") from error
    spread = spread_of(model)
    return None if spread is None else replace(spread, folder=folder)


def _device(place: Any) -> str:
    return f"cuda:{place}" if str(place).isdigit() else str(place)


class OnOneDevice(TorchFunctionMode):
    """A mode in which tensors of several devices are computed with on the device of the first of them.

    So methods that add up, multiply or stack what they took from several layers need not know where those are. It acts
    in its own thread alone. Raises UnsupportedError where weights that are offloaded are asked for by themselves.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _BETWEEN_DEVICES:
            leaves, structure = tree_flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            devices = {tensor.device for tensor in tensors}
            first = next((tensor.device for tensor in tensors if tensor.ndim), None)
            if len(devices) > 1 and any(device.type == "meta" for device in devices):
                raise UnsupportedError(f"this method {OFFLOADED}")
            if len(devices) > 1 and first is not None:
                # A number of the CPU goes with tensors of any device.
                moved = [
                    leaf.to(first)
                    if isinstance(leaf, torch.Tensor) and (leaf.ndim or leaf.device.type != "cpu")
                    else leaf
                    for leaf in leaves
                ]
                args, kwargs = tree_unflatten(moved, structure)
        return func(*args, **kwargs)
