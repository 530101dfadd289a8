"""Labelled texts and marked words: what methods learn from and are judged on.

Both are about words: a rationale marks words. An example with a second segment (`pair`) has the words `words + pair`,
in that order.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from explearn.core.errors import DataError, shown
from explearn.core.escape import is_unicode
from explearn.core.validation import Name, UnicodeText, check_fields
from explearn.core.words import Segment, Span, joined_words, segments_of

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

RationaleKind = Literal["human", "llm", "unknown"]
"""Who marked words: a person, a language model, or nobody knows."""

MAX_TEXT_CHARS = 1_000_000
"""Longest text accepted, in characters, counting one space between words: a long novel. A longer one is a whole file
mistaken for one text (lines lost, a wrong column), of which a classifier reads a few hundred words."""


def label_problem(labels: Sequence[str]) -> str | None:
    """Return what is wrong with the names of classes: one is empty, not valid Unicode, or looks like another.

    Names that differ only in how Unicode composes a letter (e with an accent, as one character or two) look the same,
    and which of them a file has is chance.
    """
    seen: dict[str, str] = {}
    for label in labels:
        if not label.strip():
            return f"got the label {label!r}; expected a name"
        if not is_unicode(label):
            return f"got the label {label!r}; expected valid Unicode"
        composed = unicodedata.normalize("NFC", label)
        other = seen.get(composed)
        if other == label:
            return f"got the label {label!r} twice; expected each once"
        if other is not None:
            return f"got the labels {other!a} and {label!a}, which read the same; expected one of them"
        seen[composed] = label
    return None


def check_words(words: Sequence[str], field: str = "words", spaced: bool = False) -> None:
    """Check the words of a text, and that they have at most MAX_TEXT_CHARS characters.

    Args:
        words: the words.
        field: name of the field in messages.
        spaced: whether they are other units, which may contain white space.

    Raises:
        DataError: there is no word, one is empty, has white space inside or is not valid Unicode, or the text is too
            long.
    """
    if not words:
        raise DataError(f"field {field!r} is empty; expected at least one word")
    total = len(words) - 1
    for position, word in enumerate(words):
        usable = isinstance(word, str) and bool(word.strip())
        if not usable or (not spaced and word.split() != [word]):
            raise DataError(f"field {field!r}, word {position}: got {shown(word)}; expected a word without white space")
        if not is_unicode(word):
            raise DataError(f"field {field!r}, word {position}: got {word!r}; expected valid Unicode")
        total += len(word)
    if total > MAX_TEXT_CHARS:
        raise DataError(f"field {field!r} has {total:,} characters; expected at most {MAX_TEXT_CHARS:,}")


def check_text(text: str, field: str) -> None:
    """Raise DataError as `check_words` does for the words of a text."""
    words: Sequence[str] = text.split()
    if is_unicode(text):
        words = Segment.of(text).words
    check_words(words, field)


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled text.

    Attributes:
        id: its id, unique among the examples of a task.
        words: its words.
        label: the right class.
        split: train, validation or test.
        task: name of the task.
        pair: words of the second segment; empty for single texts.
        focus: [first, end) of the words, of `all_words` and within the last segment, that the label is about: the
            classified word, or the answer to a question about a passage. None: it is about the whole text.
        gaps: the characters before each word and behind the last, of each segment; empty if a blank separates words
            and nothing else is there.
        unit: what `words` and `pair` hold, as in an `Attribution`.

    Raises:
        DataError: words are missing or unusable, id or label is not valid Unicode, `split` is another name, the focus
            is not within the last segment, or gaps are not one more than the words of each segment.

    Example:
        >>> import explearn
        >>> explearn.Example("r-1", ("not", "good"), "negative", "test", "reviews").text
        'not good'
    """

    id: Name
    words: tuple[str, ...]
    label: UnicodeText
    split: Split
    task: str
    pair: tuple[str, ...] = ()
    focus: tuple[int, int] | None = None
    gaps: tuple[UnicodeText, ...] = ()
    unit: str = "word"

    def __post_init__(self) -> None:
        check_fields(self)
        spaced = self.unit != "word"
        check_words(self.words, spaced=spaced)
        if self.pair:
            check_words(self.pair, "pair", spaced)
        if self.focus is not None:
            first, end = self.focus
            least = 0
            if self.pair:
                least = len(self.words)
            if not least <= first < end <= len(self.all_words):
                raise DataError(
                    f"field 'focus': got {list(self.focus)}; expected [first, end) within the words of the last "
                    f"segment, {least} to {len(self.all_words)}"
                )
        expected = len(self.all_words) + 1 + bool(self.pair)
        if self.gaps and len(self.gaps) != expected:
            raise DataError(f"field 'gaps' has {len(self.gaps)} entries; expected {expected}")

    @property
    def all_words(self) -> tuple[str, ...]:
        """The words of both segments, in the order of masks and scores."""
        return self.words + self.pair

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The text with the spans of its words, and the second segment, if any."""
        pair_start = None
        if self.pair:
            pair_start = len(self.words)
        return segments_of(self.all_words, self.gaps, pair_start)

    @property
    def joined(self) -> tuple[int, ...]:
        """Indices in `all_words` of words that follow the previous word without white space."""
        spans: list[Span] = []
        for segment in self.segments:
            spans.extend(segment.spans)
        return joined_words(spans, len(self.words))

    @property
    def text(self) -> str:
        """The text of the first segment."""
        return self.segments[0].text

    @property
    def pair_text(self) -> str | None:
        """The text of the second segment; None if there is none."""
        if not self.pair:
            return None
        return self.segments[1].text


@dataclass(frozen=True, slots=True)
class Rationale:
    """One annotator's marks on one example.

    Attributes:
        example_id: id of the example.
        annotator: name of the annotator.
        kind: human, llm or unknown.
        mask: whether each word of `Example.all_words` is evidence.

    Example:
        >>> import explearn
        >>> sum(explearn.Rationale("r-1", "ana", "human", (True, True, False)).mask)
        2
    """

    example_id: str
    annotator: Name
    kind: RationaleKind
    mask: tuple[bool, ...]

    def __post_init__(self) -> None:
        check_fields(self)
