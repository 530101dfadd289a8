"""A small decoder from nothing: GPT-2's architecture with random weights, and byte-level BPE learned from the texts.

For runs without any pretrained weights: `encoder: scratch`. What such a model knows it has from a task's training texts
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from explearn.core.errors import ModelError
from explearn.model.heads import CLASSIFICATION, head_for
from explearn.model.params import ScratchParams

if TYPE_CHECKING:
    import transformers

_SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}


def from_scratch(
    params: ScratchParams, texts: Sequence[str], labels: Sequence[str], limit: int
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """A classifier with random weights, drawn from torch's global generator, and its tokenizer.

    Args:
        texts: those that the tokenizer's pieces are learned from.
        labels: the classes.
        limit: most sub-tokens per text.

    Raises ModelError for labels of another kind than classes.
    """
    import transformers

    if head_for(labels) is not CLASSIFICATION:
        raise ModelError("encoder 'scratch' is made for classes; expected pretrained weights for questions")
    tokenizer = _tokenizer(texts, params.vocabulary, limit)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=limit,
        n_embd=params.width,
        n_layer=params.layers,
        n_head=params.heads,
        resid_pdrop=params.dropout,
        embd_pdrop=params.dropout,
        attn_pdrop=params.dropout,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model: Any = transformers.GPT2ForSequenceClassification(config)
    return model, tokenizer


def _tokenizer(texts: Sequence[str], vocabulary: int, limit: int) -> transformers.PreTrainedTokenizerFast:
    import tokenizers
    import transformers

    # Few texts: words are learned sooner when their case and their place in the text make no difference.
    bpe = tokenizers.ByteLevelBPETokenizer(add_prefix_space=True, lowercase=True)
    bpe.train_from_iterator(
        texts, vocab_size=vocabulary, min_frequency=2, show_progress=False, special_tokens=list(_SPECIAL.values())
    )
    made: Any = transformers.PreTrainedTokenizerFast
    found: transformers.PreTrainedTokenizerFast = made(
        tokenizer_object=tokenizers.Tokenizer.from_str(bpe.to_str()), model_max_length=limit, **_SPECIAL
    )
    return found
