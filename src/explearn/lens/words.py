"""Substitutes for the word embeddings that a model looks up.

If a norm follows the table directly (DeBERTa v2 and v3, ModernBERT, BLOOM), the output does not depend on the length of
the embeddings: e . df/de = 0 (Euler), and a path between two embeddings jumps where it passes zero. For such models,
which a measurement finds, gradients are taken after the norm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn

from explearn.core.errors import UnsupportedError, first_line
from explearn.lens.threads import here_only, hooked
from explearn.predictors.architectures import architecture, word_table
from explearn.predictors.transformer import TransformerPredictor

UNSCALED = 0.05
"""Bound below which the length of the embeddings counts as irrelevant: the change of the output when the embeddings are
doubled, as a share of its change when their order is reversed. The bound is our own: DeBERTa has 1e-6, ModernBERT 1e-4
to 0.03 (by the epsilon of its norm), models that add positions before the norm 0.1 and more."""

INSTEAD = "occlusion, lime and the other methods that look at perturbed texts explain it"


def table_weight(model: Any) -> torch.Tensor:
    """Return a model's table of word embeddings, (words, e). Raises UnsupportedError if it has none (CANINE)."""
    table: Any = word_table(model)
    if table is None:
        raise UnsupportedError(
            f"a {model.config.model_type!r} model has no table of word embeddings; noise on them and simulatability "
            "need one"
        )
    return cast(torch.Tensor, table.weight)


def word_layers(classifier: TransformerPredictor) -> list[nn.Module]:
    """Return the layers that a text's ids pass, in order, up to the place where gradients are taken.

    As a rule this is only the word table. If the length of its output does not matter, the list goes on to the first
    layer, a norm, whose output's length does, provided that all of the table's output passes through it.
    Raises UnsupportedError for a model without a table.
    """
    model: Any = classifier.model
    if not classifier.word_layers:
        with torch.inference_mode(), classifier.gathered(), classifier.autocast():
            classifier.word_layers = _measured_layers(classifier)
    return [model.get_submodule(name) for name in classifier.word_layers]


def _measured_layers(classifier: TransformerPredictor) -> tuple[str, ...]:
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
        # Not by model(...): `count_passes` would count this one-off measurement as a pass.
        plain = model.forward(**inputs).logits

    def change(outputs: Mapping[nn.Module, torch.Tensor]) -> float:
        handles = [m.register_forward_hook(here_only(lambda _m, _a, _o, to=to: to)) for m, to in outputs.items()]
        with hooked(handles):
            return float((model.forward(**inputs).logits - plain).abs().max())

    order = list(ran)
    # `check_words` refuses a table with unusual output, and one that is used elsewhere as well.
    chain = order[order.index(table) :] if table in ran else [table]
    for number, layer in enumerate(chain, start=1):
        output = ran.get(layer)
        if output is None or (layer is not table and change({table: ran[table].flip(1), layer: output}) > 0):
            break  # Words also bypass this layer.
        if not change({layer: 2 * output}) < UNSCALED * change({layer: output.flip(1)}):
            return tuple(names[module] for module in chain[:number])
    return (names[table],)


def _reads(ids: torch.Tensor, words: torch.Tensor, ahead: int) -> bool:
    """Return whether `ids`, (b, m), contain `words`, (b, n), from position `ahead` on; the rest may be anything."""
    kept = words.shape[1] - ahead if ahead else words.shape[1]
    fits = ids.dim() == 2 and len(ids) == len(words) and ids.shape[1] >= words.shape[1] and kept > 0
    return fits and torch.equal(ids[:, ahead : ahead + kept], words[:, :kept].to(ids.device))


@contextmanager
def replaced_words(model: nn.Module, input_ids: torch.Tensor, vectors: torch.Tensor) -> Iterator[None]:
    """Replace the word embeddings that a model looks up by `vectors`, (b, n, e), inside the block and in this thread.

    Args:
        input_ids: the model's input, (b, n). Embeddings that the model looks up in the same table for other ids (XLM's
            segments, padding that Longformer adds) stay unchanged.

    An encoder-decoder reads the words twice, one position later in its decoder (BART, T5): there, the first position
    keeps its embedding, and each other position gets the vector of the word before it. XLNet reads (n, b).

    Raises UnsupportedError if the model has not looked up its words there.
    """
    whole: Any = model
    # Some models change the looked-up embeddings in place (CTRL).
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

    # The model's own input embeddings, and tables that share their weights (BART, T5).
    table = whole.get_input_embeddings()
    tables = [m for m in model.modules() if m is table or (isinstance(m, nn.Embedding) and m.weight is table.weight)]
    with hooked([one.register_forward_hook(here_only(hook), with_kwargs=True) for one in tables]):
        yield
    if not replaced:
        raise _without_words(model)


def check_words(classifier: TransformerPredictor) -> None:
    """Raise UnsupportedError for a model that does not look up its words in a table, or that has no gradients there.

    Known architectures (`models.architectures`) do; any other model is tried with a short text. Also raises as
    `word_layers` does.
    """
    model: Any = classifier.model
    if architecture(model.config).attention is not None:
        word_layers(classifier)
        return
    _ = classifier.same_length  # raises if the model cannot read a text at all
    table = word_table(model)
    if table is None:
        raise _without_words(model)
    batch = classifier.batch(classifier.encode_samples("a"))
    try:
        with torch.inference_mode(False), torch.enable_grad(), classifier.autocast():
            vectors = table(batch.input_ids)
            if not isinstance(vectors, torch.Tensor):  # I-BERT returns scales as well
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
def replaced_embeddings(
    classifier: TransformerPredictor, input_ids: torch.Tensor, vectors: torch.Tensor
) -> Iterator[None]:
    """Replace embeddings as `replaced_words` does, but `vectors` replace the output of the last of `word_layers`."""
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
