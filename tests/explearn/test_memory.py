"""The largest memory that something takes, told apart from what ran before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from explearn.core import memory
from explearn.core.memory import peak_from_here

CPU = torch.device("cpu")
LARGE, SMALL = 400 * 2**20, 100 * 2**20


def take(size: int) -> None:
    np.ones(size, dtype=np.uint8)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not let a peak start anew")
def test_a_peak_is_that_of_what_came_after_the_start_alone():
    rest = peak_from_here(CPU)()
    assert rest is not None
    take(LARGE)
    peak = peak_from_here(CPU)
    take(SMALL)
    found = peak()
    assert found is not None and 80 < found - rest < 200


def test_where_the_system_cannot_start_a_peak_anew_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_RESET", tmp_path / "absent" / "clear_refs")
    assert peak_from_here(CPU)() is None


def test_on_a_gpu_it_is_what_torch_allocated_there_since_the_start(monkeypatch):
    allocated = {"peak": 900 * 2**20}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: allocated.update(peak=100 * 2**20))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: allocated["peak"])
    peak = peak_from_here(torch.device("cuda"))
    allocated["peak"] += 50 * 2**20
    assert peak() == 150
