"""The texts of an audit: read, checked, and explained, here or by a job."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from explearn.core.arguments import check_listed
from explearn.core.arrays import Array
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, ParamsError, located
from explearn.core.examples import Example
from explearn.core.file_facts import FileFacts
from explearn.core.parquet import open_parquet, read_group
from explearn.core.seeds import hash_order
from explearn.core.validation import Shape, check
from explearn.core.word_tables import WORD_SCHEMA
from explearn.methods.base.explainer import Explainer
from explearn.predictors.batching import progress
from explearn.predictors.predictor import Predictor
from explearn.subject.subject import Subject
from explearn.subject.texts import TextColumns, UserTexts, given_texts
from explearn.text.equal import split_texts
from explearn.text.mapping import cell_text
from explearn.text.scored import ScoredText

FEWEST = 40
"""Fewest texts of an audit."""

MOST_SEARCHED = 10_000
"""Most texts that are searched for claims, and so explained."""

CHUNK_TEXTS = 500
"""Texts that are explained before their scores are kept."""

MOST_GROUPS = 50

_WHOLE = re.compile(r"-?\d+\.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Further settings of `explearn.audit` and `explearn.diff`.

    Attributes:
        patterns: regular expressions whose matches are looked at, too.
        columns: what the columns of a file or table hold.
        work: folder that keeps finished parts, so that a later call with the same arguments goes on with them.
        seed: seed of all draws.
        compute: where and how to compute.
        show_progress: show bars.

    Example:
        >>> import explearn
        >>> explearn.AuditOptions(patterns=["[0-9]+ dollars"]).seed
        13
    """

    patterns: Sequence[str] = ()
    columns: TextColumns | None = None
    work: str | Path | None = None
    seed: int = 13
    compute: ComputeOptions | None = None
    show_progress: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class AuditText(ScoredText):
    """A text with what the classifier answers, and how much each word counts for the answer.

    Attributes:
        probabilities: of the classes, (C,).
        right: whether the answer is the text's label; None without a label.
        unread: number of words of an explained text that the classifier did not read.
        group: its group; empty if it has none.
    """

    probabilities: Array
    right: bool | None
    unread: int
    group: str

    @property
    def predicted(self) -> int:
        """Index of the most probable class."""
        return int(self.probabilities.argmax())


def accuracy(texts: Sequence[AuditText]) -> float | None:
    """Return the share of right answers to texts with a label; None without labels."""
    known = [text.right for text in texts if text.right is not None]
    if not known:
        return None
    return float(np.mean(known))


def rates(texts: Sequence[AuditText], labels: Sequence[str]) -> dict[str, float]:
    """Return class -> share of the texts with this answer."""
    counts = Counter(text.predicted for text in texts)
    return {label: counts[i] / len(texts) for i, label in enumerate(labels)}


def audited_texts(
    texts: Any,
    labels: Sequence[str | int | None] | None,
    groups: str | Sequence[str | int | None] | None,
    columns: TextColumns | None,
) -> UserTexts:
    """Read the texts of an audit; see `explearn.audit` for arguments and errors."""
    column = groups if isinstance(groups, str) else None
    user_texts = given_texts(texts, labels, columns, column)
    count = len(user_texts.examples)
    if count < FEWEST:
        raise DataError(f"texts: got {count}; expected at least {FEWEST}, half to search and half to test")
    if column is not None:
        groups = user_texts.groups
    return replace(user_texts, groups=_groups(groups, count))


def _groups(groups: Sequence[object] | None, count: int) -> list[str]:
    """Return the group of each text; empty where it is missing."""
    if groups is None:
        return []
    check_listed("groups", groups)
    with located("groups: "):
        names = [cell_text(group) for group in groups]
    # pandas writes whole numbers of a column with gaps as 1990.0, in CSV as text.
    if all(_WHOLE.fullmatch(name) for name in names if name):
        names = [name.removesuffix(".0") for name in names]
    if len(names) != count:
        raise ParamsError(f"groups: got {len(names)} for {count} texts; expected one for each")
    sizes = Counter(filter(None, names))
    for name, size in sizes.items():
        if size == 1:
            raise DataError(f"groups: {name!r} has one text; expected at least 2 in each, so merge or leave it out")
    if not 2 <= len(sizes) <= MOST_GROUPS:
        raise DataError(f"groups: got {len(sizes)}; expected 2 to {MOST_GROUPS}")
    return names


