"""What docs/study/team.md says of DVC: a pushed run is fetched elsewhere, and nothing is computed again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("dvc")

PIPELINE = """
stages:
  one:
    cmd: echo ran >> "$RAN" && cat params.yaml > out.txt
    params: [p]
    outs: [out.txt]
"""


@pytest.mark.slow
def test_a_pushed_run_is_fetched_and_not_computed_again(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "RAN": str(tmp_path / "ran"),
        "DVC_SITE_CACHE_DIR": str(tmp_path / "site"),
        **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }

    def run(folder: Path, *command: str) -> str:
        words = [sys.executable, "-m", *command] if command[0] == "dvc" else list(command)
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def runs() -> int:
        return len((tmp_path / "ran").read_text().splitlines())

    def commit(folder: Path) -> None:
        run(folder, "git", "add", "-A")
        run(folder, "git", "commit", "-qm", "A run")

    first, clone = tmp_path / "first", tmp_path / "clone"
    first.mkdir()
    run(first, "git", "init", "-q")
    run(first, "dvc", "init", "-q")
    run(first, "dvc", "remote", "add", "-q", "--default", "team", str(tmp_path / "remote"))
    (first / "dvc.yaml").write_text(PIPELINE)
    for number in (1, 2):
        (first / "params.yaml").write_text(f"p: {number}\n")
        run(first, "dvc", "repro", "-q")
        run(first, "dvc", "push", "-q", "--run-cache")
    commit(first)
    assert runs() == 2

    run(tmp_path, "git", "clone", "-q", str(first), str(clone))
    run(clone, "dvc", "pull", "-q")
    assert (clone / "out.txt").read_text() == "p: 2\n" and "up to date" in run(clone, "dvc", "status")
    # Inputs that no commit has, but an earlier run.
    (clone / "params.yaml").write_text("p: 1\n")
    run(clone, "dvc", "repro", "-q", "--pull")
    assert (clone / "out.txt").read_text() == "p: 1\n" and runs() == 2


def test_the_workflow_takes_secrets_from_the_environment_alone(repository: Path) -> None:
    text = (repository / ".github/workflows/experiment.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["repro"]["steps"]
    (step,) = (step for step in steps if step.get("name") == "Run the pipeline")
    assert step["env"]["AWS_SECRET_ACCESS_KEY"] == "${{ secrets.AWS_SECRET_ACCESS_KEY }}"
    assert "secrets." not in step["run"] and "make repro ARGS=--pull" in step["run"] and "push" not in step["run"]
    assert text.count("secrets.") == 2
    config = (repository / ".dvc/config").read_text(encoding="utf-8")
    assert "key" not in config and "password" not in config and "token" not in config
