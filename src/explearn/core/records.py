"""The three records that pass between stages: examples, rationales and attributions.

All three are about words: a rationale marks words and an attribution scores them. An example with a second segment
(`pair`) is scored over `words + pair`, in that order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from explearn.core.display import TopWord, block, in_notebook, line, terminal, top_words, write_page
from explearn.core.errors import DataError

if TYPE_CHECKING:
    from rich.text import Text

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

RationaleKind = Literal["human", "llm", "author"]
RATIONALE_KINDS: tuple[RationaleKind, ...] = get_args(RationaleKind)

Binarisation = Literal["threshold", "positive_rate", "top_k"]
"""How a method chooses words by its own rule: a threshold on the score, a chance of being chosen equal to the training
rationales' positive rate, or the top K."""

Aggregation = Literal["max", "sum"]

ANSWER_LABELS = ("answer", "another span")
"""The two classes of a question with its passage: its answer, and any other span. Every example is of the first."""

ANSWER_WORDS = 15
"""Longest span that counts as an answer, in words."""

MAX_WORD_CHARS = 1000
"""Longest word accepted, in characters. Longer runs without a space are damaged input (a base64 blob, a missing
separator); every tokenizer would turn them into one unknown token or hundreds of pieces."""


def is_unicode(text: str) -> bool:
    """Whether `text` is free of lone surrogates (halves of UTF-16 pairs, stray bytes), which no file format takes."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def check_words(words: tuple[str, ...], field: str = "words") -> None:
    """Raise DataError unless `words` is a non-empty tuple of usable words (no white space inside, none too long)."""
    if not words:
        raise DataError(f"field {field!r} is empty; expected at least one word")
    for position, word in enumerate(words):
        if not isinstance(word, str) or not word:
            raise DataError(f"field {field!r}, word {position}: got {word!r}; expected a non-empty string")
        if len(word) > MAX_WORD_CHARS:
            raise DataError(
                f"field {field!r}, word {position} has {len(word):,} characters; expected at most {MAX_WORD_CHARS:,}"
            )
        if len(word.split()) != 1 or word != word.strip():
            raise DataError(f"field {field!r}, word {position}: got {word!r}; expected a word without white space")
        if not is_unicode(word):
            raise DataError(f"field {field!r}, word {position}: got {word!r}; expected valid Unicode")


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled text.

    `words` are its white-space separated words and `pair` those of the second segment (empty for single texts).
    `answer`, of a question with its passage, is the [first, end) of `all_words`, within `pair`, that answer it.
    Raises DataError when words are missing or unusable, id or label is not valid Unicode, `split` is not one of SPLITS,
    or the answer is not within `pair`.
    """

    id: str
    words: tuple[str, ...]
    label: str
    split: Split
    task: str
    pair: tuple[str, ...] = ()
    answer: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise DataError("field 'id' is empty; expected a unique identifier")
        for field, value in (("id", self.id), ("label", self.label)):
            if not is_unicode(value):
                raise DataError(f"field {field!r}: got {value!r}; expected valid Unicode")
        if self.split not in SPLITS:
            raise DataError(f"field 'split': got {self.split!r}; expected one of {', '.join(SPLITS)}")
        check_words(self.words)
        if self.pair:
            check_words(self.pair, "pair")
        if self.answer is not None:
            first, end = self.answer
            if not len(self.words) <= first < end <= len(self.all_words):
                raise DataError(
                    f"field 'answer': got {list(self.answer)}; expected [first, end) within the words of the second "
                    f"segment, {len(self.words)} to {len(self.all_words)}"
                )

    @property
    def all_words(self) -> tuple[str, ...]:
        """Words of both segments, the order in which masks and scores are given."""
        return self.words + self.pair

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def pair_text(self) -> str | None:
        return " ".join(self.pair) if self.pair else None


