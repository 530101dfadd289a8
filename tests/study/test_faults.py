"""A few trials of `make faults`: kills, full disks and concurrent runs lose and falsify nothing."""

import os
import subprocess
import sys

import pytest

from explearn_study.params import load_params

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="the trials need Linux"),
]


def faults(repository, *arguments):
    return subprocess.run(
        [sys.executable, "scripts/faults", "--few", *arguments],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_a_few_trials_find_nothing(repository):
    done = faults(repository, "--kills", "2", "--starved", "1", "--pairs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("kills: 2 trials, 0 with findings", "pairs: 1 trials, 0 with findings"):
        assert line in done.stdout.splitlines()


def test_the_trials_reach_every_stage_and_learned_method(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "scripts" / "faults"))
    import project

    steps = project.all_steps()
    assert {step.stage for step in steps} == {path.stem for path in (repository / "stages").glob("*.py")}
    fitted = {step.options[-1] for step in steps if step.stage == "fit"}
    assert fitted >= set(load_params(repository / "params.yaml").learned.names)
