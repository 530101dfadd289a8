"""Texts as a classifier sees them: tokenised, and in batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from explearn.core.errors import ModelError, first_line
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding as Encoding  # noqa: PLC0414 (taken from here)
from explearn.text.encoding import PlainText, segments_in
from explearn.text.encoding import Text as Text  # noqa: PLC0414

if TYPE_CHECKING:
    import transformers


def encode_texts(
    tokenizer: transformers.PreTrainedTokenizerBase, texts: Sequence[PlainText], limit: int | None
) -> list[Encoding]:
    """Tokenise texts and align sub-tokens with words.

    Args:
        tokenizer: a fast tokenizer.
        texts: strings, or pairs of strings.
        limit: most sub-tokens per text, special ones included; pairs are cut from the longer segment first. None: no
            limit.

    Raises:
        ModelError: the tokenizer is damaged.
    """
    if not texts:
        return []
    try:
        encoded = tokenizer(
            list(texts), truncation=limit is not None, max_length=limit, verbose=False, return_offsets_mapping=True
        )
    except BaseException as error:
        # From a damaged tokenizer.json; a panic of the library tokenizers is not an Exception.
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"the tokenizer cannot read a text ({first_line(error)}); expected a whole one") from error
    types: Any = [()] * len(texts)
    if "token_type_ids" in tokenizer.model_input_names:
        types = encoded["token_type_ids"]
    encodings = []
    for row, text in enumerate(texts):
        ids = encoded["input_ids"][row]
        offsets = encoded["offset_mapping"][row]
        encodings.append(Encoding.of(segments_in(text), ids, offsets, encoded.sequence_ids(row), types[row]))
    return encodings


@dataclass(frozen=True, slots=True)
class Batch:
    """Encodings padded on the right to one length.

    Attributes:
        encodings: the texts.
        input_ids: int64, (batch, tokens).
        attention_mask: int64, (batch, tokens); 1 at real tokens.
        token_type_ids: int64, (batch, tokens); None if the model has no segments.
        marks: bool, (batch, tokens), by name: the fields `Encoding.MARKS`.

    Example:
        >>> from explearn.testing import make_classifier
        >>> classifier = make_classifier()
        >>> batch = classifier.batch(classifier.encode(["lazy dog", "a warm funny sequel"]))
        >>> batch.attention_mask.sum(1)
        tensor([4, 6])
    """

    encodings: tuple[Encoding, ...]
    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor | None
    marks: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.encodings)

    def word_ids(self) -> Tensor:
        """Word of each position, int64, (batch, tokens); NO_WORD at special tokens, pieces of no word and padding."""
        owners = torch.full(self.input_ids.shape, NO_WORD)
        for row, encoding in enumerate(self.encodings):
            owners[row, : len(encoding)] = torch.tensor(encoding.word_ids)
        return owners.to(self.input_ids.device)

    def token_scores(self, scores: Iterable[ArrayLike]) -> Tensor:
        """Give each sub-token its word's score, 0 if it has no word.

        Args:
            scores: the words' scores of each text, (words,).

        Returns:
            float32, (batch, tokens).
        """
        values = torch.zeros(self.input_ids.shape)
        for row, (encoding, word_scores) in enumerate(zip(self.encodings, scores, strict=True)):
            owners = np.asarray(encoding.word_ids, dtype=np.int64)
            by_token = np.where(owners == NO_WORD, 0.0, np.asarray(word_scores)[owners])
            values[row, : len(owners)] = torch.from_numpy(by_token)
        return values

    def model_inputs(self) -> dict[str, Tensor]:
        """Return the keyword arguments of the model's forward pass."""
        inputs = {"input_ids": self.input_ids, "attention_mask": self.attention_mask}
        if self.token_type_ids is not None:
            inputs["token_type_ids"] = self.token_type_ids
        return inputs | dict(self.marks)


def collate(encodings: Sequence[Encoding], pad_token_id: int, device: torch.device, shortest: int = 1) -> Batch:
    """Pad encodings to the longest of them, and to the shortest input of the model.

    An empty encoding, which remains if every word of a text without special tokens is deleted, becomes one padding
    token, since a model needs some input.

    Args:
        encodings: the texts, at least one.
        pad_token_id: id of the padding.
        device: device of the batch.
        shortest: fewest sub-tokens that the model can read.
    """
    lengths = [max(1, len(encoding)) for encoding in encodings]

    def padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
        values = np.full((len(rows), max(shortest, *lengths)), fill, dtype=np.int64)
        for target, row in zip(values, rows, strict=True):
            target[: len(row)] = row
        return torch.from_numpy(values).to(device)

    token_type_ids = None
    if encodings[0].token_type_ids:
        token_type_ids = padded([encoding.token_type_ids for encoding in encodings], 0)
    marks = {}
    for name in encodings[0].MARKS:
        marks[name] = padded([getattr(encoding, name) for encoding in encodings], 0).bool()
    return Batch(
        encodings=tuple(encodings),
        input_ids=padded([encoding.input_ids for encoding in encodings], pad_token_id),
        attention_mask=padded([(1,) * length for length in lengths], 0),
        token_type_ids=token_type_ids,
        marks=marks,
    )


def text_seed(seed: int, encoding: Encoding) -> int:
    """Return a seed below 2^32 that depends only on `seed` and on the model's input for a text."""
    digest = hashlib.sha256(repr((seed, encoding.key)).encode()).digest()
    return int.from_bytes(digest[:4])
