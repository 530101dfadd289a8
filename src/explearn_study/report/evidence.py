"""The foundations of a run, as hashes: models, data, code, results and versions. Anyone can check it later.

The manifest is a JSON document. `check_manifest` computes everything in it anew and names what differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from explearn.core.blocks import Block, Code, Fold, Heading, Paragraph, Table, columns
from explearn.core.documents import is_folder, read_json
from explearn.core.errors import ModelError
from explearn.core.validation import Shape, check_shape, read_document
from explearn.show.html_page import render_html
from explearn.show.versions import versions
from explearn_study import shapes
from explearn_study.params import Params
from explearn_study.workspace import Workspace

VERSION = 1
"""Number of the manifest's form."""

DATA = ("data/examples", "data/rationales")
RESULTS = ("data/attributions", "data/explainers", "reports/metrics", "reports/metrics.json")
"""Folders and files of a workspace that hold the texts, and what was found."""

CODE = Path(__file__).resolve().parents[1]
"""The package's own files."""

Hashes = dict[str, str]
"""Path -> SHA-256."""


class ManifestModel(Shape):
    """A classifier of a run: its name, and the SHA-256 of its weights and labels."""

    name: str
    fingerprint: str


class ManifestFiles(Shape):
    """The files of a run, by part."""

    data: Hashes
    models: Hashes
    results: Hashes
    code: Hashes


class EvidenceManifest(Shape):
    """The fields of a manifest that are checked; others are only shown."""

    manifest: Annotated[int, Field(ge=VERSION, le=VERSION)]
    root: str
    files: ManifestFiles
    versions: dict[str, str]
    classifiers: dict[str, ManifestModel]


Fingerprint = Callable[[str], str]
"""Name or folder of a classifier -> hash of its weights and labels. Raises ModelError where it cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of the page: what, how much, how much there was, and whether that is enough."""

    what: str
    wanted: str
    found: str
    met: bool


def make_manifest(
    workspace: Workspace, params: Params, page: str, models: Mapping[str, tuple[str, str]], root: str
) -> dict[str, Any]:
    """Return what a run rests on.

    Args:
        page: name of the entry under `evidence`.
        models: task -> its classifier's name, and its fingerprint. Where the name is that of a folder of the workspace,
            it counts from there.
        root: the workspace as seen from the folder that the manifest will be in.

    Raises DataError where a file of the run is missing.
    """
    base = workspace.root
    return {
        "manifest": VERSION,
        "root": root,
        "profile": params.profile,
        "seed": params.seed,
        "parameters": params.model_dump(mode="json"),
        "requirements": [asdict(requirement) for requirement in requirements(workspace, params, page)],
        "classifiers": {task: {"name": name, "fingerprint": hash_} for task, (name, hash_) in models.items()},
        "files": {
            "data": hashes(base, [base / name for name in DATA]),
            "models": hashes(base, [base / name for name, _ in models.values() if (base / name).is_dir()]),
            "results": hashes(base, [base / name for name in RESULTS]),
            "code": hashes(CODE.parent, [CODE]),
        },
        "versions": dict(versions()),
    }


def requirements(workspace: Workspace, params: Params, page: str) -> list[Requirement]:
    """Return what the entry under `evidence` requires of the run, and what the run did."""
    wanted = params.evidence[page]
    judged: list[int] = []
    checked: set[str] = set()
    skipped: list[str] = []
    labels = True
    for task in params.tasks:
        figures = read_document(workspace.metrics("explanations", task), shapes.Explanations, "judge")
        judged.append(min((int(row["texts"]) for row in figures.values()), default=0))
        sanity = read_document(workspace.metrics("sanity", task), shapes.Sanity, "judge")["methods"]
        checked |= {name for name, result in sanity.items() if not result["skipped"]}
        skipped += [f"{name} on {task}" for name, result in sanity.items() if result["skipped"]]
        labels = labels and any(result["random_labels"] for result in sanity.values())
    sanity_params, texts = params.sanity, sum(judged)
    seeds, draws, cascade = sanity_params.seeds, sanity_params.noise_samples, sanity_params.cascade
    unclear = [*(name for name in params.methods if name not in checked), *skipped]
    return [
        Requirement("texts on which every method is judged", str(wanted.texts), str(texts), texts >= wanted.texts),
        Requirement("seeds of the sanity checks", str(wanted.seeds), str(seeds), seeds >= wanted.seeds),
        Requirement("a classifier trained on permuted labels", "yes", "yes" if labels else "no", labels),
        Requirement("weights drawn anew part by part", "yes", "yes" if cascade else "no", cascade),
        Requirement("noise on the embeddings", "yes", f"{draws} draws", draws > 0),
        Requirement(
            "methods whose dependence on the model is checked",
            "all",
            f"not {', '.join(unclear)}" if unclear else "all",
            not unclear,
        ),
    ]


