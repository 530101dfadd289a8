"""What holds for every method that is not trained, found by the registry: a new one is tested without a line here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import explearn
import tiny
from explearn.core.errors import DataError, ExplearnError, ParamsError, UnknownNameError
from explearn.core.records import Attribution, Example
from explearn.data.alignment import aggregate
from explearn.methods.base import explainer as module

METHODS = [name for name in explearn.list_explainers() if not explearn.get_info(name).learned]
FEWER: dict[str, dict[str, Any]] = {
    "integrated_gradients": {"steps": 4},
    "gradient_shap": {"samples": 3},
    "sequential_ig": {"steps": 3},
    "deep_shap": {"references": 4},
    "lime": {"samples": 40},
    "shap": {"max_evals": 60},
    "kernel_shap": {"samples": 40},
    "solvex": {"beam": 2},
}
"""Options that make the costly methods quick, with which all here holds as well."""

TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]
TOLERANCE = 1e-5


def explain(name: str, of: explearn.Classifier, texts: Any, targets: Any = None) -> list[Attribution]:
    return list(explearn.get_explainer(name, **FEWER.get(name, {})).explain(of, texts, targets))


def assert_same(found: list[Attribution], expected: list[Attribution]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.words, a.tokens, a.target, a.predicted) == (b.words, b.tokens, b.target, b.predicted)
        size = max(0.1, float(np.abs(b.token_scores).max()))
        np.testing.assert_allclose(a.scores, b.scores, atol=TOLERANCE * size)
        np.testing.assert_allclose(a.token_scores, b.token_scores, atol=TOLERANCE * size)
        assert a.probability == pytest.approx(b.probability, abs=TOLERANCE)


@pytest.mark.parametrize(("kind", "classes"), [*((kind, 3) for kind in tiny.ARCHITECTURES), ("bert", 2)])
@pytest.mark.parametrize("name", METHODS)
class TestEveryArchitecture:
    def test_an_attribution_scores_every_word_and_sub_token(self, name: str, kind: str, classes: int) -> None:
        of = tiny.classifier(kind, classes)
        probabilities = of.predict_proba(of.encode(TEXTS))
        for found, text, encoding, p in zip(
            explain(name, of, TEXTS), TEXTS, of.encode(TEXTS), probabilities, strict=True
        ):
            assert found.words == tuple(" ".join(text).split() if isinstance(text, tuple) else text.split())
            assert found.scores.shape == (len(found.words),)
            assert found.token_scores.shape == (len(found.tokens),)
            assert found.scores.dtype == found.token_scores.dtype == np.float32
            assert np.isfinite(found.scores).all()
            assert found.predicted == found.target == of.labels[int(p.argmax())]
            assert found.probability == pytest.approx(p.max(), abs=TOLERANCE)
            assert (found.method, found.unaligned) == (name, 0)
            assert found.seconds > 0
            if not found.signed:
                assert (found.token_scores >= 0).all()
            owners = np.array([encoding.word_ids[i] for i in encoding.positions])
            combine = {"max": np.max, "sum": np.sum}[found.aggregation]
            for word, score in enumerate(found.scores):
                assert score == pytest.approx(combine(found.token_scores[owners == word]), rel=1e-5, abs=1e-6)

    def test_padding_order_and_budget_change_no_score(self, name: str, kind: str, classes: int) -> None:
        of = tiny.classifier(kind, classes)
        alone = [explain(name, of, [text])[0] for text in TEXTS]
        assert_same(explain(name, of, TEXTS), alone)
        assert_same(explain(name, of, TEXTS[::-1]), alone[::-1])
        for budget in (1, 40):
            assert_same(explain(name, tiny.make_classifier(kind, classes, max_tokens=budget), TEXTS), alone)

    def test_bf16_runs(self, name: str, kind: str, classes: int) -> None:
        of = tiny.make_classifier(kind, classes, precision="bf16")
        for found in explain(name, of, TEXTS):
            assert np.isfinite(found.scores).all()
            assert found.scores.dtype == np.float32

    def test_targets_by_name_and_by_index(self, name: str, kind: str, classes: int) -> None:
        of = tiny.classifier(kind, classes)
        indices = [i % classes for i in range(len(TEXTS))]
        named = explain(name, of, TEXTS, [of.labels[i] for i in indices])
        assert [a.target for a in named] == [of.labels[i] for i in indices]
        assert_same(explain(name, of, TEXTS, indices), named)
        probabilities = of.predict_proba(of.encode(TEXTS))
        assert [a.probability for a in named] == pytest.approx(probabilities[range(len(TEXTS)), indices], abs=TOLERANCE)


@pytest.mark.parametrize("name", METHODS)
class TestInput:
    def test_a_stream_is_read_as_it_is_explained(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CHUNK_TEXTS", 2)
        of = tiny.classifier("bert", 3)
        read: list[str] = []

        def stream() -> Iterator[str]:
            for text in tiny.TEXTS:
                read.append(text)
                yield text

        found = explearn.get_explainer(name, **FEWER.get(name, {})).explain(
            of, stream(), (target for target in [0, 1, 2, 0, 1])
        )
        first = next(found)
        assert len(read) == 2
        rest = list(found)
        assert [" ".join(a.words) for a in [first, *rest]] == list(tiny.TEXTS)
        assert [a.target for a in [first, *rest]] == ["bad", "fair", "good", "bad", "fair"]

    @pytest.mark.parametrize(("targets", "words"), [([0] * 4, "fewer than texts"), ([0] * 6, "more than texts")])
    def test_as_many_targets_as_texts(self, name: str, targets: list[int], words: str) -> None:
        with pytest.raises(ParamsError, match=f"targets: {words}; expected one for each text"):
            explain(name, tiny.classifier("bert", 3), tiny.TEXTS, targets)

    def test_a_target_that_is_no_class(self, name: str) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown label 'fare'; did you mean fair\?"):
            explain(name, tiny.classifier("bert", 3), ["lazy dog"], ["fare"])

    def test_no_texts(self, name: str) -> None:
        assert explain(name, tiny.classifier("bert"), []) == []

    def test_one_string_is_not_taken_for_its_characters(self, name: str) -> None:
        with pytest.raises(ParamsError, match="texts: got one string; expected a list of texts"):
            explain(name, tiny.classifier("bert"), "lazy dog")

    def test_a_text_that_cannot_be_used_is_named_by_its_place_in_the_stream(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "CHUNK_TEXTS", 2)
        with pytest.raises(DataError, match="text 4: field 'text' is empty"):
            explain(name, tiny.classifier("bert"), ["fox", "dog", "lazy", " "])

    def test_words_without_pieces_get_the_lowest_score(self, name: str) -> None:
        """A zero-width word, and words behind truncation."""
        (found,) = explain(name, tiny.classifier("bert"), ["lazy \u200b dog " + "castle " * 60])
        kept = [i for i in range(43 + 2) if i != 1]
        assert found.unaligned == 1 + 63 - 45
        lowest = found.scores[kept].min()
        assert all(found.scores[i] == lowest for i in range(63) if i not in kept)
        assert len(found.tokens) == 44

    def test_a_text_of_which_nothing_is_left_scores_zero(self, name: str) -> None:
        (found,) = explain(name, tiny.classifier("bert"), ["\u200b \u200d"])
        assert found.scores.tolist() == [0, 0]
        assert (found.tokens, found.unaligned) == ((), 2)

    def test_examples_keep_their_id(self, name: str) -> None:
        pair = Example("pair", ("slow",), "no", "test", "t", ("no", "refund"))
        single = Example("single", ("lazy", "dog"), "no", "test", "t")
        found = explain(name, tiny.classifier("bert"), [pair, single])
        assert [(a.example_id, a.words) for a in found] == [("pair", pair.all_words), ("single", single.words)]


class TestWordScores:
    WORD_IDS = (-1, 0, 0, 2, -1, 2, -1)
    SCORES = np.array([9, 1, 4, -3, 9, -1, 9], dtype=np.float32)

    def test_the_largest_of_a_word_s_pieces(self) -> None:
        found, unaligned = aggregate(self.SCORES, self.WORD_IDS, 4, "max")
        assert found.tolist() == [4, -1, -1, -1]
        assert unaligned == 2

    def test_the_sum_of_a_word_s_pieces(self) -> None:
        found, unaligned = aggregate(self.SCORES, self.WORD_IDS, 4, "sum")
        assert found.tolist() == [5, -4, -4, -4]
        assert unaligned == 2

    def test_scores_of_padding_are_ignored(self) -> None:
        padded = np.concatenate([self.SCORES, np.full(5, np.nan, dtype=np.float32)])
        assert aggregate(padded, self.WORD_IDS, 3, "max")[0].tolist() == [4, -1, -1]

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_score_that_is_not_finite_is_refused(self, value: float) -> None:
        scores = self.SCORES.copy()
        scores[1] = value
        with pytest.raises(ExplearnError, match="a score is not finite"):
            aggregate(scores, self.WORD_IDS, 3, "max")

    def test_one_of_a_special_token_is_nobody_s_business(self) -> None:
        scores = self.SCORES.copy()
        scores[0] = np.nan
        assert aggregate(scores, self.WORD_IDS, 3, "max")[0].tolist() == [4, -1, -1]


class TestRegistry:
    def test_the_issue_s_methods_are_there(self) -> None:
        expected = (
            "expnet random raw_attention attention_mean rollout attention_flow gradient input_x_gradient deep_lift "
            "integrated_gradients gradient_shap sequential_ig lrp full_lrp transformer_attribution gae mgae cam "
            "grad_cam cat attcat attn_lrp occlusion lime shap kernel_shap deep_shap solvex alti globenc decompx"
        )
        assert set(expected.split()) <= set(explearn.list_explainers())

    @pytest.mark.parametrize("name", explearn.list_explainers())
    def test_what_is_listed_can_be_made_and_is_as_described(self, name: str) -> None:
        method, info = explearn.get_explainer(name), explearn.get_info(name)
        assert (method.name, info.name) == (name, name)
        assert isinstance(method, module.LearnedExplainer) == info.trained
        assert isinstance(method, module.RefiningExplainer) == (info.base is not None)
        assert info.summary.endswith(".")

    def test_near_names(self) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown explainer 'rolout'; did you mean rollout\?"):
            explearn.get_explainer("rolout")
        with pytest.raises(UnknownNameError, match=r"unknown option of raw_attention 'layers'; did you mean layer\?"):
            explearn.get_explainer("raw_attention", layers=1)

    def test_a_method_without_options(self) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown option of rollout 'layer'; known: \(none\)"):
            explearn.get_explainer("rollout", layer=1)

    def test_a_baseline_has_nothing_to_load(self) -> None:
        with pytest.raises(ParamsError, match="method 'rollout' is not trained; it has nothing to load"):
            explearn.get_explainer("rollout", path="folder")

    def test_a_trained_one_comes_with_its_options(self) -> None:
        with pytest.raises(ParamsError, match="options hidden come with the trained explainer"):
            explearn.get_explainer("expnet", path="folder", hidden=3)

    def test_names_and_help_need_no_torch(self, run_python: Any) -> None:
        run_python("import sys, explearn; explearn.list_explainers(); assert 'torch' not in sys.modules")


def test_attributions_show_their_best_words() -> None:
    found = Attribution(
        ("a", "b"), np.array([0.25, -1], np.float32), (), np.zeros(0, np.float32), "yes", "m", 0.75, "yes", "sum", True
    )
    assert str(found) == "m for 'yes' (p = 0.750): a +0.250, b -1.000"


def test_autocast_is_over_when_a_method_is_done() -> None:
    of = tiny.make_classifier("bert", precision="bf16")
    for name in METHODS:
        explain(name, of, ["lazy dog"])
        assert not torch.is_autocast_enabled("cpu")
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
