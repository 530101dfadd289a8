"""What DecompX takes in memory, and at low precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from decomposition_cases import METHODS, OPTIONS, batch_of, double_classifier, make_classifier
from torch.overrides import TorchFunctionMode

import explearn
from explearn.core.compute import ComputeOptions
from explearn.model.classifier import Classifier


class Sizes(TorchFunctionMode):
    """Notes the number of elements of the largest tensor that any call in its scope returns."""

    largest = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.largest = max(self.largest, result.numel())
        return result


class TestMemory:
    WIDE = 48
    """Width of the feed-forward layers of tiny models; HIDDEN is that of the states."""

    def test_decompx_splits_texts_so_that_their_parts_stay_within_the_budget(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        texts = list(tiny.TEXTS[:1]) * 40
        expected = list(explearn.get_explainer("decompx").explain(tiny.make_classifier("bert"), texts))
        of = tiny.make_classifier("bert", max_tokens=400)
        (encoding,) = of.encode(texts[:1])
        tokens = len(encoding)
        sizes = []
        monkeypatch.setattr(of, "batch", lambda es, batch=of.batch: (sizes.append(len(es)), batch(es))[1])
        with Sizes() as seen:
            found = list(explearn.get_explainer("decompx").explain(of, texts))
        assert sum(sizes) == 40
        assert max(sizes) == 400 // tokens**2 > 1
        assert seen.largest <= 400 * self.WIDE
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.token_scores, b.token_scores, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize(
        ("name", "options"), [("alti", {}), ("globenc", {}), *(("decompx", options) for options in OPTIONS)], ids=str
    )
    def test_slices_and_padding_change_no_score(self, name: str, options: dict[str, Any]) -> None:
        """Texts alone and in one piece, against a batch whose parts are made for 1, 2 or 5 tokens at a time."""
        method = explearn.get_explainer(name, **options)
        of = double_classifier("bert")
        alone = [method.score_batch(of, batch_of(of, text), None).scores[0] for text in tiny.TEXTS]
        longest = max(map(len, alone))
        for tokens in (1, 2, 5):
            sliced = Classifier(of.model, of.tokenizer, ComputeOptions(device="cpu", max_tokens=5 * longest * tokens))
            found = method.score_batch(sliced, batch_of(sliced, *tiny.TEXTS), None)
            for row, expected in zip(found.scores, alone, strict=True):
                torch.testing.assert_close(row[: len(expected)], expected, rtol=1e-9, atol=1e-12)

    def test_a_text_beyond_the_budget_holds_its_parts_but_nothing_wider(self) -> None:
        of = tiny.long_classifier("bert")
        text = "fox " * 60
        (expected,) = explearn.get_explainer("decompx").explain(of, [text])
        tokens = len(expected.tokens) + 2
        of = Classifier(of.model, of.tokenizer, ComputeOptions(device="cpu", max_tokens=256))
        with Sizes() as seen:
            (found,) = explearn.get_explainer("decompx").explain(of, [text])
        assert seen.largest == tokens**2 * tiny.HIDDEN
        np.testing.assert_allclose(found.token_scores, expected.token_scores, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("name", ["alti", "globenc"])
    def test_mixing_makes_parts_of_some_tokens_at_a_time(self, name: str) -> None:
        of = tiny.long_classifier("bert")
        text = "fox " * 60
        (expected,) = explearn.get_explainer(name).explain(of, [text])
        of = Classifier(of.model, of.tokenizer, ComputeOptions(device="cpu", max_tokens=256))
        with Sizes() as seen:
            (found,) = explearn.get_explainer(name).explain(of, [text])
        tokens = len(expected.tokens) + 2
        # The attention matrices of all heads are larger than the slices of parts.
        assert seen.largest == tokens**2 * tiny.HEADS
        assert 256 * tiny.HIDDEN < seen.largest < tokens**2 * tiny.HIDDEN
        np.testing.assert_allclose(found.token_scores, expected.token_scores, rtol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_low_precision_changes_nothing(name: str) -> None:
    """Parts are made of float32 states, so that they add up."""
    expected = list(explearn.get_explainer(name).explain(make_classifier("bert"), tiny.TEXTS))
    low = make_classifier("bert", precision="bf16")
    for a, b in zip(explearn.get_explainer(name).explain(low, tiny.TEXTS), expected, strict=True):
        np.testing.assert_array_equal(a.token_scores, b.token_scores)
        assert a.probability == b.probability
