"""How texts become sub-tokens: their segments, the limit of what a model reads, and the word of each sub-token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from explearn.core.documents import kind_of
from explearn.core.errors import DataError, ModelError
from explearn.core.records import Example, check_text
from explearn.model.architectures import position_offset
from explearn.model.encoding import Encoding
from explearn.text.alignment import NO_WORD, align, word_spans

if TYPE_CHECKING:
    import transformers

Text = str | tuple[str, str] | Example
"""What can be classified and explained: a text, a pair of texts, or an example."""

_UNBOUNDED = 100_000
"""transformers gives tokenizers without a length limit a model_max_length of 1e30."""


def encode_segments(
    tokenizer: transformers.PreTrainedTokenizerBase, segments: Sequence[tuple[str, str | None, str]], limit: int | None
) -> list[Encoding]:
    """Tokenise texts, all of one segment or all pairs, and align sub-tokens with words.

    Args:
        segments: text, second segment or None, id of the example.
        limit: most sub-tokens per text, special ones included; pairs are cut from the longer segment first. None: any.
    """
    first = [text for text, _, _ in segments]
    second = [pair for _, pair, _ in segments if pair is not None]
    encoded = tokenizer(
        first,
        second or None,
        truncation=limit is not None,
        max_length=limit,
        verbose=False,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    use_types = "token_type_ids" in tokenizer.model_input_names
    result = []
    for row, (text, pair, example_id) in enumerate(segments):
        spans = word_spans(text)
        pair_spans = word_spans(pair) if pair is not None else []
        sequence = encoded.sequence_ids(row)
        offsets = encoded["offset_mapping"][row]
        word_ids = [NO_WORD] * len(sequence)
        characters = [(0, 0)] * len(sequence)
        for segment, words, shift in ((0, spans, 0), (1, pair_spans, len(spans))):
            positions = [i for i, s in enumerate(sequence) if s == segment]
            owners = align([offsets[i] for i in positions], words)
            for position, owner in zip(positions, owners, strict=True):
                if owner != NO_WORD:
                    start, end = words[owner]
                    word_ids[position] = owner + shift
                    characters[position] = (
                        max(offsets[position][0], start) - start,
                        min(offsets[position][1], end) - start,
                    )
        result.append(
            Encoding(
                input_ids=tuple(encoded["input_ids"][row]),
                token_type_ids=tuple(encoded["token_type_ids"][row]) if use_types else (),
                special=tuple(s is None for s in sequence),
                word_ids=tuple(word_ids),
                words=tuple(text[a:b] for a, b in spans) + tuple((pair or "")[a:b] for a, b in pair_spans),
                example_id=example_id,
                characters=tuple(characters),
                pair_start=None if pair is None else len(spans),
                spans=(*spans, *pair_spans),
            )
        )
    return result


def encode_texts(
    tokenizer: transformers.PreTrainedTokenizerBase, texts: Sequence[Text], limit: int | None, first: int
) -> list[Encoding]:
    """As `encode_segments`, of single texts and pairs in any order, the number of the first being `first`."""
    segments = [as_segments(text, number) for number, text in enumerate(texts, start=first)]
    encodings: dict[int, Encoding] = {}
    for has_pair in (False, True):
        chosen = [i for i, (_, pair, _) in enumerate(segments) if (pair is not None) == has_pair]
        if chosen:
            found = encode_segments(tokenizer, [segments[i] for i in chosen], limit)
            encodings.update(zip(chosen, found, strict=True))
    return [encodings[i] for i in range(len(segments))]


def max_length(config: transformers.PreTrainedConfig, tokenizer: transformers.PreTrainedTokenizerBase) -> int:
    """Most sub-tokens that both the position embeddings and the tokenizer allow.

    Raises ModelError for a tokenizer that allows none.
    """
    limits = []
    if not tokenizer.model_max_length >= 1:
        raise ModelError(f"the tokenizer's model_max_length is {tokenizer.model_max_length}; expected 1 or more")
    if tokenizer.model_max_length < _UNBOUNDED:
        limits.append(int(tokenizer.model_max_length))
    try:
        positions = getattr(config, "max_position_embeddings", None)
    except NotImplementedError:  # XLNet says in this way that it has no limit
        positions = None
    # Encoders with relative positions say -1: they read texts of any length.
    if positions is not None and positions > 0:
        limits.append(int(positions) - position_offset(config))
    return min(limits, default=512)


class TokenNames(dict[int, str]):
    """Sub-tokens as text, by their ids; the tokenizer is asked once for each."""

    def __init__(self, tokenizer: transformers.PreTrainedTokenizerBase) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> str:
        found: Any = self._tokenizer.convert_ids_to_tokens(token_id)
        return self.setdefault(token_id, found)

    def of(self, encoding: Encoding) -> tuple[str, ...]:
        """Those of a text, special tokens left out."""
        return tuple(self[i] for i, special in zip(encoding.input_ids, encoding.special, strict=True) if not special)


def as_segments(text: Text, number: int) -> tuple[str, str | None, str]:
    """A text, its second segment and its id; raises DataError, naming `number`, for a word that cannot be used."""
    if isinstance(text, Example):
        return text.text, text.pair_text, text.id
    segments: Sequence[Any] = text if isinstance(text, tuple) else (text, None)
    if len(segments) != 2:
        raise DataError(
            f"text {number}: got a tuple of {len(segments)}; expected a text, a pair of texts or an Example"
        )
    first, second = segments
    for segment in (first,) if second is None else (first, second):
        if not isinstance(segment, str):
            raise DataError(f"text {number}: got {kind_of(segment)}; expected a text, a pair of texts or an Example")
        try:
            check_text(segment, "text")
        except DataError as error:
            raise DataError(f"text {number}: {error}") from error
    return first, second, ""
