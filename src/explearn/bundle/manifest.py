"""What a bundle holds: its manifest, and the check of every file against it.

    BUNDLE/manifest.json   this
           README.md       the model card
           metrics.json    figures, where some were given
           explainer/      a trained explainer, as `save_pretrained` writes it
           classifier/     its classifier, where it was asked for

A manifest tells damage and mix-ups. It is no signature: who can change a file can change the manifest too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from explearn.core.documents import is_folder, kind_of, read_json
from explearn.core.errors import DataError, ModelError
from explearn.core.version import explearn_version

FORMAT = 1
"""Of bundles; this version reads no newer one."""

MANIFEST = "manifest.json"
CARD = "README.md"
FIGURES = "metrics.json"
EXPLAINER = "explainer"
CLASSIFIER = "classifier"

_FILE = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\.(?:json|safetensors|md)")
"""What a file of a bundle may be called: below the bundle, not hidden, of a kind that runs no code when it is read."""


class _Part(BaseModel):
    """A part of the manifest; keys that this version does not know are let be."""

    model_config = ConfigDict(frozen=True, strict=True, protected_namespaces=())


class FileFacts(_Part):
    """Size in bytes and SHA-256 of a file."""

    bytes: int
    sha256: str


class ClassifierFacts(_Part):
    """The classifier that a bundle was made for.

    Attributes:
        fingerprint: SHA-256 of its weights and labels (`Classifier.fingerprint`).
        name: its hub name, or the last part of its folder's; empty where it was not given.
        architecture: transformers' name of it; empty where it was not given.
        labels: in the order of its logits; empty where it was not given.
        folder: where it is in the bundle; None where it is not.
    """

    fingerprint: str
    name: str = ""
    architecture: str = ""
    labels: list[str] = []
    folder: Literal["classifier", "explainer/classifier"] | None = None


class Manifest(_Part):
    """What `manifest.json` says.

    Attributes:
        format: of the bundle, 1.
        explearn: version that wrote it.
        method: name of the method.
        trained: whether folder `explainer` holds a trained one.
        options: what to make the method with, by name; a trained one has them in its own folder.
        classifier: the one it was made for; None: any.
        files: path -> facts, of every file but the manifest.
    """

    format: int
    explearn: str
    method: str
    trained: bool
    options: dict[str, Any]
    classifier: ClassifierFacts | None
    files: dict[str, FileFacts]

    @field_validator("files")
    @classmethod
    def _names(cls, files: dict[str, FileFacts]) -> dict[str, FileFacts]:
        for name in files:
            if not _FILE.fullmatch(name) or name == MANIFEST:
                raise ValueError(f"got the file {name[:80]!r}; expected .json, .safetensors and .md below the bundle")
        return files


def is_bundle(folder: Path) -> bool:
    """Whether a folder is a bundle, whole or not, and no folder of a trained explainer."""
    return is_folder(folder) and (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a bundle, the files not yet checked.

    Raises ModelError for a folder that is no bundle, a newer format, and a manifest that is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise ModelError(f"{folder}: holds no {MANIFEST}; expected a bundle that explearn export wrote")
    try:
        found = read_json(path)
    except DataError as error:
        raise ModelError(str(error)) from error
    number = found.get("format") if isinstance(found, dict) else None
    if type(number) is not int or number < 1:
        raise ModelError(f"{path}: its field 'format' is no number of a format; expected a manifest of a bundle")
    if number > FORMAT:
        raise ModelError(
            f"{folder}: a bundle of format {number}, made with Explearn {found.get('explearn')}; this version "
            f"({explearn_version()}) reads format {FORMAT}, expected a newer Explearn"
        )
    try:
        return Manifest.model_validate(found)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])[:120]
        what = problem["msg"].removeprefix("Value error, ")
        raise ModelError(
            f"{path}, field {where!r}: {what[0].lower()}{what[1:]} (got {kind_of(problem['input'])})"
        ) from error


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise ModelError with the first of `differences`."""
    for difference in differences(folder, manifest):
        raise ModelError(difference)


def differences(folder: Path, manifest: Manifest) -> Iterator[str]:
    """A sentence, naming the file, for each that is missing, has changed, or is not in the manifest.

    Beside the explainer's and the classifier's files, where nothing of theirs would be read, others may stand.
    """
    for name, facts in manifest.files.items():
        path = folder / name
        if not path.is_file():
            yield f"{path}: is missing; expected every file that {MANIFEST} names"
        elif path.stat().st_size != facts.bytes or sha256(path) != facts.sha256:
            yield f"{path}: is not the file that was exported (its SHA-256 differs from {MANIFEST}'s)"
    for part in (EXPLAINER, CLASSIFIER):
        for path in files_in(folder / part):
            if path.relative_to(folder).as_posix() not in manifest.files:
                yield f"{path}: is not in {MANIFEST}; expected no other file in {part}/"


def files_in(folder: Path) -> Iterator[Path]:
    """All that is in a folder and the folders in it, in order; hidden files are left out, folders by link named."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and (path.is_symlink() or not path.is_dir()):
            yield path


def facts_of(folder: Path) -> dict[str, FileFacts]:
    """Path below a folder -> facts, of all files in it but the manifest."""
    paths = {path.relative_to(folder).as_posix(): path for path in files_in(folder)}
    return {
        name: FileFacts(bytes=path.stat().st_size, sha256=sha256(path))
        for name, path in paths.items()
        if name != MANIFEST
    }


def may_hold(name: str) -> bool:
    """Whether a file of this name, below the bundle, may be in one."""
    return _FILE.fullmatch(name) is not None


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def config_of(folder: Path) -> Mapping[str, Any]:
    """The config.json of a trained explainer. Raises ModelError where there is none, or it names no explainer."""
    try:
        found = read_json(folder / "config.json")
    except DataError as error:
        raise ModelError(f"{folder}: holds no trained explainer ({error})") from error
    if not isinstance(found, dict) or not isinstance(found.get("explainer"), str):
        raise ModelError(f"{folder}: holds no trained explainer (config.json has no field 'explainer')")
    return found
