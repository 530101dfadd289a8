"""AML where masked words are left out of a decoder, with a score for each class, on texts with exchanged words."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from aml_cases import TEXTS, examples, one_word_classifier, refiner, untrained

from explearn.core.errors import UnsupportedError
from explearn.methods.aml.instance_parameters import FullTuning, RestrictedTuning
from explearn.methods.aml.left_out import left_out_logits
from explearn.methods.aml.loss import Weights, loss_terms
from explearn.methods.aml.masks import RemovedMasking
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.remixed import remixed
from explearn.methods.aml.two_tokenizers import read
from explearn.methods.listed_task import ListedTask
from explearn.model.classifier import Classifier

ALL = Weights(1, 1, 1)


def gates_without(of: Classifier, texts: list[Any], gone: list[set[int]]) -> tuple[Any, torch.Tensor]:
    """A batch, and gates that are 0 at the sub-tokens of the words to leave out, (b, n)."""
    encodings = of.encode(texts)
    batch = of.batch(encodings)
    kept = torch.ones(batch.input_ids.shape)
    for row, encoding in enumerate(encodings):
        kept[row, : len(encoding)] = torch.tensor([float(word not in gone[row]) for word in encoding.word_ids])
    return batch, kept


@pytest.mark.parametrize("kind", tiny.DECODERS)
class TestLeftOut:
    def test_with_all_gates_open_it_is_the_plain_answer(self, kind: str) -> None:
        of = tiny.classifier(kind, 3)
        batch = of.batch(of.encode(TEXTS))
        found = left_out_logits(of, batch, torch.ones(batch.input_ids.shape))
        torch.testing.assert_close(found, of.logits(batch), atol=1e-5, rtol=1e-5)

    def test_words_with_closed_gates_are_as_good_as_deleted(self, kind: str) -> None:
        """Wherever they stand, the last word and all of them included; two masks of the same texts go in one batch."""
        of = tiny.classifier(kind, 3)
        text = "the quick brown fox jumps over the lazy dog"
        gone = [{0}, {3, 4}, {8}, {0, 2, 7, 8}, set(range(9)), set(range(8))]
        batch, kept = gates_without(of, [text] * len(gone), gone)
        encodings = of.encode([text] * len(gone))
        expected = of.logits(of.batch([e.delete(g) for e, g in zip(encodings, gone, strict=True)]))
        both = left_out_logits(of, batch, torch.cat([kept, torch.ones_like(kept)]))
        torch.testing.assert_close(both[: len(gone)], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(both[len(gone) :], of.logits(batch), atol=1e-5, rtol=1e-5)
        assert float((expected - expected[:1]).abs().max()) > 1e-4

    def test_gradients_reach_every_sub_token_of_the_text(self, kind: str) -> None:
        of = tiny.make_classifier(kind)
        batch = of.batch(of.encode(tiny.TEXTS))
        scores = torch.linspace(-1, 1, batch.input_ids.numel()).view(batch.input_ids.shape).requires_grad_()
        y = of.logits(batch).softmax(-1)
        loss_terms(of, batch, scores, y, RemovedMasking(), ALL).total(ALL).sum().backward()
        assert scores.grad is not None and scores.grad.isfinite().all()
        for row, encoding in enumerate(batch.encodings):
            assert scores.grad[row].nonzero().flatten().tolist() == encoding.positions
        assert all(p.grad is None for p in of.model.parameters()) and tiny.hooks(of.model) == 0


class TestRemovedMasking:
    def test_the_gradient_of_half_open_gates_is_that_of_small_steps(self) -> None:
        of = tiny.make_classifier("gpt2")
        of.model.double()
        batch = of.batch(of.encode(["the quick brown fox"]))
        kept = torch.linspace(0.1, 0.9, batch.input_ids.shape[1], dtype=torch.float64)[None].requires_grad_()
        assert torch.autograd.gradcheck(lambda m: left_out_logits(of, batch, m), kept)

    def test_an_encoder_is_refused(self) -> None:
        of = tiny.classifier("bert")
        task = ListedTask(of, examples(4, seed=1), examples(2, seed=2, split="validation"))
        with pytest.raises(UnsupportedError, match=r"'removed' leaves words out in decoders.*not in a 'bert' model"):
            PAML(masking="removed").fit(task)

    def test_it_trains_without_a_stand_in_and_a_saved_one_explains_alike(self, tmp_path: Path) -> None:
        of = tiny.classifier("gpt2")
        options: dict[str, Any] = {"masking": "removed", "head": "by_class", "remix": 0.3, "epochs": 2, "batch_size": 4}
        task = ListedTask(of, examples(12, seed=1), examples(6, seed=2, split="validation"))
        paml, again = PAML(**options).fit(task), PAML(**options).fit(task)
        assert paml.model is not None and paml.model.stand_in is None
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        for a, b, c in zip(*(one.explain(of, TEXTS) for one in (paml, again, loaded)), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            np.testing.assert_array_equal(a.scores, c.scores)
        faml = refiner(paml, scope="full", steps=1)
        assert all(np.isfinite(a.scores).all() for a in faml.explain(of, tiny.TEXTS))


@functools.cache
def by_class() -> PAML:
    """An untrained pAML with a score for each class; tests leave it as it is."""
    return untrained(one_word_classifier(), head="by_class")


class TestScoresByClass:
    def test_a_score_is_the_mean_of_the_classes_scores_weighed_by_the_prediction(self) -> None:
        of, paml = one_word_classifier(), by_class()
        assert paml.model is not None
        batch = of.batch(of.encode(tiny.TEXTS))
        states = torch.randn(len(batch), 5, paml.model.dense.in_features)
        whole = [paml.model.score(states, torch.eye(2)[[c] * len(batch)]) for c in (0, 1)]
        mixed = paml.model.score(states, torch.tensor([[0.25, 0.75]] * len(batch)))
        torch.testing.assert_close(mixed, 0.25 * whole[0] + 0.75 * whole[1])
        assert float((whole[0] - whole[1]).abs().min()) > 0

    def test_small_changes_start_at_the_same_map_and_keep_it_when_texts_leave(self) -> None:
        of, paml = one_word_classifier(), by_class()
        assert paml.model is not None
        reading = read(of, None, of.encode(TEXTS))
        y = of.logits(reading.target).softmax(-1)
        tuning = RestrictedTuning(paml.model, of, reading, y, "low_rank", rank=2, blocks=1, seed=3)
        real = reading.target.attention_mask.bool()
        expected = paml.attribute(of, of.encode(TEXTS), y)
        torch.testing.assert_close(tuning.scores()[real], expected[real], atol=1e-4, rtol=1e-4)
        fewer = read(of, None, of.encode([TEXTS[2], TEXTS[0]]))
        tuning.keep([2, 0], fewer)
        alone = FullTuning(paml.model, of, read(of, None, of.encode([TEXTS[0]])), y[:1]).scores()[0]
        torch.testing.assert_close(tuning.scores()[1, : len(alone)], alone, atol=1e-4, rtol=1e-4)


class TestRemixed:
    def test_words_are_exchanged_for_words_of_the_texts(self) -> None:
        of = tiny.classifier("gpt2")
        texts = of.encode(examples(40, seed=1))
        found = remixed(of, texts, 0.5, np.random.default_rng(0))
        assert [e.words for e in found] == [e.words for e in remixed(of, texts, 0.5, np.random.default_rng(0))]
        assert [len(e.words) for e in found] == [len(e.words) for e in texts]
        assert {w for e in found for w in e.words} <= {w for e in texts for w in e.words}
        same = [a == b for e, f in zip(texts, found, strict=True) for a, b in zip(e.words, f.words, strict=True)]
        # A quarter of the words keep their place, and one in ten or so is exchanged for its like.
        assert 0.2 < np.mean(same) < 0.5

    def test_a_pair_stays_a_pair_of_the_same_lengths(self) -> None:
        of = tiny.classifier("bert")
        texts = of.encode(tiny.PAIRS)
        for before, after in zip(texts, remixed(of, texts, 1.0, np.random.default_rng(0)), strict=True):
            assert (before.pair_start, len(before.words)) == (after.pair_start, len(after.words))
