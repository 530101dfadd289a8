"""AML on decoders: G reads with the classifier's own blocks, and masked words are as good as left out."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import transformers
from aml_cases import DECISIVE, LEARNING, TEXTS, examples, refiner, untrained

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ModelError, UnsupportedError
from explearn.methods.aml import fitted_stand_in
from explearn.methods.aml.fitted_stand_in import fit_stand_in
from explearn.methods.aml.masks import HardMasking, LearnedMasking, Masking, UnknownMasking, first_stand_in
from explearn.methods.aml.paml import PAML
from explearn.methods.listed_task import ListedTask
from explearn.model.classifier import Classifier

SHORT: dict[str, Any] = {"epochs": 1, "batch_size": 4}


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it does not matter how good a stand-in is."""
    monkeypatch.setattr(fitted_stand_in, "STEPS", 10)


@contextmanager
def replaced_row(of: Classifier, row: int, value: torch.Tensor) -> Iterator[None]:
    """Another embedding of a token, inside the block."""
    table: Any = of.model.get_input_embeddings().weight
    before = table[row].clone()
    table[row] = value
    try:
        yield
    finally:
        table[row] = before


def task_of(of: Classifier) -> ListedTask:
    return ListedTask(of, examples(12, seed=1), examples(6, seed=2, split="validation"))


@functools.cache
def one_word_decoder() -> Classifier:
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
def trained_decoder() -> tuple[Classifier, PAML]:
    """`one_word_decoder` and its pAML; tests leave both as they are."""
    of = one_word_decoder()
    paml = PAML(**LEARNING, epochs=10)
    return of, paml.fit(ListedTask(of, examples(64, seed=1), examples(16, seed=2, split="validation")))


class TestReading:
    @pytest.mark.parametrize("kind", tiny.DECODERS)
    def test_every_token_s_score_depends_on_what_stands_behind_it_and_on_the_target(self, kind: str) -> None:
        of = tiny.classifier(kind)
        paml = untrained(of)
        (one,) = paml.explain(of, ["the quick brown fox"], [0])
        (other_end,) = paml.explain(of, ["the quick brown dog"], [0])
        (other_target,) = paml.explain(of, ["the quick brown fox"], [1])
        assert not np.isclose(one.scores[:3], other_end.scores[:3], atol=1e-7).any()
        assert not np.isclose(one.scores, other_target.scores, atol=1e-7).any()

    @pytest.mark.parametrize("kind", tiny.DECODERS)
    def test_scores_do_not_depend_on_the_batch(self, kind: str) -> None:
        of = tiny.classifier(kind)
        paml = untrained(of)
        for found, text in zip(paml.explain(of, TEXTS), TEXTS, strict=True):
            (alone,) = paml.explain(of, [text])
            np.testing.assert_allclose(found.scores, alone.scores, atol=2e-4)

    def test_a_decoder_that_cannot_be_opened_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A model that makes its own causal mask of whatever it is given, as one with another attention may."""
        of = tiny.make_classifier("llama")
        forward = transformers.LlamaModel.forward

        def closed(self: Any, attention_mask: torch.Tensor, **inputs: Any) -> Any:
            if attention_mask.dim() == 4:
                attention_mask = attention_mask.masked_fill(
                    ~torch.ones_like(attention_mask).tril().bool(), torch.finfo(torch.float32).min
                )
            return forward(self, attention_mask=attention_mask, **inputs)

        monkeypatch.setattr(transformers.LlamaModel, "forward", closed)
        with pytest.raises(ModelError, match=r"first token of a 'llama' model does not see what stands behind it"):
            PAML(**SHORT).fit(task_of(of))

    def test_small_changes_to_a_decoder_s_blocks_are_refused_and_full_ones_made(self) -> None:
        of, paml = trained_decoder()
        with pytest.raises(UnsupportedError, match=r"takes G's backbone apart.*use scope 'full'"):
            list(refiner(paml).explain(of, tiny.TEXTS))
        assert len(list(refiner(paml, scope="full", steps=1).explain(of, tiny.TEXTS))) == len(tiny.TEXTS)


class TestLearning:
    def test_it_finds_the_word_that_decides(self) -> None:
        """Though masked words, in the paper's form, would speak for a class."""
        of, paml = trained_decoder()
        unseen = examples(40, seed=9, split="test")
        right = [a.words[int(a.scores.argmax())] in DECISIVE for a in paml.explain(of, unseen)]
        assert np.mean(right) > 0.8  # by chance one of five to nine

    def test_a_saved_one_explains_alike_and_keeps_its_stand_in(self, tmp_path: Path) -> None:
        of, paml = trained_decoder()
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        assert loaded.model is not None and paml.model is not None
        assert torch.equal(loaded.model.stand_in, paml.model.stand_in)
        assert torch.equal(loaded.strategy.embedding, paml.model.stand_in)
        assert loaded.notes() == paml.notes()
        for a, b in zip(paml.explain(of, TEXTS), loaded.explain(of, TEXTS), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)

    @pytest.mark.usefixtures("few_steps")
    @pytest.mark.parametrize("kind", ["bert", "llama"])
    def test_a_classifier_kept_in_half_precision(self, kind: str, tmp_path: Path) -> None:
        tiny.make_classifier(kind).model.to(torch.bfloat16).save_pretrained(tmp_path / "half")
        tiny.tokenizer(kind).save_pretrained(tmp_path / "half")
        of = Classifier.from_pretrained(tmp_path / "half", ComputeOptions(device="cpu", precision="saved"))
        paml = PAML(**SHORT).fit(task_of(of))
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        assert loaded.model is not None and loaded.model.backbone.dtype == torch.float32
        for a, b in zip(paml.explain(of, tiny.TEXTS), loaded.explain(of, tiny.TEXTS), strict=True):
            assert np.isfinite(a.scores).all()
            np.testing.assert_array_equal(a.scores, b.scores)


