"""Files of the stage judge: what is written is read back."""

import numpy as np

from explearn import Evaluation
from explearn.core.parquet import read_table
from explearn.metrics.significance import paired_tests
from explearn_study.metric_files import PAIR_SCHEMA, read_by_text, write_by_text, write_pairs

RNG = np.random.default_rng(0)
METHODS = ("one", "two", "three")
BY_TEXT = {"m": {name: RNG.normal(size=6) + i for i, name in enumerate(METHODS)}, "n": {"one": np.full(6, np.nan)}}


def evaluation():
    values = {name: float(v.mean()) for name, v in BY_TEXT["m"].items()}
    matrix = np.array([[1, 0.5, np.nan], [0.5, 1, 0.25], [np.nan, 0.25, 1]])
    return Evaluation(
        figures={name: {} for name in METHODS},
        example_ids=tuple("abcdef"),
        by_text=BY_TEXT,
        comparisons={
            "m": paired_tests("m", values, BY_TEXT["m"]),
            "n": paired_tests("n", dict.fromkeys(METHODS), BY_TEXT["n"], larger_is_better=False),
        },
        agreement=matrix,
    )


def test_values_by_text_come_back(tmp_path):
    write_by_text(tmp_path / "t.parquet", "abcdef", BY_TEXT | {"of_no_method": {}})
    actual = read_by_text(tmp_path / "t.parquet")
    assert list(actual) == list(BY_TEXT)
    for metric, methods in BY_TEXT.items():
        for method, values in methods.items():
            np.testing.assert_array_equal(actual[metric][method], values)


def test_agreement_and_tests_are_kept_pair_by_pair(tmp_path):
    expected = evaluation()
    write_pairs(tmp_path / "p.parquet", expected)
    rows = read_table(tmp_path / "p.parquet", PAIR_SCHEMA).to_pylist()
    (pair,) = [row for row in rows if (row["metric"], row["first"], row["second"]) == ("m", "one", "three")]
    assert pair["adjusted"] == expected.comparisons["m"].p_value("one", "three")
    assert (pair["texts"], pair["direction"], pair["value"]) == (6, -1, None)
