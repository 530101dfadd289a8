"""Texts with words taken out, exchanged or put in, as the classifier would get them from a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explearn.core.words import Segment, gaps_of

Edits = Mapping[int, str | None]
"""Index of a word -> the word in its place; None: it is taken out."""

Rewritten = str | tuple[str, str]
"""A changed text, or pair of texts."""


def rewrite(
    segments: Sequence[Segment], edits: Edits, put: Mapping[int, Sequence[str]] | None = None
) -> Rewritten | None:
    """Return a text with some words changed; None if a segment would have no word.

    White space stays as it is; of that around a word taken out, the longer part.

    Args:
        segments: one, or two of a pair.
        edits: words taken out or exchanged, by index over the words of all segments.
        put: words put in, by the index of the word before which they come; the number of words: at the end.

    Example:
        >>> from explearn.core.words import Segment
        >>> rewrite([Segment.of("a very good  film")], {1: None, 2: "bad"}, {4: ["again"]})
        'a bad  film again'
    """
    put = put or {}
    count = sum(len(segment.spans) for segment in segments)
    texts = []
    index = 0
    for segment in segments:
        text = ""
        gap = ""
        for word, before in zip(segment.words, gaps_of(segment), strict=False):
            gap = max(gap, before, key=len)
            for new in put.get(index, ()):
                text += f" {new}"
                gap = gap or " "
            replacement = edits.get(index, word)
            if replacement is not None:
                text += gap + replacement
                gap = ""
            index += 1
        if index == count:
            text = " ".join([text, *put.get(count, ())])
        if not text.strip():
            return None
        texts.append(text.strip())
    if len(texts) == 1:
        return texts[0]
    return texts[0], texts[1]
