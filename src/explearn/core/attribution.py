"""Attributions: word scores of one text for one class, which display themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.core.arguments import check_listed
from explearn.core.attribution_fields import MOST_INTERACTING, Aggregation, AttributionFields, Interaction, filled
from explearn.core.documents import PathLike
from explearn.core.errors import DataError, kind_of

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "MOST_INTERACTING",
    "Aggregation",
    "Attribution",
    "Interaction",
    "each_attribution",
    "filled",
    "text_numbers",
]


class Attribution(AttributionFields):
    """Word scores of one text for one target class; larger means more evidence for the target.

    It displays itself in notebooks, and in colour through rich (`rich.print`, `Attribution.print`).

    Attributes:
        example_id: id of the example, empty for free text; `id` in JSON and tables.
        method: registry name of the method.
        target: name of the explained class.
        predicted: name of the predicted class; for a multi-label classifier the target if it applies, else the most
            probable label.
        probability: probability of `target` under the classifier, averaged over windows; NaN for a regression.
        value: output of a regression for the text; None for a classifier.
        words: words of the text (of both segments for a pair), or other units that are scored (`unit`).
        scores: float32, shape (len(words),). NaN: the word has no score, because the classifier did not read it (it is
            beyond the classifier's maximum length, or has no sub-token); see `read` and `filled`. The words of a
            question's answer have no score either.
        tokens: sub-tokens, without special tokens and padding.
        token_scores: float32, shape (len(tokens),), before aggregation to words.
        aggregation: how sub-token scores became word scores: max or sum.
        signed: whether scores below zero mean evidence against the target.
        unaligned: number of words without a sub-token, or not read by the method's own model.
        seconds: time spent on this text (its share of the batch), including classification.
        completeness_error: for methods whose scores should add up to a known number (including special tokens), by how
            much they miss it; None for others.
        windows: number of windows through which the text was read.
        spans: each word's [start, end) in the characters of its segment; empty if unknown.
        gaps: the characters before each word and behind the last, of each segment; empty if a blank separates words
            and nothing else is there.
        pair_start: index in `words` of the second segment's first word; None if there is one segment.
        certificate: how far the scores can be relied on; None for methods that do not say.
        unit: what `words` are: word, token, phrase, sentence, or span (of a pattern or function).
        focus: [first, end) of the `words` that the answer is about: the classified word, or the answer to a question;
            None if it is about the whole text.
        interactions: interactions of pairs of words (`explearn.interactions`); empty if not computed.
        output: the output of the target that scores are parts of: probability, log_probability or logit (for a
            regression its value); empty: none, only their shares of the text's scores mean something.
        classes: the three most probable classes, of three or more of which a text has one; else empty.
        without_words: probability of `target` for a text without any word; NaN if the classifier was not asked.

    Example:
        >>> from explearn import Attribution
        >>> attribution = Attribution.from_dict(
        ...     {"words": ["not", "good"], "scores": [-0.5, 1], "target": "positive", "method": "mine"}
        ... )
        >>> attribution
        Attribution(method='mine', target='positive', words=2)
        >>> attribution.top_words(1)[0].word
        'good'
    """

    __slots__ = ()

    def to_html(self, path: PathLike | None = None) -> str | Path:
        """Return HTML to embed in a page, or write a page and return its path.

        Args:
            path: the page to write, whole or not at all. None: return HTML.

        Raises:
            ParamsError: the page would replace something else.
            DataError: the page cannot be written.
        """
        from explearn.show import display

        return display.embed_or_write(display.rows([self]), path)

    def print(self) -> None:
        """Print the text in colour; `print(attribution)` is one plain line."""
        from rich.console import Console

        Console().print(self)

    _repr_html_ = to_html

    def __rich__(self) -> Text:
        from explearn.show import display

        return display.terminal([self])

    def __str__(self) -> str:
        from explearn.show import display

        return display.line(self)


def each_attribution(attributions: Iterable[Attribution]) -> Iterator[Attribution]:
    """Yield the attributions.

    Raises:
        DataError: an entry is something else.
        ParamsError: `attributions` is not a list.
    """
    check_listed("attributions", attributions)
    for number, attribution in enumerate(attributions, start=1):
        if not isinstance(attribution, Attribution):
            raise DataError(f"attribution {number}: got {kind_of(attribution)}; expected an explearn.Attribution")
        yield attribution


def text_numbers(attributions: Sequence[Attribution]) -> list[int]:
    """Return the number of each attribution's text, from 0, in the order in which the texts first appear.

    A text that is repeated for the same method and class counts as two texts.
    """
    texts: dict[object, int] = {}
    seen: Counter[object] = Counter()
    numbers = []
    for attribution in attributions:
        explained = (attribution.text_key, attribution.method, attribution.target)
        numbers.append(texts.setdefault((attribution.text_key, seen[explained]), len(texts)))
        seen[explained] += 1
    return numbers
