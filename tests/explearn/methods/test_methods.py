"""What holds for every method that is not trained, found by the registry: a new one is tested without a line here."""

import re
from itertools import chain

import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn import Example, ExplearnError, ModelError, ParamsError
from explearn.methods.registry import explainer_class
from explearn.testing import check_explainer

COSTLY = ("alti", "globenc", "decompx", "deep_lift", "solvex", *tiny.QUICK)


@pytest.mark.parametrize("name", tiny.UNTRAINED)
def test_what_is_asked_of_every_method(name):
    # All other architectures are those of test_every_architecture.
    kinds = ("distilbert",) if name in COSTLY else ("albert",)
    texts = (*tiny.TEXTS[:3], *tiny.PAIRS[:2])
    check_explainer(explainer_class(name), options=tiny.QUICK.get(name), architectures=kinds, texts=texts)


def explain(name, of, texts, targets=None):
    return tiny.quick(name).explain(of, texts, targets)


class TestWhatTheBaseClassDoesForAll:
    @staticmethod
    def in_chunks_of_2(monkeypatch):
        monkeypatch.setattr("explearn.methods.base.explainer.CHUNK_TEXTS", 2)

    def test_texts_and_targets_are_read_as_they_are_explained(self, monkeypatch):
        self.in_chunks_of_2(monkeypatch)
        read = []

        def stream():
            for text in tiny.TEXTS:
                read.append(text)
                yield text

        explained = explearn.get_explainer("rollout").iter_explain(
            tiny.classifier("bert", 3), stream(), iter([0, 1, 2, 0, 1])
        )
        first = next(explained)
        assert len(read) == 2
        attributions = [*first, *chain.from_iterable(explained)]
        assert [" ".join(a.words) for a in attributions] == list(tiny.TEXTS)
        assert [a.target for a in attributions] == ["bad", "fair", "good", "bad", "fair"]

    def test_bad_input_is_named(self, monkeypatch):
        self.in_chunks_of_2(monkeypatch)
        of = tiny.classifier()
        said = "than texts; expected one for each text"
        assert explain("rollout", of, []) == []
        for texts, targets, expected in (
            (tiny.TEXTS, [0] * 4, f"targets: fewer {said}"),
            (tiny.TEXTS, [0] * 6, f"targets: more {said}"),
            ({"lazy dog"}, None, "texts: got set"),
            (["fox", "dog", "lazy", " "], None, "text 4: field 'text' is empty"),
        ):
            with pytest.raises(ExplearnError, match=re.escape(expected)):
                explain("rollout", of, texts, targets)

    def test_examples_keep_their_ids_and_words(self):
        pair = Example("pair", ("slow",), "no", "test", "t", ("no", "refund"))
        single = Example("single", ("lazy", "dog"), "no", "test", "t")
        actual = [(a.example_id, a.words) for a in explain("rollout", tiny.classifier(), [pair, single])]
        assert actual == [("pair", pair.all_words), ("single", single.words)]


class TestTheCheckItself:
    """It fails, with a sentence, for a method that breaks what is asked."""

    class Right(explearn.BatchExplainer):
        """A sub-token's id is its score."""

        about = explearn.About(name="right", family="chance", cost="one forward pass")

        def score_batch(self, classifier, batch, targets):
            logits = classifier.logits(batch)
            scores = self.scores(batch.input_ids.float())
            return explearn.BatchScores(scores, logits, logits.argmax(-1) if targets is None else targets)

        def scores(self, ids):
            return ids

    def broken(self, **changed):
        parts = {"about": self.Right.about, "__doc__": "It is broken.", **changed}
        made = type("Broken", (self.Right,), parts)
        return made

    def test_a_method_that_does_as_asked(self):
        for kind in ("bert", "roberta"):
            check_explainer(self.Right, architectures=[kind], texts=tiny.TEXTS[:2])
        check_explainer(self.Right(), classifier=tiny.classifier("bert", 2), texts=tiny.TEXTS[:2])

    @pytest.mark.parametrize(
        ("scores", "words"),
        [
            (lambda self, ids: -ids, "a score is below zero, but `signed` is False"),
            (lambda self, ids: ids * ids.shape[1], "all texts together, text 1: scores are"),
            (lambda self, ids: ids + torch.rand(()), "text 1: scores are"),
        ],
        ids=["sign", "padding", "chance"],
    )
    def test_what_is_broken_is_named(self, scores, words):
        with pytest.raises(AssertionError, match=f"^right on bert with 3 classes: .*{re.escape(words)}"):
            check_explainer(self.broken(scores=scores), architectures=["bert"])

    def test_what_is_left_on_the_model_is_found(self):
        def hooked(self, classifier, batch, targets):
            classifier.model.register_forward_hook(lambda *_: None)
            return TestTheCheckItself.Right.score_batch(self, classifier, batch, targets)

        with pytest.raises(AssertionError, match="hooks, modes or settings are left on the model"):
            check_explainer(self.broken(score_batch=hooked), classifier=tiny.make_classifier())

    def test_a_class_that_declares_nothing(self):
        with pytest.raises(ParamsError, match=r"class .*Silent: its `about` is missing"):
            check_explainer(type("Silent", (self.Right,), {}))

    def test_a_method_that_is_trained_comes_as_an_instance(self):
        with pytest.raises(ModelError, match="this marker is not trained"):
            check_explainer(explainer_class("marker"))


def test_a_single_text_is_a_list_of_one_and_one_target_is_that_of_all():
    of = tiny.classifier("bert", 3)
    pair = ("no", "refund")
    for one in ("lazy dog", pair, Example("single", ("lazy", "dog"), "no", "test", "t")):
        assert [a.words for a in explain("rollout", of, one)] == [a.words for a in explain("rollout", of, [one])]
    for texts, targets, expected in (
        ("lazy dog", 2, ["good"]),
        (pair, ["bad", "good"], ["bad", "good"]),
        (["fox", "dog", "sea"], "fair", ["fair"] * 3),
        (iter(["fox", pair]), np.int64(0), ["bad"] * 2),
    ):
        assert [a.target for a in explain("rollout", of, texts, targets)] == expected


def test_targets_are_numbers_of_python_numpy_or_torch():
    of = tiny.classifier("bert", 3)
    texts = list(tiny.TEXTS[:3])
    for targets in (np.array([2, 0, 1]), torch.tensor([2, 0, 1])):
        actual = [a.target for a in explearn.get_explainer("random").explain(of, texts, targets)]
        assert actual == [of.labels[i] for i in (2, 0, 1)]
