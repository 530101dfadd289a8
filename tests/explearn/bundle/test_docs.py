"""Every command and example of docs/explearn/bundles.md works as it stands there."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from bundle_cases import FIGURES
from cli_cases import run
from places import ROOT

import explearn

PAGE = (ROOT / "docs" / "explearn" / "bundles.md").read_text(encoding="utf-8")
COMMANDS = "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S)).splitlines()
USE, HUB, PIPELINE = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def folder(model, trained, tmp_path_factory):
    """What the page supposes: a classifier, a trained explainer and a run's metrics; its bundles are made there."""
    place = tmp_path_factory.mktemp("page")
    shutil.copytree(model, place / "my-classifier")
    shutil.copytree(trained["reader"], place / "my-reader")
    (place / "reports").mkdir()
    (place / "reports/metrics.json").write_text(json.dumps({"tasks": {"reviews": {"reader": FIGURES}, "topics": {}}}))
    return place


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EXPLEARN_DEVICE", "cpu")


def test_the_commands(folder):
    assert [command.split()[1] for command in COMMANDS] == ["export"] * 3 + ["explain"] * 2
    for command in COMMANDS:
        done = run(*shlex.split(command)[1:])
        assert done.exit_code == 0, (command, done.output)
    for part in ("manifest.json", "README.md", "metrics.json", "explainer", "classifier"):
        assert (folder / "whole-bundle" / part).exists() and f"\n  {part.split('/')[0]}" in PAGE


def test_the_examples_in_python(capsys):
    """After the commands above, whose bundles they read."""
    names = {}
    exec(USE, names)
    assert "dishwasher" in capsys.readouterr().out and names["attribution"].method == "reader"
    exec(PIPELINE.replace("pipe([", "found = pipe(["), names)
    assert [row["words"] for row in names["found"]] == [["A", "warm", "and", "funny", "film."], ["A", "slow", "one."]]
    assert PIPELINE.count('"', PIPELINE.index("# [{")) and all(f'"{key}"' in PIPELINE for key in names["found"][0])


def test_the_hub(monkeypatch):
    """What is called there is what there is; tests/bundle/test_hub.py has what it does."""
    monkeypatch.setattr("explearn.bundle.hub.push_to_hub", lambda folder, repo_id: repo_id)
    monkeypatch.setattr("explearn.methods.finding.fetched", lambda name, revision: Path("whole-bundle"))
    names = {"explearn": explearn}
    exec(HUB, names)
    assert names["explainer"].name == "reader"
    assert names["classifier"].fingerprint == names["explainer"].made_for.fingerprint
