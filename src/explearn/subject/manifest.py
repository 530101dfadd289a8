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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from explearn.core.documents import file_digest, is_folder, names_code, read_json
from explearn.core.errors import DataError, ModelError, ParamsError
from explearn.core.validation import Shape, check
from explearn.core.writing import check_place, write_json

if TYPE_CHECKING:
    # They bring torch, which reading a manifest does without.
    import torch

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
    """A classifier.

    Attributes:
        name: name by which it can be loaded; None for an object, and for code: no file is a reason to run that.
        fingerprint: its fingerprint.
    """

    name: str | None
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
    """The fields of a manifest that are checked; those of SHOWN are only shown.

    Attributes:
        manifest: version of the format.
        root: the folder to which paths are relative, itself relative to the manifest's folder; paths in the part
            `page` are relative to the manifest's folder, those in `code` to CODE.
        parts: name -> files.
        versions: package -> version.
        classifiers: task -> classifier.
    """

    manifest: Annotated[int, Field(ge=VERSION, le=VERSION)]
    root: str
    parts: dict[str, HashedFiles]
    versions: dict[str, str]
    classifiers: dict[str, ManifestModel]


SHOWN = ("made", "parameters", "verdict", "evaluation", "profile", "seed")
"""Further fields of a manifest, which say how its page was made, and are not checked."""

ALWAYS = ("page", "code")
"""Parts that every manifest has."""

SPECIAL = ("/dev/", "/proc/", "/sys/")
"""Folders of files that are none: reading one may never end."""

Fingerprint = Callable[[str | None], str | None]
"""Name or folder of a classifier -> its fingerprint; None -> that of the one that is given, or None. Raises ModelError
if it cannot be loaded."""


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


@dataclass(slots=True)
class Checked:
    """What the check of a page or a record found.

    Attributes:
        same: what was checked and is unchanged unless `differences` name it.
        differences: a sentence for each difference.
        missing: a sentence for each thing that could not be found, and so not be checked.
    """

    same: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def unknown_fields(document: Any, known: Any, where: str = "") -> list[str]:
    """Return a sentence for each field of a JSON document that is no field of what was read from it.

    Args:
        document: the document.
        known: what was read from it, as JSON values.
        where: path of the document within a larger one, ending in a dot.
    """
    found = []
    if isinstance(document, dict) and isinstance(known, dict):
        for name, value in document.items():
            if name not in known:
                found.append(f"{where}{name}: is no field that Explearn writes, and was not checked")
            else:
                found += unknown_fields(value, known[name], f"{where}{name}.")
    if isinstance(document, list) and isinstance(known, list):
        for number, (value, read) in enumerate(zip(document, known, strict=True)):
            found += unknown_fields(value, read, f"{where}{number}.")
    return found


def check_manifest(
    path: Path, fingerprint: Fingerprint, root: Path | None = None, classifier: str | None = None
) -> Checked:
    """Compare a page and what it was made from with its manifest.

    Args:
        path: the manifest.
        fingerprint: returns the fingerprint of a classifier.
        root: the folder to which paths are relative, for a page that was moved. None: as the manifest says.
        classifier: the folder or hub name of the classifier, if the manifest has one. None: as the manifest says.

    Raises:
        DataError: the file is not a manifest.
    """
    hint = "; expected a manifest next to its page"
    document = read_json(path)
    manifest: Manifest = check(Manifest, document, before=f"{path}, ", after=hint)
    checked = Checked()
    shown = {name: document[name] for name in SHOWN if name in document}
    checked.differences += unknown_fields(document, {**shown, **manifest.model_dump()})
    for name in ALWAYS:
        if name not in manifest.parts or not manifest.parts[name].files:
            checked.differences.append(f"{name}: the manifest has no hash of it")
    root = root or path.parent / manifest.root
    named = {model.name for model in manifest.classifiers.values() if model.name is not None}
    moved: dict[str, str] = {}
    if classifier is not None and len(named) == 1:
        moved = {named.pop(): classifier}
    for name, files in manifest.parts.items():
        base = {"page": path.parent, "code": CODE}.get(name, root)
        found = [f"{name}: {difference}" for difference in _changed_files(base, files, moved)]
        # A page that was moved has none of the files that it was made from.
        lost = name not in ALWAYS and len(found) == len(files.files) and all(line.endswith(MISSING) for line in found)
        if lost:
            checked.missing += found
        else:
            checked.differences += found
        if files.files and not lost:
            checked.same.append(name)
    _check_versions(manifest, checked)
    _check_classifiers(manifest, fingerprint, root, moved, checked)
    return checked


def _check_versions(manifest: Manifest, checked: Checked) -> None:
    if not manifest.versions:
        checked.differences.append("versions: the manifest has none")
        return
    installed = dict(versions(RUN))
    for name, version in manifest.versions.items():
        if installed.get(name) != version:
            now = installed.get(name, "not installed")
            checked.differences.append(f"version of {name}: {version} then, {now} now")
    checked.same.append("versions")


