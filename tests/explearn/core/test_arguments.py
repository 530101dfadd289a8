"""Arguments of public functions: lists of texts, tables and options."""

import numpy as np
import pandas as pd
import pytest
from saying import complaint

import explearn
from explearn.core.arguments import check_listed, each_text, options_of


@pytest.mark.parametrize("texts", [None, "a film", {"text": "a film"}, {"a film"}, np.array("a film")], ids=ascii)
def test_texts_that_are_no_list(texts):
    complaint(lambda: each_text(texts), "texts: got ", "; expected a list of texts")


def test_a_pair_is_one_text():
    complaint(lambda: each_text(("the dog", "sleeps")), "which is a pair; expected [(a, b)], or [a, b] for two texts")


def test_a_table_has_rows_and_is_no_list_but_its_column_is():
    table = pd.DataFrame({0: ["a film", "a dog"], 1: ["good", "bad"]})
    assert each_text(table) == [{"0": "a film", "1": "good"}, {"0": "a dog", "1": "bad"}]
    complaint(lambda: check_listed("labels", table), "labels: got DataFrame, a table; expected a list of labels")
    check_listed("labels", table[1])
    complaint(lambda: each_text(table.set_axis(["text", "text"], axis=1)), "got the columns text, text")


@pytest.mark.parametrize("options", [{}, {"seed": 3}, explearn.CompareOptions], ids=ascii)
def test_options_of_another_kind(options):
    assert options_of(explearn.EvaluateOptions, None) == explearn.EvaluateOptions()
    complaint(lambda: explearn.evaluate("m", [], options=options), "expected explearn.EvaluateOptions(...)")
    complaint(lambda: explearn.compare("m", ["a"], options=options), "expected explearn.CompareOptions(...)")
    complaint(lambda: explearn.audit("m", ["a"], options=options), "expected explearn.AuditOptions(...)")
    complaint(lambda: explearn.diff("m", "n", ["a"], options=options), "expected explearn.AuditOptions(...)")
