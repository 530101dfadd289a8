"""Attributions from the scores of sub-tokens, for many texts together.

A short text is classified in some two milliseconds. What is done text by text costs a share of that, so what can be
done once for all texts of a chunk is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from explearn.core.finite import check_logits
from explearn.core.records import Aggregation, Attribution
from explearn.methods.base.asking import answer_fields, answers
from explearn.methods.base.scores import TextScores
from explearn.model.encoding import Encoding
from explearn.model.windows import Windowed
from explearn.text.alignment import NO_WORD, aggregate_joined

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.model.classifier import Classifier


def attributions_of(
    classifier: Classifier,
    encodings: Sequence[Encoding],
    scored: Sequence[TextScores],
    method: str,
    aggregation: Aggregation,
    signed: bool,
) -> list[Attribution]:
    """The attribution of each text, read at once, in order; the last three arguments are the method's.

    Raises ModelError for a logit, ExplearnError for a score that is not finite.
    """
    if not encodings:
        return []
    logits = np.array([one.logits for one in scored], dtype=np.float64)
    check_logits(logits, classifier.name)
    targets = [classifier.labels[one.target] for one in scored]
    # The positions of all texts end to end, and each one's word, counted on from text to text.
    lengths = [len(encoding) for encoding in encodings]
    scores = np.concatenate([np.asarray(s.scores, np.float32)[:n] for s, n in zip(scored, lengths, strict=True)])
    special = np.fromiter(chain.from_iterable(e.special for e in encodings), np.bool_, len(scores))
    owners = np.fromiter(chain.from_iterable(e.word_ids for e in encodings), np.int64, len(scores))
    words = np.array([len(encoding.words) for encoding in encodings])
    ends = np.cumsum(words)
    owners = np.where(owners == NO_WORD, NO_WORD, owners + np.repeat(ends - words, lengths))
    word_scores = aggregate_joined(scores, owners, int(ends[-1]), aggregation)
    lost = np.bincount(np.repeat(np.arange(len(words)), words)[np.isnan(word_scores)], minlength=len(words)).tolist()
    # Copies, lest an attribution that is kept keeps those of all texts.
    of_words = [part.copy() for part in np.split(word_scores, ends[:-1])]
    own = np.array([len(encoding) - sum(encoding.special) for encoding in encodings])
    of_tokens = [part.copy() for part in np.split(scores[~special], np.cumsum(own)[:-1])]
    return [
        Attribution(
            words=encoding.words,
            scores=of_words[row],
            tokens=classifier.tokens(encoding),
            token_scores=of_tokens[row],
            target=targets[row],
            method=method,
            aggregation=aggregation,
            signed=signed,
            # The words of an answer have no score, and were not lost.
            unaligned=lost[row] + one.unread - (encoding.answer[1] - encoding.answer[0] if encoding.answer else 0),
            seconds=one.seconds,
            completeness_error=one.completeness_error,
            example_id=encoding.example_id,
            **answer,
            spans=encoding.spans,
            pair_start=encoding.pair_start,
        )
        for row, (encoding, one, answer) in enumerate(
            zip(encodings, scored, answers(classifier, logits, targets), strict=True)
        )
    ]


def joined_windows(text: Windowed, scored: Sequence[TextScores]) -> TextScores:
    """What a text was given, from what each of its windows was; logits and class are those of the first."""
    return replace(
        scored[0],
        scores=text.join([of_window.scores for of_window in scored]),
        seconds=sum(of_window.seconds for of_window in scored),
        completeness_error=None,
        unread=0,
    )


def with_windows(classifier: Classifier, found: Attribution, scored: Sequence[TextScores]) -> Attribution:
    """An attribution with the answer that all windows of its text give together."""
    logits = np.array([of_window.logits for of_window in scored], dtype=np.float64)
    check_logits(logits, classifier.name)
    return replace(found, windows=len(scored), **answer_fields(classifier, logits, found.target))
