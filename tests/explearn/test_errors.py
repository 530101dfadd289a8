"""Errors of the machine, and faults of the program: what the command line makes of them."""

import contextlib
import errno
import io
import sys
from pathlib import Path

import pytest

from explearn import DataError
from explearn.cli.common import user_errors


class OutOfMemoryError(RuntimeError):
    """As torch names its own."""


MACHINE = [
    (OSError(errno.ENOSPC, "No space left on device", "data/x"), "data/x: cannot be used (No space left on device)"),
    (PermissionError(errno.EACCES, "Permission denied", "out"), "out: cannot be used (Permission denied)"),
    (OSError(errno.EIO, "Input/output error"), "the system refused (Input/output error)"),
    (OutOfMemoryError("CUDA out of memory."), "not enough memory (CUDA out of memory.)"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 10**6), "x ... x"),
    (DataError("a\nfile: \x1b[2J"), "a file: \\x1b[2J"),
]


@pytest.mark.parametrize(("error", "words"), MACHINE, ids=[type(error).__name__ for error, _ in MACHINE])
def test_what_the_user_can_mend_is_one_sentence_with_exit_code_2(capsys, error, words):
    with pytest.raises(SystemExit) as ended, user_errors():
        raise error
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and words in line and len(line) < 3000


@pytest.mark.parametrize("error", [KeyError("x"), AttributeError("x"), OSError("of no number"), UnicodeError("x")])
def test_a_bug_keeps_its_traceback_and_has_an_exit_code_of_its_own(capsys, error):
    with pytest.raises(SystemExit) as ended, user_errors():
        raise error
    assert ended.value.code == 70
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert last.startswith("error: this is a bug in explearn; please report it") and "/issues" in last


@pytest.mark.parametrize(("work", "kept"), [(None, False), (Path("my-work"), True)])
def test_ctrl_c_says_what_is_kept(capsys, work, kept):
    with pytest.raises(SystemExit) as ended, user_errors(work):
        raise KeyboardInterrupt
    said = capsys.readouterr().err
    assert ended.value.code == 130 and "earlier outputs are unchanged" in said
    assert ("my-work keeps the finished parts" in said) == kept


def test_a_traceback_of_a_user_s_error_is_shown_when_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("EXPLEARN_DEBUG", "1")
    with pytest.raises(SystemExit) as ended, user_errors():
        raise DataError("a file")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and said.endswith("error: a file\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_a_terminal_cannot_show_is_written_as_an_escape(monkeypatch, encoding):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    with user_errors():
        print("\u4e2d and \u2192")
    assert written.getvalue() == b"\\u4e2d and \\u2192\n"


def test_a_full_disk_behind_standard_output_is_told(monkeypatch, capsys):
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
