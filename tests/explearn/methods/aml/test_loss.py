"""AML on decoders: G reads the classifier's states in both directions, and masked words are left out."""

import numpy as np
import pytest
import tiny
import torch
from aml_cases import untrained

from explearn.methods.aml.loss import removed_logits


@pytest.mark.parametrize("kind", ["gpt2", "gemma"])
def test_a_token_s_score_depends_on_what_stands_behind_it(kind):
    classifier = tiny.classifier(kind)
    paml = untrained(classifier)
    (one,) = paml.explain(classifier, ["the quick brown fox"], [0])
    (other_end,) = paml.explain(classifier, ["the quick brown dog"], [0])
    assert not np.isclose(one.scores[:3], other_end.scores[:3], atol=1e-7).any()


@pytest.mark.parametrize("kind", tiny.DECODERS)
def test_words_with_closed_gates_are_as_good_as_deleted(kind):
    """Wherever they stand, the last word and all of them included; two masks of the same texts go in one batch."""
    classifier = tiny.classifier(kind, 3)
    gone = [{0}, {3, 4}, {8}, {0, 2, 7, 8}, set(range(9)), set(range(8))]
    encodings = classifier.encode(["the quick brown fox jumps over the lazy dog"] * len(gone))
    batch = classifier.batch(encodings)
    kept = torch.tensor(
        [[float(word not in out) for word in e.word_ids] for e, out in zip(encodings, gone, strict=True)]
    )
    expected = classifier.logits(classifier.batch([e.delete(out) for e, out in zip(encodings, gone, strict=True)]))
    both = removed_logits(classifier, batch, torch.cat([kept, torch.ones_like(kept)]))
    torch.testing.assert_close(both[: len(gone)], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(both[len(gone) :], classifier.logits(batch), atol=1e-5, rtol=1e-5)
    assert float((expected - expected[:1]).abs().max()) > 1e-4


def test_the_gradient_of_half_open_gates_is_that_of_small_steps():
    classifier = tiny.double("gpt2")
    batch = tiny.batch(classifier, ["the quick brown fox"])
    kept = torch.linspace(0.1, 0.9, batch.input_ids.shape[1], dtype=torch.float64)[None].requires_grad_()
    assert torch.autograd.gradcheck(lambda m: removed_logits(classifier, batch, m), kept)
