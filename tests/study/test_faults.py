"""A few trials of `make faults`: kills, full disks and concurrent runs lose and falsify nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not hasattr(os, "fork") or sys.platform != "linux", reason="the trials need Linux"),
]


def faults(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/faults", "--few", *arguments],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_a_few_trials_find_nothing(repository: Path) -> None:
    done = faults(repository, "--kills", "3", "--disks", "1", "--pairs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert "| kill -9 | 3 | 3 | 0 | 0 | 0 | 0 |" in rows and "| concurrent pair | 2 | 2 | 0 | 0 | 0 | 0 |" in rows
    assert rows[-1].startswith("| all | 6 |")


def test_the_trials_reach_every_stage_and_learned_method(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "faults"))
    import project

    steps = project.all_steps()
    assert {step.stage for step in steps} == {path.stem for path in (repository / "stages").glob("*.py")}
    fitted = {step.options[-1] for step in steps if step.stage == "fit"}
    params = yaml.safe_load((repository / "params.yaml").read_text(encoding="utf-8"))
    assert fitted >= {name for names in params["learned"].values() for name in names}


class TestJudgement:
    """The trials' own judge: it must see what they are for."""

    @pytest.fixture
    def trial(self, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.syspath_prepend(str(repository / "scripts" / "faults"))
        import project
        import trials

        new = {"data/examples/t/a": "1", "data/examples/t/b": "2"}
        known = trials.Known({k: _digest(v) for k, v in new.items()}, {}, tmp_path, 1.0, 1)

        class Reference:
            def of(self, step: object) -> object:
                return known

        made = trials.Trial(
            Reference(), project.step("prepare", task="t"), tmp_path, None, trials.Finding("kill -9", "prepare", "")
        )

        def write(files: dict[str, str]) -> None:
            for name, text in files.items():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(text)

        write({"data/examples/t/a": "old", "data/examples/t/c": "old", "mine/x": "x"})
        made.before = project.tree(tmp_path)
        return made, write, new

    def test_the_old_and_the_new_folder_are_right(self, trial) -> None:
        made, write, new = trial
        made.judge()
        (made.root / "data/examples/t/c").unlink()
        write(new)
        made.judge(complete=True)
        assert not made.finding.bad

    def test_a_mixture_is_falsified_and_nothing_at_all_is_lost(self, trial) -> None:
        made, write, _ = trial
        write({"data/examples/t/a": "1"})
        made.judge()
        assert made.finding.falsified == ["data/examples/t: neither old nor new"]
        for name in "ac":
            (made.root / "data/examples/t" / name).unlink()
        made.judge()
        assert made.finding.lost == ["data/examples/t"]

    def test_exit_code_0_with_the_old_folder_is_falsified(self, trial) -> None:
        made, _, _ = trial
        made.judge(complete=True)
        assert made.finding.falsified == ["data/examples/t: neither old nor new"]

    def test_files_of_other_stages_must_stay(self, trial) -> None:
        made, _, _ = trial
        (made.root / "mine/x").write_text("y")
        made.judge()
        assert made.finding.falsified == ["mine/x, of another stage"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
