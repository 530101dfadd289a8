"""The largest memory that something takes, told apart from what ran before it."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
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


ROUNDS = """
import ctypes, resource, sys
from explearn.core.memory import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
c, size = ctypes.CDLL(None), 2**23
c.malloc.restype = ctypes.c_void_p
before = 0
for number in range(11):
    taken = [ctypes.c_void_p(c.malloc(size)) for _ in range(3)]
    for place in taken:
        c.memset(place, 1, size)
    for place in taken:
        c.free(place)
    if number == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""Three buffers of 8 MiB that are taken and freed together, as in a layer; prints page faults after the first round."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_what_a_process_frees_it_takes_again_without_asking_for_new_pages():
    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", ROUNDS, how], check=True, stdout=subprocess.PIPE, text=True)
        return int(done.stdout)

    of_a_round = 3 * 2**23 // resource.getpagesize()
    assert faults("keep") < of_a_round / 10
    assert faults("as it is") > 5 * of_a_round
