from __future__ import annotations

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from explearn.model.batching import budget_batches
from explearn.model.encoding import Encoding, collate
from explearn.text.alignment import NO_WORD

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
    def test_delete_takes_all_pieces_of_a_word(self) -> None:
        found = ENCODING.delete([0])
        assert found.input_ids == (101, 13, 14, 102)
        assert found.word_ids == (-1, 1, -1, -1)
        assert found.special == (True, False, False, True)
        assert found.token_type_ids == (0, 0, 0, 0)
        assert (found.words, found.example_id) == (ENCODING.words, "x")

    def test_keep_takes_the_pieces_of_a_word_and_special_tokens(self) -> None:
        found = ENCODING.keep([0])
        assert found.input_ids == (101, 11, 12, 102)
        assert found.word_ids == (-1, 0, 0, -1)

    def test_mask_keeps_the_length(self) -> None:
        found = ENCODING.mask([0], MASK)
        assert found.input_ids == (101, 103, 103, 13, 14, 102)
        assert found.word_ids == ENCODING.word_ids

    def test_segments_stay_with_their_tokens(self) -> None:
        assert PAIR.delete([0, 1]).token_type_ids == (0, 0, 1, 1)
        assert PAIR.delete([0, 1]).input_ids == (101, 102, 13, 102)
        assert PAIR.keep([2]).token_type_ids == (0, 0, 1, 1)

    def test_nothing_and_everything(self) -> None:
        assert ENCODING.delete([]) == ENCODING == ENCODING.mask([], MASK)
        assert ENCODING.keep([]).input_ids == (101, 102)
        assert ENCODING.delete([0, 1]).input_ids == (101, 14, 102)

    def test_no_word_removes_no_special_token(self) -> None:
        assert ENCODING.delete([NO_WORD]) == ENCODING.mask([NO_WORD], MASK) == ENCODING
        assert ENCODING.keep([NO_WORD]) == ENCODING.keep([])

    def test_a_word_without_pieces_removes_nothing(self) -> None:
        assert ENCODING.delete([7]) == ENCODING

    def test_a_model_without_segments(self) -> None:
        (found,) = tiny.classifier("roberta").encode(["lazy dog"])
        assert found.token_type_ids == found.delete([0]).token_type_ids == ()

    @given(st.sets(st.integers(0, 2)))
    def test_deleting_words_is_keeping_the_others(self, words: set[int]) -> None:
        assert PAIR.delete(words) == PAIR.keep({0, 1, 2} - words)

    @given(st.sets(st.integers(0, 2)))
    def test_special_tokens_always_stay(self, words: set[int]) -> None:
        for found in (PAIR.delete(words), PAIR.keep(words), PAIR.mask(words, MASK)):
            assert [i for i, special in zip(found.input_ids, found.special, strict=True) if special] == [101, 102, 102]


def test_the_key_is_what_the_model_sees() -> None:
    """The masked word and the deleted one differ; a text's id and words play no part."""
    assert ENCODING.key != ENCODING.mask([0], MASK).key != ENCODING.delete([0]).key
    assert (
        Encoding((1, 2), (), (True, True), (-1, -1), ("a",), "x").key
        == Encoding((1, 2), (), (True, True), (-1, -1), ("b",), "y").key
    )
    assert (
        Encoding((1, 2), (0, 0), (True, True), (-1, -1), ()).key
        != Encoding((1, 2), (0, 1), (True, True), (-1, -1), ()).key
    )


def test_positions_leave_special_tokens_out() -> None:
    assert ENCODING.positions == [1, 2, 3, 4]
    assert PAIR.positions == [1, 3, 4]


class TestBatches:
    @given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 1000))
    def test_each_index_comes_once_and_the_padded_size_stays_within_the_budget(
        self, lengths: list[int], budget: int
    ) -> None:
        batches = list(budget_batches(lengths, budget))
        assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
        for batch in batches:
            assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1

    @given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 1000))
    def test_the_longest_come_first(self, lengths: list[int], budget: int) -> None:
        order = [lengths[index] for batch in budget_batches(lengths, budget) for index in batch]
        assert order == sorted(lengths, reverse=True)

    def test_by_hand(self) -> None:
        # Budget 12: the text of 20 alone; 6 + 5 in two times 6; four of 3 and less in four times 3; one is left.
        assert list(budget_batches([3, 20, 5, 1, 6, 2, 2], 12)) == [[1], [4, 2], [0, 5, 6, 3]]

    def test_padding_is_on_the_right(self) -> None:
        batch = collate([ENCODING, ENCODING.keep([])], pad_token_id=9, device=torch.device("cpu"))
        assert batch.input_ids.tolist() == [[101, 11, 12, 13, 14, 102], [101, 102, 9, 9, 9, 9]]
        assert batch.attention_mask.tolist() == [[1] * 6, [1, 1, 0, 0, 0, 0]]
        assert batch.token_type_ids is not None
        assert batch.token_type_ids.tolist() == [[0] * 6] * 2
        assert len(batch) == 2
        assert set(batch.model_inputs()) == {"input_ids", "attention_mask", "token_type_ids"}

    @pytest.mark.parametrize("kind", ["roberta", "distilbert"])
    def test_models_without_segments_get_none(self, kind: str) -> None:
        of = tiny.classifier(kind)
        assert set(of.batch(of.encode(tiny.TEXTS)).model_inputs()) == {"input_ids", "attention_mask"}
