"""Word scores computed elsewhere, read from files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from explearn.core.attribution import Attribution
from explearn.core.documents import read_jsonl
from explearn.core.errors import DataError, ParamsError
from explearn.core.examples import Example
from explearn.core.validation import Shape, check
from explearn.methods.info import MethodInfo

PREFIX = "given_"
"""Prefix of these methods' names, so that none is taken for one of ours."""

LARGEST = 3.4e38
"""Largest float32, approximately."""

WordScore = Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST)]


class ScoreRecord(Shape):
    """One text of a file of scores.

    Attributes:
        words: the text's words, split at white space.
        scores: one per word; None for a word that was not read.
        id: the text's id (default: all texts with these words).
        method: default: the file's name.
        target: the explained class (default: the predicted one).
        signed: whether scores below 0 are evidence against the class.
    """

    words: Annotated[list[str], Field(min_length=1)]
    scores: list[WordScore | None]
    id: str | None = None
    method: str | None = None
    target: str | None = None
    signed: bool | None = None


Records = dict[str, list[tuple[str, ScoreRecord]]]
"""Method -> records, each with its place."""


def read_scores(paths: Iterable[Path]) -> tuple[Records, dict[str, MethodInfo]]:
    """Read files of JSON objects as `explearn explain --json` writes them.

    Returns records and a description by method.
    Raises DataError, naming file, row and field; ParamsError where two files hold scores of one method.
    """
    records: Records = defaultdict(list)
    files: dict[str, Path] = {}
    for path in paths:
        for number, row in read_jsonl(path):
            where = f"{path}, row {number}"
            record: ScoreRecord = check(ScoreRecord, row, before=f"{where}, ", after="; see docs/explearn/compare.md")
            if len(record.scores) != len(record.words):
                raise DataError(
                    f"{where}, field 'scores': got {len(record.scores)}; expected {len(record.words)}, one per word"
                )
            method = record.method or path.stem
            name = PREFIX + re.sub(r"[^a-z0-9_]+", "_", method.lower()).strip("_")
            if files.setdefault(name, path) != path:
                raise ParamsError(f"{path}: scores of {method!r} are in {files[name]} too; expected them once")
            records[name].append((where, record))
        if path not in files.values():
            raise DataError(f"{path}: no records; expected one for each text")
    infos = {
        name: MethodInfo(
            name=name, family="given", cost="not known", target="", summary=f"Word scores from {path.name}."
        )
        for name, path in files.items()
    }
    return dict(records), infos


def match_scores(
    method: str,
    records: Sequence[tuple[str, ScoreRecord]],
    examples: Sequence[Example],
    predicted: Mapping[str, tuple[str, float]],
    read: Mapping[str, Collection[int]],
) -> list[Attribution]:
    """Return a file's attributions of some texts, in the order of the texts; records of other texts are ignored.

    Args:
        records: one method's records, with their places. predicted: example id -> predicted class and its probability.
        read: example id -> indices of the words that the classifier reads.

    Raises DataError, naming the place, for a record whose words are not its text's, for a class that is not the
    predicted one (which all methods here explain), for a word that is read but has no score, for a text with different
    scores elsewhere, and for a text without a record.
    """
    by_id = {example.id: example for example in examples}
    by_words: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in examples:
        by_words[example.all_words].append(example)
    matched: dict[str, tuple[str, ScoreRecord]] = {}
    for where, record in records:
        words = tuple(record.words)
        named = by_id.get(record.id or "")
        if named is not None and named.all_words != words:
            raise DataError(
                f"{where}, field 'words': not those of text {named.id!r}; expected its {named.unit}s in order"
            )
        for example in [named] if named is not None else by_words.get(words, []):
            before, known = matched.get(example.id, ("", None))
            if known is not None and (named is not None or known.scores != record.scores):
                raise DataError(f"{where}: text {example.id!r} already has scores at {before}")
            label = predicted[example.id][0]
            if record.target not in (None, label):
                raise DataError(
                    f"{where}, field 'target': got {record.target!r}; expected {label!r}, the predicted class"
                )
            for word in sorted(read[example.id]):
                if record.scores[word] is None:
                    raise DataError(
                        f"{where}, field 'scores', word {word} ({words[word]!r}): got null; expected a number, because "
                        "the classifier reads this word"
                    )
            matched[example.id] = where, record
    attributions = []
    for example in examples:
        if example.id not in matched:
            raise DataError(
                f"scores of {method.removeprefix(PREFIX)!r}: text {example.id!r} ({example.text[:60]!r}) has none; "
                f"expected a record with its {example.unit}s for every text that is compared"
            )
        (_, record), (label, probability) = matched[example.id], predicted[example.id]
        facts = {"id": example.id, "method": method, "target": label, "probability": probability, "unit": example.unit}
        scores = {"words": record.words, "scores": record.scores, "signed": record.signed is not False}
        attributions.append(Attribution.from_record({**facts, **scores}))
    return attributions
