"""What the tests need of tiny classifiers beyond those of `explearn.testing.tiny`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from explearn.core.compute import ComputeOptions
from explearn.models.classifier import Classifier, QuestionAnswerer
from explearn.testing.tiny import (
    ARCHITECTURES,
    CORPUS,
    HEADS,
    HIDDEN,
    LABELS,
    LAYERS,
    PAIRS,
    POSITIONS,
    TEXTS,
    classifier,
    make_classifier,
    model,
    tokenizer,
)

__all__ = [
    "ARCHITECTURES",
    "CORPUS",
    "HEADS",
    "HIDDEN",
    "KINDS_OF_TOKENIZER",
    "LABELS",
    "LAYERS",
    "PAIRS",
    "POSITIONS",
    "TEXTS",
    "classifier",
    "eager",
    "eager_attentions",
    "hooks",
    "long_classifier",
    "make_answerer",
    "make_classifier",
    "model",
    "save",
    "tokenizer",
]

# For tensors this small a second thread costs more than it gives.
torch.set_num_threads(1)

KINDS_OF_TOKENIZER = ("bert", "roberta", "albert")
"""One architecture for each of WordPiece, byte-level BPE and Unigram."""


def save(folder: Path, kind: str = "bert", classes: int = 2, seed: int = 0, **config: Any) -> Path:
    """Save model and tokenizer as `save_pretrained` does."""
    model(kind, classes, seed, **config).save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    return folder


def make_answerer(kind: str = "bert", seed: int = 0, limit: int = POSITIONS - 2) -> QuestionAnswerer:
    """A model for extractive question answering; `limit` sub-tokens a text at most."""
    config = model(kind).config
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = transformers.AutoModelForQuestionAnswering.from_config(config).eval()  # type: ignore[no-untyped-call]
    return QuestionAnswerer.around(made, tokenizer(kind, limit), ComputeOptions(device="cpu"), kind)


@functools.cache
def long_classifier(kind: str) -> Classifier:
    """One whose texts may have 2,000 sub-tokens: nothing is cut."""
    return Classifier(
        model(kind, max_position_embeddings=2002), tokenizer(kind, 2000), ComputeOptions(device="cpu"), kind
    )


def hooks(module: torch.nn.Module) -> int:
    """How many hooks a model and its parts hold."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(part, kind)) for part in module.modules() for kind in kinds)


@contextmanager
def eager(module: transformers.PreTrainedModel) -> Iterator[None]:
    """The model's own attention, written out: the reference for captured attention."""
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        yield
    finally:
        module.set_attn_implementation(before)


def eager_attentions(of: Classifier, batch: Any) -> list[torch.Tensor]:
    """Attention matrices of all layers, (batch, heads, queries, keys) each."""
    with eager(of.model), torch.inference_mode():
        return list(of.model(**batch.model_inputs(), output_attentions=True).attentions)
