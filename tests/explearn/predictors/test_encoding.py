"""Encodings, as a tokenizer makes them."""

import copy

import pytest
import tiny
from tokenizers import Regex, normalizers

from explearn import ModelError
from explearn.predictors.encoding import encode_texts


def test_a_normaliser_that_fails_is_named():
    words = copy.deepcopy(tiny.tokenizer("albert"))
    # Tries 2^40 ways; the library tokenizers panics.
    words.backend_tokenizer.normalizer = normalizers.Replace(Regex("(a+)+$"), "x")
    with pytest.raises(ModelError, match="the tokenizer cannot read a text"):
        encode_texts(words, ["a" * 40 + "b"], 20)
