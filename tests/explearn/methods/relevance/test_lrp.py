"""Partial LRP, full LRP and transformer attribution: the original code's scores, the rules by hand, conservation."""

import golden
import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn import ParamsError, UnsupportedError

VARIANTS = {
    "partial_lrp__ours_layers": ("lrp", {}),
    "partial_lrp": ("lrp", {"rules": "doubling"}),
    "full_lrp__ours_layers": ("full_lrp", {}),
    "full_lrp": ("full_lrp", {"rules": "doubling"}),
    "transformer_attribution": ("transformer_attribution", {}),
    "transformer_attribution__start_last": ("transformer_attribution", {"start_layer": -1}),
}
"""Name in the reference -> method and options that give it."""

METHODS = ("lrp", "full_lrp", "transformer_attribution")
TEXTS = [*tiny.TEXTS, *tiny.PAIRS]

TOLERANCE = 1e-6
"""By how much a total of relevance may miss 1: the stabiliser of 1e-9 has its part at every division."""


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
@pytest.mark.parametrize("file", [golden.PREDICTED, golden.OTHER_CLASS])
@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_equal_the_original_code_s(variant, file, together):
    """But at [CLS], where the original code puts another number, which no attribution shows."""
    name, options = VARIANTS[variant]
    explainer = explearn.get_explainer(name, **options)
    golden.assert_reproduces(explainer, variant, 1e-9, file=file, together=together)
    if together and file == golden.PREDICTED:
        golden.assert_reproduces(explainer, variant, 1e-7, "float32", together=True)


@pytest.mark.parametrize("name", METHODS)
def test_a_model_loaded_with_eager_attention_gives_the_same(name):
    of = tiny.classifier("bert", 3)
    expected = tiny.score(name, of, TEXTS).scores
    with tiny.eager(of.model):
        actual = tiny.score(name, of, TEXTS).scores
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
class TestConservation:
    def test_relevance_adds_up_to_1_and_is_0_at_padding(self, kind):
        of = tiny.double(kind, 3)
        scores = tiny.score("full_lrp", of, TEXTS)
        assert scores.completeness_error.max() < TOLERANCE
        np.testing.assert_allclose(scores.scores.sum(1), np.ones(len(TEXTS)), atol=TOLERANCE)
        assert not scores.scores[tiny.batch(of, TEXTS).attention_mask == 0].any()

    def test_the_rolled_out_row_adds_up_to_1(self, kind):
        actual = tiny.score("transformer_attribution", tiny.classifier(kind, 3), TEXTS).scores
        np.testing.assert_allclose(actual.sum(1), np.ones(len(TEXTS)), rtol=1e-5)

    @pytest.mark.parametrize("name", METHODS)
    def test_a_float32_classifier_gets_the_scores_of_its_float64_copy_and_is_left_as_it_was(self, kind, name):
        of = tiny.make_classifier(kind, 3)
        actual = tiny.score(name, of, TEXTS)
        expected = tiny.score(name, tiny.double(kind, 3), TEXTS)
        assert {p.dtype for p in of.model.parameters()} == {torch.float32}
        assert (actual.scores.dtype, expected.scores.dtype) == (torch.float32, torch.float64)
        torch.testing.assert_close(actual.scores, expected.scores.float(), atol=0, rtol=1e-6)
        torch.testing.assert_close(actual.logits, of.logits(tiny.batch(of, TEXTS)), atol=1e-5, rtol=1e-5)


def test_what_is_refused(monkeypatch):
    with pytest.raises(ParamsError, match="rules: got 'ours'; expected"):
        explearn.get_explainer("lrp", rules="ours")
    of = tiny.make_classifier()
    monkeypatch.setattr(of, "device", torch.device("mps"))
    with pytest.raises(UnsupportedError, match="needs float64, which MPS devices do not have; use device cpu, or"):
        explearn.get_explainer("full_lrp").check(of)
