"""Fingerprints of code: of the checkout that the stages stand in, and of no other."""

import pytest
from places import ROOT

from explearn import ParamsError
from explearn_study.code import write_fingerprints
from explearn_study.workspace import Workspace


def test_stages_beside_other_code_are_refused(tmp_path):
    """Installed without -e, `src` is a copy in which edits do not count."""
    with pytest.raises(ParamsError, match=f"pip install -e {tmp_path}"):
        write_fingerprints(Workspace(tmp_path), tmp_path / "stages", {})
    assert not (tmp_path / "data").exists()


def test_every_stage_and_method_has_one(tmp_path):
    write_fingerprints(Workspace(tmp_path), ROOT / "stages", {"floor": "random"})
    assert {path.stem for path in (ROOT / "stages").glob("*.py")} == {
        p.stem for p in (tmp_path / "data/code").glob("*.txt")
    }
    assert " src/explearn/" in (tmp_path / "data/code/methods/floor.txt").read_text(encoding="utf-8")
    finetune, report = ((tmp_path / f"data/code/{stage}.txt").read_text("utf-8") for stage in ("finetune", "report"))
    for shown in ("show/display.py", "show/look.css"):
        assert shown in report and shown not in finetune
