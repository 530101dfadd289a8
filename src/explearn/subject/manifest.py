"""The origin of a page, and its inputs as SHA-256 hashes: models, texts, code, results and versions.

The manifest is a JSON document next to the page, with the same name. `check_manifest` recomputes everything in it and
names what differs. It is not a signature: anyone who can change a file can also change the manifest.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from explearn.core.documents import file_digest, is_folder, read_json
from explearn.core.errors import DataError, ModelError, ParamsError
from explearn.core.validation import Shape, check
from explearn.core.writing import check_place, write_json

if TYPE_CHECKING:
    # They bring torch, which reading a manifest does without.
    from explearn.core.compute import ComputeOptions
    from explearn.predictors.predictor import Predictor

RUN = ("baselines", "pipeline", "annotate", "demo")
"""Extras whose packages a run of the pipeline may use."""

VERSION = 2
"""Version of the manifest's format."""

CODE = Path(__file__).resolve().parents[2]
"""The folder in which the packages are installed; paths in the part `code` are relative to it."""

Hashes = dict[str, str]
"""Path -> SHA-256."""


class ManifestModel(Shape):
    """A classifier: its name, and the SHA-256 of its weights and labels."""

    name: str
    fingerprint: str


class HashedFiles(Shape):
    """Some files.

    Attributes:
        paths: files and folders, to which no file may be added.
        files: all files in them.
    """

    paths: list[str]
    files: Hashes


class Manifest(Shape):
    """The fields of a manifest that are checked; others are only shown.

    Attributes:
        manifest: version of the format.
        root: the folder to which paths are relative, itself relative to the manifest's folder; paths in the part
            `page` are relative to the manifest's folder, those in `code` to CODE.
        parts: name -> files.
        versions: package -> version.
        classifiers: task -> classifier, loadable by its name.
    """

    manifest: Annotated[int, Field(ge=VERSION, le=VERSION)]
    root: str
    parts: dict[str, HashedFiles]
    versions: dict[str, str]
    classifiers: dict[str, ManifestModel]


Fingerprint = Callable[[str], str]
"""Name or folder of a classifier -> hash of its weights and labels. Raises ModelError if it cannot be loaded."""


def part(base: Path, paths: Iterable[str]) -> dict[str, Any]:
    """Return a part of a manifest for files and folders, by their paths relative to `base`."""
    paths = list(paths)
    return {"paths": paths, "files": hashes(base, paths)}


def write_manifest(page: Path, manifest: Mapping[str, Any], what: str | None = None) -> None:
    """Write the manifest of an existing page, with the page itself added; `what` is that of the page."""
    parts = {"page": part(page.parent, [page.name]), **manifest["parts"]}
    write_json(page.with_suffix(".json"), {"manifest": VERSION, **manifest, "parts": parts}, what)


def is_manifest(path: Path) -> bool:
    """Return whether a file is the manifest of a page."""
    try:
        document = read_json(path)
    except DataError:
        return False
    return isinstance(document, dict) and "manifest" in document


def manifests_in(folder: Path) -> list[Path]:
    """Return the manifests of the pages in a folder."""
    named = (page.with_suffix(".json") for page in sorted(folder.glob("*.html")))
    return [path for path in named if path.is_file() and is_manifest(path)]


def check_manifest(path: Path, fingerprint: Fingerprint) -> tuple[list[str], list[str]]:
    """Return what was checked, and a sentence for each difference, in the order of the manifest.

    Args:
        path: the manifest.
        fingerprint: loads a classifier and hashes it.

    Raises:
        DataError: the file is not a manifest.
    """
    hint = "; expected a manifest next to its page"
    manifest: Manifest = check(Manifest, read_json(path), before=f"{path}, ", after=hint)
    root = path.parent / manifest.root
    differences = []
    for name, files in manifest.parts.items():
        base = {"page": path.parent, "code": CODE}.get(name, root)
        differences += [f"{name}: {difference}" for difference in _changed_files(base, files)]
    installed = dict(versions(RUN))
    for name, version in manifest.versions.items():
        if installed.get(name) != version:
            differences.append(f"version of {name}: {version} then, {installed.get(name, 'not installed')} now")
    for task, model in manifest.classifiers.items():
        name = model.name
        if is_folder(root / name):
            name = str(root / name)
        what = f"classifier of {task} ({model.name})"
        try:
            if fingerprint(name) != model.fingerprint:
                differences.append(f"{what}: weights or labels differ")
        except ModelError as error:
            differences.append(f"{what}: cannot be loaded ({error})")
    checked = [name for name, files in manifest.parts.items() if files.files]
    checked.append("versions")
    if manifest.classifiers:
        checked.append("weights of the classifier")
    return checked, differences


