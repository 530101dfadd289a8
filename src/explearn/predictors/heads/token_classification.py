"""Token classification (named entities, parts of speech) as the classification of one word of the text.

The class of a word is that of one of its sub-tokens, as is usual (Devlin et al. 2019, 5.3): the first with a letter or
digit, so that of "(Paris" it is not the bracket's. The logits at that sub-token are those of a classifier, so every
method and metric that takes no head apart applies.

The word stays in every text that others are deleted from, for without it nothing is classified. Where words are masked
it is masked as any other: that keeps its place, and gives it a score of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from explearn.predictors.wrapped import WrappedModel
from explearn.text.encoding import IN_QUESTION, Encoding

if TYPE_CHECKING:
    from transformers.modeling_outputs import SequenceClassifierOutput

READ = 2
"""Bit of `token_type_ids` at the sub-token whose logits are read."""


class WordReader(WrappedModel):
    """A token-classification model that gives the logits of one sub-token, (b, C): the first with the bit READ."""

    loader = "AutoModelForTokenClassification"
    reads_marked = True
    """Says to `architectures.reads` which token's vector the head reads."""

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, **options: Any
    ) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        output = self.outputs(input_ids, attention_mask, token_type_ids, **options)
        rows = torch.arange(len(input_ids), device=output.logits.device)
        logits = output.logits[rows, marked_position(token_type_ids).to(rows.device)]
        return SequenceClassifierOutput(logits=logits, hidden_states=output.hidden_states, attentions=output.attentions)


def marked_position(token_type_ids: torch.Tensor) -> torch.Tensor:
    """Return the first position with the bit READ, int64, (b,), of (b, n)."""
    return (token_type_ids & READ > 0).long().argmax(1)


def read_positions(encoding: Encoding) -> dict[int, int]:
    """Return the position that is read of each word that the model reads something of."""
    places: dict[int, list[int]] = {}
    for position in encoding.positions:
        places.setdefault(encoding.word_ids[position], []).append(position)
    shared = {word: places[other] for word, other in encoding.shared if other in places}

    def has_letters(position: int) -> bool:
        start, end = encoding.characters[position]
        return any(map(str.isalnum, encoding.words[encoding.word_ids[position]][start:end]))

    return {
        word: next(filter(has_letters, of_word), of_word[0])
        for word, of_word in sorted((places | shared).items())
        if word >= 0
    }


def mark_word(encoding: Encoding, position: int) -> Encoding:
    """Mark the position that is read, and all sub-tokens of its word, as the ones in question."""
    owner = encoding.word_ids[position]
    types = list(encoding.token_type_ids or [0] * len(encoding))
    for place, word in enumerate(encoding.word_ids):
        types[place] |= IN_QUESTION * (word == owner) | READ * (place == position)
    return replace(encoding, token_type_ids=tuple(types))
