"""Perturbed copies of a classifier: what changes, and that the classifier itself does not."""

import pytest
import tiny
import torch

from explearn.lens.perturb import noisy_embeddings, parts, randomised


def changed_names(before, after):
    return {
        n for (n, a), (_, b) in zip(before.named_parameters(), after.named_parameters(), strict=True) if not a.equal(b)
    }


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_only_the_chosen_parts_are_drawn_anew(kind):
    classifier = tiny.classifier(kind)
    fingerprint = classifier.fingerprint
    known = parts(classifier)
    copy = randomised(classifier, 1, ["head"])
    changed = changed_names(classifier.model, copy.model)
    assert changed and changed <= set(known["head"])
    everything = changed_names(classifier.model, randomised(classifier, 1).model)
    # Biases and layer norms may start as they were.
    assert everything >= {n for n, p in classifier.model.named_parameters() if p.dim() > 1 and "norm" not in n.lower()}
    classifier.weights_changed()
    assert classifier.fingerprint == fingerprint != copy.fingerprint


def test_weights_follow_the_seed_and_leave_the_callers_draws_alone():
    classifier = tiny.classifier()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, again, other = (randomised(classifier, seed) for seed in (1, 1, 2))
    assert torch.rand(1) == expected
    assert first.fingerprint == again.fingerprint != other.fingerprint
    # A part gets the same weights whatever else is chosen.
    head = dict(randomised(classifier, 1, ["head"]).model.named_parameters())
    assert all(head[name].equal(dict(first.model.named_parameters())[name]) for name in parts(classifier)["head"])
    assert not any(p.requires_grad for p in first.model.parameters()) and not first.model.training


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_noise_stays_within_its_radius_on_the_word_embeddings_alone(kind):
    classifier = tiny.classifier(kind)
    copy = noisy_embeddings(classifier, 0.02, 5)
    difference = copy.model.get_input_embeddings().weight - classifier.model.get_input_embeddings().weight
    assert difference.abs().max() <= 0.02 + 1e-6 and difference.abs().mean() == pytest.approx(0.01, rel=0.1)
    assert len(changed_names(classifier.model, copy.model)) == 1
    assert copy.predict(["the quick brown fox"]) is not None
    assert noisy_embeddings(classifier, 0.02, 5).fingerprint == copy.fingerprint
    assert noisy_embeddings(classifier, 0.02, 6).fingerprint != copy.fingerprint
