"""`check_explainer` passes a method that does as asked, and says what is wrong with one that breaks a rule."""

import re

import pytest
import tiny
import torch

import explearn
from explearn import ModelError, ParamsError
from explearn.methods.registry import explainer_class
from explearn.testing import check_explainer


class Right(explearn.BatchExplainer):
    """A sub-token's id is its score."""

    about = explearn.About(name="right", family="chance", cost="one forward pass")

    def score_batch(self, classifier, batch, targets):
        logits = classifier.logits(batch)
        scores = self.scores(batch.input_ids.float())
        return explearn.BatchScores(scores, logits, logits.argmax(-1) if targets is None else targets)

    def scores(self, ids):
        return ids


def broken(**changed):
    return type("Broken", (Right,), {"about": Right.about, "__doc__": "It is broken.", **changed})


def leave_a_hook(self, classifier, batch, targets):
    classifier.model.register_forward_hook(lambda *_: None)
    return Right.score_batch(self, classifier, batch, targets)


def test_a_method_that_does_as_asked_passes_in_silence(caplog):
    for kind in ("bert", "roberta"):
        check_explainer(Right, architectures=[kind], texts=tiny.TEXTS[:2])
    check_explainer(Right(), classifier=tiny.classifier("bert", 2), texts=tiny.TEXTS[:2])
    assert not caplog.records
    # Of what a user explains, the log names what was not read.
    Right().explain(tiny.classifier("bert", 2), ["lazy dog", "lazy \u200b dog"])
    assert "1 word not read" in caplog.text and r"such as '\u200b' of text 2" in caplog.text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"scores": lambda self, ids: -ids}, "a score is below zero, but `signed` is False"),
        ({"scores": lambda self, ids: ids * ids.shape[1]}, "all texts together, text 1: "),
        ({"scores": lambda self, ids: ids + torch.rand(())}, "text 1: the value of scores"),
        ({"score_batch": leave_a_hook}, "hooks, modes or settings are left on the model"),
    ],
    ids=["sign", "padding", "chance", "hook"],
)
def test_what_is_broken_is_named(changed, words):
    with pytest.raises(AssertionError, match=f"^right on the classifier given: .*{re.escape(words)}"):
        check_explainer(broken(**changed), classifier=tiny.make_classifier(classes=3))


def test_a_class_that_declares_nothing_and_one_that_is_not_trained():
    with pytest.raises(ParamsError, match=r"class .*Silent: its `about` is missing"):
        check_explainer(type("Silent", (Right,), {}))
    with pytest.raises(ModelError, match="this marker is not trained"):
        check_explainer(explainer_class("marker"))
