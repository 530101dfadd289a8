"""What holds for every method that is not trained, found by the registry: a new one is tested without a line here."""

import re
from itertools import chain

import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn import Example, ExplearnError
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
