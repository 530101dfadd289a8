"""The files of explainers: config.json of a trained one, and a bundle's manifest, by which every file is checked.

    BUNDLE/manifest.json   the manifest
           README.md       the model card
           metrics.json    figures, if any
           explainer/      a trained explainer, as `save_pretrained` writes it
           classifier/     its classifier, if wanted

A manifest reveals damage and mix-ups. It is not a signature: anyone who can change a file can change the manifest, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from explearn.core.documents import is_folder, read_json
from explearn.core.errors import DataError, ModelError
from explearn.core.file_facts import FileFacts
from explearn.core.validation import Shape, check, check_shape

FORMAT = 1
"""Version of the bundle format; newer ones are not read."""

MANIFEST = "manifest.json"
CARD = "README.md"
FIGURES = "metrics.json"
EXPLAINER = "explainer"
CLASSIFIER = "classifier"

CONFIG = "config.json"
"""File of a trained explainer with its class and options."""

_FILE = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*\.(?:json|safetensors|md)")
"""Allowed names of files in a bundle: below the bundle, not hidden, of a kind that runs no code when read."""


Place = Literal["classifier", "explainer/classifier"]
"""The folder of a bundle that holds its classifier."""


class ClassifierFacts(Shape):
    """The classifier that a bundle was made for.

    Attributes:
        fingerprint: `Predictor.fingerprint`.
        name: its hub name, or the last part of its folder's path; empty if unknown.
        architecture: transformers' name for it; empty if unknown.
        labels: in the order of its logits; empty if unknown.
        folder: the bundle's folder that holds it; None if the bundle does not contain it.
    """

    fingerprint: str
    name: str = ""
    architecture: str = ""
    labels: list[str] = Field(default_factory=list)
    folder: Place | None = None


class BundleManifest(Shape):
    """The content of `manifest.json`.

    Attributes:
        format: version of the bundle format, 1.
        explearn: version that wrote it.
        method: name of the method.
        trained: whether the folder `explainer` holds a trained explainer.
        options: options of the method, by name; a trained explainer has them in its own folder.
        classifier: the classifier it was made for; None for any.
        files: path -> facts, for every file but the manifest.
    """

    format: int = Field(ge=1)
    explearn: str
    method: str
    trained: bool
    options: dict[str, Any]
    classifier: ClassifierFacts | None
    files: dict[str, FileFacts]

    @model_validator(mode="before")
    @classmethod
    def _format_is_known(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("format"), int) and values["format"] > FORMAT:
            raise ValueError(
                f"a bundle of format {values['format']}, made with Explearn {values.get('explearn')}; this version "
                f"({metadata.version('explearn')}) reads format {FORMAT}, expected a newer Explearn"
            )
        return values

    @field_validator("files")
    @classmethod
    def _names_are_safe(cls, files: dict[str, FileFacts]) -> dict[str, FileFacts]:
        for name in files:
            if not _FILE.fullmatch(name) or name == MANIFEST:
                raise ValueError(f"expected .json, .safetensors and .md files below the bundle, and not {name[:80]!r}")
        return files


class TrainedConfig(Shape):
    """The fields that every trained explainer's config.json has."""

    explainer: str
    options: dict[str, Any]


def read_config(folder: Path) -> Mapping[str, Any]:
    """Return config.json of a trained explainer.

    Raises:
        ModelError: there is none, or it is another file.
    """
    path = folder / CONFIG
    try:
        config: Mapping[str, Any] = check_shape(read_json(path), TrainedConfig, path, "train it again")
    except DataError as error:
        raise ModelError(f"{folder}: holds no trained explainer ({error})") from error
    return config


def is_bundle(folder: Path) -> bool:
    """Return whether a folder is a bundle, complete or not, rather than a trained explainer."""
    return is_folder(folder) and (folder / MANIFEST).is_file()


def is_classifier_bundle(folder: Path) -> bool:
    """Return whether a folder that is named as a classifier is a bundle, rather than a model beside a manifest.json."""
    return is_bundle(folder) and not (folder / CONFIG).exists()


def read_manifest(folder: Path) -> BundleManifest:
    """Return the manifest of a bundle, without checking its files.

    Raises:
        ModelError: the folder is not a bundle, or the manifest is invalid or of a newer format.
        DataError: the manifest is not JSON.
    """
    if not is_folder(folder):
        raise ModelError(f"{folder}: no such folder; expected that of a trained explainer or a bundle")
    if not is_bundle(folder):
        raise ModelError(f"{folder}: holds no {MANIFEST}; expected a bundle that explearn export wrote")
    path = folder / MANIFEST
    manifest: BundleManifest = check(BundleManifest, read_json(path), ModelError, f"{path}, ")
    return manifest


def checked_manifest(folder: Path) -> BundleManifest:
    """Return the manifest of a bundle whose files all match it.

    Raises:
        ModelError: the manifest cannot be used, or a file differs from it.
    """
    manifest = read_manifest(folder)
    for difference in differences(folder, manifest):
        raise ModelError(difference)
    return manifest


def differences(folder: Path, manifest: BundleManifest) -> Iterator[str]:
    """Yield a sentence for each file that is missing or has changed, and each file or link not in the manifest.

    Hidden files (`.gitattributes`) are allowed, as nothing reads them.
    """
    for name, facts in manifest.files.items():
        path = folder / name
        if not os.path.isfile(path):  # noqa: PTH113 (Path.is_file raises for names that no file can have)
            yield f"{path}: is missing; expected every file that {MANIFEST} names"
        elif not facts.match(path):
            yield f"{path}: is not the file that was exported (its SHA-256 differs from {MANIFEST}'s)"
    for path in files_in(folder):
        name = path.relative_to(folder).as_posix()
        if name != MANIFEST and name not in manifest.files:
            yield f"{path}: is not in {MANIFEST}; expected no other file or link in a bundle"


def files_in(folder: Path) -> Iterator[Path]:
    """Yield all files and links below a folder, in order, except hidden ones."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and (path.is_symlink() or not path.is_dir()):
            yield path
