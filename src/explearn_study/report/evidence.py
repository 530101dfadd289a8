"""What a run rests on, as hashes: models, data, code, results and versions. Anyone can check it later.

The manifest is a JSON document. `check_manifest` computes everything in it anew and names what differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from explearn.core.documents import is_folder, kind_of
from explearn.core.errors import DataError, ModelError
from explearn.core.shapes import read_document
from explearn.core.storage import read_json
from explearn.show.versions import versions
from explearn_study import shapes
from explearn_study.params import Params
from explearn_study.workspace import Workspace

VERSION = 1
"""Of the manifest's form."""

DATA = ("data/examples", "data/rationales")
RESULTS = ("data/attributions", "data/variants", "data/explainers", "reports/metrics", "reports/metrics.json")
"""Folders and files of a workspace that hold the texts, and what was found."""

CODE = Path(__file__).resolve().parents[1]
"""The package's own files."""

PARTS = ("data", "models", "results", "code")
"""Parts of a manifest that hold files: path -> SHA-256."""


class _Part(BaseModel):
    """A part of a manifest that is checked; keys that are only shown are let be."""

    model_config = ConfigDict(frozen=True, strict=True)


class _Model(_Part):
    name: str
    fingerprint: str


class _Manifest(_Part):
    root: str
    files: dict[str, dict[str, str]]
    versions: dict[str, str]
    classifiers: dict[str, _Model]

    @field_validator("files")
    @classmethod
    def _all_parts(cls, files: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        if set(files) != set(PARTS):
            raise PydanticCustomError("parts", "the parts {parts}", {"parts": ", ".join(PARTS)})
        return files


Fingerprint = Callable[[str], str]
"""Name or folder of a classifier -> hash of its weights and labels. Raises ModelError where it cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something asked of a run: what, how much, how much there was, and whether that is enough."""

    what: str
    wanted: str
    found: str
    met: bool


def make_manifest(
    workspace: Workspace, params: Params, page: str, models: Mapping[str, tuple[str, str]], root: str
) -> dict[str, Any]:
    """What a run rests on.

    Args:
        page: name of the entry under `evidence`.
        models: task -> its classifier's name, and its fingerprint. Where the name is that of a folder of the workspace,
            it counts from there.
        root: the workspace as seen from the folder that the manifest will be in.

    Raises DataError where a file of the run is missing.
    """
    base = workspace.root
    weights = [base / name for name, _ in models.values() if (base / name).is_dir()]
    return {
        "manifest": VERSION,
        "root": root,
        "profile": params.profile,
        "seed": params.seed,
        "parameters": params.model_dump(mode="json"),
        "requirements": [
            {"what": r.what, "wanted": r.wanted, "found": r.found, "met": r.met}
            for r in requirements(workspace, params, page)
        ],
        "classifiers": {task: {"name": name, "fingerprint": found} for task, (name, found) in models.items()},
        "files": {
            "data": hashes(base, [base / name for name in DATA]),
            "models": hashes(base, weights),
            "results": hashes(base, [base / name for name in RESULTS]),
            "code": hashes(CODE.parent, [CODE]),
        },
        "versions": dict(versions()),
    }


def requirements(workspace: Workspace, params: Params, page: str) -> list[Requirement]:
    """What the entry under `evidence` asks of the run, and what the run did."""
    wanted = params.evidence[page]
    judged: list[int] = []
    checked: set[str] = set()
    skipped: list[str] = []
    labels = True
    for task in params.tasks:
        figures = read_document(workspace.metrics("explanations", task), shapes.Explanations, "evaluate")
        judged.append(min((int(row["texts"]) for row in figures.values()), default=0))
        sanity = read_document(workspace.metrics("sanity", task), shapes.Sanity, "sanity")["methods"]
        checked |= {name for name, result in sanity.items() if not result["skipped"]}
        skipped += [f"{name} on {task}" for name, result in sanity.items() if result["skipped"]]
        labels = labels and any(result["random_labels"] for result in sanity.values())
    unchecked = [name for name in params.methods if name not in checked]
    sanity_params, texts = params.sanity, sum(judged)
    seeds, draws = sanity_params.seeds, sanity_params.noise_samples
    unclear = [*unchecked, *skipped]
    return [
        Requirement("texts on which every method is judged", str(wanted.texts), str(texts), texts >= wanted.texts),
        Requirement("seeds of the sanity checks", str(wanted.seeds), str(seeds), seeds >= wanted.seeds),
        Requirement("a classifier trained on permuted labels", "yes", "yes" if labels else "no", labels),
        Requirement(
            "weights drawn anew part by part", "yes", "yes" if sanity_params.cascade else "no", sanity_params.cascade
        ),
        Requirement("noise on the embeddings", "yes", f"{draws} draws", draws > 0),
        Requirement(
            "methods whose dependence on the model is checked",
            "all",
            f"not {', '.join(unclear)}" if unclear else "all",
            not unclear,
        ),
    ]


def check_manifest(path: Path, fingerprint: Fingerprint) -> list[str]:
    """What differs from a manifest, in the order of its parts; empty where nothing does.

    Args:
        fingerprint: loads a classifier and hashes it.

    Raises DataError for a file that is no manifest.
    """
    found = _read_manifest(path)
    root = path.parent / found.root
    differences = []
    for part in PARTS:
        base = CODE.parent if part == "code" else root
        differences += _file_differences(part, base, found.files[part], _folders(part, root, found))
    known = dict(versions())
    for name, version in found.versions.items():
        if known.get(name) != version:
            differences.append(f"version of {name}: {version} then, {known.get(name, 'not installed')} now")
    for task, model in found.classifiers.items():
        folder, what = root / model.name, f"classifier of {task} ({model.name})"
        try:
            if fingerprint(str(folder) if is_folder(folder) else model.name) != model.fingerprint:
                differences.append(f"{what}: weights or labels differ")
        except ModelError as error:
            differences.append(f"{what}: cannot be loaded ({error})")
    return differences


def _read_manifest(path: Path) -> _Manifest:
    found = read_json(path)
    number = found.get("manifest") if isinstance(found, dict) else None
    if type(number) is not int or number != VERSION:
        raise DataError(f"{path}: no manifest of form {VERSION}; expected one that the stage evidence wrote")
    try:
        return _Manifest.model_validate(found)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])[:120]
        what = problem["msg"]
        raise DataError(
            f"{path}, field {where!r}: got {kind_of(problem['input'])} in a damaged manifest; expected: "
            f"{what[0].lower()}{what[1:]}"
        ) from error


