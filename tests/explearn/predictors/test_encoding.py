"""Encodings without some words, and batches of encodings."""

import copy
from itertools import chain

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, normalizers

from explearn import ModelError
from explearn.core.words import Segment
from explearn.predictors.batching import budget_batches
from explearn.predictors.encoding import Encoding, collate, encode_texts
from explearn.text.encoding import align_words

# [CLS] un ##kind words (space) [SEP]
ENCODING = Encoding(
    input_ids=(101, 11, 12, 13, 14, 102),
    token_type_ids=(0, 0, 0, 0, 0, 0),
    special=(True, False, False, False, False, True),
    word_ids=(-1, 0, 0, 1, -1, -1),
    words=("unkind", "words"),
    example_id="x",
)
PAIR = Encoding((101, 11, 102, 12, 13, 102), (0, 0, 0, 1, 1, 1), (True, False, True, False, False, True),
                (-1, 0, -1, 1, 2, -1), ("a", "b", "c"))  # fmt: skip
MASK = 103


class TestRemoval:
    def test_delete_takes_all_pieces_of_a_word(self):
        deleted = ENCODING.delete([0])
        assert deleted.input_ids == (101, 13, 14, 102) and deleted.word_ids == (-1, 1, -1, -1)
        assert deleted.special == (True, False, False, True) and deleted.token_type_ids == (0, 0, 0, 0)
        assert (deleted.words, deleted.example_id) == (ENCODING.words, "x")

    def test_keep_takes_the_pieces_of_a_word_and_special_tokens(self):
        kept = ENCODING.keep([0])
        assert kept.input_ids == (101, 11, 12, 102) and kept.word_ids == (-1, 0, 0, -1)

    def test_mask_keeps_the_length(self):
        masked = ENCODING.mask([0], MASK)
        assert masked.input_ids == (101, 103, 103, 13, 14, 102) and masked.word_ids == ENCODING.word_ids

    def test_segments_stay_with_their_tokens(self):
        assert PAIR.delete([0, 1]).token_type_ids == (0, 0, 1, 1)
        assert PAIR.delete([0, 1]).input_ids == (101, 102, 13, 102)
        (without,) = tiny.classifier("roberta").encode(["lazy dog"])
        assert without.token_type_ids == without.delete([0]).token_type_ids == ()


def test_the_key_is_the_model_s_input():
    """The masked word and the deleted one differ; a text's id and words play no part."""
    assert ENCODING.key != ENCODING.mask([0], MASK).key != ENCODING.delete([0]).key
    same = (Encoding((1, 2), (), (True, True), (-1, -1), (word,), word) for word in "ab")
    assert len({encoding.key for encoding in same}) == 1
    assert ENCODING.positions == [1, 2, 3, 4] and PAIR.positions == [1, 3, 4]


def test_words_of_parts_of_a_prompt():
    # "Q: so it; A: no": the texts are "so it" from 3 and "no" from 13; a piece joins "t;".
    offsets = [None, (0, 2), (2, 5), (6, 7), (7, 9), (13, 15)]
    fields = align_words(offsets, [(3, Segment.of("so it")), (13, Segment.of("no"))])
    assert fields["words"] == ("so", "it", "no") and fields["spans"] == ((0, 2), (3, 5), (0, 2))
    assert fields["word_ids"] == (-1, -1, 0, 1, 1, 2)
    assert fields["characters"] == ((0, 0), (0, 0), (0, 2), (0, 1), (1, 2), (0, 2))


class TestBatches:
    @given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 1000))
    def test_each_index_comes_once_the_longest_first_and_within_the_budget(self, lengths, budget):
        batches = list(budget_batches(lengths, budget))
        order = list(chain(*batches))
        assert sorted(order) == list(range(len(lengths)))
        assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
        for batch in batches:
            assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1

    def test_padding_is_on_the_right(self):
        batch = collate([ENCODING, ENCODING.keep([])], pad_token_id=9, device=torch.device("cpu"))
        assert batch.input_ids.tolist() == [[101, 11, 12, 13, 14, 102], [101, 102, 9, 9, 9, 9]]
        assert batch.attention_mask.tolist() == [[1] * 6, [1, 1, 0, 0, 0, 0]]
        assert batch.model_inputs()["token_type_ids"].tolist() == [[0] * 6] * 2 and len(batch) == 2

    @pytest.mark.parametrize("kind", ["roberta", "distilbert"])
    def test_models_without_segments_get_none(self, kind):
        of = tiny.classifier(kind)
        assert set(of.batch(of.encode(tiny.TEXTS)).model_inputs()) == {"input_ids", "attention_mask"}


def test_a_normaliser_that_fails_is_named():
    words = copy.deepcopy(tiny.tokenizer("albert"))
    # Tries 2^40 ways; the library tokenizers panics.
    words.backend_tokenizer.normalizer = normalizers.Replace(Regex("(a+)+$"), "x")
    with pytest.raises(ModelError, match="the tokenizer cannot read a text"):
        encode_texts(words, ["a" * 40 + "b"], 20)
