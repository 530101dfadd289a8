"""AML on decoders: G reads the classifier's states in both directions, and masked words are left out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from aml_cases import DECISIVE, LEARNING, TEXTS, examples, refiner, task_of, untrained, values
from explearn.predictors.transformer import TransformerPredictor

from explearn.methods.aml.loss import removed_logits
from explearn.methods.aml.paml import PAML


@functools.cache
def one_word_decoder() -> TransformerPredictor:
    """A GPT-2 that goes by the decisive word and is unsure where it is left out; its unknown token speaks for `yes`.

    Tests leave it as it is.
    """
    of = tiny.make_classifier("gpt2", seed=1)
    for parameter in of.model.parameters():
        if parameter.dim() == 2:
            parameter.data.mul_(0.3)
    of.model.requires_grad_(True)
    optimizer = torch.optim.Adam(of.model.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)
    with torch.random.fork_rng():
        for step in range(160):
            rows = examples(32, seed=100 + step)
            encodings, targets = [], []
            for row, encoding in zip(rows, of.encode(rows), strict=True):
                gone = [i for i in range(1, len(row.words)) if rng.random() < 0.3]
                whole = not any(row.words[i] in DECISIVE for i in gone)
                targets.append([float(row.label == name) if whole else 0.5 for name in of.labels])
                encodings.append(encoding.delete(gone))
            logits = of.model(**of.batch(encodings).model_inputs()).logits
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    of.model.requires_grad_(False)
    table: Any = of.model.get_input_embeddings().weight
    (warm,) = of.encode(["warm"])
    table[of.tokenizer.unk_token_id] = table[list(warm.input_ids)].mean(0)
    return of


@functools.cache
def trained_decoder() -> tuple[TransformerPredictor, PAML]:
    """`one_word_decoder` and its pAML; tests leave both as they are."""
    of = one_word_decoder()
    return of, PAML(**LEARNING, epochs=10).fit(task_of(of, 64, 16))


@pytest.mark.parametrize("kind", tiny.DECODERS)
class TestReading:
    def test_a_token_s_score_depends_on_what_stands_behind_it_and_on_the_target(self, kind: str) -> None:
        of = tiny.classifier(kind)
        paml = untrained(of)
        (one,) = paml.explain(of, ["the quick brown fox"], [0])
        (other_end,) = paml.explain(of, ["the quick brown dog"], [0])
        (other_target,) = paml.explain(of, ["the quick brown fox"], [1])
        assert not np.isclose(one.scores[:3], other_end.scores[:3], atol=1e-7).any()
        assert not np.isclose(one.scores, other_target.scores, atol=1e-7).any()

    def test_scores_do_not_depend_on_the_batch(self, kind: str) -> None:
        of = tiny.classifier(kind)
        paml = untrained(of)
        for together, text in zip(paml.explain(of, TEXTS), TEXTS, strict=True):
            (alone,) = paml.explain(of, [text])
            np.testing.assert_allclose(together.scores, alone.scores, atol=2e-4)


@pytest.mark.parametrize("kind", tiny.DECODERS)
class TestRemovedWords:
    def test_words_with_closed_gates_are_as_good_as_deleted(self, kind: str) -> None:
        """Wherever they stand, the last word and all of them included; two masks of the same texts go in one batch."""
        of = tiny.classifier(kind, 3)
        gone = [{0}, {3, 4}, {8}, {0, 2, 7, 8}, set(range(9)), set(range(8))]
        encodings = of.encode(["the quick brown fox jumps over the lazy dog"] * len(gone))
        batch = of.batch(encodings)
        kept = torch.tensor(
            [[float(word not in out) for word in e.word_ids] for e, out in zip(encodings, gone, strict=True)]
        )
        expected = of.logits(of.batch([e.delete(out) for e, out in zip(encodings, gone, strict=True)]))
        both = removed_logits(of, batch, torch.cat([kept, torch.ones_like(kept)]))
        torch.testing.assert_close(both[: len(gone)], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(both[len(gone) :], of.logits(batch), atol=1e-5, rtol=1e-5)
        assert float((expected - expected[:1]).abs().max()) > 1e-4


def test_the_gradient_of_half_open_gates_is_that_of_small_steps() -> None:
    of = tiny.make_classifier("gpt2")
    of.model.double()
    batch = of.batch(of.encode(["the quick brown fox"]))
    kept = torch.linspace(0.1, 0.9, batch.input_ids.shape[1], dtype=torch.float64)[None].requires_grad_()
    assert torch.autograd.gradcheck(lambda m: removed_logits(of, batch, m), kept)


class TestLearning:
    def test_it_finds_the_word_that_decides_and_a_saved_one_explains_alike(self, tmp_path: Path) -> None:
        """Though masked words, in the paper's form, would speak for a class."""
        of, paml = trained_decoder()
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        assert loaded.notes() == paml.notes()
        right = []
        for a, b in zip(*(one.explain(of, examples(40, seed=9, split="test")) for one in (paml, loaded)), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            right.append(a.words[int(a.scores.argmax())] in DECISIVE)
        assert np.mean(right) > 0.8  # by chance one of five to nine

    def test_faml_is_never_worse_than_paml_on_its_metric(self) -> None:
        of, paml = trained_decoder()
        texts = examples(6, seed=9, split="test")
        methods = (paml, refiner(paml, steps=2, samples=2))
        before, after = (values(of, method.explain(of, texts), "aopc_difference") for method in methods)
        assert (after >= before - 1e-5).all()