def hashes(base: Path, paths: Iterable[Path]) -> dict[str, str]:
    """Path below `base` -> SHA-256, for files, and all files in folders; what does not exist is left out."""
    files: set[Path] = set()
    for path in paths:
        files |= {path} if path.is_file() else {file for file in path.rglob("*") if _counts(file)}
    return {file.relative_to(base).as_posix(): _sha256(file) for file in sorted(files)}


def _counts(file: Path) -> bool:
    """Compiled Python and hidden files are no part of a run."""
    return file.is_file() and file.suffix != ".pyc" and not file.name.startswith(".")


def _folders(part: str, root: Path, found: _Manifest) -> list[Path]:
    """The folders and files that a part is of."""
    if part == "code":
        return [CODE]
    if part == "models":
        # An absolute name leads out of the workspace, whose files alone a manifest names.
        folders = [root / model.name for model in found.classifiers.values()]
        return [folder for folder in folders if is_folder(folder) and folder.is_relative_to(root)]
    return [root / name for name in (DATA if part == "data" else RESULTS)]


def _file_differences(part: str, base: Path, then: Mapping[str, str], folders: Iterable[Path]) -> list[str]:
    found = []
    for name, digest in then.items():
        file = base / name
        if not file.is_file():
            found.append(f"{part}: {name} is missing")
        elif _sha256(file) != digest:
            found.append(f"{part}: {name} differs")
    # A file more may be read, too: another tokenizer, another method's scores.
    now = {file.relative_to(base).as_posix() for folder in folders for file in folder.rglob("*") if _counts(file)}
    return found + [f"{part}: {name} was not there" for name in sorted(now - set(then))]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