def explain_texts(
    subject: Subject, labels: Sequence[str], explained: Collection[int], scores: JobScores | None, show_progress: bool
) -> list[AuditText]:
    """Return the texts with answers and scores, as `scored_texts` does.

    Raises:
        DataError: the classifier answers all texts alike.
    """
    read = scored_texts(subject, labels, explained, scores, show_progress)
    if len({text.predicted for text in read}) == 1:
        raise DataError(
            f"{subject.classifier.name}: answers {labels[read[0].predicted]!r} for all {len(read)} texts; expected "
            "texts with at least two answers"
        )
    return read


def scored_texts(
    subject: Subject, labels: Sequence[str], explained: Collection[int], scores: JobScores | None, show_progress: bool
) -> list[AuditText]:
    """Return the texts with answers, and scores of those that are wanted.

    Args:
        subject: the texts, the classifier, and its method.
        labels: the classes, in the order of the probabilities that are returned.
        explained: numbers of the texts whose scores are wanted.
        scores: a job's scores, in place of the method's; there may be none of an answer, nor of a text that the
            classifier does not answer without some words.
        show_progress: show a bar.
    """
    examples = subject.texts.examples
    order = [subject.classifier.labels.index(label) for label in labels]
    wanted = set(explained)
    read: list[AuditText] = []
    with progress("explain" if show_progress else None, len(examples)) as bar:
        for start in range(0, len(examples), CHUNK_TEXTS):
            numbers = range(start, min(start + CHUNK_TEXTS, len(examples)))
            name = f"{subject.classifier.fingerprint[:12]}-scores-{start}"
            part = partial(_answers_and_scores, subject, numbers, wanted, scores)
            answers, word_scores = subject.work.part(name, subject.origin.request, part)
            for i, row, of_words in zip(numbers, answers, word_scores, strict=True):
                shares = None
                if of_words is not None:
                    shares = np.nan_to_num(np.array(of_words, dtype=np.float64))  # None becomes NaN, NaN 0
                    shares /= np.abs(shares).sum() or 1.0
                text = AuditText(
                    example=examples[i],
                    shares=shares,
                    probabilities=np.array(row)[order],
                    right=None,
                    unread=(of_words or []).count(None),
                    group=subject.texts.groups[i] if subject.texts.groups else "",
                )
                if text.example.label:
                    text.right = text.example.label == labels[text.predicted]
                read.append(text)
            bar.update(len(numbers))
    return read


def _answers_and_scores(
    subject: Subject, numbers: Sequence[int], explained: Collection[int], job: JobScores | None
) -> tuple[list[list[float]], list[list[float | None] | None]]:
    """Return the probabilities of some texts; and their words' scores, None for texts that are not explained."""
    examples = subject.texts.examples
    answers = subject.classifier.predict_proba([examples[i] for i in numbers])
    chosen = [i for i in numbers if i in explained]
    targets = [subject.classifier.labels[answers[i - numbers[0]].argmax()] for i in chosen]
    scores = {}
    if job is not None:
        for i, target in zip(chosen, targets, strict=True):
            scores[i] = job.get((i, target))
    for explainer in subject.explainers.values():
        attributions = explainer.explain(subject.classifier, [examples[i] for i in chosen], targets)
        number_of = {examples[i].id: i for i in chosen}
        for attribution in attributions:
            scores[number_of[attribution.example_id]] = attribution.to_dict()["scores"]
    return answers.tolist(), [scores.get(i) for i in numbers]


