"""A task's examples and rationales, made from its source (embedded corpus, files, hub).

Reading (`explearn.text.rows`, `hub`), row mapping (`adapters`) and sampling (`splits`) are separate: rows of every kind
of source pass through the same adapter and the same sampling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from explearn.core.errors import DataError, ParamsError, located
from explearn.core.examples import SPLITS, Example, Rationale, Split, label_problem
from explearn.text.equal import split_texts, text_hash
from explearn.text.mapping import MappedRow, one_of
from explearn.text.rows import RawRow, read_file
from explearn_study.sections import SourceParams
from explearn_study.sources.adapters import get_adapter
from explearn_study.sources.annotated import Adapter, Dropped
from explearn_study.sources.hub import find_file, folder_configs, hub_folder, read_hub, split_files
from explearn_study.sources.splits import carve, subsample


@dataclass(frozen=True)
class SourceDataset:
    """The data of a task, taken from its source by splitting and subsampling.

    Attributes:
        examples: train, validation, test; within a split in the source's order.
        rationales: the source's rationales for these examples, in the same order.
        labels: the task's labels in their order.
        dropped: reason -> number of rows (or of evidences in them) that could not be used.
        source_ids: ids of all usable texts of the source, also of those left out by subsampling or as equal to others.
    """

    examples: list[Example]
    rationales: list[Rationale]
    labels: list[str]
    dropped: dict[str, int]
    source_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Text:
    """A mapped row that becomes an example."""

    row: RawRow
    mapped: MappedRow
    id: str
    split: Split


def load_task(task: str, source: SourceParams, data_dir: str | Path, seed: int) -> SourceDataset:
    """Read a task's source, map its rows, split and subsample.

    Args:
        task: name of the task; part of the ids made for rows without one.
        source: the source and how it is read.
        data_dir: folder to which `source.path` is relative.
        seed: seed of the sampling.

    Raises:
        DataError: a file or row that cannot be used, a repeated id, a label unknown to the task.
        ParamsError: parameters that do not fit the adapter.
        UnknownNameError: there is no such adapter or view.
    """
    adapter = get_adapter(task, source)
    dropped: Counter[str] = Counter()
    texts = _read(task, adapter, _open(task, source, adapter, data_dir), source, dropped)
    labels = _labels(task, adapter, texts)
    source_ids = frozenset(text.id for text in texts)
    texts = _apart(texts, dropped)
    if not any(text.split == "train" for text in texts):
        raise DataError(
            f"source of task {task!r}: no usable row in split 'train' ({dict(dropped)} dropped); expected at least one"
        )
    splits = _assign_splits(task, source, texts, seed)
    drawn: set[str] = set()
    for split in SPLITS:
        by_id = {text.id: text.mapped.label for text in texts if splits[text.id] == split}
        with located(f"source of task {task!r}, split {split!r}: "):
            drawn |= subsample(by_id, source.max_examples.get(split), seed)

    examples: list[Example] = []
    rationales: list[Rationale] = []
    for split in SPLITS:
        for text in texts:
            if splits[text.id] != split or text.id not in drawn:
                continue
            example, marked = text.mapped.example(text.row, text.id, split, task)
            examples.append(example)
            rationales += marked
    counts = {reason: count for reason, count in dropped.items() if count}
    return SourceDataset(examples, rationales, labels, counts, source_ids)


def _open(task: str, source: SourceParams, adapter: Adapter, data_dir: str | Path) -> Mapping[Split, Iterator[RawRow]]:
    """Return rows by split; files whose rows name their own split are returned as train."""
    if source.splits is not None and "train" not in source.splits and not adapter.splits_in_rows:
        raise ParamsError(f"sources.{task}.splits: got {', '.join(source.splits)}; expected train among them")
    if source.kind == "hub":
        return _open_hub(task, source, adapter, data_dir)
    path = find_file(data_dir, source.path or task)
    if path.is_file():
        if source.splits is not None and not adapter.splits_in_rows and set(source.splits) != {"train"}:
            raise ParamsError(
                f"sources.{task}.splits: got several splits; expected a folder as path, not the file {path}"
            )
        return {"train": read_file(path, adapter.columns)}
    wanted = adapter.file_splits
    if source.splits:
        wanted = {split: (stem,) for split, stem in source.splits.items()}
    files = split_files(path, wanted, source.splits is not None)
    return {split: read_file(file, adapter.columns) for split, file in files.items()}


def _open_hub(
    task: str, source: SourceParams, adapter: Adapter, data_dir: str | Path
) -> Mapping[Split, Iterator[RawRow]]:
    name = source.path
    config = source.config
    revision = source.revision
    splits: Mapping[Split, str] | None = source.splits
    own = adapter.hub
    if own is not None:
        name = name or own.name
        splits = splits or own.splits
    if name is None:
        raise ParamsError(f"sources.{task}.path: got null; expected the name of a data set on the hub")
    folder = hub_folder(data_dir, name)
    if folder is not None:
        # A copy of the whole repository has the adapter's configuration; a folder with only its files has none.
        if own and own.config and config is None and own.config in folder_configs(folder):
            config = own.config
        return read_hub(str(folder), config, None, splits, adapter.columns)
    if own is not None and name == own.name:
        config = config or own.config
        revision = revision or own.revision
    return read_hub(name, config, revision, splits, adapter.columns)


def _read(
    task: str,
    adapter: Adapter,
    parts: Mapping[Split, Iterator[RawRow]],
    source: SourceParams,
    dropped: Counter[str],
) -> list[_Text]:
    texts: list[_Text] = []
    seen: dict[str, RawRow] = {}
    names = source.splits or dict(zip(SPLITS, SPLITS, strict=True))
    by_name = {name: split for split, name in names.items()}
    for part, rows in parts.items():
        count = 0
        for row in rows:
            count += 1
            mapped = adapter.map_row(row)
            if isinstance(mapped, Dropped):
                dropped[mapped.reason] += 1
                continue
            dropped.update(mapped.lost or {})
            split = part if mapped.split is None else by_name.get(mapped.split)
            if split is None:  # a split in the file that the parameters do not name
                continue
            identifier = mapped.id
            if identifier is None:
                identifier = f"{task}-{row.stem}-{row.number}"
            if identifier in seen:
                raise row.error("id", identifier, f"unique ids, but {seen[identifier].where} has the same")
            # The raw values are dropped to save memory: the mapped row holds all that is still needed.
            seen[identifier] = replace(row, values={})
            texts.append(_Text(seen[identifier], mapped, identifier, split))
        if not count:
            raise DataError(f"source of task {task!r}, split {part!r}: no rows; expected at least one")
    if not texts:
        raise DataError(f"source of task {task!r}: no usable row ({dict(dropped)} dropped); expected at least one")
    return texts


def _labels(task: str, adapter: Adapter, texts: list[_Text]) -> list[str]:
    labels = list(adapter.labels or sorted({text.mapped.label for text in texts if text.split == "train"}))
    if len(labels) < 2:
        raise DataError(f"source of task {task!r}: got {len(labels)} label(s); expected two or more")
    problem = label_problem(labels)
    if problem is not None:
        raise DataError(f"source of task {task!r}: {problem}")
    if adapter.labels is not None:
        return labels
    for text in texts:
        if text.mapped.label not in labels:
            raise text.row.error("label", text.mapped.label, f"{one_of(text.mapped.label, labels)}, as train has")
    return labels


def _apart(texts: list[_Text], dropped: Counter[str]) -> list[_Text]:
    """Leave out the texts of train that are equal to one of validation or test, and those of validation, of test."""
    split_of: dict[str, Split] = {}
    kept = []
    for text in sorted(texts, key=lambda text: SPLITS.index(text.split), reverse=True):
        later = split_of.setdefault(text_hash(text.mapped), text.split)
        if later == text.split:
            kept.append(text.id)
        else:
            dropped[f"{text.split}: equal to a text of {later}"] += 1
    wanted = set(kept)
    return [text for text in texts if text.id in wanted]


def _assign_splits(task: str, source: SourceParams, texts: list[_Text], seed: int) -> dict[str, Split]:
    """Return id -> split, after carving the splits that the source lacks from `carve_from`."""
    splits = {text.id: text.split for text in texts}
    present = set(splits.values())
    fractions: dict[Split, float] = {"validation": source.carve_validation, "test": source.carve_test}
    missing: dict[Split, float] = {split: fractions[split] for split in fractions if split not in present}
    if missing:
        whole = {text.id: text.mapped for text in texts if text.split == source.carve_from}

        def draw(different: Sequence[str]) -> dict[str, Split]:
            return carve({name: whole[name].label for name in different}, missing, seed, source.carve_from)

        with located(f"source of task {task!r}: "):
            splits.update(split_texts(whole, draw))
    return splits
