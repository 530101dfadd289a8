"""Readers of a task's rows from files, folders and data sets of the hub."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

from explearn.core.errors import DataError, first_line
from explearn.core.examples import SPLITS, Split
from explearn.core.extras import need
from explearn.text.rows import TABLES, RawRow


def find_file(data_dir: str | Path, name: str) -> Path:
    """Find the file or folder `name` under `data_dir`; the extension of a file may be left out.

    Raises:
        DataError: there is none, or several files differ only in their extension.
    """
    path = Path(data_dir) / name
    try:
        if path.exists():
            return path
        file = _with_endings(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if file is None:
        raise DataError(f"{path}: no such file or folder; expected a folder, or a file ending in {', '.join(TABLES)}")
    return file


def _with_endings(path: Path) -> Path | None:
    candidates = [path.with_name(path.name + ending) for ending in TABLES]
    files = [candidate for candidate in candidates if candidate.is_file()]
    if len(files) > 1:
        raise DataError(
            f"{path.parent}: got {', '.join(file.name for file in files)}; expected one file of the name {path.name}"
        )
    return files[0] if files else None


def split_files(folder: Path, wanted: Mapping[Split, tuple[str, ...]], strict: bool) -> dict[Split, Path]:
    """Return the files of a folder by our split.

    Args:
        folder: the folder.
        wanted: split -> stems to look for, in order of preference.
        strict: whether every split must have a file; otherwise only train must.

    Raises:
        DataError: a file is missing; names its stem and the folder's files.
    """
    files: dict[Split, Path] = {}
    for split, stems in wanted.items():
        chosen = next((file for stem in stems if (file := _with_endings(folder / stem))), None)
        if chosen is not None:
            files[split] = chosen
        elif strict or split == "train":
            present = sorted(p.name for p in folder.iterdir() if p.suffix in TABLES)
            raise DataError(
                f"{folder}: no file for split {split!r}; expected {' or '.join(stems)} ending in {', '.join(TABLES)}, "
                f"got {', '.join(present) or 'none'}"
            )
    return files


def hub_folder(data_dir: str | Path, name: str) -> Path | None:
    """Return the local folder of a hub name (under `data_dir`, or as given); None if there is none."""
    for path in (Path(data_dir) / name, Path(name)):
        if path.is_dir():
            return path
    return None


def folder_configs(folder: Path) -> list[str]:
    """Return the configurations of a folder in the hub's file layout.

    Raises:
        DataError: the folder has no data.
    """
    # It takes a second to import, and only this kind of source needs it.
    datasets = need("datasets", extra="pipeline", what=f"{folder}: a data set in the hub's layout")

    try:
        return list(datasets.get_dataset_config_names(str(folder)))
    except Exception as error:
        raise DataError(f"{folder}: cannot be read as a data set of the hub's layout ({_reason(error)})") from error


def read_hub(
    name: str,
    config: str | None,
    revision: str | None,
    splits: Mapping[Split, str] | None,
    columns: Collection[str] | None = None,
) -> dict[Split, Iterator[RawRow]]:
    """Return the rows of a data set on the hub, or in a local folder with the hub's file layout, by our split.

    Args:
        name: hub name, or a folder.
        config: configuration to load.
        revision: git revision on the hub.
        splits: our split -> split expression of the `datasets` library; None: the splits that have our names.
        columns: columns that will be used; no other (images, say) is decoded. Default: all.

    Raises:
        DataError: the data set cannot be loaded (unknown, offline, needs its own code, damaged).
    """
    datasets = need("datasets", extra="pipeline", what=f"hub data set {name!r}")
    rows: dict[Split, Iterator[RawRow]] = {}
    try:
        if splits is None:
            loaded = datasets.load_dataset(name, config, revision=revision)
            for split in SPLITS:
                if split in loaded:
                    rows[split] = _hub_rows(name, split, loaded[split], columns)
        else:
            for split, expression in splits.items():
                part = datasets.load_dataset(name, config, split=expression, revision=revision)
                rows[split] = _hub_rows(name, expression, part, columns)
    except Exception as error:  # errors of the library, the hub client, pyarrow and the standard library
        configuration = f", configuration {config!r}" if config else ""
        raise DataError(
            f"hub data set {name!r}{configuration}: cannot be loaded ({_reason(error)}); check its name, its splits "
            "and the connection, or give a local copy as path"
        ) from error
    if "train" not in rows:
        raise DataError(f"hub data set {name!r}: got the splits {', '.join(loaded)}; expected train, or splits.train")
    return rows


def _reason(error: BaseException) -> str:
    return first_line(error.__cause__ or error).rstrip(".")


def _hub_rows(name: str, expression: str, part: Any, columns: Collection[str] | None) -> Iterator[RawRow]:
    names = dict(_class_names(part.features, ""))
    wanted = [column for column in part.column_names if columns is None or column in columns]
    unread = tuple(column for column in part.column_names if column not in wanted)
    rows: Iterable[dict[str, Any]] = part.select_columns(wanted)
    if not wanted:
        # Without any column there would be no rows, and no error that names one.
        rows = repeat({}, part.num_rows)
    number = 0
    try:
        for number, values in enumerate(rows, start=1):
            yield RawRow(f"{name}:{expression}", expression, number, values, names, unread)
    except Exception as error:  # any error of the library for values that it cannot decode
        raise DataError(f"{name}:{expression}, row {number + 1}: cannot be read ({_reason(error)})") from error


def _class_names(feature: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(feature, Mapping):
        for key, inner in feature.items():
            yield from _class_names(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(feature, list):
        yield from _class_names(feature[0], path)
    elif hasattr(feature, "feature"):
        yield from _class_names(feature.feature, path)
    elif hasattr(feature, "int2str"):
        yield path, tuple(feature.names)
