"""A model that is spread over several devices by accelerate, and what looks into it as if it were on one.

accelerate hooks each module so that its inputs come to the device where its weights are. Weights that find no room on a
GPU stay in the machine's memory or on its disk, and come to the main device for as long as their module computes. The
answer comes back to the main device. What a method took out of a layer lies where the layer is: `OnOneDevice` brings
it to the rest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from explearn.core.compute import ComputeOptions
from explearn.core.device_map import Place
from explearn.core.errors import ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.extras import need
from explearn.model.architectures import blocks_in_order

OFFLOADED = (
    "reads weights by themselves, and some are offloaded to memory or disk; expected devices that hold all of them "
    "(--max-memory), or a method that runs the model as it is, such as attcat, integrated_gradients or occlusion"
)
"""What a method says of itself that cannot explain a classifier with offloaded weights."""

_ELSEWHERE = ("cpu", "disk")

_BETWEEN_DEVICES = frozenset({torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward, torch.Tensor.copy_})
"""What takes tensors of several devices as it is. A gradient at a copy would be none at the tensor itself."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the parts of a model are.

    Attributes:
        devices: those that compute; the first is the main one, where inputs go and answers come from.
        offloaded: whether some weights are elsewhere until their module computes.
        folder: of the weights on disk; it is removed with this object.
    """

    devices: tuple[torch.device, ...]
    offloaded: bool
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)


def spread_of(model: nn.Module) -> Spread | None:
    """How a model is spread that accelerate has put in its places; None for a model on one device."""
    places: Mapping[str, Any] | None = getattr(model, "hf_device_map", None)
    hook: Any = getattr(model, "_hf_hook", None)
    if not places or hook is None:
        return None
    return _spread(model, [hook.execution_device, *places.values()], None)


def spread(model: nn.Module, compute: ComputeOptions, name: str) -> Spread | None:
    """Put the parts of a model where `compute.device_map` says; None where that is one device.

    The model is in the machine's memory. Raises MissingExtraError without accelerate, DeviceError for a device that is
    not there, ParamsError for a map that does not fit the model, ModelError for one that cannot be divided.
    """
    accelerate = need("accelerate", extra="large", what="device-map")
    places = _places(model, compute, name)
    if "" in places:
        # accelerate writes weights to disk by the names of modules, and "" is none.
        children = {path: places[""] for path, module in model.named_children() if module.state_dict()}
        places = children | {path: place for path, place in places.items() if path}
    for place in places.values():
        _check_there(place)
    folder = None
    if "disk" in places.values():
        folder = tempfile.TemporaryDirectory(prefix="explearn-offload-")
    main = _main(model, places)
    where = None if folder is None else folder.name
    try:
        accelerate.dispatch_model(model, dict(places), main_device=_device(main), offload_dir=where)
    except (ValueError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise ParamsError(f"device-map: does not fit {name} ({first_line(error)})") from error
    return _spread(model, [main, *places.values()], folder) if hasattr(model, "_hf_hook") else None


def _main(model: nn.Module, places: Mapping[str, Place]) -> Place:
    """The device that takes inputs: that of the embeddings, unless these are offloaded."""
    whole: Any = model
    table = whole.get_input_embeddings()
    (path,) = (path for path, module in model.named_modules() if module is table)
    holders = [module for module in places if module == "" or f"{path}.weight".startswith(f"{module}.")]
    first = [places[max(holders, key=len)]] if holders else []
    return next((place for place in (*first, *places.values()) if place not in _ELSEWHERE), "cpu")


def _spread(model: nn.Module, places: list[Any], folder: tempfile.TemporaryDirectory[str] | None) -> Spread:
    computing = dict.fromkeys(_device(place) for place in places if place not in _ELSEWHERE)
    offloaded = any(parameter.device.type == "meta" for parameter in model.parameters())
    return Spread(tuple(computing) or (torch.device("cpu"),), offloaded, folder)


def _device(place: Any) -> torch.device:
    return torch.device("cuda", int(place)) if str(place).isdigit() else torch.device(place)


def _places(model: nn.Module, compute: ComputeOptions, name: str) -> Mapping[str, Place]:
    """Module -> place: the map that was given, or what accelerate makes of a rule."""
    accelerate = need("accelerate", extra="large", what="device-map")
    given = compute.device_map
    if isinstance(given, Mapping):
        _check_modules(model, given, name)
        return given
    whole = _whole_modules(model, name)
    memory: Any = None if compute.max_memory is None else dict(compute.max_memory)
    for holder in memory or ():
        _check_there(holder)
    if given == "sequential":
        memory = accelerate.utils.get_max_memory(memory)
    else:
        low_zero = given == "balanced_low_0"
        memory = accelerate.utils.get_balanced_memory(model, memory, no_split_module_classes=whole, low_zero=low_zero)
    found: Mapping[str, Place] = accelerate.infer_auto_device_map(model, memory, no_split_module_classes=whole)
    return found


def _whole_modules(model: nn.Module, name: str) -> list[str]:
    """Classes of modules that stay on one device: what is added up across a block must be in one place."""
    found = {kind for module in model.modules() for kind in getattr(module, "_no_split_modules", None) or ()}
    if not found:
        whole: Any = model
        try:
            found = {type(block).__name__ for block in blocks_in_order(whole.base_model)}
        except (AttributeError, UnsupportedError) as error:
            raise ModelError(f"{name}: does not say which of its modules stay whole; give a map of modules") from error
    found |= {type(module).__name__ for path, module in model.named_modules() if path.endswith("embeddings")}
    return sorted(found)


def _check_modules(model: nn.Module, places: Mapping[str, Place], name: str) -> None:
    """Raise ParamsError for a module that there is not, and for weights without a place."""
    modules = dict(model.named_modules())
    if unknown := next((module for module in places if module not in modules), None):
        raise ParamsError(f"device-map: {name} has no module {unknown!r:.80}; expected names such as {_some(modules)}")
    for weight in model.state_dict():
        if not any(module == "" or weight.startswith(f"{module}.") or weight == module for module in places):
            raise ParamsError(f"device-map: says no place for {name}'s {weight}; expected one for every module")


def _some(modules: Mapping[str, nn.Module]) -> str:
    return ", ".join([name for name in modules if name][:3])


def _check_there(place: Place) -> None:
    """Raise DeviceError for a GPU that this machine lacks."""
    if place not in _ELSEWHERE:
        ComputeOptions(f"cuda:{place}" if str(place).isdigit() else str(place)).resolve_device()


class OnOneDevice(TorchFunctionMode):
    """While entered, whatever is computed from tensors of several devices is computed where the first of them is.

    So methods that add up, multiply or stack what they took from several layers need not know where those are. It acts
    in its own thread alone. Raises UnsupportedError where weights that are offloaded are asked for by themselves.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _BETWEEN_DEVICES:
            found: list[torch.Tensor] = []
            _collect(args, found)
            _collect(tuple(kwargs.values()), found)
            places = {tensor.device for tensor in found}
            if len(places) > 1:
                if any(place.type == "meta" for place in places):
                    raise UnsupportedError(f"this method {OFFLOADED}")
                first = next(tensor.device for tensor in found if tensor.ndim) if any(t.ndim for t in found) else None
                if first is not None:
                    args, kwargs = _moved(args, first), _moved(kwargs, first)
        return func(*args, **kwargs)


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    """Tensors of arguments, those in lists and tuples, too; in order."""
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, list | tuple):
        for entry in value:
            _collect(entry, found)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        # A number of the CPU goes with tensors of any device.
        return value if value.device == device or (value.ndim == 0 and value.device.type == "cpu") else value.to(device)
    if isinstance(value, dict):
        return {key: _moved(entry, device) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_moved(entry, device) for entry in value)
    return value