@dataclass(frozen=True, slots=True)
class Rationale:
    """One annotator's marks on one example: `mask[i]` is True where word i of `Example.all_words` is evidence."""

    example_id: str
    annotator: str
    kind: RationaleKind
    mask: tuple[bool, ...]

    def __post_init__(self) -> None:
        if self.kind not in RATIONALE_KINDS:
            raise DataError(f"field 'kind': got {self.kind!r}; expected one of {', '.join(RATIONALE_KINDS)}")
        if not self.annotator:
            raise DataError("field 'annotator' is empty; expected a name")
        if not is_unicode(self.annotator):
            raise DataError(f"field 'annotator': got {self.annotator!r}; expected valid Unicode")


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """Word scores of one text for one target class; larger means more evidence for the target.

    Attributes:
        words: words of the text (of both segments for a pair).
        scores: float32, shape (len(words),). A word none of whose sub-tokens survived tokenisation and truncation
            has the lowest score of the text and is counted in `unaligned`.
        tokens: sub-tokens, without special tokens and padding.
        token_scores: float32, shape (len(tokens),), before aggregation to words.
        target: name of the explained class.
        method: registry name of the method.
        probability: probability of `target` under the classifier.
        predicted: name of the class the classifier gives.
        aggregation: how sub-token scores became word scores.
        signed: whether scores below zero mean evidence against the target.
        unaligned: number of words without a sub-token, or that a model of the method's own does not read.
        seconds: time spent on this text (its share of the batch), classification included.
        completeness_error: for methods whose scores should add up to a known number (special tokens included), by how
            much they miss it; None for others.
        example_id: id of the example, empty for free text.
        spans: of each word, its [start, end) in the characters of its segment as it was given; empty where unknown.
        pair_start: index in `words` of the second segment's first word; None where there is one segment.

    It shows itself in notebooks, and in colour through rich (`rich.print`, `Attribution.print`).
    """

    words: tuple[str, ...]
    scores: NDArray[np.float32]
    tokens: tuple[str, ...]
    token_scores: NDArray[np.float32]
    target: str
    method: str
    probability: float
    predicted: str
    aggregation: Aggregation
    signed: bool
    unaligned: int = 0
    seconds: float = 0.0
    completeness_error: float | None = None
    example_id: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    pair_start: int | None = None

    def to_record(self) -> dict[str, object]:
        """Plain Python values, for JSON."""
        return {
            "id": self.example_id,
            "method": self.method,
            "target": self.target,
            "predicted": self.predicted,
            "probability": self.probability,
            "words": list(self.words),
            "scores": [float(s) for s in self.scores],
            "tokens": list(self.tokens),
            "token_scores": [float(s) for s in self.token_scores],
            "aggregation": self.aggregation,
            "signed": self.signed,
            "unaligned": self.unaligned,
            "seconds": self.seconds,
            "completeness_error": self.completeness_error,
            "spans": [list(span) for span in self.spans],
            "pair_start": self.pair_start,
        }

    def to_dict(self) -> dict[str, object]:
        """`to_record` with None for every score that is no number, so that all JSON readers take it."""

        def known(scores: NDArray[np.float32]) -> list[float | None]:
            return [None if np.isnan(score) else score for score in scores.tolist()]

        return {**self.to_record(), "scores": known(self.scores), "token_scores": known(self.token_scores)}

    def top_words(self, count: int = 10, against: bool = False) -> list[TopWord]:
        """The `count` highest-scoring words, highest first; with `against`, those that score below zero, lowest first.

        Each is a (word, score, position, span). Words that were not read have no place among them.
        """
        return top_words(self, count, against)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """HTML for a page of one's own, or with `path` a page that is written there (whole or not at all).

        Returns the HTML or the path. Raises DataError where the page cannot be written.
        """
        return in_notebook(block(self)) if path is None else write_page(path, block(self))

    def print(self) -> None:
        """Print the text in colour; `print(attribution)` is one plain line."""
        from rich.console import Console

        Console().print(self)

    def _repr_html_(self) -> str:
        return in_notebook(block(self))

    def __rich__(self) -> Text:
        return terminal(self)

    def __str__(self) -> str:
        return line(self)
