"""Which texts are proposed for marking: those in doubt, and unlike each other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from explearn.cli import annotate_next
from explearn.core.records import Example
from explearn.pipeline.next_texts import Proposal, Proposed, doubt_of, spread_out


def test_doubt_is_the_mean_entropy_of_the_words_likely_to_be_marked() -> None:
    assert doubt_of(np.array([0.5, 0.0, 0.0])) == pytest.approx(1.0)
    assert doubt_of(np.array([1.0, 0.0, 0.0])) == 0.0
    # Two words are chosen: 0.9 has 0.469 bits and 0.8 has 0.722; the unlikely words play no part.
    assert doubt_of(np.array([0.9, 0.8, 0.01, 0.01])) == pytest.approx((0.4690 + 0.7219) / 2, abs=1e-4)


def test_texts_in_little_doubt_are_not_proposed() -> None:
    rng = np.random.default_rng(1)
    doubts = np.r_[np.full(40, 0.1), np.full(20, 0.9)]
    assert min(spread_out(doubts, rng.normal(size=(60, 4)), 2, 13)) >= 40


def test_each_group_of_like_texts_has_one() -> None:
    centres = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    states = np.repeat(centres, 5, 0) + np.random.default_rng(2).normal(size=(15, 2))
    found = spread_out(np.full(15, 0.5), states, 3, 13)
    assert sorted(row // 5 for row in found) == [0, 1, 2]


def test_as_many_as_asked_for_and_none_twice() -> None:
    same = np.zeros((8, 3))
    found = spread_out(np.linspace(0, 1, 8), same + np.arange(8)[:, None], 5, 13)
    assert len(set(found)) == 5
    assert spread_out(np.ones(3), same[:3], 5, 13) == [0, 1, 2]


def test_what_would_steer_a_terminal_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Example("a\x1b]0;b", ("clear\x1b[2J", "[bold]this[/bold]"), "yes", "train", "toy")
    found = Proposal([Proposed(text, 0.5)], 1, 0, ["other\x1b[31m"], None)
    params = SimpleNamespace(check_task=str, seed=13)
    monkeypatch.setattr(annotate_next, "load_params", lambda _: params)
    monkeypatch.setattr(annotate_next, "read_task_marks", lambda *_: SimpleNamespace(marked=frozenset()))
    monkeypatch.setattr(annotate_next, "propose", lambda *_: found)
    annotate_next.next_texts("toy", 1, None, None, Path("params.yaml"))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert r"a\x1b]0;b  clear\x1b[2J [bold]this[/bold]" in said and r"other\x1b[31m" in said
