"""Which trained explainer's folder goes to which method of `explearn explain`."""

from __future__ import annotations

from pathlib import Path

import pytest

from explearn.cli.choosing import choose
from explearn.core.errors import ParamsError

A, B, C = Path("a"), Path("b"), Path("c")


@pytest.mark.parametrize(
    ("methods", "folders", "expected"),
    [
        (["expnet", "lime", "l2e"], [A, B], [A, None, B]),
        (["consensus", "expnet"], [A], [None, A]),  # consensus has weights of its own
        (["consensus", "expnet"], [A, B], [A, B]),
        (["expnet", "lime", "consensus"], [A, B], [A, None, B]),
        (["consensus", "lime"], [A], [A, None]),
        (["consensus", "lime"], [], [None, None]),
    ],
)
def test_folders_go_to_the_methods_in_their_order(
    methods: list[str], folders: list[Path], expected: list[Path | None]
) -> None:
    assert [choice.folder for choice in choose(methods, folders)] == expected


@pytest.mark.parametrize(
    ("methods", "folders", "said"),
    [
        (["consensus", "expnet"], [A, B, C], "got 3; expected 1 (of expnet) or 2 (of consensus, expnet)"),
        (["consensus", "lime"], [A, B], "got 2; expected 1 (of consensus)"),
        (["expnet", "lime"], [A, B], "got 2; expected 1 (of expnet)"),
        (["gae", "lime"], [A], "got 1; expected none: no chosen method is trained"),
    ],
)
def test_a_folder_too_many(methods: list[str], folders: list[Path], said: str) -> None:
    with pytest.raises(ParamsError) as error:
        choose(methods, folders)
    assert str(error.value) == f"--explainer: {said}"
