"""`explearn gate`, which compares runs; what `explearn report` writes is tested with the stages."""

import contextlib
import json
import subprocess

import pytest
import yaml
from cli_cases import run

from explearn_study.report.gate import METRICS


def gate(folder, *arguments):
    with contextlib.chdir(folder):
        return run("gate", *arguments)


def write(folder, f1):
    (folder / METRICS).parent.mkdir(parents=True, exist_ok=True)
    (folder / METRICS).write_text(json.dumps({"f1": f1, "auroc": 0.5}))


@pytest.fixture
def project(tmp_path):
    rules = [{"metric": name, "direction": "higher", "tolerance": 0.1} for name in ("f1", "auroc")]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "gate.yaml").write_text(yaml.safe_dump({"rules": rules}))
    write(tmp_path, 0.5)
    return tmp_path


def test_files_and_folders_are_compared(project):
    write(project / "better", 0.9)
    write(project / "worse", 0.1)
    forth = gate(project, "--base", f"worse/{METRICS}")
    assert forth.exit_code == 0
    assert forth.stdout == "Not worse: none of 2 figures became worse than allowed (1 better, 1 same).\n"
    back = gate(project, "conf/gate.yaml", "--base", "better")
    assert back.exit_code == 1 and "| ±0.1 | **worse** |" in back.stdout and "auroc" not in back.stdout
    assert "Worse: 1 of 2 figures became worse than allowed (1 worse, 1 same)." in back.stdout


def test_by_default_the_last_commit_with_the_files_as_they_stand(project):
    def git(*arguments):
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message", "first")
    same = gate(project)
    assert same.exit_code == 0 and same.stdout == "Within noise: all 2 figures (2 same).\n"
    write(project, 0.3)
    worse = gate(project, "--base", "main")
    assert worse.exit_code == 1 and "-0.2000" in worse.stdout
    for revision in ("nowhere", "--output=x"):
        unknown = gate(project, f"--base={revision}")
        assert unknown.exit_code == 2 and f"reports/metrics.json at {revision}" in unknown.stderr
    unset = gate(project, "--base", "")
    assert unset.exit_code == 2 and "--base: got ''" in unset.stderr
