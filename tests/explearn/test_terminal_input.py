"""`explearn explain` without a text, at a terminal and behind a pipe."""

import io
import sys

import pytest

from explearn import DataError
from explearn.cli.explain import _lines


class Given(io.TextIOWrapper):
    def __init__(self, content, terminal):
        super().__init__(io.BytesIO(content))
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "said"), [(True, "no text given: type texts, one per line; Ctrl+D ends\n"), (False, "")]
)
def test_whoever_types_is_told_what_is_waited_for(terminal, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Given(b"a film\n\nanother\n \n", terminal))
    assert _lines() == ["a film", "another"]
    assert capsys.readouterr().err == said


def test_standard_input_without_a_text_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Given(b"\n \n", False))
    with pytest.raises(DataError, match="standard input: no text; expected at least one"):
        _lines()


def test_closed_standard_input_has_no_texts(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input is closed"):
        _lines()
