"""Errors of the machine, and faults of the program: what the command line makes of them."""

from __future__ import annotations

import contextlib
import errno
import io
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import explearn.cli.app as cli
from explearn.cli.running import user_errors
from explearn.core.errors import DataError


class OutOfMemoryError(RuntimeError):
    """As torch names its own."""


MACHINE = [
    (OSError(errno.ENOSPC, "No space left on device", "data/x"), "data/x: cannot be used (No space left on device)"),
    (PermissionError(errno.EACCES, "Permission denied", "out"), "out: cannot be used (Permission denied)"),
    (OSError(errno.EIO, "Input/output error"), "the system refused (Input/output error)"),
    (MemoryError(), "memory does not suffice (MemoryError)"),
    (OutOfMemoryError("CUDA out of memory."), "memory does not suffice (CUDA out of memory.)"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "memory does not suffice"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 10**6), "x ... x"),
    (DataError("a\nfile: \x1b[2J"), "a file: \\x1b[2J"),
]


@pytest.mark.parametrize(("error", "words"), MACHINE, ids=[type(error).__name__ for error, _ in MACHINE])
def test_what_the_user_can_mend_is_one_sentence_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], error: Exception, words: str
) -> None:
    with pytest.raises(SystemExit) as ended, user_errors():
        raise error
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and words in line and len(line) < 3000


@pytest.mark.parametrize("error", [KeyError("x"), AttributeError("x"), OSError("of no number"), UnicodeError("x")])
def test_a_bug_keeps_its_traceback_and_has_an_exit_code_of_its_own(
    capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    with pytest.raises(SystemExit) as ended, user_errors():
        raise error
    assert ended.value.code == 70
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert last.startswith("error: this is a bug in explearn; please report it") and "/issues" in last


def test_a_traceback_of_a_user_s_error_is_shown_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPLEARN_DEBUG", "1")
    with pytest.raises(SystemExit) as ended, user_errors():
        raise DataError("a file")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and said.endswith("error: a file\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_a_terminal_cannot_show_is_written_as_an_escape(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    with user_errors():
        print("\u4e2d and \u2192")
    assert written.getvalue() == b"\\u4e2d and \\u2192\n"


def test_a_full_disk_behind_standard_output_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended, user_errors():
            print("text")
        assert ended.value.code == 2
        with contextlib.suppress(OSError):
            full.close()
    assert "No space left on device" in capsys.readouterr().err


class TestGate:
    """1 says that a figure became worse, and nothing else does."""

    def run(self, folder: Path, *arguments: str) -> tuple[int, str]:
        with contextlib.chdir(folder):
            result = CliRunner().invoke(cli.app, ["gate", "gate.yaml", *arguments], env={"COLUMNS": "200"})
        return result.exit_code, result.stderr

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        rules = [{"metric": "f1", "direction": "higher", "tolerance": 0.1}]
        (tmp_path / "gate.yaml").write_text(yaml.safe_dump({"rules": rules}))
        for name, figure in (("old", 0.5), ("new", 0.3)):
            (tmp_path / name / "reports").mkdir(parents=True)
            (tmp_path / name / "reports" / "metrics.json").write_text(f'{{"f1": {figure}}}')
        return tmp_path

    def test_a_regression_is_1_and_none_is_0(self, folder: Path) -> None:
        assert self.run(folder, "--base", "old", "--head", "new")[0] == 1
        assert self.run(folder, "--base", "new", "--head", "old")[0] == 0

    def test_bad_input_is_2_and_a_bug_is_70(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.run(folder, "--base", "nowhere", "--head", "new")[0] == 2
        monkeypatch.setattr("explearn_study.report.gate.check", lambda *_: 1 / 0)
        code, said = self.run(folder, "--base", "old", "--head", "new")
        assert code == 70 and "ZeroDivisionError" in said


def test_a_sentence_of_a_million_characters_keeps_its_ends() -> None:
    said = str(DataError("start " + "x" * 10**6 + " end"))
    assert len(said) < 2100 and said.startswith("start ") and said.endswith(" end")
