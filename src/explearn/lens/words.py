"""Word embeddings in the place of those that a model looks up for its words.

Where a norm follows the table directly (DeBERTa v2 and v3, ModernBERT, BLOOM), the answer does not depend on the length
of the embeddings: e . df/de = 0 (Euler), and a path between two embeddings jumps where it passes zero. Gradients are
then taken behind the norm. Which models these are is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn

from explearn.core.errors import UnsupportedError, first_line
from explearn.lens.threads import here_only, hooked
from explearn.model.architectures import architecture, word_table
from explearn.model.classifier import Classifier

UNSCALED = 0.05
"""Change of the answer by doubling the embeddings, as a share of its change by reversing their order, below which their
length says nothing. A bound of our own: DeBERTa has 1e-6, ModernBERT 1e-4 to 0.03 (by the epsilon of its norm), models
that add positions before the norm 0.1 and more."""

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


def word_layers(classifier: Classifier) -> list[nn.Module]:
    """Return the layers that a text's ids pass, one after the other, up to where gradients are taken.

    That is the word table alone, unless the length of what it gives does not matter and all passes a layer behind it,
    at which it does: then the layers up to that norm.
    Raises UnsupportedError for a model without a table.
    """
    model: Any = classifier.model
    if not classifier.word_layers:
        with torch.inference_mode(), classifier.gathered(), classifier.autocast():
            classifier.word_layers = _measured_layers(classifier)
    return [model.get_submodule(name) for name in classifier.word_layers]


def _measured_layers(classifier: Classifier) -> tuple[str, ...]:
    model: Any = classifier.model
    names = {module: name for name, module in model.named_modules()}
    table = word_table(model)
    if table is None:
        raise _without_words(model)
    inputs = classifier.batch(classifier.encode_samples("a 1 . b")).model_inputs()
    ran: dict[nn.Module, torch.Tensor] = {}

    def record(module: nn.Module, _args: object, output: object) -> None:
        if isinstance(output, torch.Tensor) and output.shape[:2] == inputs["input_ids"].shape:
            ran.setdefault(module, output)

    leaves = [module for module in model.modules() if not [*module.children()]]
    with hooked([leaf.register_forward_hook(here_only(record)) for leaf in leaves]):
        # Not by model(...): what is measured once is no pass of a text, as `count_passes` counts them.
        plain = model.forward(**inputs).logits

    def change(outputs: Mapping[nn.Module, torch.Tensor]) -> float:
        handles = [m.register_forward_hook(here_only(lambda _m, _a, _o, to=to: to)) for m, to in outputs.items()]
        with hooked(handles):
            return float((model.forward(**inputs).logits - plain).abs().max())

    order = list(ran)
    # A table that gives something else, or that others share, is for `check_words`.
    chain = order[order.index(table) :] if table in ran else [table]
    for number, layer in enumerate(chain, start=1):
        output = ran.get(layer)
        if output is None or (layer is not table and change({table: ran[table].flip(1), layer: output}) > 0):
            break  # Words pass by this layer on another way, too.
        if not change({layer: 2 * output}) < UNSCALED * change({layer: output.flip(1)}):
            return tuple(names[module] for module in chain[:number])
    return (names[table],)


def _reads(ids: torch.Tensor, words: torch.Tensor, ahead: int) -> bool:
    """Return whether `ids`, (b, m), are `words`, (b, n), from position `ahead` on, whatever stands around them."""
    kept = words.shape[1] - ahead if ahead else words.shape[1]
    fits = ids.dim() == 2 and len(ids) == len(words) and ids.shape[1] >= words.shape[1] and kept > 0
    return fits and torch.equal(ids[:, ahead : ahead + kept], words[:, :kept].to(ids.device))


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
    new = vectors if architecture(whole.config).attention is not None else vectors.clone()
    replaced = False

    def hook(
        _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], looked_up: torch.Tensor
    ) -> torch.Tensor:
        nonlocal replaced
        ids = args[0] if args else kwargs.get("input", kwargs.get("input_ids"))
        if not isinstance(ids, torch.Tensor):
            return looked_up
        tokens = vectors.shape[1]
        if _reads(ids, input_ids, 0):
            replaced = True
            return new if looked_up.shape[1] == tokens else torch.cat([new, looked_up[:, tokens:]], dim=1)
        if _reads(ids, input_ids, 1):
            return torch.cat([looked_up[:, :1], new[:, :-1], looked_up[:, tokens:]], dim=1)
        if ids.dim() == 2 and _reads(ids.T, input_ids, 0) and len(looked_up) == tokens:
            replaced = True
            return new.transpose(0, 1)
        return looked_up

    # The table that the model names, and those that share its weights (BART, T5).
    table = whole.get_input_embeddings()
    tables = [m for m in model.modules() if m is table or (isinstance(m, nn.Embedding) and m.weight is table.weight)]
    with hooked([one.register_forward_hook(here_only(hook), with_kwargs=True) for one in tables]):
        yield
    if not replaced:
        raise _without_words(model)


def check_words(classifier: Classifier) -> None:
    """Raise UnsupportedError for a model that does not look its words up in a table, or that has no gradients there.

    What is known of (`models.architectures`) does; any other model is tried with a short text. Raises as `word_layers`
    does, too.
    """
    model: Any = classifier.model
    if architecture(model.config).attention is not None:
        word_layers(classifier)
        return
    _ = classifier.same_length  # a model that cannot read a text at all says so here
    table = word_table(model)
    if table is None:
        raise _without_words(model)
    batch = classifier.batch(classifier.encode_samples("a"))
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
    word_layers(classifier)


@contextmanager
def replaced_embeddings(classifier: Classifier, input_ids: torch.Tensor, vectors: torch.Tensor) -> Iterator[None]:
    """Do as `replaced_words`, but at the last of `word_layers`, whose output `vectors` are."""
    _table, *behind = word_layers(classifier)
    if not behind:
        with replaced_words(classifier.model, input_ids, vectors):
            yield
        return
    with hooked([behind[-1].register_forward_hook(here_only(lambda _layer, _args, _output: vectors))]):
        yield


def _without_words(model: Any) -> UnsupportedError:
    return UnsupportedError(
        f"a {model.config.model_type!r} model does not look its words up in a table of embeddings; {INSTEAD}"
    )
