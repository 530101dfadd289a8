"""Substitutes for the word embeddings that a model looks up.

If a norm follows the table directly (DeBERTa v2 and v3, ModernBERT, BLOOM), the output does not depend on the length of
the embeddings: e . df/de = 0 (Euler), and a path between two embeddings jumps where it passes zero. Such models are
found by a measurement, and gradients are taken after the norm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from explearn.core.errors import UnsupportedError, first_line
from explearn.lens.hooks import Hooks
from explearn.predictors.architectures import architecture, by_torch, word_table

if TYPE_CHECKING:
    from explearn.predictors.transformer import TransformerPredictor

UNSCALED = 0.05
"""Bound below which the length of the embeddings counts as irrelevant: the change of the output when the embeddings are
doubled, as a share of its change when their order is reversed. The bound is our own: DeBERTa has 1e-6, ModernBERT 1e-4
to 0.03 (by the epsilon of its norm), models that add positions before the norm 0.1 and more."""

INSTEAD = "occlusion, lime and the other methods that look at perturbed texts explain it"


_LAYER_NAMES: WeakKeyDictionary[nn.Module, tuple[str, ...]] = WeakKeyDictionary()
"""Model -> names of its `word_layers`, once they are measured."""


def table_weight(model: Any) -> Tensor:
    """Return a model's table of word embeddings, (words, e).

    Raises:
        UnsupportedError: it has none (CANINE).
    """
    table: Any = word_table(model)
    if table is None:
        raise UnsupportedError(
            f"a {model.config.model_type!r} model has no table of word embeddings; noise on them and simulatability "
            "need one"
        )
    return cast(Tensor, table.weight)


def word_layers(classifier: TransformerPredictor) -> list[nn.Module]:
    """Return the layers that a text's ids pass, in order, up to the place where gradients are taken.

    As a rule this is only the word table. If the length of its output does not matter, the list goes on to the first
    layer, a norm, whose output's length does, provided that all of the table's output passes through it.

    Raises:
        UnsupportedError: the model has no table.
    """
    model: Any = classifier.model
    if model not in _LAYER_NAMES:
        with torch.inference_mode(), classifier.gathered(), classifier.autocast():
            _LAYER_NAMES[model] = _measured_layers(classifier)
    return [model.get_submodule(name) for name in _LAYER_NAMES[model]]


def _run_recorded(model: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[Tensor, dict[nn.Module, Tensor]]:
    """Return the logits, and the outputs of innermost modules that have a row for each token, in order."""
    outputs: dict[nn.Module, Tensor] = {}

    def record(module: nn.Module, _args: object, _kwargs: object, output: object) -> None:
        if isinstance(output, Tensor) and output.shape[:2] == inputs["input_ids"].shape:
            outputs.setdefault(module, output)

    with Hooks() as hooks:
        for module in model.modules():
            if not list(module.children()):
                hooks.after(module, record)
        # Not by model(...): `count_passes` would count this one-off measurement as a pass.
        return model.forward(**inputs).logits, outputs


def _measured_layers(classifier: TransformerPredictor) -> tuple[str, ...]:
    model: Any = classifier.model
    names = {module: name for name, module in model.named_modules()}
    table = word_table(model)
    if table is None:
        raise _without_words(model)
    inputs = classifier.batch(classifier.read_samples("a 1 . b")).model_inputs()
    plain, outputs = _run_recorded(model, inputs)

    def change(replaced: dict[nn.Module, Tensor]) -> float:
        def put(module: nn.Module, *_call: object) -> Tensor:
            return replaced[module]

        with Hooks() as hooks:
            for module in replaced:
                hooks.after(module, put)
            return float((model.forward(**inputs).logits - plain).abs().max())

    order = list(outputs)
    # `check_words` refuses a table with unusual output, and one that is used elsewhere as well.
    chain = order[order.index(table) :] if table in outputs else []
    for number, layer in enumerate(chain, start=1):
        output = outputs[layer]
        if layer is not table and change({table: outputs[table].flip(1), layer: output}) > 0:
            break  # Words also bypass this layer.
        doubled = change({layer: 2 * output})
        reordered = change({layer: output.flip(1)})
        if not doubled < UNSCALED * reordered:
            return tuple(names[module] for module in chain[:number])
    if chain == [table]:
        raise UnsupportedError(
            f"only the direction of this {model.config.model_type!r} model's word embeddings counts, and no later "
            f"layer has a row for each token; {INSTEAD}"
        )
    return (names[table],)


def _starts_with(ids: Tensor, words: Tensor) -> bool:
    """Return whether each row of `ids`, (b, m), starts with that of `words`, (b, n), where n > 0."""
    count = words.shape[1]
    return count > 0 and ids[:, :count].shape == words.shape and torch.equal(ids[:, :count], words.to(ids.device))


@contextmanager
def replaced_words(model: nn.Module, input_ids: Tensor, vectors: Tensor) -> Iterator[None]:
    """Replace the word embeddings that a model looks up by `vectors`, (b, n, e), inside the block and in this thread.

    Args:
        model: a classifier.
        input_ids: the model's input, (b, n). Embeddings that the model looks up in the same table for other ids (XLM's
            segments, padding that Longformer adds) stay unchanged.
        vectors: the embeddings in their place, (b, n, e).

    An encoder-decoder reads the words twice, one position later in its decoder (BART, T5): there, the first position
    keeps its embedding, and each other position gets the vector of the word before it. XLNet reads (n, b).

    Raises:
        UnsupportedError: the model has not looked up its words there.
    """
    whole: Any = model
    # Some models change the looked-up embeddings in place (CTRL).
    new = vectors if architecture(whole.config).attention is not None else vectors.clone()
    tokens = vectors.shape[1]
    replaced = False

    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], looked_up: Tensor) -> Any:
        nonlocal replaced
        ids = args[0] if args else kwargs.get("input", kwargs.get("input_ids"))
        if not isinstance(ids, Tensor) or ids.dim() != 2:
            return None
        if _starts_with(ids, input_ids):
            replaced = True
            return torch.cat([new, looked_up[:, tokens:]], dim=1) if looked_up.shape[1] > tokens else new
        if ids.shape[1] >= tokens and _starts_with(ids[:, 1:], input_ids[:, :-1]):
            return torch.cat([looked_up[:, :1], new[:, :-1], looked_up[:, tokens:]], dim=1)
        if _starts_with(ids.T, input_ids) and len(looked_up) == tokens:
            replaced = True
            return new.transpose(0, 1)
        return None

    # The model's own input embeddings, and tables that share their weights (BART, T5).
    table = whole.get_input_embeddings()
    with Hooks() as hooks:
        for module in model.modules():
            if module is table or (isinstance(module, nn.Embedding) and module.weight is table.weight):
                hooks.after(module, hook)
        yield
    if not replaced:
        raise _without_words(model)


def check_words(classifier: TransformerPredictor) -> None:
    """Check that a model looks its words up in a table, and that gradients reach it.

    Architectures in the table (`predictors.architectures`) do, with attention by torch's own functions; any other model
    is tried with a short text.

    Raises:
        UnsupportedError: it does not, or as `word_layers`.
    """
    model: Any = classifier.model
    if architecture(model.config).attention is not None and by_torch(model.config):
        word_layers(classifier)
        return
    _ = classifier.same_length  # raises if the model cannot read a text at all
    table = word_table(model)
    if table is None:
        raise _without_words(model)
    batch = classifier.batch(classifier.read_samples("a"))
    try:
        with torch.inference_mode(False), torch.enable_grad(), classifier.autocast():
            vectors = table(batch.input_ids)
            if not isinstance(vectors, Tensor):  # I-BERT returns scales as well
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
def replaced_embeddings(classifier: TransformerPredictor, input_ids: Tensor, vectors: Tensor) -> Iterator[None]:
    """Replace embeddings as `replaced_words` does, but `vectors` replace the output of the last of `word_layers`."""
    *before, last = word_layers(classifier)
    if not before:
        with replaced_words(classifier.model, input_ids, vectors):
            yield
        return
    with Hooks() as hooks:
        hooks.replace(last, lambda _output: vectors)
        yield


def _without_words(model: Any) -> UnsupportedError:
    return UnsupportedError(
        f"a {model.config.model_type!r} model does not look its words up in a table of embeddings; {INSTEAD}"
    )
