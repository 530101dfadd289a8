"""Every command of docs/explearn/compare.md works as it stands there."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
import transformers
import yaml
from comparison_cases import LABELS, TEXTS
from places import ROOT
from typer.testing import CliRunner

import explearn
from explearn.cli.app import app

PAGE = (ROOT / "docs" / "explearn" / "compare.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
COMPARE = [command for command in COMMANDS if command.startswith("explearn compare ")]


@pytest.fixture
def folder(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the page supposes: a classifier, a prompted model, tables, a text file, and scores from elsewhere."""
    shutil.copytree(model, tmp_path / "my-classifier")
    config = tiny.model("gpt2", max_position_embeddings=64).config
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "my-decoder")
    tiny.tokenizer("gpt2", 64).save_pretrained(tmp_path / "my-decoder")
    prompt = {"template": "{text} it was", "label_words": {"no": " slow", "yes": " quick"}}
    (tmp_path / "prompt.yaml").write_text(yaml.safe_dump(prompt), encoding="utf-8")
    marks = [json.dumps([1] + [0] * (len(text.split()) - 1)) for text in TEXTS]
    stars = [5 if label == "yes" else 1 for label in LABELS]
    tables = {
        "reviews.csv": [("text", "label", "marks"), *zip(TEXTS, LABELS, marks, strict=True)],
        "table.csv": [("review", "stars"), *zip(TEXTS, stars, strict=True)],
    }
    for name, rows in tables.items():
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    (tmp_path / "reviews.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    records = [{"words": text.split(), "scores": [len(word) for word in text.split()]} for text in TEXTS]
    (tmp_path / "theirs.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPLEARN_DEVICE", "cpu")
    yield tmp_path


@pytest.mark.parametrize("command", COMPARE)
def test_a_command_of_the_page(folder: Path, command: str) -> None:
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    assert "<h1>Which explanations of this classifier can be trusted?</h1>" in (folder / "report.html").read_text(
        "utf-8"
    )


def test_the_example_in_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(code, {})
    assert -1 <= float(capsys.readouterr().out) <= 1
    assert explearn.compare is not None
