"""Memory of the process: its peak from a given moment on, and whether what is freed is kept."""

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
"""Linux: writing 5 resets the peak of the process (proc(5))."""


def peak_from_here(device: torch.device) -> Callable[[], float | None]:
    """Start measuring. The function returned gives the largest memory in use since then, in MiB.

    On a CUDA device that is what PyTorch has allocated there. Elsewhere it is the process's resident memory, Python and
    the model included; None where the system does not let a process reset its peak (macOS, some containers).
    """
    gc.collect()
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return lambda: peak_memory_mb(device)
    # The C library keeps freed memory; it would count for the method that runs next.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if _RESET.exists() else None
    if trim is not None:
        trim(0)
    try:
        _RESET.write_text("5", encoding="ascii")
    except OSError:
        return lambda: None
    return lambda: peak_memory_mb(device)
