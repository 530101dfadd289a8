"""How much memory something takes at most, measured from its own start, whatever ran before in the process."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.core.compute import peak_memory_mb

if TYPE_CHECKING:
    import torch

_RESET = Path("/proc/self/clear_refs")
"""Linux: writing 5 makes the peak of the process start anew (proc(5))."""


def peak_from_here(device: torch.device) -> Callable[[], float | None]:
    """Start measuring; what is returned gives the largest memory in use since then, in MiB.

    On a CUDA device that is what PyTorch has allocated there. Elsewhere it is the process's resident memory, Python and
    the model included; None where the system does not let a process start its peak anew (macOS, some containers).
    """
    gc.collect()
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return lambda: peak_memory_mb(device)
    # The C library keeps what was freed; a method run later would be charged for it.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if _RESET.exists() else None
    if trim is not None:
        trim(0)
    try:
        _RESET.write_text("5", encoding="ascii")
    except OSError:
        return lambda: None
    return lambda: peak_memory_mb(device)
