"""Compute options: device, numeric precision and batch budget; finite weights, and the peak of memory used.

None of this is a pipeline parameter. Results may differ in their last digits between devices and precisions, but moving
to a GPU must not make every cached stage stale, so these settings come from options and environment variables.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from explearn.core.errors import DeviceError, ModelError, ParamsError, shown
from explearn.core.validation import MOST

if TYPE_CHECKING:
    import torch

Precision = Literal["auto", "fp32", "bf16", "fp16", "saved", "nf4", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

Place = str | int
"""A device by name, a GPU by its number, "cpu" or "disk"."""

DeviceMap = str | Mapping[str, Place]
"""How to divide a model: one of RULES, or a map from names of modules to places, where "" is the whole model. As in
accelerate (https://huggingface.co/docs/accelerate/concept_guides/big_model_inference)."""

RULES = ("auto", "balanced", "balanced_low_0", "sequential")

CPU_BATCH_TOKENS = 1024
"""Padded sub-tokens per batch on a CPU: larger batches do not fit the cache and are no faster (measured on 2 cores)."""

GPU_BYTES_PER_TOKEN = 2**20
"""Working memory assumed for one padded sub-token when the budget is set from the free memory of a GPU: enough for the
activations of a 24-layer, 1024-wide encoder with its gradients."""

GPU_MAX_BATCH_TOKENS = 131_072

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class ComputeOptions:
    """Options shared by all stages and by `load_classifier`.

    Attributes:
        device: auto (CUDA if there is one, else MPS, else the CPU), cpu, cuda, cuda:N or mps.
        precision: fp32 (the default; last digits may still differ between devices), bf16, fp16, or auto: on CUDA bf16
            where it is native, else fp16; elsewhere fp32, so that processors agree. These apply to matrix products,
            with weights in float32. saved: weights keep the precision of their file, bf16 in half the memory; scores
            are float32. nf4, int8: the encoder's linear layers are quantised to 4 or 8 bits while it is loaded
            (`model.quantised`).
        max_tokens: most sub-tokens in a batch, including padding, or auto.
        device_map: spread the model over several devices, and offload what does not fit; replaces `device`.
        max_memory: with device_map, most bytes of weights on each device: a number, or a size such as "20GiB".

    Raises:
        DeviceError: the device is unknown.
        ParamsError: another option cannot be used.

    Example:
        >>> import explearn
        >>> explearn.ComputeOptions(device="cpu", precision="bf16").precision
        'bf16'
    """

    device: str = "auto"
    precision: Precision = "fp32"
    max_tokens: int | Literal["auto"] = "auto"
    device_map: DeviceMap | None = None
    max_memory: Mapping[Place, Place] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.device, str) or not _DEVICE.fullmatch(self.device):
            raise DeviceError(f"device {shown(self.device)} is not known; expected auto, cpu, cuda, cuda:N or mps")
        if self.precision not in PRECISIONS:
            raise ParamsError(f"precision: got {shown(self.precision)}; expected one of {', '.join(PRECISIONS)}")
        tokens = self.max_tokens
        if tokens != "auto" and (type(tokens) is not int or not 1 <= tokens <= MOST):
            raise ParamsError(f"max-tokens: got {shown(tokens)}; expected a positive number of sub-tokens, or auto")
        if self.device_map is None:
            if self.max_memory is not None:
                raise ParamsError("max-memory: got a size for a device, but no device-map; expected that as well")
            return
        by_module = isinstance(self.device_map, Mapping) and bool(self.device_map)
        if not by_module and self.device_map not in RULES:
            raise ParamsError(
                f"device-map: got {shown(self.device_map)}; expected {', '.join(RULES)}, or each module's device"
            )
        if self.device != "auto":
            raise ParamsError(f"device-map: got device {self.device!r} as well; expected one of them")

    def check_one_device(self, what: str) -> None:
        """Raise ParamsError if there is a device_map, for a task that needs one device.

        Args:
            what: the task, for the message.
        """
        if self.device_map is not None:
            raise ParamsError(f"device-map: {what} runs on one device; set device instead")

    def resolve_device(self) -> torch.device:
        """Return the device; raise DeviceError if this machine does not have it."""
        import torch

        name = self.device
        if name == "auto":
            if torch.cuda.is_available():
                return torch.device("cuda")
            if torch.backends.mps.is_available():
                return torch.device("mps")
            return torch.device("cpu")
        kind, _, index = name.partition(":")
        if kind == "cuda":
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if int(index or 0) >= count:
                raise DeviceError(
                    f"device {name!r}: this machine has {count} usable CUDA devices; use device cpu or auto"
                )
        if kind == "mps" and not torch.backends.mps.is_available():
            raise DeviceError("device 'mps': this machine has no usable MPS device; use device cpu or auto")
        return torch.device(name)

    def resolve_dtype(self, device: torch.device) -> torch.dtype:
        """Return the dtype of matrix products; raise DeviceError if the device does not support the precision.

        Args:
            device: the device of the model.
        """
        import torch

        if self.precision == "auto":
            if device.type == "cuda":
                if torch.cuda.is_bf16_supported(including_emulation=False):
                    return torch.bfloat16
                return torch.float16
            return torch.float32
        if self.precision == "fp16" and device.type == "cpu":
            raise DeviceError("precision 'fp16' needs a GPU; on a CPU use fp32, bf16 or auto")
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision, torch.float32)

    def resolve_max_tokens(self, device: torch.device) -> int:
        """Return the most padded sub-tokens in a batch.

        Args:
            device: the device of the model.
        """
        import torch

        if self.max_tokens != "auto":
            return self.max_tokens
        if device.type != "cuda":
            return CPU_BATCH_TOKENS
        free, _ = torch.cuda.mem_get_info(device)
        return max(1024, min(GPU_MAX_BATCH_TOKENS, free // 2 // GPU_BYTES_PER_TOKEN))


def read_max_memory(option: str) -> dict[Place, Place] | None:
    """Return EXPLEARN_MAX_MEMORY's value, `0=20GiB,cpu=60GiB`, as device -> size; None for an empty string."""
    if not option:
        return None
    sizes: dict[Place, Place] = {}
    for entry in option.split(","):
        device, _, size = (part.strip() for part in entry.partition("="))
        sizes[int(device) if device.isdecimal() else device] = size
    return sizes


def autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[None]:
    """Autocast to `dtype`, or do nothing for float32 and float64."""
    import torch

    if dtype in (torch.bfloat16, torch.float16):
        return torch.autocast(device.type, dtype=dtype)
    return contextlib.nullcontext()


def at_least_float32(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float32, or unchanged if it is float64."""
    import torch

    return tensor if tensor.dtype == torch.float64 else tensor.float()


def check_weights(named: Iterable[tuple[str, torch.Tensor]], what: str, hint: str) -> None:
    """Raise ModelError if a weight is NaN or infinite.

    Args:
        named: names and values, as returned by `named_parameters` or `state_dict().items()`.
        what: owner of the weights, at the start of the message.
        hint: what the reader can do, at its end.
    """
    for name, tensor in named:
        if tensor.is_floating_point() and not tensor.isfinite().all():
            bad = int((~tensor.isfinite()).sum())
            raise ModelError(
                f"{what}: {bad:,} of the {tensor.numel():,} values of {name} are NaN or infinite; expected finite "
                f"weights; {hint}"
            )


# ---- memory ----------------------------------------------------------------------------------------------------------

_RESET = Path("/proc/self/clear_refs")
"""Linux: writing 5 resets the peak of the process (proc(5))."""


def peak_from_here(device: torch.device) -> Callable[[], float | None]:
    """Start measuring memory. The returned function gives the peak since then, in MiB.

    On a CUDA device this is the memory that PyTorch has allocated there. Elsewhere it is the process's resident memory,
    including Python and the model; None if the system does not let a process reset its peak (macOS, some containers).
    """
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return lambda: torch.cuda.max_memory_allocated(device) / 2**20
    try:
        _RESET.write_text("5", encoding="ascii")
    except OSError:
        return lambda: None

    def peak() -> float:
        # Not ru_maxrss: that is never below the peak of the process that started this one.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.partition("VmHWM:")[2].split()[0]) / 2**10  # in KiB

    return peak
