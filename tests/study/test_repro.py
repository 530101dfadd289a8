"""Several tasks at a time: the same result as `dvc repro`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TASKS = ["red", "blue", "blue-green"]
PIPELINE = """
stages:
  cut:
    matrix: {task: "${tasks}"}
    cmd: python -c "open('cut-${item.task}', 'w').write('${item.task} ' + open('start').read())"
    deps: [start]
    outs: ["cut-${item.task}"]
  join:
    matrix: {task: "${tasks}"}
    cmd: python join.py ${item.task}
    deps: [join.py, cut-red, cut-blue, cut-blue-green]
    outs: ["join-${item.task}"]
  end:
    cmd: cat join-red join-blue join-blue-green > end
    deps: [join-red, join-blue, join-blue-green]
    outs: [end]
"""
JOIN = """
import os, sys
task = sys.argv[1]
if os.path.exists("fail-" + task):
    sys.exit("no " + task)
open("join-" + task, "w").write(task + ": " + "".join(open("cut-" + other).read() for other in ("red", "blue-green")))
"""


@pytest.fixture(scope="module")
def script(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("repro", repository / "scripts" / "repro.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Project:
    def __init__(self, root: Path, repository: Path) -> None:
        self.root = root
        (root / "scripts").mkdir(parents=True)
        shutil.copy(repository / "scripts" / "repro.py", root / "scripts")
        files = {
            "dvc.yaml": PIPELINE,
            "join.py": JOIN,
            "start": "once\n",
            "params.yaml": f"tasks: [{', '.join(TASKS)}]\n",
        }
        for name, text in files.items():
            (root / name).write_text(text, encoding="utf-8")
        self.run("git", "init", "--quiet")
        self.run("dvc", "init", "--quiet")

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "EXPLEARN_DEVICE": "cpu", "DVC_NO_ANALYTICS": "1"}
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def repro(self, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("python", "scripts/repro.py", "--jobs", "2", check=check)

    def stages(self) -> dict[str, str]:
        """Each stage's lines in dvc.lock."""
        text = (self.root / "dvc.lock").read_text(encoding="utf-8")
        parts = text.split("\n  ")
        heads = [i for i, part in enumerate(parts) if not part.startswith(" ")]
        return {
            parts[i].splitlines()[0]: "\n".join(parts[i:j]).strip()
            for i, j in zip(heads, [*heads[1:], None], strict=True)
        }


@pytest.mark.slow
def test_as_dvc_repro_would(tmp_path: Path, repository: Path) -> None:
    alone, together = Project(tmp_path / "alone", repository), Project(tmp_path / "together", repository)
    alone.run("dvc", "repro")
    output = together.repro().stdout
    assert "[blue-green] Running stage 'join@blue-green':" in output
    assert "[all tasks] Running stage 'end':" in output
    assert together.stages() == alone.stages() and len(alone.stages()) == 8
    assert (together.root / "end").read_bytes() == (alone.root / "end").read_bytes()

    assert together.repro().stdout.splitlines() == ["Data and pipelines are up to date."]

    # One task fails: what runs beside it ends, what needs it does not start, and the exit code says so.
    (together.root / "start").write_text("twice\n", encoding="utf-8")
    (together.root / "fail-red").touch()
    failed = together.repro(check=False)
    assert failed.returncode != 0
    assert "[red] no red" in failed.stdout and "Running stage 'end'" not in failed.stdout
    assert "once" in (together.root / "end").read_text(encoding="utf-8")

    (together.root / "fail-red").unlink()
    again = together.repro().stdout
    assert "'join@red'" in again and "'cut@red'" not in again
    alone.run("dvc", "repro", "--quiet")
    (alone.root / "start").write_text("twice\n", encoding="utf-8")
    alone.run("dvc", "repro")
    assert (together.root / "end").read_bytes() == (alone.root / "end").read_bytes()


class TestRounds:
    def test_what_needs_another_task_comes_later(self, script: ModuleType) -> None:
        needs = script.needs_of(
            'strict digraph {\n"cut@red";\n"cut@blue";\n"join@red";\n"cut@red" -> "join@red";\n'
            '"cut@blue" -> "join@red";\n"own@blue";\n"cut@blue" -> "own@blue";\n"join@red" -> "end";\n}'
        )
        assert needs["join@red"] == {"cut@red", "cut@blue"}
        assert script.rounds_of(needs, needs, ["red", "blue"]) == [
            {"red": ["cut@red"], "blue": ["cut@blue", "own@blue"]},
            {"red": ["join@red"]},
            {"": ["end"]},
        ]
        # What is not stale, and comes after nothing that is, does not run.
        assert script.rounds_of(needs, ["own@blue"], ["red", "blue"]) == [{"blue": ["own@blue"]}]
        assert script.rounds_of(needs, ["join@red"], ["red", "blue"]) == [{"red": ["join@red"]}, {"": ["end"]}]

    @pytest.mark.parametrize(
        ("stage", "task"),
        [
            ("cut@blue", "blue"),
            ("cut@blue-green", "blue-green"),
            ("train@blue-l2e", "blue"),
            ("end", ""),
            ("x@reds", ""),
        ],
    )
    def test_the_task_in_a_stage_s_name(self, script: ModuleType, stage: str, task: str) -> None:
        assert script.task_of(stage, TASKS) == task


@pytest.mark.parametrize("given", ["0", "-1", "many", "²", "1000"])
def test_jobs_that_are_no_number(repository: Path, given: str) -> None:
    command = [sys.executable, "scripts/repro.py", "--jobs", given]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"got {given!r}; expected a whole number from 1 to 256" in done.stderr
