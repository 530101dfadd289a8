from __future__ import annotations

import pytest

from explearn.core.errors import DataError
from explearn.judge.importance import important_share


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # One of four stands at 1, the others at 0: 1/4 at every threshold.
        ([5.0, 1.0, 1.0, 1.0], 0.25),
        # At 0, 0.45 and 1: above 0.1 to 0.4 two of three, above 0.5 to 0.9 one.
        ([-1.0, -0.55, 0.0], (4 * 2 / 3 + 5 * 1 / 3) / 9),
        ([2.0, 2.0], 1.0),
        ([0.3], 1.0),
    ],
)
def test_share_of_important_words(scores: list[float], expected: float) -> None:
    assert important_share(scores) == pytest.approx(expected)


def test_scores_must_be_finite() -> None:
    with pytest.raises(DataError, match="finite"):
        important_share([0.1, float("nan")])
