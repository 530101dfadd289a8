import pytest

from explearn import DataError, Example, Rationale

GOOD = {"id": "a", "words": ("two", "words"), "label": "x", "split": "train", "task": "t"}


class TestExample:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"id": "k\ud800"}, "field 'id': got 'k\\ud800'; expected: input should be a valid string"),
            ({"split": "dev"}, "field 'split': got 'dev'; expected: input should be 'train', 'validation' or 'test'"),
            ({"words": ()}, "field 'words' is empty; expected at least one word"),
            ({"words": ("a", "")}, "field 'words', word 1: got ''; expected a word without white space"),
            ({"words": ("x" * 999,) * 1001}, "field 'words' has 1,000,999 characters; expected at most 1,000,000"),
            ({"words": ("a", "b\udcff")}, "field 'words', word 1: got 'b\\udcff'; expected valid Unicode"),
            (
                {"pair": ("b",), "focus": (0, 1)},
                "expected [first, end) within the words of the last segment, 2 to 3",
            ),
        ],
    )
    def test_bad_values(self, change, words):
        with pytest.raises(DataError) as caught:
            Example(**{**GOOD, **change})
        assert words in str(caught.value)


@pytest.mark.parametrize(("kind", "annotator"), [("machine", "one"), ("human", ""), ("human", "a\ud800")])
def test_a_rationale_needs_an_annotator_and_a_kind(kind, annotator):
    with pytest.raises(DataError, match=r"field '(kind|annotator)': got"):
        Rationale("a", annotator, kind, (True,))