def render_evidence(name: str, manifest: Mapping[str, Any]) -> str:
    """Return the page of a manifest, for people; everything from data is escaped. name: of both files."""
    met = all(requirement["met"] for requirement in manifest["requirements"])
    blocks: list[Block] = [
        Heading("What this judgement of explanations rests on", level=1),
        Paragraph(
            f"Profile {manifest['profile']}, seed {manifest['seed']}. The same as a manifest: {name}.json; explearn "
            f"verify {name}.json checks all of it."
        ),
        Heading("What was required of the run"),
        Paragraph(
            "The run met every requirement." if met else "The run did not meet every requirement.",
            style="" if met else "warning",
        ),
        Table(
            columns(["What", "Required", "Done", "Enough"]),
            [[r["what"], r["wanted"], r["found"], "yes" if r["met"] else "no"] for r in manifest["requirements"]],
        ),
        Heading("The classifiers"),
        Paragraph("The fingerprint is the SHA-256 of all weights and of the labels."),
        Table(
            columns(["Task", "Classifier", "Fingerprint"]),
            [[task, model["name"], model["fingerprint"]] for task, model in manifest["classifiers"].items()],
        ),
        Heading("Files"),
        Paragraph("SHA-256 of every file; of each part, one over the names and hashes of its files."),
    ]
    for part, files in manifest["files"].items():
        joint = hashlib.sha256("\n".join(f"{file} {digest}" for file, digest in files.items()).encode()).hexdigest()
        counted = f"{len(files)} file{'' if len(files) == 1 else 's'}"
        blocks.append(Fold(f"{part}: {counted}, {joint}", [Table(columns(["File", "SHA-256"]), list(files.items()))]))
    blocks += [
        Heading("Versions and parameters"),
        Fold("Versions", [Table(columns(["Package", "Version"]), list(manifest["versions"].items()))]),
        Fold("Parameters", [Code(json.dumps(manifest["parameters"], indent=2, ensure_ascii=False), "json")]),
    ]
    return render_html(blocks, {})


def check_manifest(path: Path, fingerprint: Fingerprint) -> list[str]:
    """Return what differs from a manifest, in the order of its parts; empty where nothing does.

    Args:
        fingerprint: loads a classifier and hashes it.

    Raises DataError for a file that is no manifest.
    """
    document = check_shape(read_json(path), EvidenceManifest, path, "expected a manifest that the stage report wrote")
    manifest = EvidenceManifest.model_validate(document)
    root = path.parent / manifest.root
    # An absolute name leads out of the workspace, whose files alone a manifest names.
    folders = [root / model.name for model in manifest.classifiers.values()]
    parts = {
        "data": (root, manifest.files.data, [root / name for name in DATA]),
        "models": (root, manifest.files.models, [f for f in folders if is_folder(f) and f.is_relative_to(root)]),
        "results": (root, manifest.files.results, [root / name for name in RESULTS]),
        "code": (CODE.parent, manifest.files.code, [CODE]),
    }
    differences = []
    for part, (base, then, where) in parts.items():
        now = hashes(base, where)
        for name, digest in then.items():
            if not (base / name).is_file():
                differences.append(f"{part}: {name} is missing")
            elif (now.get(name) or _sha256(base / name)) != digest:
                differences.append(f"{part}: {name} differs")
        # A file more may be read, too: another tokenizer, another method's scores.
        differences += [f"{part}: {name} was not there" for name in sorted(set(now) - set(then))]
    known = dict(versions())
    for name, version in manifest.versions.items():
        if known.get(name) != version:
            differences.append(f"version of {name}: {version} then, {known.get(name, 'not installed')} now")
    for task, model in manifest.classifiers.items():
        folder, what = root / model.name, f"classifier of {task} ({model.name})"
        try:
            if fingerprint(str(folder) if is_folder(folder) else model.name) != model.fingerprint:
                differences.append(f"{what}: weights or labels differ")
        except ModelError as error:
            differences.append(f"{what}: cannot be loaded ({error})")
    return differences


def hashes(base: Path, paths: Iterable[Path]) -> Hashes:
    """Return the SHA-256 of files, and of all files in folders, by path below `base`; what does not exist is left out.

    Compiled Python and hidden files are no part of a run.
    """
    files: set[Path] = set()
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        files |= {f for f in inside if f.is_file() and f.suffix != ".pyc" and not f.name.startswith(".")}
    return {file.relative_to(base).as_posix(): _sha256(file) for file in sorted(files)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
