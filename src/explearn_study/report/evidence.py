"""What a run of the project rests on, as a manifest (`explearn.show.manifest`) and as a page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from explearn.core.blocks import Block, Code, Fold, Heading, Paragraph, Table, columns
from explearn.core.validation import read_document
from explearn.show.html_page import render_html
from explearn.show.manifest import CODE as INSTALLED
from explearn.show.manifest import part
from explearn.show.versions import versions
from explearn_study.params import Params
from explearn_study.workspace import Workspace

DATA = ("data/examples", "data/rationales")
RESULTS = ("data/attributions", "data/explainers", "reports/metrics", "reports/metrics.json")
"""Folders and files of a workspace that hold the texts, and what was found."""

CODE = ("explearn", "explearn_study")
"""The packages that a run is computed with."""


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
        "root": root,
        "profile": params.profile,
        "seed": params.seed,
        "parameters": params.model_dump(mode="json"),
        "requirements": requirements(workspace, params, page),
        "classifiers": {task: {"name": name, "fingerprint": hash_} for task, (name, hash_) in models.items()},
        "parts": {
            "data": part(base, DATA),
            "models": part(base, [name for name, _ in models.values() if (base / name).is_dir()]),
            "results": part(base, RESULTS),
            "code": part(INSTALLED, CODE),
        },
        "versions": dict(versions()),
    }


def requirements(workspace: Workspace, params: Params, page: str) -> list[dict[str, Any]]:
    """Return what the entry under `evidence` requires of the run: what, wanted, found, and whether that is enough."""
    wanted = params.evidence[page]
    judged: list[int] = []
    checked: set[str] = set()
    skipped: list[str] = []
    labels = True
    for task in params.tasks:
        figures = read_document(workspace.metrics("explanations", task), dict[str, Any], "judge")
        judged.append(min((int(row["texts"]) for row in figures.values()), default=0))
        sanity = read_document(workspace.metrics("sanity", task), dict[str, Any], "judge")["methods"]
        checked |= {name for name, result in sanity.items() if not result["skipped"]}
        skipped += [f"{name} on {task}" for name, result in sanity.items() if result["skipped"]]
        labels = labels and any(result["random_labels"] for result in sanity.values())
    sanity_params, texts = params.sanity, sum(judged)
    seeds, draws, cascade = sanity_params.seeds, sanity_params.noise_samples, sanity_params.cascade
    unclear = [*(name for name in params.methods if name not in checked), *skipped]
    rows: list[tuple[str, object, object, bool]] = [
        ("texts on which every method is judged", wanted.texts, texts, texts >= wanted.texts),
        ("seeds of the sanity checks", wanted.seeds, seeds, seeds >= wanted.seeds),
        ("a classifier trained on permuted labels", "yes", "yes" if labels else "no", labels),
        ("weights drawn anew part by part", "yes", "yes" if cascade else "no", cascade),
        ("noise on the embeddings", "yes", f"{draws} draws", draws > 0),
        (
            "methods whose dependence on the model is checked",
            "all",
            f"not {', '.join(unclear)}" if unclear else "all",
            not unclear,
        ),
    ]
    return [{"what": what, "wanted": str(of), "found": str(found), "met": met} for what, of, found, met in rows]


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
    for name, of in manifest["parts"].items():
        files = of["files"]
        joint = hashlib.sha256("\n".join(f"{file} {digest}" for file, digest in files.items()).encode()).hexdigest()
        counted = f"{len(files)} file{'' if len(files) == 1 else 's'}"
        blocks.append(Fold(f"{name}: {counted}, {joint}", [Table(columns(["File", "SHA-256"]), list(files.items()))]))
    blocks += [
        Heading("Versions and parameters"),
        Fold("Versions", [Table(columns(["Package", "Version"]), list(manifest["versions"].items()))]),
        Fold("Parameters", [Code(json.dumps(manifest["parameters"], indent=2, ensure_ascii=False), "json")]),
    ]
    return render_html(blocks, {})
