"""A small decoder made from nothing and trained on a task's texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ModelError, ParamsError
from explearn.core.records import ANSWER_LABELS, Example
from explearn.core.settings import check_section
from explearn.model.classifier import Classifier
from explearn.model.finetune import finetune, load_encoder
from explearn.model.params import FinetuneParams, ScratchParams
from explearn.model.scratch import from_scratch

SIZES = ScratchParams(layers=2, heads=2, width=16, vocabulary=320)


def examples() -> list[Example]:
    """Texts with "fox" are of one class, the others of the other."""
    texts = [f"{a} {b}" for a in ("the fox", "a dog") for b in ("sleeps", "is slow", "runs", "was quick", "sells")]
    return [
        Example(f"{split}-{i}", tuple(text.split()), "yes" if "fox" in text else "no", split, "t")
        for split in ("train", "validation")
        for i, text in enumerate(texts * 4)
    ]


def test_a_decoder_is_trained_from_nothing_and_saved_as_any_classifier(tmp_path: Path) -> None:
    params = FinetuneParams(epochs=12, learning_rate=1e-2, max_length=24, scratch=SIZES)
    compute = ComputeOptions(device="cpu")
    history = finetune(tmp_path / "c", examples(), ["no", "yes"], "scratch", params, compute, seed=1)
    assert history[-1].accuracy == 1.0
    of = Classifier.from_pretrained(tmp_path / "c", device="cpu")
    assert of.model.config.model_type == "gpt2" and of.max_length == 24
    assert of.predict(["the fox sells", "a dog sells"]) == ["yes", "no"]


def test_case_and_place_of_a_word_make_no_difference_to_its_pieces_and_unknown_letters_are_bytes() -> None:
    _, tokenizer = from_scratch(SIZES, tiny.CORPUS, ["no", "yes"], 24)
    assert tokenizer("Fox fox")["input_ids"] == 2 * tokenizer("fox")["input_ids"]
    assert tokenizer.unk_token_id not in tokenizer("\u4e2d\u6587")["input_ids"]


def test_the_seed_decides_the_weights() -> None:
    def first() -> torch.Tensor:
        torch.manual_seed(3)
        return from_scratch(SIZES, tiny.CORPUS, ["no", "yes"], 24)[0].score.weight  # type: ignore[no-any-return]

    with torch.random.fork_rng():
        torch.testing.assert_close(first(), first(), rtol=0, atol=0)


def test_it_lies_nowhere_to_be_loaded_from() -> None:
    with pytest.raises(ModelError, match="encoder 'scratch' has no weights before fine-tuning"):
        load_encoder("scratch", ["no", "yes"], 24)
    with pytest.raises(ModelError, match="made for classes"):
        from_scratch(SIZES, tiny.CORPUS, list(ANSWER_LABELS), 24)


def test_heads_share_the_width() -> None:
    with pytest.raises(ParamsError, match="expected a multiple of their number"):
        check_section(ScratchParams, {"width": 30, "heads": 4})
