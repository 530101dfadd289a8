"""Encodings without some words, and batches of encodings."""

import copy
from itertools import chain

import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, normalizers

from explearn import ModelError
from explearn.predictors.batching import budget_batches
from explearn.predictors.encoding import encode_texts

# [CLS] un ##kind words (space) [SEP]


class TestBatches:
    @given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 1000))
    def test_each_index_comes_once_the_longest_first_and_within_the_budget(self, lengths, budget):
        batches = list(budget_batches(lengths, budget))
        order = list(chain(*batches))
        assert sorted(order) == list(range(len(lengths)))
        assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
        for batch in batches:
            assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1


def test_a_normaliser_that_fails_is_named():
    words = copy.deepcopy(tiny.tokenizer("albert"))
    # Tries 2^40 ways; the library tokenizers panics.
    words.backend_tokenizer.normalizer = normalizers.Replace(Regex("(a+)+$"), "x")
    with pytest.raises(ModelError, match="the tokenizer cannot read a text"):
        encode_texts(words, ["a" * 40 + "b"], 20)
