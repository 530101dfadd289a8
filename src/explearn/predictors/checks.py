"""Checks of a loaded model and its tokenizer, and of the padding token on which both must agree."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from explearn.core.errors import DataError, ModelError, first_line
from explearn.core.examples import label_problem
from explearn.predictors.architectures import reads_last, word_table
from explearn.predictors.encoding import Encoding

if TYPE_CHECKING:
    import transformers

logger = logging.getLogger(__name__)

CLOSE = 1e-4
"""Share of the largest logit by which one may differ by rounding, in float32 and float64."""
CLOSE_IN_HALF = 0.05
"""The same in lower precisions."""


def check_config(config: Any, name: str) -> None:
    """Raise ModelError for a configuration without distinct class names, numbered from 0."""
    names: Mapping[int, Any] = config.id2label
    problem: str | None = "has no classes"
    if names:
        problem = label_problem([str(label) for label in names.values()])
    if sorted(names, key=str) != sorted(range(len(names)), key=str):
        problem = f"its classes are numbered {', '.join(repr(i) for i in list(names)[:20])}"
    if problem is not None:
        raise ModelError(
            f"{name}: {problem}; expected the names of its classes, numbered from 0, in its config.json (id2label)"
        )


def check_runs(model: Any, tokenizer: transformers.PreTrainedTokenizerBase, name: str) -> None:
    """Check that a model is a classifier that can run with its tokenizer.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        name: name for messages.

    Raises:
        ModelError: the model has no head or another number of outputs than classes, or its table of words is too small
            for the tokenizer's ids.
    """
    if type(model).__name__ in MODEL_MAPPING_NAMES.values():
        raise ModelError(f"{name}: a {type(model).__name__} has no head; expected a model for text classification")
    outputs = getattr(model, "num_labels", len(model.config.id2label))
    if outputs != len(model.config.id2label):
        raise ModelError(
            f"{name}: has {outputs} outputs and the classes {', '.join(map(str, model.config.id2label.values()))}; "
            "expected one for each (id2label)"
        )
    table: Any = word_table(model)
    last = max(tokenizer.get_vocab().values(), default=0)
    if isinstance(table, torch.nn.Embedding) and last >= table.num_embeddings:
        raise ModelError(
            f"{name}: its tokenizer has token ids up to {last}, the model knows {table.num_embeddings} tokens; "
            "expected its own"
        )


def check_ends(config: Any, encodings: Sequence[Encoding]) -> None:
    """Check that no text contains the token by which the head of an encoder-decoder finds its end (BART, T5).

    The head reads the last such token, and transformers requires the same number of them in all texts of a batch.

    Args:
        config: the model's configuration.
        encodings: the texts.

    Raises:
        DataError: a text contains the token.
    """
    if not getattr(config, "is_encoder_decoder", False):
        return
    end = config.eos_token_id
    for number, encoding in enumerate(encodings, start=1):
        if any(encoding.input_ids[position] == end for position in encoding.positions):
            raise DataError(
                f"text {number}: holds the token by which the head of a {config.model_type!r} model finds the end of a "
                "text; expected texts without it"
            )


@torch.inference_mode()
def padding_shows(predictor: Any) -> bool:
    """Return whether padding changes the prediction: a short text's logits differ if a longer one is in its batch.

    Raises:
        ModelError: the model fails, or does not give one logit for each class.
    """
    short, long = predictor.read_samples("a b", "a b c d e f g h")
    single = predictor.batch([short])
    pair = predictor.batch([long, short])
    try:
        alone = predictor.logits(single)[0]
        padded = predictor.logits(pair)[1]
    except (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise ModelError(f"{predictor.name}: its model cannot read a text ({first_line(error)[:200]})") from error
    if alone.shape != (len(predictor.labels),):
        raise ModelError(
            f"{predictor.name}: gives logits of shape {tuple(alone.shape)} for a text; expected one for each of its "
            f"{len(predictor.labels)} classes, as a model for text classification gives"
        )
    return not same_logits(predictor, padded, alone)


def same_logits(computed: Any, logits: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether logits differ by rounding only, in the `dtype` of the model or predictor that computed them."""
    close = CLOSE
    if computed.dtype in (torch.float16, torch.bfloat16):
        close = CLOSE_IN_HALF
    return float((logits - expected).abs().max()) <= close * max(1.0, float(expected.abs().max()))


def with_padding(
    model: transformers.PreTrainedModel, tokenizer: transformers.PreTrainedTokenizerBase, name: str
) -> transformers.PreTrainedTokenizerBase:
    """Return the tokenizer to use, with the padding token that the model's head expects.

    A head that reads the last token recognises padding by the id in the model's configuration. If the tokenizer pads
    with another token, a copy of it that pads with that one is returned. If the configuration names none, it gets the
    tokenizer's padding token, or its end-of-text token if there is none. Changes are logged as warnings.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        name: name for messages.

    Raises:
        ModelError: there is no token to pad with; the head takes for padding a token that the tokenizer lacks, or that
            ends each text.
    """
    if not reads_last(model):
        if tokenizer.pad_token_id is None:
            raise ModelError(f"{name}: its tokenizer has no padding token; batches need one")
        return tokenizer
    config = model.config
    named = config.pad_token_id is not None and config.pad_token_id >= 0
    candidates = [tokenizer.pad_token_id, tokenizer.eos_token_id]
    if named:
        candidates.insert(0, config.pad_token_id)
    token_id: Any = next((i for i in candidates if i is not None), None)
    if token_id is None:
        raise ModelError(f"{name}: its tokenizer has neither a padding nor an end-of-text token; batches need one")
    if tokenizer.pad_token_id != token_id:
        token = tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            raise ModelError(f"{name}: its head takes token {token_id} for padding, which its tokenizer does not have")
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.pad_token = token
        why = "for it has no padding token"
        if named:
            why = "which its head takes for padding"
        logger.warning("%s: texts are padded with %r, %s", name, token, why)
    if not named:
        if tokenizer("a")["input_ids"][-1] == token_id:
            raise ModelError(
                f"{name}: its tokenizer ends each text with {tokenizer.pad_token!r}, which its head would take for "
                "padding, for the model names none; expected a model with a padding token of its own"
            )
        logger.warning("%s: its configuration names no padding token; it is now %r", name, tokenizer.pad_token)
        config.pad_token_id = int(token_id)
    return tokenizer
