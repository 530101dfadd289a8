"""Devices that a machine without GPUs can pretend to have: tensors of the CPU that say they lie elsewhere.

Every operation on tensors of two devices fails, as it does on GPUs, and autograd works. The devices are `lazy:0`,
`lazy:1`, ...: torch runs the backward pass of this kind of device as it runs the CPU's.
"""

from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

FIRST = "lazy:0"
SECOND = "lazy:1"

_CPU = torch.device("cpu")
_BETWEEN = ("aten::copy_", "aten::_to_copy")


class Elsewhere(torch.Tensor):
    """A tensor of the CPU that says it lies on another device."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, device):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=device,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner, device):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _run(func, args, kwargs):
    given = tree_flatten((args, kwargs))[0]
    actual = [value for value in given if isinstance(value, torch.Tensor)]
    # A number of the CPU goes with any device.
    places = {tensor.device for tensor in actual if tensor.ndim or tensor.device != _CPU}
    name = func.name()
    if name not in _BETWEEN and len(places) > 1:
        raise RuntimeError(f"{name}: tensors on {', '.join(sorted(map(str, places)))}")
    own = actual[0].device if name == "aten::copy_" else next(iter(places), _CPU)
    device = next((value for value in given if isinstance(value, torch.device)), own)

    def inside(value):
        if isinstance(value, Elsewhere):
            return value.inner
        return _CPU if isinstance(value, torch.device) and value.type == "lazy" else value

    def outside(value):
        if not isinstance(value, torch.Tensor) or isinstance(value, Elsewhere) or device.type != "lazy":
            return value
        with torch.inference_mode(False), torch.no_grad():
            return Elsewhere(value, device)

    result = func(*tree_map(inside, args), **tree_map(inside, kwargs))
    if not func._schema.returns:  # optimisers change lists of tensors in place
        return None
    in_place = name.split(".")[0].endswith("_") and not name.split(".")[0].endswith("__")
    return args[0] if in_place else tree_map(outside, result)


class _Devices(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Made(TorchFunctionMode):
    """What torch does on its own side, for tensors of the kinds of device that it knows."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.tolist:
            return args[0].cpu().tolist()
        if func is torch.tensor and (device := kwargs.pop("device", None)) is not None:
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


@contextmanager
def pretend_devices():
    """While entered, `lazy:N` are devices."""
    whole = torch.autocast

    def autocast(kind, *args, **kwargs):
        return whole("cpu" if kind == "lazy" else kind, *args, **kwargs)

    with _Devices(), _Made(), patch.object(torch, "autocast", autocast):
        yield
