"""Models that accelerate spreads over several devices, and a mode to use their tensors as if they were on one device.

accelerate hooks each module so that its inputs are moved to the device of its weights. Weights that do not fit on a GPU
stay in main memory or on disk, and are moved to the main device while their module computes. The model's output is
moved back to the main device. A state taken from a layer is on the layer's device; `OnOneDevice` moves it.
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
from explearn.predictors.architectures import blocks_in_order

OFFLOADED = (
    "reads weights by themselves, and some are offloaded to memory or disk; expected devices that hold all of them "
    "(EXPLEARN_MAX_MEMORY), or a method that runs the model as it is, such as attcat, integrated_gradients or occlusion"
)
"""Message for a method that cannot explain a classifier with offloaded weights."""

_ELSEWHERE = ("cpu", "disk")

_BETWEEN_DEVICES = frozenset({torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward, torch.Tensor.copy_})
"""Functions that accept tensors on several devices. Moved copies would get the gradients in place of the tensors."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The devices of a model's parts.

    Attributes:
        devices: the devices that compute; the first is the main one, for inputs and outputs.
        offloaded: whether some weights are elsewhere until their module computes.
        folder: folder of the weights on disk; it is removed with this object.
    """

    devices: tuple[torch.device, ...]
    offloaded: bool
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)


def spread_of(model: nn.Module) -> Spread | None:
    """Return the devices of a model that accelerate has spread; None for a model on one device."""
    hook: Any = getattr(model, "_hf_hook", None)
    if hook is None:
        return None
    places: Any = [hook.execution_device, *getattr(model, "hf_device_map", {}).values()]
    devices = dict.fromkeys(torch.device(_device(place)) for place in places if place not in _ELSEWHERE)
    offloaded = any(parameter.device.type == "meta" for parameter in model.parameters())
    return Spread(tuple(devices) or (torch.device("cpu"),), offloaded)


def spread(model: nn.Module, compute: ComputeOptions, name: str) -> Spread | None:
    """Move the parts of a model, now in main memory, as `compute.device_map` says; return None if that is one device.

    Raises MissingExtraError without accelerate, DeviceError for a missing device, ParamsError for a map that does not
    fit the model, UnsupportedError for a model that cannot be divided.
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
            # Classes of modules that stay on one device: terms that a block adds up must be on the same device.
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
            # accelerate writes weights to disk under the names of modules, and "" is not a name.
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
    """A mode in which operations on tensors of several devices run on the device of the first tensor.

    So methods can add, multiply or stack tensors of several layers without knowing their devices. The mode acts only in
    its own thread. Raises UnsupportedError if offloaded weights are read by themselves.
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
                # A scalar on the CPU can be combined with tensors on any device.
                moved = [
                    leaf.to(first)
                    if isinstance(leaf, torch.Tensor) and (leaf.ndim or leaf.device.type != "cpu")
                    else leaf
                    for leaf in leaves
                ]
                args, kwargs = tree_unflatten(moved, structure)
        return func(*args, **kwargs)
