"""Errors of the machine, and faults of the program: what the command line makes of them."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from pathlib import Path

import pytest
import yaml
from safetensors import SafetensorError
from typer.testing import CliRunner

import explearn.cli.app as cli
from explearn.cli.running import user_errors
from explearn.core.errors import DataError, sentence_of


class OutOfMemoryError(RuntimeError):
    """As torch names its own."""


MACHINE = [
    (OSError(errno.ENOSPC, "No space left on device", "data/x"), "data/x: cannot be used (No space left on device)"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "n" * 4000), "nnn...nnn"),
    (PermissionError(errno.EACCES, "Permission denied", "out"), "out: cannot be used (Permission denied)"),
    (OSError(errno.EIO, "Input/output error"), "the system refused (Input/output error)"),
    (MemoryError(), "memory does not suffice (MemoryError)"),
    (OutOfMemoryError("CUDA out of memory."), "memory does not suffice (CUDA out of memory.)"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "memory does not suffice"),
    (SafetensorError("Error while deserializing header"), "a safetensors file cannot be read or written"),
    (UnicodeEncodeError("ascii", "caf\u00e9", 3, 4, "ordinal not in range"), "'\u00e9' cannot be written as ascii"),
]


@pytest.mark.parametrize(
    ("error", "words"), MACHINE, ids=[type(error).__name__ + str(i) for i, (error, _) in enumerate(MACHINE)]
)
def test_an_error_of_the_machine_is_one_sentence_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], error: Exception, words: str
) -> None:
    with pytest.raises(SystemExit) as ended, user_errors():
        raise error
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and len(line) < 400
    assert all(part in line for part in words.split("..."))


def test_a_message_of_several_lines_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), user_errors():
        raise DataError("a\nfile: b")
    assert capsys.readouterr().err == "error: a file: b\n"


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    assert sentence_of(KeyError("x")) is None
    with pytest.raises(KeyError), user_errors():
        raise KeyError("x")


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
        assert self.run(folder, "--old", "old", "--new", "new")[0] == 1
        assert self.run(folder, "--old", "new", "--new", "old")[0] == 0

    @pytest.mark.timeout(30)
    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
    def test_bad_input_is_2(self, folder: Path) -> None:
        os.mkfifo(folder / "metrics.json")
        code, said = self.run(folder, "--old", "metrics.json", "--new", "new")
        assert code == 2 and said == "error: metrics.json: is a pipe; expected a regular file\n"
        (folder / "gate.yaml").unlink()
        os.mkfifo(folder / "gate.yaml")
        assert self.run(folder, "--old", "old", "--new", "new")[0] == 2

    def test_a_fault_of_the_program_is_2_with_its_traceback(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("a fault")

        monkeypatch.setattr("explearn_study.report.gate.check", broken)
        code, said = self.run(folder, "--old", "old", "--new", "new")
        assert code == 2 and "ZeroDivisionError: a fault" in said

    def test_the_help_says_so(self) -> None:
        told = " ".join(CliRunner().invoke(cli.app, ["gate", "--help"], env={"COLUMNS": "200"}).stdout.split())
        assert "Exit code 0: nothing has. 1: something has, and for no other reason. 2:" in told
