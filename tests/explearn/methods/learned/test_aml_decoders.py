"""AML on decoders: G reads the classifier's states in both directions, and masked words are left out."""

import functools

import numpy as np
import pytest
import tiny
import torch
from aml_cases import DECISIVE, LEARNING, examples, refiner, task_of, teach, untrained, values

from explearn.methods.aml.loss import removed_logits
from explearn.methods.aml.paml import PAML


@functools.cache
def one_word_decoder():
    """A GPT-2 that goes by the decisive word and is unsure where it is left out; its unknown token speaks for `yes`.

    Tests leave it as it is.
    """
    classifier = tiny.make_classifier("gpt2", seed=1)
    for parameter in classifier.model.parameters():
        if parameter.dim() == 2:
            parameter.data.mul_(0.3)
    teach(classifier, steps=160, learning_rate=3e-3)
    table = classifier.model.get_input_embeddings().weight
    (warm,) = classifier.encode(["warm"])
    table[classifier.tokenizer.unk_token_id] = table[list(warm.input_ids)].mean(0)
    return classifier


@functools.cache
def trained_decoder():
    """`one_word_decoder` and its pAML; tests leave both as they are."""
    classifier = one_word_decoder()
    return classifier, PAML(**LEARNING, epochs=8).learn(task_of(classifier, 64, 16))


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


class TestLearning:
    def test_it_finds_the_word_that_decides(self):
        """Though masked words, in the paper's form, would speak for a class."""
        classifier, paml = trained_decoder()
        attributions = paml.explain(classifier, examples(40, seed=9, split="test"))
        right = [a.words[int(a.scores.argmax())] in DECISIVE for a in attributions]
        assert np.mean(right) > 0.8  # by chance one of five to nine

    def test_faml_is_never_worse_than_paml_on_its_metric(self):
        classifier, paml = trained_decoder()
        texts = examples(6, seed=9, split="test")
        methods = (paml, refiner(paml, steps=2, samples=2))
        before, after = (values(classifier, method.explain(classifier, texts), "aopc_difference") for method in methods)
        assert (after >= before - 1e-5).all()