class TestStandIn:
    def test_masked_words_are_as_good_as_left_out(self) -> None:
        of = one_word_decoder()
        texts, watched = of.encode(examples(48, seed=1)), of.encode(examples(16, seed=2))
        found, history = fit_stand_in(of, texts, watched, seed=0)
        again, _ = fit_stand_in(of, texts, watched, seed=0)
        assert torch.equal(found, again)
        assert history[1] < 0.2 * history[0]

        # Of other texts the decisive word alone, left out and masked.
        other = of.encode(examples(16, seed=3))
        gone = [{i for i, word in enumerate(t.words) if word in DECISIVE} for t in other]
        expected = of.predict_proba([t.delete(g) for t, g in zip(other, gone, strict=True)])
        masked = [t.mask(g, of.mask_token_id) for t, g in zip(other, gone, strict=True)]
        before = np.abs(of.predict_proba(masked) - expected).mean()
        with replaced_row(of, of.mask_token_id, found):
            assert np.abs(of.predict_proba(masked) - expected).mean() < 0.5 * before

    @pytest.mark.usefixtures("few_steps")
    def test_the_classifier_and_the_global_generator_are_left_as_they_were(self) -> None:
        of = tiny.classifier("gpt2")
        before, state = of.fingerprint, torch.get_rng_state()
        texts = of.encode(tiny.TEXTS)
        fit_stand_in(of, texts, texts, seed=0)
        assert of.fingerprint == before and torch.equal(torch.get_rng_state(), state)
        assert all(p.grad is None for p in of.model.parameters())

    def test_texts_of_one_word_alone_leave_it_at_its_start(self) -> None:
        of = tiny.classifier("gpt2")
        texts = of.encode(["fox", "dog"])
        found, history = fit_stand_in(of, texts, texts, seed=0)
        assert history == [] and torch.equal(found, first_stand_in(of))

    @pytest.mark.usefixtures("few_steps")
    def test_without_an_unknown_token_it_starts_at_the_mean_of_all(self) -> None:
        of = tiny.make_classifier("qwen2")
        of.tokenizer = copy.deepcopy(of.tokenizer)
        of.tokenizer.unk_token = None
        table: Any = of.model.get_input_embeddings().weight
        torch.testing.assert_close(first_stand_in(of), table.mean(0))
        paml = PAML(**SHORT).fit(task_of(of))
        assert paml.model is not None and paml.model.stand_in is not None

    def test_which_maskings_fit_one(self) -> None:
        encoder, decoder = tiny.classifier("bert"), tiny.classifier("gpt2")
        for masking in (Masking(), HardMasking(), LearnedMasking()):
            assert masking.fits(decoder) and not masking.fits(encoder)
        assert not UnknownMasking().fits(decoder)

    @pytest.mark.usefixtures("few_steps")
    @pytest.mark.parametrize("masking", ["unknown", "fitted", "hard", "learned", "random"])
    def test_every_masking_trains(self, masking: str) -> None:
        of = tiny.classifier("gpt2")
        paml = PAML(**SHORT, masking=masking).fit(task_of(of))
        assert paml.model is not None
        assert (paml.model.stand_in is not None) == (masking in ("fitted", "hard"))
        assert bool(paml.stand_in_history) == (masking in ("fitted", "hard", "learned"))
        assert all(np.isfinite(a.scores).all() for a in paml.explain(of, tiny.TEXTS))

    def test_an_encoder_s_mask_token_stays_what_masks(self) -> None:
        of = tiny.classifier("bert")
        paml = PAML(**SHORT).fit(task_of(of))
        assert paml.model is not None and paml.model.stand_in is None
        assert "stand_in" not in paml.notes() and "stand_in" not in paml._state().record
