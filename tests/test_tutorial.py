"""The tutorial works from its first line to its last, with a tiny encoder in the place of the one that is carried."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import tiny
import transformers
from places import ROOT
from typer.testing import CliRunner

from explearn.cli.app import app
from explearn.model import finetune

PAGE = (ROOT / "docs" / "explearn" / "tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = tmp_path / "encoder"
    made: Any = tiny.model("bert")
    transformers.BertModel(made.config).save_pretrained(encoder)
    tiny.tokenizer("bert").save_pretrained(encoder)
    monkeypatch.setattr(finetune, "resolve_encoder", lambda name: str(encoder) if name == "embedded" else name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPLEARN_DEVICE", "cpu")
    names: dict[str, Any] = {}
    languages = []
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.S | re.M):
        languages.append(language)
        if language == "csv":
            (tmp_path / "reviews.csv").write_text(text, encoding="utf-8")
        elif language == "python":
            exec(text, names)
        else:
            for line in text.splitlines():
                done = CliRunner().invoke(app, shlex.split(line)[1:])
                assert done.exit_code == 0, (line, done.output)
    assert languages == ["csv", "sh", "python", "sh", "sh", "sh", "python", "sh"]
    assert names["trained"].name == "l2e" and sorted(names["classifier"].labels) == ["bad", "good"]
    assert "waiter" in capsys.readouterr().out
    for written in ("my-classifier/model.safetensors", "explained.html", "report.html", "my-bundle/manifest.json"):
        assert (tmp_path / written).is_file(), written
