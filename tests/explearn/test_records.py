from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, UnknownNameError
from explearn.core.examples import Example, Rationale

GOOD: dict[str, Any] = {"id": "a", "words": ("two", "words"), "label": "x", "split": "train", "task": "t"}


class TestExample:
    def test_words_of_both_segments_come_in_order(self) -> None:
        actual = Example(**GOOD, pair=("and", "more"))
        assert actual.all_words == ("two", "words", "and", "more")
        assert (actual.text, actual.pair_text) == ("two words", "and more")

    def test_a_single_text_has_no_second_segment(self) -> None:
        assert Example(**GOOD).pair_text is None

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"id": ""}, "field 'id': got ''; expected: string should have at least 1 character"),
            ({"id": "k\ud800"}, "field 'id': got 'k\\ud800'; expected: input should be a valid string"),
            ({"label": None}, "field 'label': got nothing; expected: input should be a valid string"),
            ({"split": "dev"}, "field 'split': got 'dev'; expected: input should be 'train', 'validation' or 'test'"),
            ({"words": "a film"}, "field 'words': got 'a film'; expected: input should be a valid tuple"),
            ({"words": ()}, "field 'words' is empty; expected at least one word"),
            ({"words": ("a", "")}, "field 'words', word 1: got ''; expected a word without white space"),
            ({"words": ("a\u00a0",)}, "expected a word without white space"),
            ({"words": ("x" * 999,) * 1001}, "field 'words' has 1,000,999 characters; expected at most 1,000,000"),
            ({"words": ("a", "b\udcff")}, "field 'words', word 1: got 'b\\udcff'; expected valid Unicode"),
            ({"pair": ("ok", "not ok")}, "field 'pair', word 1"),
            (
                {"pair": ("b",), "answer": (0, 1)},
                "expected [first, end) within the words of the last segment, 2 to 3",
            ),
        ],
    )
    def test_bad_values(self, change: dict[str, Any], words: str) -> None:
        with pytest.raises(DataError) as caught:
            Example(**{**GOOD, **change})
        assert words in str(caught.value)


@pytest.mark.parametrize(("kind", "annotator"), [("machine", "one"), ("human", ""), ("human", "a\ud800")])
def test_a_rationale_needs_an_annotator_and_a_kind(kind: Any, annotator: str) -> None:
    with pytest.raises(DataError, match=r"field '(kind|annotator)': got"):
        Rationale("a", annotator, kind, (True,))


def unread(**changes: Any) -> Attribution:
    """Three words, the last of which was not read."""
    made = Attribution(
        words=("a", "fine", "film"),
        scores=np.array([-0.5, 0.25, np.nan], np.float32),
        tokens=("a", "fine"),
        token_scores=np.array([-0.5, 0.25], np.float32),
        target="yes",
        method="m",
        probability=0.75,
        predicted="yes",
        aggregation="sum",
        signed=True,
        unaligned=1,
        seconds=0.5,
        completeness_error=0.125,
        example_id="e1",
    )
    return replace(made, **changes)


class TestWordsWithoutAScore:
    def test_come_last_when_a_number_is_needed(self) -> None:
        filled = unread().filled()
        assert filled[:2].tolist() == [-0.5, 0.25]
        assert filled[2] < -0.5 and filled[2] == pytest.approx(-0.5)
        assert unread().filled(0.0).tolist() == [-0.5, 0.25, 0.0]
        assert unread(scores=np.full(3, np.nan, np.float32)).filled().tolist() == [0, 0, 0]
        assert unread().read.tolist() == [True, True, False]

    def test_are_no_part_of_what_is_printed(self) -> None:
        said = str(unread(completeness_error=0.01))
        assert said == "m for 'yes' (p = 0.750): fine +0.250, a -0.500 (1 of 3 words were not read)"
        assert "off by 0.25, 33% of their absolute sum" in str(unread(completeness_error=0.25))


class TestFromRecord:
    @pytest.mark.parametrize(
        "changes", [{}, {"probability": np.nan, "value": 1.5}, {"windows": 3, "completeness_error": None}], ids=str
    )
    def test_reads_back_what_was_written(self, changes: dict[str, Any]) -> None:
        written = json.dumps(unread(**changes).to_dict())
        again = Attribution.from_dict(json.loads(written))
        assert json.dumps(again.to_dict()) == written
        assert again.scores.dtype == again.token_scores.dtype == np.float32
        np.testing.assert_array_equal(again.scores, unread().scores)

    def test_someone_else_s_scores_need_words_target_and_method_alone(self) -> None:
        actual = Attribution.from_dict(
            {"words": ["a", "b"], "scores": [1, -2.5], "target": "yes", "method": "theirs"}
        )
        assert actual.scores.tolist() == [1, -2.5]
        assert actual.signed and actual.tokens == () and actual.predicted == "yes" and np.isnan(actual.probability)


class TestNearNames:
    def test_the_nearest_are_suggested(self) -> None:
        message = str(UnknownNameError("explainer", "rolout", ["rollout", "random", "expnet"]))
        assert message == "unknown explainer 'rolout'; did you mean rollout?"

    def test_without_a_near_one_all_are_told(self) -> None:
        assert str(UnknownNameError("task", "zzz", ["b", "a"])) == "unknown task 'zzz'; known: a, b."
