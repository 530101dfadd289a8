"""Where and how fast to compute: device, numeric precision, batch budget, compilation.

None of this is a pipeline parameter. A result may differ in its last digits between devices and precisions, but moving
to a GPU must not make every cached stage stale, so these come from options and environment variables.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from explearn.core.device_map import DeviceMap, Place, check_device_map, check_max_memory
from explearn.core.errors import DeviceError, ParamsError
from explearn.core.settings import MOST

if TYPE_CHECKING:
    import torch

Precision = Literal["auto", "fp32", "bf16", "fp16", "saved"]
PRECISIONS: tuple[Precision, ...] = ("auto", "fp32", "bf16", "fp16", "saved")

CPU_BATCH_TOKENS = 1024
"""Padded sub-tokens per batch on a CPU: larger batches do not fit the cache and are no faster (measured on 2 cores)."""

GPU_BYTES_PER_TOKEN = 2**20
"""Working memory assumed for one padded sub-token when the budget is set from the free memory of a GPU: enough for the
activations of a 24-layer, 1024-wide encoder with its gradients."""

GPU_MAX_BATCH_TOKENS = 131_072

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """Options shared by all stages and by `Classifier.from_pretrained`.

    Attributes:
        device: auto (CUDA if there is one, else MPS, else the CPU), cpu, cuda, cuda:N or mps.
        precision: fp32 (the default; last digits may still differ between devices), bf16, fp16, or auto: bf16 where
            the device computes it natively, else fp16 on CUDA, else fp32. These are of matrix products, over weights in
            float32. saved: weights stay as their file has them, bf16 ones in half the memory; scores are float32.
        max_tokens: most sub-tokens in a batch, padding included, or auto.
        compile: run the classifier's plain forward pass through torch.compile.
        device_map: spread the model over several devices, and offload what finds no room on them (`core.device_map`);
            in the place of a device.
        max_memory: with device_map, most bytes of weights on each device: a number, or a size such as "20GiB".
    """

    device: str = "auto"
    precision: Precision = "fp32"
    max_tokens: int | Literal["auto"] = "auto"
    compile: bool = False
    device_map: DeviceMap | None = None
    max_memory: Mapping[Place, Place] | None = None

    def __post_init__(self) -> None:
        """Raises DeviceError for a device that is none, also where it will not be used."""
        if not isinstance(self.device, str) or not _DEVICE.fullmatch(self.device):
            raise DeviceError(f"device {self.device!r:.40} is not known; expected auto, cpu, cuda, cuda:N or mps")
        if self.precision not in PRECISIONS:
            raise ParamsError(f"precision: got {self.precision!r}; expected one of {', '.join(PRECISIONS)}")
        tokens = self.max_tokens
        if tokens != "auto" and (type(tokens) is not int or not 1 <= tokens <= MOST):
            raise ParamsError(f"max-tokens: got {tokens!r}; expected a positive number of sub-tokens, or auto")
        if self.device_map is None:
            if self.max_memory is not None:
                raise ParamsError("max-memory: got a size for a device, but no device-map; expected that as well")
            return
        check_device_map(self.device_map)
        if self.max_memory is not None:
            check_max_memory(self.max_memory)
        if self.device != "auto":
            raise ParamsError(f"device-map: got device {self.device!r} as well; expected one of them")
        if self.compile:
            raise ParamsError(
                "device-map: got compile as well; expected one of them, for a spread model is not compiled"
            )

    def check_one_device(self, what: str) -> None:
        """Raise ParamsError for a device_map, where only one device will do."""
        if self.device_map is not None:
            raise ParamsError(f"device-map: {what} takes one device; expected --device in its place")

    def resolve_device(self) -> torch.device:
        """Raises DeviceError when the device named is not on this machine."""
        import torch

        name = self.device
        if name == "auto":
            if torch.cuda.is_available():
                return torch.device("cuda")
            return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
        kind, _, index = name.partition(":")
        if kind == "cuda":
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if int(index or 0) >= count:
                raise DeviceError(
                    f"device {name!r} asked for, but this machine has {count} usable CUDA devices; "
                    "use --device cpu or --device auto"
                )
        if kind == "mps" and not torch.backends.mps.is_available():
            raise DeviceError("device 'mps' asked for, but this machine has no usable MPS device; use --device cpu")
        return torch.device(name)

    def resolve_dtype(self, device: torch.device) -> torch.dtype:
        """dtype of matrix products. Raises DeviceError when the device has no such precision."""
        import torch

        if self.precision == "auto":
            if _native_bf16(device):
                return torch.bfloat16
            return torch.float16 if device.type == "cuda" else torch.float32
        if self.precision == "fp16" and device.type == "cpu":
            raise DeviceError("precision 'fp16' needs a GPU; on a CPU use fp32, bf16 or auto")
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision, torch.float32)

    def resolve_max_tokens(self, device: torch.device) -> int:
        """Most padded sub-tokens in a batch."""
        import torch

        if self.max_tokens != "auto":
            return self.max_tokens
        if device.type != "cuda":
            return CPU_BATCH_TOKENS
        free, _ = torch.cuda.mem_get_info(device)
        return max(1024, min(GPU_MAX_BATCH_TOKENS, free // 2 // GPU_BYTES_PER_TOKEN))


def _native_bf16(device: torch.device) -> bool:
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))
    return False


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[None]:
    """Autocast to `dtype`, or do nothing for float32 and float64."""
    import torch

    if dtype in (torch.bfloat16, torch.float16):
        return torch.autocast(device.type, dtype=dtype)
    return contextlib.nullcontext()


def peak_memory_mb(device: torch.device) -> float:
    """Largest memory in use so far, in MiB: allocated on a CUDA device, else resident in this process."""
    import resource
    import sys

    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
