"""Several stages at a time: the same result as `dvc repro`."""

import os
import shutil
import subprocess

import pytest
import yaml
from places import PATH

PIPELINE = """
stages:
  code:
    cmd: cp code.txt code.out
    deps: [code.txt]
    outs: [code.out]
  make:
    matrix: {task: "${tasks}"}
    cmd: python make.py ${item.task}
    deps: [make.py, code.out]
    outs: ["made-${item.task}"]
  end:
    cmd: cat made-red made-blue > end
    deps: [made-red, made-blue]
    outs: [end]
"""
MAKE = """
import os, sys
task = sys.argv[1]
if os.path.exists("fail-" + task):
    sys.exit("no " + task)
open("made-" + task, "w").write(task + ": " + open("code.out").read())
"""


class Project:
    def __init__(self, root, repository):
        self.root = root
        (root / "scripts").mkdir(parents=True)
        shutil.copy(repository / "scripts" / "repro.py", root / "scripts")
        files = {"dvc.yaml": PIPELINE, "make.py": MAKE, "code.txt": "once\n"}
        for name, text in {**files, "params.yaml": "tasks: [red, blue]\n"}.items():
            (root / name).write_text(text, encoding="utf-8")
        self.run("git", "init", "--quiet")
        self.run("dvc", "init", "--quiet")

    def run(self, *command, check=True):
        environment = {**os.environ, "PATH": PATH, "EXPLEARN_DEVICE": "cpu", "DVC_NO_ANALYTICS": "1"}
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def repro(self, check=True):
        return self.run("python", "scripts/repro.py", "--jobs", "2", check=check)


@pytest.mark.slow
def test_as_dvc_repro_would(tmp_path, repository):
    project = Project(tmp_path / "project", repository)
    output = project.repro().stdout
    assert "[make@blue] Running stage 'make@blue':" in output and "[end] 3 of 3 stages" in output
    assert len(yaml.safe_load((project.root / "dvc.lock").read_text())["stages"]) == 4
    done = project.run("dvc", "repro").stdout
    assert "Running" not in done and done.endswith("Data and pipelines are up to date.\n")
    assert project.repro().stdout.splitlines() == ["Data and pipelines are up to date."]

    # The stage code runs first, and alone says what else is stale. Then one stage fails: what runs beside it ends, what
    # needs it does not start, and the exit code says so.
    (project.root / "code.txt").write_text("twice\n", encoding="utf-8")
    (project.root / "fail-red").touch()
    failed = project.repro(check=False)
    assert failed.returncode != 0
    assert "[code] Running stage 'code':" in failed.stdout and "[make@blue] Running stage 'make@blue':" in failed.stdout
    assert "[make@red] no red" in failed.stdout and "Running stage 'end'" not in failed.stdout
    assert "once" in (project.root / "end").read_text(encoding="utf-8")

    (project.root / "fail-red").unlink()
    again = project.repro().stdout
    assert "'make@red'" in again and "Running stage 'make@blue'" not in again
    assert "twice" in (project.root / "end").read_text(encoding="utf-8")
