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
from torch import Tensor, nn
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

_BETWEEN_DEVICES = frozenset({torch.autograd.grad, torch.autograd.backward, Tensor.backward, Tensor.copy_})
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
    parts: Any = [hook.execution_device, *getattr(model, "hf_device_map", {}).values()]
    devices = dict.fromkeys(torch.device(_device(device)) for device in parts if device not in _ELSEWHERE)
    offloaded = any(parameter.device.type == "meta" for parameter in model.parameters())
    return Spread(tuple(devices) or (torch.device("cpu"),), offloaded)


def spread(model: nn.Module, compute: ComputeOptions, name: str) -> Spread | None:
    """Move the parts of a model, now in main memory, to the devices of `compute.device_map`.

    Args:
        model: the model.
        compute: the device map, and the memory of each device.
        name: name of the model, for messages.

    Returns:
        The devices; None if there is only one.

    Raises:
        MissingExtraError: accelerate is not installed.
        DeviceError: a device is missing.
        ParamsError: the map does not fit the model.
        UnsupportedError: the model cannot be divided.
    """
    accelerate = need("accelerate", extra="large", what="device-map")
    device_map: Any = compute.device_map
    named = list(compute.max_memory or ())
    if isinstance(device_map, Mapping):
        named.extend(device_map.values())
    folder = None
    try:
        for device in named:
            if device not in _ELSEWHERE:
                ComputeOptions(_device(device)).resolve_device()
        if not isinstance(device_map, Mapping):
            device_map = _device_map(accelerate, model, compute)
        if "" in device_map:
            # accelerate writes weights to disk under the names of modules, and "" is not a name.
            children = {path: device_map[""] for path, module in model.named_children() if module.state_dict()}
            device_map = children | {path: device for path, device in device_map.items() if path}
        if "disk" in device_map.values():
            folder = tempfile.TemporaryDirectory(prefix="explearn-offload-")
        accelerate.dispatch_model(model, dict(device_map), offload_dir=folder and folder.name)
    except ValueError as error:
        raise ParamsError(f"device-map: does not fit {name} ({first_line(error):.200})") from error
    devices = spread_of(model)
    if devices is None:
        return None
    return replace(devices, folder=folder)


def _device_map(accelerate: Any, model: Any, compute: ComputeOptions) -> Any:
    """Return a device for each part of a model, by one of accelerate's rules."""
    # Classes of modules that stay on one device: terms that a block adds up must be on the same device.
    whole: set[str] = set()
    for module in model.modules():
        whole.update(getattr(module, "_no_split_modules", None) or ())
    if not whole:
        whole = {type(block).__name__ for block in blocks_in_order(model.base_model)}
    whole |= {type(module).__name__ for path, module in model.named_modules() if path.endswith("embeddings")}
    classes = sorted(whole)
    memory: Any = compute.max_memory and dict(compute.max_memory)
    if compute.device_map == "sequential":
        memory = accelerate.utils.get_max_memory(memory)
    else:
        low_zero = compute.device_map == "balanced_low_0"
        memory = accelerate.utils.get_balanced_memory(model, memory, no_split_module_classes=classes, low_zero=low_zero)
    return accelerate.infer_auto_device_map(model, memory, no_split_module_classes=classes)


def _device(device: Any) -> str:
    if str(device).isdigit():
        return f"cuda:{device}"
    return str(device)


class OnOneDevice(TorchFunctionMode):
    """A mode in which operations on tensors of several devices run on the device of the first tensor.

    So methods can add, multiply or stack tensors of several layers without knowing their devices. The mode acts only in
    its own thread.

    Raises:
        UnsupportedError: offloaded weights are read directly.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _BETWEEN_DEVICES:
            leaves, structure = tree_flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            devices = {tensor.device for tensor in tensors}
            first = next((tensor.device for tensor in tensors if tensor.ndim), None)
            if len(devices) > 1 and any(device.type == "meta" for device in devices):
                raise UnsupportedError(f"this method {OFFLOADED}")
            if len(devices) > 1 and first is not None:
                for position, leaf in enumerate(leaves):
                    # A scalar on the CPU can be combined with tensors on any device.
                    if isinstance(leaf, Tensor) and (leaf.ndim or leaf.device.type != "cpu"):
                        leaves[position] = leaf.to(first)
                args, kwargs = tree_unflatten(leaves, structure)
        return func(*args, **kwargs)
