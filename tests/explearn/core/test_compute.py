import subprocess
import sys

import numpy as np
import pytest
import torch
from trained_cases import keep

from explearn import DeviceError, ModelError, ParamsError
from explearn.core import compute
from explearn.core.compute import ComputeOptions, check_weights, peak_from_here, read_max_memory

CPU = torch.device("cpu")


class TestDevice:
    def test_auto_takes_the_best_there_is(self, monkeypatch):
        for cuda, mps, expected in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
            monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
            monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
            assert ComputeOptions().resolve_device().type == expected

    @pytest.mark.parametrize(("name", "count"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2), ("mps", 0)])
    def test_one_that_is_not_there(self, monkeypatch, name, count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        with pytest.raises(DeviceError, match=f"device '{name}': this machine has .*; use device cpu or auto"):
            ComputeOptions(device=name).resolve_device()


class TestPrecision:
    @pytest.mark.parametrize(
        ("precision", "expected"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("auto", torch.float32)]
    )
    def test_on_a_cpu(self, precision, expected):
        assert ComputeOptions(precision=precision).resolve_dtype(CPU) is expected

    @pytest.mark.parametrize(("native", "expected"), [(True, torch.bfloat16), (False, torch.float16)])
    def test_auto_on_a_gpu(self, monkeypatch, native, expected):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: native)
        assert ComputeOptions(precision="auto").resolve_dtype(torch.device("cuda")) is expected


class TestBudget:
    @pytest.mark.parametrize(("free", "expected"), [(2**20, 1024), (8 * 2**30, 4096), (2**40, 131_072)])
    def test_on_a_gpu_half_of_the_free_memory_counts(self, monkeypatch, free, expected):
        """1 MiB a sub-token, between 1,024 and 131,072."""
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (free, 2**40))
        assert ComputeOptions().resolve_max_tokens(torch.device("cuda")) == expected


class TestSpreading:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"max_memory": {0: "1GiB"}}, "max-memory: got a size for a device, but no device-map"),
            ({"device_map": "evenly"}, "device-map: got 'evenly'; expected auto, balanced"),
            ({"device_map": {}}, "device-map: got {}; expected auto"),
            ({"device_map": 3}, "device-map: got 3; expected auto"),
            ({"device_map": "auto", "device": "cpu"}, "device-map: got device 'cpu' as well"),
        ],
        ids=str,
    )
    def test_options_that_contradict_each_other(self, options, said):
        with pytest.raises(ParamsError, match=said):
            ComputeOptions(**options)

    def test_sizes_as_the_command_line_has_them(self):
        assert read_max_memory("0=20GiB, cpu=60GiB") == {0: "20GiB", "cpu": "60GiB"}
        assert read_max_memory("") is None


class TestPeakMemory:
    @pytest.mark.skipif(not compute._RESET.exists(), reason="the system does not let a peak start anew")
    def test_is_that_of_what_came_after_the_start(self):
        rest = peak_from_here(CPU)()
        np.ones(400 * 2**20, dtype=np.uint8)
        peak = peak_from_here(CPU)
        np.ones(100 * 2**20, dtype=np.uint8)
        after = peak()
        assert rest is not None and after is not None and 80 < after - rest < 200

    @pytest.mark.skipif(not compute._RESET.exists(), reason="the system does not let a peak start anew")
    def test_is_not_that_of_the_process_that_started_this_one(self):
        np.ones(1000 * 2**20, dtype=np.uint8)
        code = "import torch; from explearn.core.compute import peak_from_here as p; print(p(torch.device('cpu'))())"
        started = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        assert float(started.stdout) < 900


def test_large_weights_are_finite_though_their_sum_is_not():
    large = torch.full((4,), 3e38)
    assert not large.sum().isfinite()
    check_weights([("large", large)], "it", "hint")
    with pytest.raises(ModelError, match=r"^it: 1 of the 5 values of large are NaN or infinite"):
        check_weights([("large", torch.cat([large, torch.tensor([float("-inf")])]))], "it", "hint")


def test_an_explainer_that_diverged_does_not_replace_a_good_one(tmp_path):
    def write(weight):
        keep(tmp_path / "e", {"w": torch.tensor([1.0, weight])})

    write(1.0)
    before = {path.name: path.read_bytes() for path in (tmp_path / "e").iterdir()}
    with pytest.raises(ModelError, match=r"e: kept diverged in training: 1 of the 2 values of w are NaN or infinite"):
        write(float("nan"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "e").iterdir()} == before
