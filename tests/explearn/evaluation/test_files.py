"""An evaluation's tables as files: what is written is read back."""

import numpy as np

from explearn.core.parquet import read_table
from explearn.evaluation.files import AGREEMENT, PAIR_SCHEMA, read_pairs, read_values, write_pairs, write_values
from explearn.metrics.significance import paired_tests

RNG = np.random.default_rng(0)
METHODS = ("one", "two", "three")
BY_TEXT = {"m": {name: RNG.normal(size=6) + i for i, name in enumerate(METHODS)}, "n": {"one": np.full(6, np.nan)}}


MATRIX = np.array([[1, 0.5, np.nan], [0.5, 1, 0.25], [np.nan, 0.25, 1]])


def test_values_by_text_come_back(tmp_path):
    ids = dict.fromkeys(("m", "n", "of_no_method"), "abcdef")
    write_values(tmp_path / "t.parquet", ids, BY_TEXT | {"of_no_method": {}})
    actual = read_values(tmp_path / "t.parquet")
    assert list(actual) == list(BY_TEXT)
    for metric, methods in BY_TEXT.items():
        for method, values in methods.items():
            np.testing.assert_array_equal(actual[metric][method], values)


def test_agreement_and_tests_are_kept_pair_by_pair(tmp_path):
    tests = paired_tests("m", {name: float(v.mean()) for name, v in BY_TEXT["m"].items()}, BY_TEXT["m"])
    write_pairs(tmp_path / "p.parquet", {"m": tests}, METHODS, MATRIX)
    rows = read_table(tmp_path / "p.parquet", PAIR_SCHEMA).to_pylist()
    (pair,) = [row for row in rows if (row["metric"], row["first"], row["second"]) == ("m", "one", "three")]
    assert pair["adjusted"] == tests.p_value("one", "three")
    assert (pair["texts"], pair["direction"], pair["value"]) == (6, -1, None)
    read = {metric: (methods, matrices) for metric, methods, matrices in read_pairs(tmp_path / "p.parquet")}
    assert read["m"][0] == read[AGREEMENT][0] == list(METHODS)
    np.testing.assert_array_equal(read["m"][1]["adjusted"], tests.adjusted)
    np.testing.assert_array_equal(read[AGREEMENT][1]["value"], MATRIX)
