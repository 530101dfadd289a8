"""Word scores computed elsewhere, read from files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from explearn.core.attribution import Attribution
from explearn.core.documents import read_jsonl
from explearn.core.errors import DataError, ParamsError, located
from explearn.core.examples import Example
from explearn.methods.info import MethodInfo

PREFIX = "given_"
"""Prefix of these methods' names, so that none is taken for one of ours."""

Records = dict[str, list[tuple[str, Attribution]]]
"""Method -> its attributions, each with its file and row."""


def read_scores(paths: Iterable[Path]) -> tuple[Records, dict[str, MethodInfo]]:
    """Read files of JSON objects as `explearn explain --json` writes them.

    Only `words` and `scores` are needed. Without `id` the scores are those of all texts with these words, without
    `method` the file's name is the method, without `target` the predicted class is explained.

    Args:
        paths: the files.

    Returns:
        Records and a description by method.

    Raises:
        DataError: a record cannot be used; the message names file, row and field.
        ParamsError: two files hold scores of one method.
    """
    records: Records = defaultdict(list)
    files: dict[str, Path] = {}
    names: dict[str, str] = {}
    for path in paths:
        for number, row in read_jsonl(path):
            where = f"{path}, row {number}"
            # Words may be units of another kind, which contain white space.
            values = {"method": path.stem, "target": "", "signed": True, "unit": "span"}
            values |= {name: value for name, value in row.items() if value is not None}
            with located(f"{where}, "):
                record = Attribution.from_dict(values)
            method = record.method
            if files.setdefault(method, path) != path:
                raise ParamsError(f"{path}: scores of {method!r} are in {files[method]} too; expected them once")
            if method not in names:
                names[method] = _new_name(method, records)
            records[names[method]].append((where, record))
        if path not in files.values():
            raise DataError(f"{path}: no records; expected one for each text")
    infos = {}
    for method, name in names.items():
        summary = f"Word scores of {method} from {files[method].name}."
        infos[name] = MethodInfo(name=name, family="given", cost="not known", target="", summary=summary)
    return dict(records), infos


def _new_name(method: str, taken: Collection[str]) -> str:
    """Return a method's name in a comparison, with a number if another one would have the same."""
    first = PREFIX + (re.sub(r"[^a-z0-9_]+", "_", method.lower()).strip("_") or "method")
    name = first
    number = 1
    while name in taken:
        number += 1
        name = f"{first}_{number}"
    return name


def match_scores(
    method: str,
    records: Sequence[tuple[str, Attribution]],
    examples: Sequence[Example],
    predicted: Mapping[str, tuple[str, float]],
    read: Mapping[str, Collection[int]],
) -> list[Attribution]:
    """Return a file's attributions of some texts, in the order of the texts; records of other texts are ignored.

    Args:
        method: name of the method.
        records: the method's records, each with its file and row.
        examples: the texts.
        predicted: example id -> predicted class and its probability.
        read: example id -> indices of the words that the classifier reads.

    Raises:
        DataError: the words of a record are not its text's, its class is not the predicted one (which all methods here
            explain), a word that is read has no score, a text has different scores elsewhere, or none.
    """
    by_id = {example.id: example for example in examples}
    by_words: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in examples:
        by_words[example.all_words].append(example)
    matched: dict[str, tuple[str, Attribution]] = {}
    for where, record in records:
        named = by_id.get(record.example_id)
        if named is not None and named.all_words != record.words:
            raise DataError(
                f"{where}, field 'words': not those of text {named.id!r}; expected its {named.unit}s in order"
            )
        for example in by_words.get(record.words, []) if named is None else [named]:
            if example.id in matched:
                before, other = matched[example.id]
                if named is not None or not np.array_equal(other.scores, record.scores, equal_nan=True):
                    raise DataError(f"{where}: text {example.id!r} already has scores at {before}")
            label, _ = predicted[example.id]
            if record.target not in ("", label):
                raise DataError(
                    f"{where}, field 'target': got {record.target!r}; expected {label!r}, the predicted class"
                )
            for word in sorted(read[example.id]):
                if np.isnan(record.scores[word]):
                    raise DataError(
                        f"{where}, field 'scores', word {word} ({record.words[word]!r}): got null; expected a number, "
                        "because the classifier reads this word"
                    )
            matched[example.id] = where, record
    attributions = []
    for example in examples:
        if example.id not in matched:
            raise DataError(
                f"scores of {method.removeprefix(PREFIX)!r}: text {example.id!r} ({example.text[:60]!r}) has none; "
                f"expected a record with its {example.unit}s for every text that is compared"
            )
        _, record = matched[example.id]
        label, probability = predicted[example.id]
        attributions.append(
            replace(
                record,
                example_id=example.id,
                method=method,
                target=label,
                predicted=label,
                probability=probability,
                unaligned=int(np.isnan(record.scores).sum()),
                unit=example.unit,
            )
        )
    return attributions
