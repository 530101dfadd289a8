"""What `explearn explain` does not wait for: modules that its method does not need, and collections of garbage."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from explearn.core.garbage import start_up, without_what_is_there

COSTLY = ["captum", "shap", "lime", "sklearn", "pandas", "datasets", "numba", "pyarrow", "matplotlib", "dvc", "IPython"]
"""Packages that take a tenth of a second or more to import."""

EXPLAIN = """
import gc, sys
from typer.testing import CliRunner
from explearn.cli.app import app

def explain(*more):
    given = ("explain", "--device", "cpu", "--classifier", sys.argv[1], *more, "quick brown fox")
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.stderr

explain("--method", "attcat", "--method", "gae", "--html", sys.argv[2] + "/page.html")
loaded = sorted(set(sys.argv[3:]) & sys.modules.keys())
assert not loaded, loaded
assert gc.isenabled() and gc.get_freeze_count() > 100_000, gc.get_freeze_count()
frozen = gc.get_freeze_count()
explain("--method", "lime", "--output", sys.argv[2] + "/words.csv")
assert not {"captum", "shap", "datasets"} & sys.modules.keys()
assert gc.get_freeze_count() <= frozen
"""


@pytest.mark.slow
def test_explain_loads_what_its_method_needs_and_no_more(run_python: Any, tiny_folder: Path, tmp_path: Path) -> None:
    given = ["explain", str(tiny_folder), str(tmp_path), *COSTLY]
    run_python(f"import sys; sys.argv = {given}\n{EXPLAIN}")
    assert (tmp_path / "page.html").exists() and (tmp_path / "words.csv").exists()


def test_nothing_is_collected_while_modules_are_loaded(run_python: Any) -> None:
    run_python(
        "import gc\n"
        "from explearn.core.garbage import start_up\n"
        "with start_up():\n"
        "    assert not gc.isenabled()\n"
        "assert gc.isenabled() and gc.get_freeze_count()\n"
    )


def test_a_process_that_has_torch_is_left_as_it_is() -> None:
    import torch  # noqa: F401

    before = gc.get_freeze_count()
    with start_up():
        assert gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() == before


def test_what_is_there_is_out_of_the_collections_of_the_block_alone() -> None:
    with pytest.raises(KeyError), without_what_is_there():
        assert gc.get_freeze_count() > 1000
        raise KeyError
    assert gc.get_freeze_count() == 0
