"""Which word a sub-token belongs to, over arbitrary words and every kind of fast tokenizer."""

import pytest
import tiny
from hypothesis import example, given, settings
from hypothesis import strategies as st

from explearn.core.words import Segment
from explearn.text.alignment import NO_WORD, align

spaced = st.characters(exclude_categories=("Cs",), max_codepoint=0xDFF) | st.characters(
    min_codepoint=0x1F300, max_codepoint=0x1FAFF
)
"""Scripts that put spaces between words, up to Sinhala, and emoji."""

any_word = st.text(spaced, min_size=1, max_size=12).filter(lambda word: word.split() == [word])
any_words = st.lists(any_word, min_size=1, max_size=8)
ascii_words = st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1), min_size=1, max_size=8)
gaps = st.text(st.sampled_from(" \t\n\u00a0\u3000"), min_size=1, max_size=3)


def overlap(a, b):
    return max(0, min(a[1], b[1]) - max(a[0], b[0]))


class TestWords:
    @given(any_words, gaps)
    def test_words_are_what_split_gives(self, words, gap):
        text = gap.join(["", *words, ""])
        assert [text[a:b] for a, b in Segment.of(text).spans] == words == text.split()


class TestAlign:
    @pytest.mark.parametrize(
        ("offsets", "owners"),
        [
            ([(0, 2), (2, 4), (5, 9)], [0, 0, 1]),
            ([(0, 4), (4, 9)], [0, 1]),  # the second piece carries the space before its word
            ([(0, 4), (4, 5), (5, 9)], [0, NO_WORD, 1]),  # a space of its own
            ([(0, 0), (4, 4)], [NO_WORD, NO_WORD]),  # of no character
            ([(0, 9)], [0]),  # over both, as much of each: the first
            ([(3, 9)], [1]),  # over both, more of the second
            ([(5, 6), (5, 6), (5, 6), (6, 9)], [1, 1, 1, 1]),  # bytes of one character
            ([(20, 22)], [NO_WORD]),  # behind the text
        ],
    )
    def test_by_hand(self, offsets, owners):
        assert align(offsets, [(0, 4), (5, 9)]) == owners


def encode(kind, text, pair=None):
    return tiny.long_classifier(kind).encode([text if pair is None else (text, pair)])[0]


def offsets_of(kind, text):
    encoded = tiny.tokenizer(kind, 2000)(text, return_offsets_mapping=True)
    return [tuple(span) for span in encoded["offset_mapping"]]


@pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
class TestTokenizers:
    @settings(max_examples=50)
    @given(words=any_words, gap=gaps)
    @example(words=["e\u0301", "\u200b", "\U0001f468\u200d\U0001f469\u200d\U0001f467"], gap="  ")
    @example(words=["\u4e2d\u6587", "\ufb01n", "\u0130stanbul", "\u00df"], gap=" ")
    @example(words=["[SEP]", "<s>", "<mask>", "[MASK]", "</s>"], gap=" ")
    def test_every_piece_overlaps_the_word_it_belongs_to(self, kind, words, gap):
        text = gap.join(words)
        encoding = encode(kind, text)
        spans = Segment.of(text).spans
        assert encoding.words == tuple(words)
        for position, piece in enumerate(offsets_of(kind, text)):
            owner = encoding.word_ids[position]
            if owner != NO_WORD:
                assert not encoding.special[position]
                assert overlap(piece, spans[owner]) > 0
            elif not encoding.special[position]:
                assert not any(overlap(piece, span) for span in spans)

    @settings(max_examples=50)
    @given(words=ascii_words, gap=gaps)
    def test_every_ascii_word_has_pieces(self, kind, words, gap):
        assert set(encode(kind, gap.join(words)).word_ids) - {NO_WORD} == set(range(len(words)))


def test_a_word_that_the_tokenizer_removes_has_no_piece():
    encoding = encode("bert", "quick \u200b fox")
    assert encoding.words == ("quick", "\u200b", "fox")
    assert set(encoding.word_ids) == {NO_WORD, 0, 2}


class TestTruncation:
    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    def test_words_behind_the_limit_have_no_piece(self, kind):
        words = ["castle"] * 60
        of = tiny.classifier(kind)
        (encoding,) = of.encode([" ".join(words)])
        assert len(encoding) == of.max_length == tiny.POSITIONS - 2
        assert len(encoding.words) == 60
        kept = set(encoding.word_ids) - {NO_WORD}
        assert kept == set(range(max(kept) + 1))
        assert 0 < max(kept) < 59

    def test_of_a_pair_the_longer_segment_is_cut(self):
        of = tiny.classifier()
        (encoding,) = of.encode([("fox " * 60, "lazy dog")])
        assert len(encoding) == of.max_length
        # 46 positions: [CLS], [SEP], [SEP], the pair's two words, 41 of the first segment's.
        assert set(encoding.word_ids) == {NO_WORD, *range(41), 60, 61}