def _changed_files(base: Path, files: HashedFiles) -> list[str]:
    """Return what differs in some files: each that is missing, changed or was added."""
    # Only folders below the root are searched; an absolute path leads out of it.
    inside = [path for path in files.paths if ".." not in Path(path).parts and not Path(path).is_absolute()]
    now = hashes(base, inside)
    differences = []
    for file, digest in files.files.items():
        if not (base / file).is_file():
            differences.append(f"{file} is missing")
        elif (now.get(file) or file_digest(base / file)) != digest:
            differences.append(f"{file} differs")
    # An added file may be read, too: another tokenizer, another method's scores.
    return differences + [f"{file} was added" for file in sorted(set(now) - set(files.files))]


def hashes(base: Path, paths: Sequence[str]) -> Hashes:
    """Return the SHA-256 of files, and of all files in folders, by path relative to `base`; missing ones are left out.

    Compiled Python and hidden files are not part of a run.
    """
    files: Hashes = {}
    for path in paths:
        location = base / path
        for file in (location, *sorted(location.rglob("*"))):
            if file.is_file() and file.suffix != ".pyc" and not file.name.startswith("."):
                files[(Path(path) / file.relative_to(location)).as_posix()] = file_digest(file)
    return files


# ---- versions ------------------------------------------------------------------------------------------------------

COMPARISON = ("baselines",)
"""Extras whose packages a comparison uses."""


def versions(extras: Collection[str] = RUN) -> list[tuple[str, str]]:
    """Return the versions of Python, Explearn and each direct dependency of its core and of some extras.

    Nothing is imported. Python's version is cut to the part that the lock file fixes; `python_version` has all of it.
    """
    rows = [("python", ".".join(platform.python_version_tuple()[:2]))]
    # Extras of Explearn require Explearn, too.
    names = {"explearn": None}
    for requirement in metadata.requires("explearn") or []:
        extra = re.search(r"""extra == ["']([a-z]+)["']""", requirement)
        if extra is None or extra[1] in extras:
            names[re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]] = None
    for name in names:
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return rows


def python_version() -> str:
    """Return Python's full version and the kind of machine, such as "3.11.7 on Linux x86_64"."""
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"


# ---- the origin of a page --------------------------------------------------------------------------------------------

CHANGED_WEIGHTS = ("saved", "nf4", "int8")
"""Precisions in which a classifier's weights differ from those that `explearn verify` loads."""


def check_page(out: Path, what: str, beside: Iterable[Path] = ()) -> None:
    """Raise ParamsError if a page, or a file that goes with it, would replace something else or another of them.

    Args:
        out: the page.
        what: what it is, as for `explearn.core.writing.atomic_path`.
        beside: files that go with it, besides its manifest or record.
    """
    check_place(out, what)
    document = out.with_suffix(".json")
    if document == out:
        raise ParamsError(f"out: got {out}; expected another name: the page's JSON has this one")
    for path in (document, *beside):
        check_place(path, what)


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
        import torch

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
        prompted = getattr(self.classifier, "completion", None) is not None  # and is not loaded by its name alone
        if named and not prompted and self.compute.precision not in CHANGED_WEIGHTS:
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

    def write_manifest(
        self, page: Path, task: str, made: Mapping[str, str], what: str, beside: Iterable[str] = (), **more: Any
    ) -> None:
        """Write the manifest of a page that exists.

        Args:
            page: the page.
            task: name of the texts.
            made: how the page was made, as it says itself (`facts`).
            what: what the page is, as for `explearn.core.writing.atomic_path`.
            beside: names of files and folders next to it that belong to it.
            more: further fields of the manifest.
        """
        manifest = self.manifest(page, task, made)
        manifest["parts"]["page"] = part(page.parent, [page.name, *beside])
        write_manifest(page, {**manifest, **more}, what)


def _from_here(path: object) -> str:
    """Return a path relative to the working directory, if it is in it."""
    location = Path(str(path))
    if location.is_absolute() and location.is_relative_to(Path.cwd()):
        location = location.relative_to(Path.cwd())
    return location.as_posix()
