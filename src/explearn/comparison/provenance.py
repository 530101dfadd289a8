"""The origin of a page (when, how and from what it was made), for its footer and its manifest."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from explearn.core.compute import ComputeOptions
from explearn.core.documents import is_folder
from explearn.core.errors import ParamsError
from explearn.core.writing import check_own, is_page
from explearn.predictors.predictor import Predictor
from explearn.report.manifest import CODE, COMPARISON, hashes, is_manifest, part, python_version, versions

CHANGED_WEIGHTS = ("saved", "nf4", "int8")
"""Precisions in which a classifier's weights differ from those that `explearn verify` loads."""


def check_page(out: Path) -> None:
    """Raise ParamsError if a page or its manifest would replace a file of another kind, or each other."""
    check_own(out, is_page, "a page of Explearn")
    manifest = out.with_suffix(".json")
    if manifest == out:
        raise ParamsError(f"out: got {out}; expected another name: the page's manifest has this one")
    check_own(manifest, is_manifest, "a manifest of a page")


def facts_of(model: Predictor, otherwise: str) -> dict[str, str]:
    """Return when and how something was computed: heading -> fact.

    Args:
        model: the classifier.
        otherwise: what was called if it was not a command.
    """
    program = "/".join(Path(sys.argv[0]).parts[-2:])
    command = otherwise
    if program.endswith(("/explearn", "/explearn.exe", "cli/app.py")):
        command = shlex.join(["explearn", *sys.argv[1:]])
    device = str(model.device)
    if model.device.type == "cuda":
        device = torch.cuda.get_device_name(model.device)
    return {
        "Date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "Command": command,
        "Machine": f"Python {python_version()}, {os.cpu_count()} processors, computed on {device}",
    }


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where a page comes from.

    Attributes:
        call: what was called if it was not a command.
        classifier: the classifier as it was named, or given.
        model: the predictor that it stands for.
        compute: where and how it was computed.
        files: texts and scores, of which some may not be files.
        request: the arguments that the figures depend on.
    """

    call: str
    classifier: object
    model: Predictor
    compute: ComputeOptions
    files: Sequence[object]
    request: Mapping[str, Any]

    def facts(self, out: Path) -> dict[str, str]:
        """Return how a page was made: heading -> fact."""
        return {
            **facts_of(self.model, self.call),
            "Classifier": f"{self.model.name}; SHA-256 of its weights and labels: {self.request['classifier']}",
            "Texts": f"SHA-256 of texts, labels and marks as they were read: {self.request['texts']}",
            "Manifest": f"{out.with_suffix('.json').name}; `explearn verify {out.name}` checks it",
        }

    def manifest(self, out: Path, task: str, made: Mapping[str, str]) -> dict[str, Any]:
        """Return the manifest of a page, with paths relative to the working directory.

        Args:
            out: the page.
            task: name of the texts.
            made: how the page was made (`facts`).
        """
        here = Path.cwd()
        named = isinstance(self.classifier, str | os.PathLike)
        name = _from_here(self.model.name)
        folders = []
        if named and is_folder(Path(self.model.name)):
            folders.append(name)
        if any((here / folder).resolve() in (here / out).resolve().parents for folder in folders):
            folders = list(hashes(here, folders))  # the page, too, will be in the folder
        classifiers = {}
        if named and self.model.completion is None and self.compute.precision not in CHANGED_WEIGHTS:
            classifiers[task] = {"name": name, "fingerprint": self.model.fingerprint}
        return {
            "root": os.path.relpath(here, (here / out).parent.resolve()),
            "made": dict(made),
            "parameters": dict(self.request),
            "classifiers": classifiers,
            "parts": {
                "texts": part(here, [_from_here(file) for file in self.files if isinstance(file, str | os.PathLike)]),
                "models": part(here, folders),
                "code": part(CODE, ["explearn"]),
            },
            "versions": dict(versions(COMPARISON)),
        }


def _from_here(path: object) -> str:
    """Return a path relative to the working directory, if it is in it."""
    location = Path(str(path))
    if location.is_absolute() and location.is_relative_to(Path.cwd()):
        location = location.relative_to(Path.cwd())
    return location.as_posix()
