"""A large job: its texts, read one by one from a file of any length, a classifier with its methods, the parts, and the
manifest in its folder, with settings and finished parts.

The last digits of a text's scores depend on its batch. Batches are formed within a part, so they depend only on the
input and the settings: not on where a run was killed, or which machine explains a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field

from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, ParamsError, shown
from explearn.core.file_facts import FileFacts
from explearn.core.parquet import parquet_writer
from explearn.core.validation import PositiveInt, Shape, check
from explearn.core.word_tables import WORD_SCHEMA, WordRows
from explearn.core.writing import write_json
from explearn.text.encoding import TEXT, Text
from explearn.text.mapping import identifier
from explearn.text.rows import RawRow, read_file

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer
    from explearn.predictors.pretrained import NamedClassifier


class JobText(NamedTuple):
    """A text of the input.

    Attributes:
        id: value of the id column; empty if there is none.
        text: the text, or the two texts of a pair.
        where: file and row, for errors.
    """

    id: str
    text: Text
    where: str


@dataclass(frozen=True, slots=True)
class Input:
    """A file of texts: a .parquet, .csv or .jsonl table, or a .txt file with one text per line.

    Attributes:
        path: the file. It must be a regular one, because it is read more than once.
        text: column with the text.
        pair: column with its second segment, if any.
        id: column with an identifier, if any.
    """

    path: Path
    text: str = TEXT
    pair: str | None = None
    id: str | None = None

    def stamp(self) -> tuple[int, int]:
        """Return a stamp that changes when the file is written: its size and modification time."""
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def count(self) -> int:
        """Return the number of texts, at least one, checking every row.

        Raises:
            DataError: there is no text, or one cannot be explained; file, row and field are named.
        """
        number = 0
        for row in self._rows():
            number += 1
            row.text(self.text)
            if self.pair is not None:
                row.text(self.pair)
            if self.id is not None:
                identifier(row, *row.value(self.id))
        if not number:
            raise DataError(f"{self.path}: no text; expected at least one")
        return number

    def texts(self, start: int = 0) -> Iterator[JobText]:
        """Yield texts from index `start` on, after `count` has checked the file."""
        for row in islice(self._rows(), start, None):
            name = ""
            if self.id is not None:
                name = str(row.values[self.id])
            text = row.values[self.text]
            if self.pair is not None:
                text = text, row.values[self.pair]
            yield JobText(name, text, row.where)

    def _rows(self) -> Iterator[RawRow]:
        return read_file(self.path, [name for name in (self.text, self.pair, self.id) if name is not None])


WHAT = "a file of this job"
"""What the files in a job's folder are."""

TEXTS_PER_GROUP = 2048
"""Texts whose words are buffered before they are written as a row group."""

Explained = tuple[int, str, Sequence[Attribution]]
"""Number of a text in the input from 0, its id, and its attributions."""


def write_part(folder: Path, file: str, first: int, explained: Iterable[Explained]) -> Part:
    """Write a part's texts, from number `first` on; the file is put in place once it is complete.

    Row groups hold whole texts and depend only on the part's texts, so that equal parts are equal files.
    """
    texts = 0
    rows = 0
    remaining = iter(explained)
    with parquet_writer(folder / file, WORD_SCHEMA, what=WHAT) as writer:
        while group := list(islice(remaining, TEXTS_PER_GROUP)):
            words = WordRows()
            rows_of_group = []
            for number, name, attributions in group:
                for attribution in attributions:
                    rows_of_group += [row | {"text": number, "id": name} for row in words.rows(attribution)]
            table = pa.Table.from_pylist(rows_of_group, schema=WORD_SCHEMA)
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            texts += len(group)
            rows += table.num_rows
    return Part.of(folder / file, file=file, first=first, texts=texts, rows=rows)


