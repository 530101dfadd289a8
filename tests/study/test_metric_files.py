"""Files of the stage evaluate: what is written is read back."""

from __future__ import annotations

import numpy as np
import pytest

from explearn.core.errors import DataError
from explearn.judge.evaluate import TaskEvaluation
from explearn.judge.significance import paired_tests
from explearn_study.metric_files import read_by_text, read_comparisons, write_by_text, write_comparisons

RNG = np.random.default_rng(0)
METHODS = ("one", "two", "three")
BY_TEXT = {"m": {name: RNG.normal(size=6) + i for i, name in enumerate(METHODS)}, "n": {"one": np.full(6, np.nan)}}


def evaluation() -> TaskEvaluation:
    values = {name: float(v.mean()) for name, v in BY_TEXT["m"].items()}
    matrix = np.array([[1, 0.5, np.nan], [0.5, 1, 0.25], [np.nan, 0.25, 1]])
    return TaskEvaluation(
        metrics={name: {} for name in METHODS},
        example_ids=tuple("abcdef"),
        by_text=BY_TEXT,
        comparisons={
            "m": paired_tests("m", values, BY_TEXT["m"]),
            "n": paired_tests("n", dict.fromkeys(METHODS), BY_TEXT["n"], larger_is_better=False),
        },
        agreement={"rank_agreement": matrix},
    )


def test_values_by_text_come_back(tmp_path):
    write_by_text(tmp_path / "t.parquet", evaluation())
    found = read_by_text(tmp_path / "t.parquet")
    assert list(found) == list(BY_TEXT)
    for metric, methods in BY_TEXT.items():
        for method, values in methods.items():
            np.testing.assert_array_equal(found[metric][method], values)


def test_comparisons_come_back(tmp_path):
    expected = evaluation()
    paths = tmp_path / "c.json", tmp_path / "p.parquet"
    write_comparisons(*paths, expected)
    comparisons, agreement = read_comparisons(*paths)
    assert list(comparisons) == ["m", "n"]
    for name, comparison in comparisons.items():
        for field in ("metric", "larger_is_better", "methods", "best", "tied"):
            assert getattr(comparison, field) == getattr(expected.comparisons[name], field)
        for field in ("values", "texts", "p_values", "adjusted", "direction"):
            np.testing.assert_array_equal(getattr(comparison, field), getattr(expected.comparisons[name], field))
    np.testing.assert_array_equal(agreement["rank_agreement"], expected.agreement["rank_agreement"])


def test_files_that_do_not_belong_together_are_named(tmp_path):
    write_comparisons(tmp_path / "c.json", tmp_path / "p.parquet", evaluation())
    other = tmp_path / "other.json"
    other.write_text((tmp_path / "c.json").read_text().replace('"three"', '"four"'))
    with pytest.raises(DataError, match=r"other.json and .*p.parquet do not belong together"):
        read_comparisons(other, tmp_path / "p.parquet")
    with pytest.raises(DataError, match="no such file"):
        read_comparisons(tmp_path / "none.json", tmp_path / "p.parquet")