def _check_classifiers(
    manifest: Manifest, fingerprint: Fingerprint, root: Path, moved: Mapping[str, str], checked: Checked
) -> None:
    found = 0
    for task, model in manifest.classifiers.items():
        name = model.name
        what = f"classifier of {task}"
        if name is not None:
            what += f" ({name})"
            name = moved.get(name, name)
            if name == model.name and is_folder(root / name):
                name = str(root / name)
        try:
            now = fingerprint(name)
        except ModelError as error:
            checked.missing.append(f"{what}: cannot be loaded ({error})")
            continue
        if now is None:
            checked.missing.append(f"{what}: was an object or code, which is checked if it is given (--classifier)")
            continue
        found += 1
        if now != model.fingerprint:
            checked.differences.append(f"{what}: is another one, by its fingerprint")
    if found:
        checked.same.append("classifier")


MISSING = " is missing"


def _changed_files(base: Path, files: HashedFiles, moved: Mapping[str, str]) -> list[str]:
    """Return what differs in some files: each that is missing, changed or was added.

    Args:
        base: the folder to which paths are relative.
        files: the files.
        moved: folder -> where it is now.
    """
    # Only folders below the root are searched; an absolute path leads out of it.
    inside = []
    for path in files.paths:
        if path not in moved and ".." not in Path(path).parts and not Path(path).is_absolute():
            inside.append(path)
    now = hashes(base, inside)
    for before, after in moved.items():
        if before in files.paths:
            for file, digest in hashes(Path.cwd() / after, ["."]).items():
                now[f"{before}/{file}"] = digest
    differences = []
    for file, digest in files.files.items():
        if file not in now and not is_ordinary(base / file):
            differences.append(f"{file}{MISSING}")
        elif (now.get(file) or file_digest(base / file)) != digest:
            differences.append(f"{file} differs")
    # An added file may be read, too: another tokenizer, another method's scores.
    return differences + [f"{file} was added" for file in sorted(set(now) - set(files.files))]


def is_ordinary(path: Path) -> bool:
    """Return whether a file exists that can be read to its end."""
    return path.is_file() and not os.path.realpath(path).startswith(SPECIAL)


def hashes(base: Path, paths: Sequence[str]) -> Hashes:
    """Return the SHA-256 of files, and of all files in folders, by path relative to `base`; missing ones are left out.

    Compiled Python and hidden files are not part of a run.
    """
    files: Hashes = {}
    for path in paths:
        location = base / path
        for file in (location, *sorted(location.rglob("*"))):
            if is_ordinary(file) and file.suffix != ".pyc" and not file.name.startswith("."):
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


MADE = ("Date", "Command", "Machine")
"""Headings of `facts_of`."""


@dataclass(frozen=True, slots=True)
class JobClassifier:
    """The classifier of a job, which is not at hand: only its fingerprint is known.

    Attributes:
        name: what pages call it.
        fingerprint: its fingerprint.
        fingerprint_kind: what the fingerprint is made from.
    """

    name: str
    fingerprint: str
    fingerprint_kind: str = "of the job"

    @property
    def device(self) -> torch.device:
        """The processor, since nothing is computed with it."""
        import torch

        return torch.device("cpu")


def facts_of(model: Predictor | JobClassifier, otherwise: str) -> dict[str, str]:
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
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    machine = f"Python {python_version()}, {os.cpu_count()} processors, computed on {device}"
    return dict(zip(MADE, (date, command, machine), strict=True))


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
    model: Predictor | JobClassifier
    compute: ComputeOptions
    files: Sequence[object]
    request: Mapping[str, Any]

    @property
    def _code(self) -> str | None:
        """The name of the code that makes the classifier, if that is how it was named."""
        if isinstance(self.classifier, str | os.PathLike) and names_code(self.classifier):
            return os.fspath(self.classifier)
        return None

    def facts(self, out: Path) -> dict[str, str]:
        """Return how a page was made: heading -> fact."""
        given = ""
        if self._code is not None:
            given = f" --classifier {self._code}"
        return {
            **facts_of(self.model, self.call),
            "Classifier": f"{self.model.name}; fingerprint ({self.model.fingerprint_kind}): {self.model.fingerprint}",
            "Texts": f"SHA-256 of texts, labels and marks as they were read: {self.request['texts']}",
            "Manifest": f"{out.with_suffix('.json').name}; `explearn verify {out.name}{given}` checks it",
        }

    def manifest(self, out: Path, task: str, made: Mapping[str, str]) -> dict[str, Any]:
        """Return the manifest of a page, with paths relative to the working directory.

        Args:
            out: the page.
            task: name of the texts.
            made: how the page was made (`facts`).
        """
        here = Path.cwd()
        named = isinstance(self.classifier, str | os.PathLike) and self._code is None
        name = _from_here(self.model.name)
        folders = []
        if named and is_folder(Path(self.model.name)):
            folders.append(name)
        if any((here / folder).resolve() in (here / out).resolve().parents for folder in folders):
            folders = list(hashes(here, folders))  # the page, too, will be in the folder
        file = (self._code or "").rpartition(":")[0]
        if file.endswith(".py"):
            folders.append(_from_here(file))
        classifiers = {}
        prompted = getattr(self.classifier, "completion", None) is not None  # and is not loaded by its name alone
        if not prompted and self.compute.precision not in CHANGED_WEIGHTS:
            classifiers[task] = {"name": name if named else None, "fingerprint": self.model.fingerprint}
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
