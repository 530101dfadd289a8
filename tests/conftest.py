"""What all tests share."""

import gc
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import settings
from places import ROOT

# Before any import of the hub's client: no test reaches the network.
os.environ["HF_HUB_OFFLINE"] = "1"

# shap's loops take seconds to compile in each process, and on few texts are as fast without.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")

# Tests that run side by side share the cores; with more threads each they would wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A time limit an example would fail by chance on a machine that does other work besides.
settings.register_profile("explearn", deadline=None)
settings.load_profile("explearn")


def pytest_addoption(parser):
    parser.addoption("--trials", type=int, help="trials of tests that draw at random (default: a few, by the test)")


def pytest_collection_modifyitems(items):
    """Slow files come first: begun last, one would keep a core busy and let the others wait.

    Those that share the fixture `finished` follow each other on one core, while another is busy with the longest.
    `make test` asks pytest-xdist to keep this order, which by itself would take files with many tests first.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    first = ("test_pipeline.py", "test_bad_input.py", "test_outputs.py", "test_faults.py")

    def turn(item):
        if item.path.name in first:
            return first.index(item.path.name)
        return len(first) + (item.path not in slow)

    items.sort(key=turn)


def pytest_collection_finish():
    """Leave what is loaded by now out of collections of garbage, of which a comparison makes one a method."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_collections():
    """Time methods without a collection of garbage before each, which takes longer than they do on few texts."""
    from explearn.methods.base import timing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "gc", SimpleNamespace(collect=lambda: None))
        yield


@pytest.fixture(scope="session")
def repository():
    """The root of the checkout."""
    return ROOT


@pytest.fixture
def trials(request):
    """A function: how many trials to make, of which a few are enough by default."""
    return lambda few: request.config.getoption("trials") or few


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """A fresh cache for the datasets library, so that tests neither read nor fill the user's."""
    import datasets

    cache = tmp_path / "hub-cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    return cache


@pytest.fixture(scope="session")
def run_python():
    """Run a snippet in a fresh interpreter; what it prints."""

    def run(code):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A tiny BERT classifier of three classes, as save_pretrained writes it. Tests leave it as it is."""
    import tiny

    return tiny.save(tmp_path_factory.mktemp("classifier"), "bert", 3)
