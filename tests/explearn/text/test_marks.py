"""The ways to write down a word mask: marked text, spans, lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explearn import DataError
from explearn.core.words import lay_out
from explearn.text.marks import parse_marked, parse_mask, parse_spans
from explearn_study.annotate.people.sheets import format_marked


class TestMarkedText:
    @pytest.mark.parametrize(
        ("text", "words", "mask"),
        [
            ("a [[good film]] .", "a good film .", "0110"),
            ("un[[happy]] people", "unhappy people", "10"),
            ("[[one]] two [[three four]]", "one two three four", "1011"),
            ("see [note] and [[that]]", "see [note] and that", "0001"),
            ("[[[1]]] cited", "[1] cited", "10"),
            ("two\nlines\t[[here]]", "two lines here", "001"),
            ("[[a]][[b]] c", "ab c", "10"),
        ],
    )
    def test_a_word_is_marked_when_any_of_it_stands_in_brackets(self, text, words, mask):
        segment, marked = parse_marked(text)
        assert (segment.words, marked) == (tuple(words.split()), tuple(m == "1" for m in mask))

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("a [[good film", "never closed"),
            ("a good]] film", "without '[['"),
            ("a [[very [[good]] film]]", "inside marks"),
            ("a [[]] film", "around nothing"),
            ("  ", "at least one word"),
        ],
    )
    def test_unbalanced_marks_are_refused(self, text, complaint):
        with pytest.raises(DataError) as caught:
            parse_marked(text)
        assert complaint in str(caught.value)

    words_and_mask = st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters="[]"), min_size=1).filter(
                lambda word: len(word.split()) == 1
            )
            | st.sampled_from(["[", "]", "[x]", "a[", "]b"]),
            st.booleans(),
        ),
        min_size=1,
    )

    @given(words_and_mask)
    def test_writing_and_reading_marks_gives_the_same_words_and_mask(self, pairs):
        words = tuple(w for w, _ in pairs)
        mask = tuple(m for _, m in pairs)
        segment, marked = parse_marked(format_marked(words, mask), lay_out(words))
        assert (segment.words, marked) == (words, mask)


class TestSpansAndMasks:
    def test_spans_are_half_open_and_may_overlap(self):
        assert parse_spans([[0, 2], [1, 3]], 5) == (True, True, True, False, False)
        assert parse_spans([], 2) == (False, False)

    @pytest.mark.parametrize("value", [[0, 1, 1], [False, True, True], "0 1 1", "[0, 1, 1]"])
    def test_masks_come_as_lists_or_as_text(self, value):
        assert parse_mask(value, 3) == (False, True, True)
