"""The padding token of a classifier, and what a head that reads the last token takes for padding."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from explearn.core.errors import DataError, ModelError, first_line
from explearn.predictors.architectures import UNKNOWN, architecture
from explearn.predictors.encoding import Encoding

if TYPE_CHECKING:
    import transformers

logger = logging.getLogger(__name__)

_CLOSE, _CLOSE_IN_HALF = 1e-4, 0.05
"""By how much of the largest logit one may differ by rounding: in float32 and float64, and in lower precisions."""


def reads_last(model: Any) -> bool:
    """Return whether a classifier's head reads the last token that is no padding.

    Of types without an entry, those whose head is called `score`: transformers calls that of all decoders so.
    """
    entry = architecture(model.config)
    return entry.reads == "last" or (entry is UNKNOWN and getattr(model, "score", None) is not None)


@torch.inference_mode()
def padding_shows(classifier: Any) -> bool:
    """Return whether a classifier says something else of a text where a longer one is in its batch.

    Raises ModelError for a model that gives no answer.
    """
    short, long = classifier.encode_samples("a b", "a b c d e f g h")
    one, both = classifier.batch([short]), classifier.batch([long, short])
    try:
        alone, padded = classifier.logits(one)[0], classifier.logits(both)[1]
    except (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise ModelError(f"{classifier.name}: its model cannot read a text ({first_line(error)[:200]})") from error
    half = classifier.dtype in (torch.float16, torch.bfloat16)
    close = (_CLOSE_IN_HALF if half else _CLOSE) * max(1.0, float(alone.abs().max()))
    return float((alone - padded).abs().max()) > close


def check_ends(config: Any, encodings: Sequence[Encoding], first: int = 1) -> None:
    """Raise DataError for a text that holds the token by which the head of an encoder-decoder finds its end (BART, T5).

    The head reads the last such token, and transformers refuses batches whose texts have not all as many.
    """
    end = config.eos_token_id if getattr(config, "is_encoder_decoder", False) else None
    for number, encoding in enumerate(encodings, start=first):
        if end is not None and any(encoding.input_ids[position] == end for position in encoding.positions):
            raise DataError(
                f"text {number}: holds the token by which the head of a {config.model_type!r} model finds the end of a "
                "text; expected texts without it"
            )


def with_padding(
    model: transformers.PreTrainedModel, tokenizer: transformers.PreTrainedTokenizerBase, name: str
) -> transformers.PreTrainedTokenizerBase:
    """Return the tokenizer to use, with the padding token that the model's head knows.

    A head that reads the last token finds it by the padding's id in the configuration. Where the tokenizer pads with
    another, a copy of it pads with that one. Where the configuration has none, the tokenizer's is put there; where that
    has none either, its end-of-text token serves. What is changed is logged as a warning.

    Raises ModelError for a tokenizer without padding of a model that reads another token, for one that has no
    end-of-text token either, and for one that ends each text with what would be padding: the head would read the token
    before it, not the one that it reads without padding.
    """
    name, config = name or "the classifier", model.config
    if not reads_last(model):
        if tokenizer.pad_token_id is None:
            raise ModelError(f"{name}: its tokenizer has no padding token; batches need one")
        return tokenizer
    known = config.pad_token_id if config.pad_token_id is not None and config.pad_token_id >= 0 else None
    candidates = (known, tokenizer.pad_token_id, tokenizer.eos_token_id)
    token_id: Any = next((i for i in candidates if i is not None), None)
    if token_id is None:
        raise ModelError(f"{name}: its tokenizer has neither a padding nor an end-of-text token; batches need one")
    if tokenizer.pad_token_id != token_id:
        token = tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            raise ModelError(f"{name}: its head takes token {token_id} for padding, which its tokenizer does not have")
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.pad_token = token
        why = "for it has no padding token" if known is None else "which its head takes for padding"
        logger.warning("%s: texts are padded with %r, %s", name, token, why)
    if known is None:
        if tokenizer("a")["input_ids"][-1] == token_id:
            raise ModelError(
                f"{name}: its tokenizer ends each text with {tokenizer.pad_token!r}, which its head would take for "
                "padding, for the model names none; expected a model with a padding token of its own"
            )
        logger.warning("%s: its configuration names no padding token; it is now %r", name, tokenizer.pad_token)
        config.pad_token_id = int(token_id)
    return tokenizer
