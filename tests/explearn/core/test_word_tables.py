"""Attributions as tables with a row a word."""

from dataclasses import replace

import numpy as np
from fakes import attribution

import explearn
from explearn import Certificate


def given(words=("not", "good"), scores=(-0.5, 1.0), **changes):
    return replace(attribution(words, scores), **changes)


def test_a_row_a_word():
    actual = [given(spans=((0, 3), (4, 8))), given(method="n"), given(("not", "q"), (np.nan, 1.0), pair_start=1)]
    rows = explearn.to_arrow(actual).to_pylist()
    assert [(r["method"], r["text"], r["index"], r["segment"], r["word"]) for r in rows] == [
        ("m", 0, 0, 0, "not"), ("m", 0, 1, 0, "good"), ("n", 0, 0, 0, "not"), ("n", 0, 1, 0, "good"),
        ("m", 1, 0, 0, "not"), ("m", 1, 1, 1, "q"),
    ]  # fmt: skip
    assert (rows[1]["start"], rows[1]["end"]) == (4, 8)
    assert rows[2]["start"] is None and rows[4]["score"] is None and rows[0]["score"] == -0.5


def test_several_classes_of_a_text_have_one_number():
    texts = [(("not", "good"), "x"), (("not", "good"), "y"), (("not", "bad"), "x"), (("not", "bad"), "y")]
    rows = explearn.to_arrow([given(words, target=target) for words, target in [*texts, texts[2]]]).to_pylist()
    assert [row["text"] for row in rows[::2]] == [0, 0, 1, 1, 2]


def test_tables_hold_the_certificate_of_methods_that_give_one():
    certificate = Certificate(words=("good",), effect=0.5, bound=0.2, familiar=True)
    frame = explearn.to_frame([given(certificate=certificate), given(words=("bad", "film"))])
    assert frame["verdict"].dropna().tolist() == ["reliable", "reliable"]
    assert frame["effect"].dropna().tolist() == [0.5, 0.5]
    assert frame["bound"].isna().tolist() == [False, False, True, True]
