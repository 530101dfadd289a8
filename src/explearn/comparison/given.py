"""Word scores that somebody else computed, beside those of our methods."""

from __future__ import annotations

import math
import re
from abc import ABCMeta
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.core.finite import is_score
from explearn.core.records import Attribution, Example
from explearn.core.storage import read_jsonl
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.methods.info import About
from explearn.methods.registry import register

if TYPE_CHECKING:
    from explearn.model.classifier import Classifier
    from explearn.model.encoding import Encoding

PREFIX = "given_"
"""How the names of such methods begin, so that none is taken for one of ours."""


class GivenScores(Explainer):
    """Word scores from a file. What made them is not known here."""

    def score_texts(
        self, classifier: Classifier, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        """Always raises UnsupportedError: the scores are those of the file and cannot be made again."""
        raise UnsupportedError("its scores are from a file; what made them is not here to explain anything else")


def read_scores(path: str | Path) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Method -> (place, record) for each line of a file of JSON objects, as `explearn explain --json` writes them.

    A record has `words`, `scores` (a number for each word, or null for a word that was not read) and, if need be, `id`,
    `method` (default: the file's name), `target` (default: the predicted class) and `signed` (default: true).

    Raises DataError, naming file, row and field.
    """
    path = Path(path)
    found: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for number, record in read_jsonl(path):
        where = f"{path}, row {number}"
        words, scores = record.get("words"), record.get("scores")
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise DataError(f"{where}, field 'words': got {_shown(words)}; expected a list of words")
        if not isinstance(scores, list) or len(scores) != len(words):
            got = f"{len(scores)} scores" if isinstance(scores, list) else _shown(scores)
            raise DataError(f"{where}, field 'scores': got {got}; expected a list of {len(words)}, one for each word")
        for place, score in enumerate(scores):
            if score is not None and not is_score(score):
                raise DataError(
                    f"{where}, field 'scores', word {place}: got {_shown(score)}; expected a finite number (float32)"
                )
        if all(score is None for score in scores):
            raise DataError(f"{where}, field 'scores': got no number; expected one for a word at least")
        for name, kind in (("id", str), ("method", str), ("target", str), ("signed", bool)):
            if record.get(name) is not None and not isinstance(record[name], kind):
                raise DataError(f"{where}, field {name!r}: got {_shown(record[name])}; expected a {kind.__name__}")
        found[_name(record.get("method") or path.stem, where)].append((where, record))
    if not found:
        raise DataError(f"{path}: no record; expected one for each text")
    return dict(found)


def register_given(names: Mapping[str, Path]) -> None:
    """Make methods known by name, in this process: name -> the file that their scores are from."""
    for name, path in names.items():
        about = About(name=name, family="given", cost="not known")
        known = {"about": about, "__doc__": f"Word scores from {path.name}."}
        register(ABCMeta(name, (GivenScores,), known))


def match_scores(
    method: str,
    records: Sequence[tuple[str, Mapping[str, Any]]],
    examples: Sequence[Example],
    predicted: Mapping[str, tuple[str, float]],
    labels: Sequence[str],
    read: Mapping[str, Collection[int]],
) -> list[Attribution]:
    """The attributions of some texts by a file, in the order of the texts; records of other texts are left.

    Args:
        records: of one method, with their places. predicted: example id -> the class given and its probability.
        labels: the classifier's classes. read: example id -> the words that the classifier reads, by number.

    Raises DataError, naming the place, for a record of other words than its text's, for a class that is not the
    predicted one (which all methods here explain), for a word that is read and has no score, for a text with other
    scores elsewhere, and for a text without a record.
    """
    by_id = {example.id: example for example in examples}
    by_words: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for example in examples:
        by_words[example.all_words].append(example.id)
    found: dict[str, Attribution] = {}
    places: dict[str, str] = {}
    taken: dict[str, list[float | None]] = {}
    for where, record in records:
        words = tuple(record["words"])
        named = by_id.get(record.get("id") or "")
        if named is not None and named.all_words != words:
            raise DataError(f"{where}, field 'words': not those of text {named.id!r}; expected its words in order")
        ids = [named.id] if named is not None else by_words.get(words, [])
        for example_id in ids:
            before = taken.get(example_id)
            if before is not None and (named is not None or before != record["scores"]):
                raise DataError(f"{where}: text {example_id!r} has scores at {places[example_id]} already")
            found[example_id] = _attribution(method, where, record, example_id, predicted[example_id], labels)
            places[example_id], taken[example_id] = where, record["scores"]
            hole = next((n for n in sorted(read[example_id]) if record["scores"][n] is None), None)
            if hole is not None:
                raise DataError(
                    f"{where}, field 'scores', word {hole} ({_shown(words[hole])}): got null; expected a number, for "
                    "the classifier reads it"
                )
    missing = next((example for example in examples if example.id not in found), None)
    if missing is not None:
        raise DataError(
            f"scores of {method.removeprefix(PREFIX)!r}: text {missing.id!r} ({_shown(missing.text)}) has none; "
            "expected a record with its words, split at white space, for every text that is compared"
        )
    return [found[example.id] for example in examples]


def _attribution(
    method: str,
    where: str,
    record: Mapping[str, Any],
    example_id: str,
    predicted: tuple[str, float],
    labels: Sequence[str],
) -> Attribution:
    label, probability = predicted
    target = record.get("target") or label
    if target != label:
        known = "" if target in labels else f", one of {', '.join(labels)}"
        raise DataError(f"{where}, field 'target': got {target!r}; expected {label!r}{known}, the predicted class")
    # NaN: a word that was not read.
    scores = [math.nan if score is None else score for score in record["scores"]]
    return Attribution(
        words=tuple(record["words"]),
        scores=np.array(scores, dtype=np.float32),
        tokens=(),
        token_scores=np.zeros(0, dtype=np.float32),
        target=label,
        method=method,
        probability=probability,
        predicted=label,
        aggregation="max",
        signed=record.get("signed", True),
        unaligned=sum(score is None for score in record["scores"]),
        example_id=example_id,
    )


def _name(method: str, where: str) -> str:
    name = PREFIX + re.sub(r"[^a-z0-9_]+", "_", method.lower()).strip("_")
    if name == PREFIX:
        raise ParamsError(f"{where}: method {method!r} has neither letters nor digits; expected a name with some")
    return name


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
