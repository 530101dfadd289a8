from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from explearn.core.errors import DataError, UnknownNameError
from explearn.core.records import Attribution, Example, Rationale, check_words

GOOD: dict[str, Any] = {"id": "a", "words": ("two", "words"), "label": "x", "split": "train", "task": "t"}


class TestExample:
    def test_words_of_both_segments_come_in_order(self) -> None:
        found = Example(**GOOD, pair=("and", "more"))
        assert found.all_words == ("two", "words", "and", "more")
        assert (found.text, found.pair_text) == ("two words", "and more")

    def test_a_single_text_has_no_second_segment(self) -> None:
        assert Example(**GOOD).pair_text is None

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"id": ""}, "field 'id' is empty; expected a unique identifier"),
            ({"id": "k\ud800"}, "field 'id': got 'k\\ud800'; expected valid Unicode"),
            ({"label": "\udfffx"}, "field 'label': got '\\udfffx'; expected valid Unicode"),
            ({"split": "dev"}, "field 'split': got 'dev'; expected one of train, validation, test"),
            ({"words": ()}, "field 'words' is empty; expected at least one word"),
            ({"words": ("a", "")}, "field 'words', word 1: got ''; expected a non-empty string"),
            ({"words": (3,)}, "field 'words', word 0: got 3; expected a non-empty string"),
            ({"words": ("a b",)}, "field 'words', word 0: got 'a b'; expected a word without white space"),
            ({"words": ("a\u00a0",)}, "expected a word without white space"),
            ({"words": ("\u2003",)}, "expected a word without white space"),
            ({"words": ("x" * 1001,)}, "field 'words', word 0 has 1,001 characters; expected at most 1,000"),
            ({"words": ("a", "b\udcff")}, "field 'words', word 1: got 'b\\udcff'; expected valid Unicode"),
            ({"pair": ("ok", "not ok")}, "field 'pair', word 1"),
        ],
    )
    def test_bad_values(self, change: dict[str, Any], words: str) -> None:
        with pytest.raises(DataError) as caught:
            Example(**{**GOOD, **change})
        assert words in str(caught.value)

    def test_a_word_may_have_a_thousand_characters(self) -> None:
        check_words(("x" * 1000, "\u200b", "\U0001f600"))


class TestRationale:
    @pytest.mark.parametrize(
        ("kind", "annotator", "words"),
        [
            ("machine", "one", "field 'kind': got 'machine'; expected one of human, llm, author"),
            ("human", "", "field 'annotator' is empty"),
            ("human", "a\ud800", "field 'annotator': got .*; expected valid Unicode"),
        ],
    )
    def test_bad_values(self, kind: Any, annotator: str, words: str) -> None:
        with pytest.raises(DataError, match=words):
            Rationale("a", annotator, kind, (True,))


def test_an_attribution_becomes_json() -> None:
    found = Attribution(
        words=("good",),
        scores=np.array([0.5], np.float32),
        tokens=("go", "##od"),
        token_scores=np.array([0.5, 0.25], np.float32),
        target="yes",
        method="m",
        probability=0.75,
        predicted="no",
        aggregation="max",
        signed=False,
    )
    record = json.loads(json.dumps(found.to_record()))
    assert record == {
        "id": "",
        "method": "m",
        "target": "yes",
        "predicted": "no",
        "probability": 0.75,
        "words": ["good"],
        "scores": [0.5],
        "tokens": ["go", "##od"],
        "token_scores": [0.5, 0.25],
        "aggregation": "max",
        "signed": False,
        "unaligned": 0,
        "seconds": 0.0,
        "completeness_error": None,
        "spans": [],
        "pair_start": None,
    }


class TestNearNames:
    def test_the_nearest_are_suggested(self) -> None:
        message = str(UnknownNameError("explainer", "rolout", ["rollout", "random", "expnet"]))
        assert message == "unknown explainer 'rolout'; did you mean rollout?"

    def test_without_a_near_one_all_are_told(self) -> None:
        assert str(UnknownNameError("task", "zzz", ["b", "a"])) == "unknown task 'zzz'; known: a, b."
