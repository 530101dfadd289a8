"""What is asked of every bad input: an ExplearnError of one clear sentence."""

import re

import pytest
from typer.testing import CliRunner

from explearn import ExplearnError
from explearn.cli.app import app

_UNCLEAR = re.compile(r"Traceback|object at 0x|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")

LONGEST = 900
"""Characters of a sentence, most."""


def check_sentence(said, *words):
    assert said.strip() and len(said.splitlines()) == 1, said
    assert len(said) <= LONGEST, said
    assert not _UNCLEAR.search(said), ascii(said)
    for word in words:
        assert word in said, said


def complaint(call, *words):
    """The sentence with which a call ends; `words` must be in it."""
    with pytest.raises(ExplearnError) as caught:
        call()
    check_sentence(str(caught.value), *words)
    return str(caught.value)


def command_complaint(*arguments, words=()):
    """The sentence that a command prints before it ends with exit code 2."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "4000", "TERM": "dumb"})
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    said = [line for line in result.stderr.splitlines() if line.strip()]
    if said and not said[-1].startswith("error: "):  # the command line's own, in a frame
        said = [line.strip("\u2502 ") for line in said if line.startswith("\u2502")]
    assert len(said) == 1, result.stderr
    check_sentence(said[0].removeprefix("error: "), *words)
    return said[0]
