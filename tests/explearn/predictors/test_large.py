"""Models that are large for the machine: weights kept as saved, and batches that shrink when memory is short."""

import logging

import numpy as np
import pytest
import tiny
import torch
from rounding import tolerance

from explearn import TransformerPredictor, UnsupportedError, load_classifier
from explearn.predictors.batching import run_batches


class Owner:
    same_length = False

    def __init__(self, max_tokens):
        self.max_tokens = max_tokens


class TestBatchesThatShrink:
    @pytest.mark.parametrize("share", (1, 3))
    def test_every_text_is_run_once_whatever_fails(self, share):
        lengths = [5, 7, 3, 8, 2, 6, 4, 4]
        owner = Owner(64 * share)
        failed = 0

        def run(indices):
            nonlocal failed
            if len(indices) * max(lengths[i] for i in indices) > 16:
                failed += 1
                raise torch.OutOfMemoryError("CUDA out of memory")
            return [lengths[i] for i in indices]

        assert run_batches(lengths, owner, run, share) == lengths
        assert failed == 2  # batches of 64 padded sub-tokens, then of 32; those of 16 go
        assert owner.max_tokens == 16 * share


@pytest.fixture
def short_of_memory(monkeypatch):
    """A device that holds 40 padded sub-tokens; the list gets the sizes of the passes that failed."""
    failed = []
    plain = TransformerPredictor.logits

    def logits(self, batch):
        if batch.input_ids.numel() > 40:
            failed.append(batch.input_ids.numel())
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return plain(self, batch)

    monkeypatch.setattr(TransformerPredictor, "logits", logits)
    return failed


@pytest.mark.parametrize("method", (None, "lime", "occlusion"))
def test_running_out_of_memory_halves_the_budget_and_changes_no_result(method, short_of_memory, caplog):
    def answers(of):
        if method is None:
            return of.predict_proba(tiny.TEXTS)
        attributions = tiny.quick(method).explain(of, tiny.TEXTS)
        return np.concatenate([a.scores for a in attributions])

    expected = answers(tiny.make_classifier(max_tokens=20))
    assert not short_of_memory
    of = tiny.make_classifier(max_tokens=1024)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_allclose(answers(of), expected, atol=tolerance())
    assert short_of_memory and of.max_tokens < min(short_of_memory)
    assert "out of memory: batches have at most" in caplog.text


@pytest.mark.parametrize("kind", ("bert", "llama"))
class TestWeightsAsSaved:
    def saved(self, folder, kind):
        tiny.model(kind).to(torch.bfloat16).save_pretrained(folder)
        tiny.tokenizer(kind).save_pretrained(folder)
        return folder

    def test_bf16_weights_stay_bf16_and_probabilities_are_near(self, kind, tmp_path):
        folder = self.saved(tmp_path, kind)
        kept = load_classifier(folder, device="cpu", precision="saved")
        widened = load_classifier(folder, device="cpu")
        assert {p.dtype for p in kept.model.parameters()} == {torch.bfloat16}
        assert {p.dtype for p in widened.model.parameters()} == {torch.float32}
        batch = kept.batch(kept.encode(tiny.TEXTS))
        with torch.inference_mode():
            assert kept.logits(batch).dtype == torch.float32
        actual, expected = (of.predict_proba(tiny.TEXTS) for of in (kept, widened))
        np.testing.assert_allclose(actual, expected, atol=0.05)

    def test_every_method_gives_finite_scores_near_those_of_float32(self, kind, tmp_path):
        folder = self.saved(tmp_path, kind)
        kept = load_classifier(folder, device="cpu", precision="saved")
        widened = load_classifier(folder, device="cpu")
        for name in tiny.UNTRAINED:
            method = tiny.quick(name)
            try:
                expected = method.explain(widened, [*tiny.TEXTS[:2]], [1, 0])
            except UnsupportedError:
                continue
            if name in ("alti", "globenc", "decompx"):
                with pytest.raises(UnsupportedError, match=rf"{name}: .* parts of a rounded state do not add up"):
                    method.explain(kept, [*tiny.TEXTS[:2]])
                continue
            attributions = method.explain(kept, [*tiny.TEXTS[:2]], [1, 0])
            for a, b in zip(attributions, expected, strict=True):
                assert a.scores.dtype == np.float32 and np.isfinite(a.scores).all(), name
                largest = max(0.05, float(np.abs(b.scores).max()))
                assert np.abs(a.scores - b.scores).max() < 0.5 * largest, name