def halves(texts: Sequence[Example], seed: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the texts that are searched and of those that are changed, in random order.

    Equal texts are in the same half.
    """
    by_id = {text.id: text for text in texts}

    def draw(different: Sequence[str]) -> dict[str, int]:
        by_words = {repr(by_id[name].all_words): name for name in different}
        return {by_words[words]: place for place, words in enumerate(hash_order(by_words, seed))}

    places = split_texts(by_id, draw)
    order = sorted(range(len(texts)), key=lambda i: places[texts[i].id])
    searched = [i for i in order if places[texts[i].id] % 2 == 0]
    held_out = [i for i in order if places[texts[i].id] % 2]
    return searched[:MOST_SEARCHED], held_out


# ---- the scores of a job ---------------------------------------------------------------------------------------------


COLUMNS = pa.schema([WORD_SCHEMA.field(name) for name in ("text", "target", "method", "word", "score")])

JobScores = dict[tuple[int, str], list[float | None]]
"""Number of a text from 0, class -> a score for each word; None for a word that was not read."""


class _Part(FileFacts):
    file: str


class _Method(Shape):
    name: str


class _Settings(Shape):
    classifier: str
    labels: list[str]
    methods: list[_Method]
    options: dict[str, dict[str, Any]]
    weights: dict[str, Any]
    windows: int | None
    unit: str


class _Manifest(Shape):
    """The fields of a job's manifest that are read here."""

    settings: _Settings
    parts: dict[str, _Part]


class FinishedJob:
    """A finished job, whose scores `explearn.audit` and `explearn.watch` read.

    Args:
        folder: the job's folder.
        method: the method. None: the job's only one.

    Attributes:
        method: the method.
        settings: how its texts were explained.
        files: its files, the manifest first.

    Raises:
        DataError: there is no finished job, or a part has changed.
        ParamsError: the method is not one of the job's, or it has several and none is named.
    """

    def __init__(self, folder: Path, method: str | Explainer | None) -> None:
        if isinstance(method, Explainer):
            raise ParamsError("method: got an explainer besides a job's scores; expected a name, or none")
        manifest = folder / "_manifest.json"
        if not (folder / "_SUCCESS").is_file():
            raise DataError(f"{folder}: holds no finished job; expected the folder of one that explearn job has ended")
        job: _Manifest = check(_Manifest, read_json(manifest), before=f"{manifest}, ")
        names = [made.name for made in job.settings.methods]
        if method is None and len(names) == 1:
            method = names[0]
        if method not in names:
            raise ParamsError(f"method: got {method}; expected one of those in {folder}: {', '.join(names)}")
        for part in job.parts.values():
            if not part.match(folder / part.file):
                raise DataError(f"{folder / part.file}: has changed since the job wrote it; run the job again")
        self.method = method
        self.files = [manifest, *(folder / part.file for part in job.parts.values())]
        self.settings = job.settings

    def scores(self, classifier: Predictor, texts: Sequence[Example]) -> JobScores:
        """Return its scores.

        Args:
            classifier: the classifier.
            texts: the texts, in the job's order.

        Raises:
            DataError: classifier or texts are others.
        """
        manifest, *parts = self.files
        same = self.settings.classifier == classifier.fingerprint and self.settings.labels == list(classifier.labels)
        if not same:
            raise DataError(f"{manifest.parent}: is a job of another classifier, or of classes with other names")
        scores: JobScores = {}
        for part in parts:
            _read_part(part, self.method, texts, scores)
        return scores

    def tables(self, columns: pa.Schema) -> Iterator[pa.Table]:
        """Yield the scores for the answers, by row groups, which hold whole texts.

        Args:
            columns: the columns; `method`, `target` and `predicted` are among them.
        """
        for part in self.files[1:]:
            with open_parquet(part, columns) as file:
                for group in range(file.num_row_groups):
                    table = read_group(file, group, columns, part)
                    answers = pc.equal(table["target"], table["predicted"])
                    yield table.filter(pc.and_(answers, pc.equal(table["method"], self.method)))


def _read_part(path: Path, method: str, texts: Sequence[Example], scores: JobScores) -> None:
    """Add the scores of a part, whose row groups hold whole texts."""
    with open_parquet(path, COLUMNS) as file:
        for group in range(file.num_row_groups):
            table = read_group(file, group, COLUMNS, path)
            rows = zip(*(table[name].to_pylist() for name in COLUMNS.names), strict=True)
            for (number, target, name), words in groupby(rows, key=itemgetter(0, 1, 2)):
                if name != method:
                    continue
                *_, read, word_scores = zip(*words, strict=True)
                if number >= len(texts) or texts[number].all_words != read:
                    raise DataError(
                        f"{path}: text {number + 1} has other words than here; expected a job on these texts"
                    )
                scores[number, target] = list(word_scores)