@dataclass(frozen=True, slots=True)
class Job:
    """Texts to explain, how, and where the results go.

    Attributes:
        input: the texts.
        folder: where the parts go.
        part_texts: texts per part.
        classifier: the classifier, to be loaded.
        explainers: the methods. Empty: the default one for the classifier.
        targets: classes to explain for every text. Empty: the predicted one.
        windows: see `Explainer.explain`.
        unit: see `Explainer.explain`.
        compute: device and precision.
    """

    input: Input
    folder: Path
    part_texts: int
    classifier: NamedClassifier
    explainers: Sequence[Explainer]
    targets: Sequence[str]
    windows: int | None
    unit: str
    compute: ComputeOptions


class Worker:
    """A classifier and its methods, ready to explain any part of a job.

    Args:
        job: the job.
        stamp: the input's stamp (`Input.stamp`) when the job was checked.
        max_tokens: most sub-tokens per batch, from an earlier run of the job: with auto, a GPU's free memory decided
            it, and it must not change. None for a new job.

    Attributes:
        settings: settings that affect the results and need the loaded classifier, as JSON values.
    """

    def __init__(self, job: Job, stamp: tuple[int, int], max_tokens: int | None) -> None:
        from explearn.methods.base.targets import check_request
        from explearn.methods.finding import find_explainer
        from explearn.predictors.labelled import check_use

        self.job = job
        compute = job.compute
        if max_tokens is not None and compute.max_tokens == "auto":
            compute = replace(compute, max_tokens=max_tokens)
        self._classifier = job.classifier.load(compute)
        # Before anything is written.
        check_use(self._classifier, "jobs")
        self._explainers = job.explainers or [find_explainer(None, classifier=self._classifier)]
        for explainer in self._explainers:
            explainer.check_explains(self._classifier)
        check_request(self._classifier, job.targets, job.windows)
        self._stamp = stamp
        import torch

        device = self._classifier.device
        name = torch.backends.cpu.get_cpu_capability()
        if device.type == "cuda":
            name = torch.cuda.get_device_name(device)
        self.settings = {
            "classifier": self._classifier.fingerprint,
            "labels": self._classifier.labels,
            "methods": [{"name": made.name} for made in self._explainers],
            "options": {made.name: made.options.model_dump(exclude_defaults=True) for made in self._explainers},
            "weights": {made.name: made.settings().get("weights") for made in self._explainers},
            "device": f"{device.type} {name}",
            "max_tokens": self._classifier.max_tokens,
        }

    def parts(self, numbers: Sequence[int], texts: int, advance: Callable[[int], object]) -> Iterator[tuple[int, Part]]:
        """Explain and write consecutive parts; yield each with its number once its file is in place.

        Args:
            numbers: consecutive numbers.
            texts: number of texts in the input.
            advance: called with 1 after each text.

        Raises:
            DataError: the classifier cannot read a text, which is named by file and row; or the input has changed
                meanwhile. Finished parts stay.
        """
        size = self.job.part_texts
        rows = self.job.input.texts(numbers[0] * size)
        for number in numbers:
            start = number * size
            count = min(size, texts - start)
            name = part_name(number, -(-texts // size))
            explained = self._explained(start, count, islice(rows, count), advance)
            part = write_part(self.job.folder, name, start, explained)
            if self.job.input.stamp() != self._stamp or part.texts != count:
                raise DataError(f"{self.job.input.path}: changed while it was read; parts before {name} stay")
            yield number, part

    def _explained(
        self, number: int, count: int, rows: Iterable[JobText], advance: Callable[[int], object]
    ) -> Iterator[Explained]:
        """Yield `count` texts, from `number` on, with their attributions, ordered by method, then by class."""
        # No iterator runs ahead of another by more than CHUNK_TEXTS.
        ids, *streams = tee(rows, 1 + len(self._explainers))
        columns = []
        for explainer, stream in zip(self._explainers, streams, strict=True):
            targets: Iterator[list[str]] | None = None
            if self.job.targets:
                targets = repeat(list(self.job.targets), count)
            read = (row.text for row in stream)
            columns.append(
                explainer.iter_explain(self._classifier, read, targets, windows=self.job.windows, unit=self.job.unit)
            )
        try:
            for row, *by_method in zip(ids, *columns, strict=True):
                yield number, row.id, list(chain.from_iterable(by_method))
                advance(1)
                number += 1
        except DataError as error:
            self._name_unreadable(number, error)
            raise

    def _name_unreadable(self, number: int, error: DataError) -> None:
        """Raise DataError with file and row of the first text that cannot be read, within CHUNK_TEXTS from `number`."""
        from explearn.methods.base.explainer import CHUNK_TEXTS
        from explearn.methods.base.targets import targeted_texts

        for row in islice(self.job.input.texts(number), CHUNK_TEXTS):
            try:
                list(targeted_texts(self._classifier, [row.text], [0], self.job.windows, 1, self.job.unit))
            except DataError as problem:
                reason = str(problem).removeprefix("text 1: ")
                raise DataError(f"{row.where}, field {self.job.input.text!r}: {reason}") from error


MANIFEST = "_manifest.json"
"""Readers of Parquet folders (pandas, Arrow, Spark) ignore names that begin with an underscore."""

SUCCESS = "_SUCCESS"
"""Empty file that marks a complete folder, as in Spark and Hadoop."""


class Part(FileFacts):
    """A finished part.

    Attributes:
        file: name of its file.
        first: index of its first text in the input.
        texts: number of texts.
        rows: rows of its table.
    """

    file: str
    first: int
    texts: int
    rows: int


class _UsedSettings(Shape):
    """Settings that a resumed run uses; the others are only compared."""

    threads: PositiveInt = 1
    max_tokens: PositiveInt = 1


class JobManifest(Shape):
    """Settings of a job, and its finished parts by number.

    Attributes:
        settings: everything that affects the results, as JSON values.
        texts: number of texts in the input.
    """

    format: Literal[1] = 1
    texts: int
    settings: dict[str, Any]
    parts: dict[Annotated[int, Field(strict=False)], Part] = Field(default_factory=dict)

    def write(self, folder: Path) -> None:
        parts = {str(number): part.model_dump() for number, part in sorted(self.parts.items())}
        write_json(folder / MANIFEST, {**self.model_dump(), "parts": parts}, WHAT)

    def check(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Check that the job has these settings.

        Raises:
            ParamsError: one differs, which is named.
        """
        for name, now in settings.items():
            before = self.settings.get(name)
            if before == now:
                continue
            verb = "differ" if name.endswith("s") else "differs"
            raise ParamsError(
                f"{folder}: holds a job whose {name.replace('_', ' ')} {verb} (then {shown(before)}, now {shown(now)});"
                " use the same to resume, or another folder"
            )


def read_manifest(folder: Path) -> JobManifest | None:
    """Return the manifest of a folder; None if the folder does not exist or is empty.

    Raises:
        ParamsError: the folder has other content.
        DataError: the manifest is damaged.
    """
    path = folder / MANIFEST
    if not path.exists():
        if folder.exists() and not folder.is_dir():
            raise ParamsError(f"{folder}: is a file; expected a folder for the parts, or nothing")
        # Hidden files are unfinished parts.
        names = sorted(file.name for file in folder.glob("[!.]*"))
        if names:
            raise ParamsError(f"{folder}: holds {names[0]!r} and no job; expected an empty folder, or one of a job")
        return None
    hint = "; the manifest is damaged: use another folder, or remove this one"
    manifest: JobManifest = check(JobManifest, read_json(path), DataError, f"{path}, ", hint)
    check(_UsedSettings, manifest.settings, DataError, f"{path}, settings, ", hint)
    return manifest


def part_name(number: int, parts: int) -> str:
    """Return the file of a part, given the number of parts; names sort like the parts."""
    return f"part-{number:0{max(5, len(str(parts - 1)))}d}.parquet"
