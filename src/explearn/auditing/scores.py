"""Scores that `explearn job` has computed for the texts of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa

from explearn.core.documents import read_json
from explearn.core.errors import DataError, ParamsError
from explearn.core.examples import Example
from explearn.core.file_facts import FileFacts
from explearn.core.parquet import open_parquet, read_group
from explearn.core.validation import Shape, check
from explearn.core.word_tables import WORD_SCHEMA
from explearn.predictors.predictor import Predictor

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


class _Job(Shape):
    """The fields of a job's manifest that an audit reads."""

    settings: _Settings
    parts: dict[str, _Part]


def read_job(
    folder: Path, classifier: Predictor, method: str | None, texts: Sequence[Example]
) -> tuple[str, JobScores, list[Path]]:
    """Read the scores of a finished job.

    Args:
        folder: the job's folder.
        classifier: the classifier.
        method: the method. None: the job's only one.
        texts: the texts, in the job's order.

    Returns:
        The method, its scores, and the files that were read, of which the first is the manifest.

    Raises:
        DataError: there is no finished job, a part has changed, or classifier or texts are others.
        ParamsError: the method is not one of the job's, or it has several and none is named.
    """
    manifest = folder / "_manifest.json"
    if not (folder / "_SUCCESS").is_file():
        raise DataError(f"{folder}: holds no finished job; expected the folder of one that explearn job has ended")
    job: _Job = check(_Job, read_json(manifest), before=f"{manifest}, ")
    if job.settings.classifier != classifier.fingerprint or job.settings.labels != list(classifier.labels):
        raise DataError(f"{folder}: is a job of another classifier, or of classes with other names")
    names = [made.name for made in job.settings.methods]
    if method is None and len(names) == 1:
        method = names[0]
    if method not in names:
        raise ParamsError(f"method: got {method}; expected one of those in {folder}: {', '.join(names)}")
    scores: JobScores = {}
    files = [manifest]
    for part in job.parts.values():
        path = folder / part.file
        if not part.match(path):
            raise DataError(f"{path}: has changed since the job wrote it; run the job again")
        files.append(path)
        _read_part(path, method, texts, scores)
    return method, scores, files


def _read_part(path: Path, method: str, texts: Sequence[Example], scores: JobScores) -> None:
    """Add the scores of a part, whose row groups hold whole texts."""
    with open_parquet(path, COLUMNS) as file:
        for group in range(file.num_row_groups):
            table = read_group(file, group, COLUMNS, path)
            rows = zip(*(table[name].to_pylist() for name in COLUMNS.names), strict=True)
            for (number, target, name), words in groupby(rows, key=itemgetter(0, 1, 2)):
                if name != method:
                    continue
                *_, read, of_words = zip(*words, strict=True)
                if number >= len(texts) or texts[number].all_words != read:
                    raise DataError(
                        f"{path}: text {number + 1} has other words than here; expected a job on these texts"
                    )
                scores[number, target] = list(of_words)
