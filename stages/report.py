"""Stage report: the report, its figures, the headline metrics, and evidence pages."""

from explearn.core.compute import ComputeOptions
from explearn.core.writing import atomic_folder
from explearn.show.manifest import write_with_manifest
from explearn_study.params import Params
from explearn_study.report.project import report_project
from explearn_study.staging import stage
from explearn_study.workspace import Workspace


@stage()
def report(params: Params, compute: ComputeOptions, seed: int) -> None:
    """Put the metrics of all tasks together: report.md with figures/ and report.html for people, metrics.json for
    programs, and headline.json for `dvc metrics` and `dvc exp show`. Times and memory, which depend on the machine, go
    to machine/ and costs.json. The seed chooses example texts.

    Evidence pages that the parameters ask for say what the run rests on, as hashes, and whether it did what was asked
    of it: reports/evidence/PAGE.html, and the manifests PAGE.json, which `explearn verify` checks.
    """
    workspace = Workspace()
    report_project(workspace, params, seed)
    with atomic_folder(workspace.reports / "evidence") as folder:
        if not params.evidence:
            return
        # The report alone does without these, which load torch.
        from explearn.model.classifier import Classifier
        from explearn_study.report.evidence import make_manifest, render_evidence

        models = {}
        for task in params.tasks:
            classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
            models[task] = (workspace.classifier(task).as_posix(), classifier.fingerprint)
        for page in params.evidence:
            manifest = make_manifest(workspace, params, page, models, root="../..")
            write_with_manifest(folder / f"{page}.html", render_evidence(page, manifest), manifest)


if __name__ == "__main__":
    report()
