"""Stage own_classifier: baselines on the classifier that the explainer under study trained."""

from explearn.cli.common import Compute
from explearn.core.writing import atomic_folder, write_json
from explearn_study.own_classifier import judge_on_own_classifier
from explearn_study.staging import RunOptions, stage
from explearn_study.workspace import Workspace


@stage
def own_classifier(run: RunOptions, compute: Compute) -> None:
    """Judge the explainer under study beside baselines on the classifier that it trained, so that all rows compare.

    Writes methods.json, their names, and an `explearn.Evaluation` into reports/metrics/own_classifier/TASK/. There are
    none if it explains the task's classifier, as baselines do anyway.
    """
    workspace = Workspace()
    methods = [method.name for method in run.params.on_own_classifier]
    with atomic_folder(workspace.own_classifier) as folder:
        write_json(folder / "methods.json", methods)
        if methods:
            for task in run.params.plain_tasks:
                judge_on_own_classifier(workspace, run.params, task, compute, run.seed).save(folder / task)


if __name__ == "__main__":
    own_classifier()
