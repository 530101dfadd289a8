"""Word embeddings in the place of those that a model looks up for its words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn

from explearn.core.errors import UnsupportedError, first_line
from explearn.lens.threads import here_only, hooked
from explearn.model.architectures import architecture, word_table
from explearn.model.classifier import Classifier

INSTEAD = "occlusion, lime and the other methods that look at perturbed texts explain it"


def table_weight(model: Any) -> torch.Tensor:
    """A model's table of word embeddings, (words, e). Raises UnsupportedError for one without (CANINE)."""
    table: Any = word_table(model)
    if table is None:
        raise UnsupportedError(
            f"a {model.config.model_type!r} model has no table of word embeddings; noise on them and simulatability "
            "need one"
        )
    return cast(torch.Tensor, table.weight)


def _tables(model: Any) -> list[nn.Module]:
    """Modules that look words up: the table that the model names, and those that share its weights (BART, T5)."""
    table = model.get_input_embeddings()
    shared = [m for m in model.modules() if isinstance(m, nn.Embedding) and m is not table and m.weight is table.weight]
    return [table, *shared]


def _reads(ids: torch.Tensor, words: torch.Tensor, ahead: int) -> bool:
    """Whether `ids`, (b, m), are `words`, (b, n), from position `ahead` on, whatever stands around them."""
    kept = words.shape[1] - ahead if ahead else words.shape[1]
    there = ids.dim() == 2 and len(ids) == len(words) and ids.shape[1] >= words.shape[1] and kept > 0
    return there and torch.equal(ids[:, ahead : ahead + kept], words[:, :kept].to(ids.device))


@contextmanager
def replaced_words(model: nn.Module, input_ids: torch.Tensor, vectors: torch.Tensor) -> Iterator[None]:
    """Let a model read `vectors`, (b, n, e), where it looks up the embeddings of its words, inside the block and in
    this thread.

    Args:
        input_ids: what the model is given, (b, n). What it looks up in the same table for other ids (XLM's segments)
            stays as it is. Behind padding of its own (Longformer), too.

    An encoder-decoder reads the words twice, in its decoder one position later (BART, T5): there, the first position
    keeps what was looked up, and the others get the vectors of the words before them. XLNet reads (n, b).

    Raises UnsupportedError where the model has not looked its words up there.
    """
    whole: Any = model
    # Some models change in place what they looked up (CTRL).
    given = vectors if architecture(whole.config).attention is not None else vectors.clone()
    found = False

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], own: torch.Tensor) -> torch.Tensor:
        nonlocal found
        ids = args[0] if args else kwargs.get("input", kwargs.get("input_ids"))
        if not isinstance(ids, torch.Tensor):
            return own
        tokens = vectors.shape[1]
        if _reads(ids, input_ids, 0):
            found = True
            return given if own.shape[1] == tokens else torch.cat([given, own[:, tokens:]], dim=1)
        if _reads(ids, input_ids, 1):
            return torch.cat([own[:, :1], given[:, :-1], own[:, tokens:]], dim=1)
        if ids.dim() == 2 and _reads(ids.T, input_ids, 0) and len(own) == tokens:
            found = True
            return given.transpose(0, 1)
        return own

    handles = [table.register_forward_hook(here_only(hook), with_kwargs=True) for table in _tables(model)]
    with hooked(handles):
        yield
    if not found:
        raise _without_words(model)


def check_words(classifier: Classifier) -> None:
    """Raise UnsupportedError for a model that does not look its words up in a table, or that has no gradients there.

    What is known of (`models.architectures`) does; any other model is tried with a short text.
    """
    model: Any = classifier.model
    if architecture(model.config).attention is not None:
        return
    _ = classifier.same_length  # a model that cannot read a text at all says so here
    table = word_table(model)
    if table is None:
        raise _without_words(model)
    batch = classifier.batch(classifier.encode(["a"]))
    try:
        with torch.inference_mode(False), torch.enable_grad(), classifier.autocast():
            vectors = table(batch.input_ids)
            if not isinstance(vectors, torch.Tensor):  # I-BERT gives scales beside them
                raise _without_words(model)
            vectors = vectors.detach().requires_grad_()
            with replaced_words(model, batch.input_ids, vectors):
                logits = model(**batch.model_inputs()).logits
            torch.autograd.grad(logits.sum(), vectors)
    except (AssertionError, RuntimeError, ValueError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise UnsupportedError(
            f"a {model.config.model_type!r} model has no gradients at its embeddings ({first_line(error)[:200]}); "
            f"{INSTEAD}"
        ) from error


def _without_words(model: Any) -> UnsupportedError:
    return UnsupportedError(
        f"a {model.config.model_type!r} model does not look its words up in a table of embeddings; {INSTEAD}"
    )
