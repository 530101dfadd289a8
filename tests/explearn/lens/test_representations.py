"""States of texts and embeddings of words, against transformers' own outputs."""

import numpy as np
import pytest
import tiny
import torch
from rounding import assert_close

from explearn.lens.representations import aggregate_states, word_embeddings


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_states_are_means_over_layers_and_real_tokens_whatever_the_padding(kind):
    classifier = tiny.classifier(kind)
    encodings = classifier.encode([*tiny.TEXTS, *tiny.PAIRS])
    actual = aggregate_states(classifier, encodings)
    for row, encoding in zip(actual, encodings, strict=True):
        with torch.inference_mode():
            layers = classifier.model(**classifier.batch([encoding]).model_inputs(), output_hidden_states=True)
        expected = np.mean([layer[0].numpy().mean(axis=0) for layer in layers.hidden_states[1:]], axis=0)
        assert_close(row, expected)
    assert len(layers.hidden_states) == tiny.LAYERS + 1


def test_a_words_embedding_is_the_mean_of_its_pieces():
    classifier = tiny.classifier()
    (encoding,) = classifier.encode(["unbelievably slow xyzzy \u200b end"])
    (actual,) = word_embeddings(classifier, [encoding])
    table = classifier.model.get_input_embeddings().weight.numpy()
    assert len(actual) == len(encoding.words)
    for word, row in enumerate(actual):
        pieces = [table[t] for t, w in zip(encoding.input_ids, encoding.word_ids, strict=True) if w == word]
        if pieces:
            assert_close(row, np.mean(pieces, axis=0))
        else:
            assert np.isnan(row).all()
    assert sum(np.isnan(row).any() for row in actual) == len(encoding.words) - len({*encoding.word_ids} - {-1})
