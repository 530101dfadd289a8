"""Stage evidence: what the run rests on, as hashes, and whether it did what was asked of it."""

from typing import Annotated

import typer

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnknownNameError
from explearn.core.storage import write_json, write_text
from explearn.model.classifier import Classifier
from explearn_study.params import Params
from explearn_study.report.evidence import make_manifest, render_evidence
from explearn_study.staging import stage
from explearn_study.workspace import Workspace

PageOption = Annotated[str, typer.Option(help="Name of the page, one of `evidence` in the params file.")]


@stage()
def evidence(page: PageOption, params: Params, compute: ComputeOptions) -> None:
    """Write reports/evidence/PAGE.html and the manifest PAGE.json, which `explearn verify` checks."""
    if page not in params.evidence:
        raise UnknownNameError("evidence page", page, params.evidence)
    workspace = Workspace()
    folders = {task: workspace.classifier(task) for task in params.tasks}
    models = {
        task: (folder.as_posix(), Classifier.from_pretrained(folder, compute).fingerprint)
        for task, folder in folders.items()
    }
    manifest = make_manifest(workspace, params, page, models, root="../..")
    folder = workspace.reports / "evidence"
    write_json(folder / f"{page}.json", manifest)
    write_text(folder / f"{page}.html", render_evidence(page, manifest))


if __name__ == "__main__":
    evidence()
