"""States of texts and embeddings of words, against transformers' own outputs."""

import numpy as np
import pytest
import tiny
import torch
from rounding import assert_close

from explearn.lens.representations import aggregate_states


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
