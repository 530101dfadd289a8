"""From what a model wrote to words of the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explearn.text.quotes import Quote, align_quotes, quote_evidence

LABELS = ["negative", "positive"]


def align(text, *quotes, threshold=90.0):
    given_quotes = [Quote(quote) if isinstance(quote, str) else Quote(*quote) for quote in quotes]
    return align_quotes(given_quotes, text.split(), threshold)


def marked(alignment):
    return "".join("1" if word else "0" for word in alignment.mask)


class TestAlignment:
    @pytest.mark.parametrize(
        ("text", "quotes", "mask", "rounds"),
        [
            ("a warm film", ["warm"], "010", (1, 0, 0)),
            ("a warm, funny film", ["Warm", "FUNNY FILM!"], "0111", (0, 2, 0)),
            ("a film. Film", ["film"], "010", (0, 1, 0)),  # two places without case: the first
            ("Film a film", ["film"], "001", (1, 0, 0)),  # but what stands there exactly goes before
            ("the co-op store", ["co op"], "010", (0, 1, 0)),
            ("good , bad", ["good bad"], "111", (0, 1, 0)),
            ("well ... bad", ["bad"], "001", (1, 0, 0)),
            ("caf\u00e9 na\u00efve", ["cafe\u0301"], "10", (0, 1, 0)),  # another Unicode form of the same letters
            ("\ufb01ne stra\u00dfe", ["fine", "STRASSE"], "11", (0, 2, 0)),
            ("\u7535\u5f71 \u597d \u770b", ["\u7535\u5f71\u597d"], "110", (0, 1, 0)),  # words without spaces
            ("an excellent cast", ["excelent"], "010", (0, 0, 1)),
            ("warm , dry , and funny", ["warm ... funny"], "100001", (2, 0, 0)),
            ("a slow\u2026 burn", ["slow\u2026 burn"], "011", (1, 0, 0)),  # the text's own ellipsis
            ("", [], "", (0, 0, 0)),
        ],
    )
    def test_the_rounds(self, text, quotes, mask, rounds):
        aligned = align(text, *quotes)
        assert (marked(aligned), (aligned.exact, aligned.insensitive, aligned.fuzzy)) == (mask, rounds)
        assert (aligned.repeated, aligned.hallucinated) == (0, ())

    @pytest.mark.parametrize(
        ("quotes", "mask"),
        [
            (["good", "bad", "good"], "100101"),  # each takes its own place, in order
            (["good", "bad"], "100100"),
            ([("good", 2)], "000001"),
            ([("good", 9)], "100000"),  # no ninth place: the first
            (["but good"], "000000"),
        ],
    )
    def test_words_that_come_twice_are_taken_in_the_text_s_order(self, quotes, mask):
        assert marked(align("good but not bad , good", *quotes)) == mask

    def test_what_the_text_does_not_have_is_counted_and_marks_nothing(self):
        aligned = align("a slow film", "boring", "not worth it", "slow")
        assert (marked(aligned), aligned.hallucinated, aligned.hallucinated_words) == (
            "010",
            ("boring", "not worth it"),
            4,
        )

    def test_the_same_words_given_again_are_no_hallucination(self):
        aligned = align("a slow film", "slow", "Slow", "slow film")
        assert (marked(aligned), aligned.repeated, aligned.hallucinated) == ("010", 2, ())

    word = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=4).filter(
        lambda text: len(text.split()) == 1
    )
    pieces = (
        st.sampled_from(["a", "A", "a,", "b", "ab", "-", "!", "...", "b...a", "\u00e9", "e\u0301", "\u0301"]) | word
    )

    @given(st.lists(st.tuples(pieces, st.booleans()), min_size=1, max_size=12))
    def test_quotes_made_of_a_mask_give_the_mask_back(self, pairs):
        words = [word for word, _ in pairs]
        mask = tuple(mark for _, mark in pairs)
        actual = align_quotes([Quote(*quote) for quote in quote_evidence(words, mask)], words)
        assert actual.mask == mask
        assert (actual.insensitive, actual.fuzzy, actual.repeated, actual.hallucinated) == (0, 0, 0, ())
