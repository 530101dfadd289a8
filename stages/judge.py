"""Stage judge: all metrics of every method on a task, comparisons of the methods, and sanity checks."""

from explearn.cli.common import Compute
from explearn.core.writing import write_json
from explearn_study.evaluate import check_task, judge_task
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def judge(task: TaskOption, run: RunOptions, compute: Compute) -> None:
    """Evaluate every method's attributions of a task's test texts, all on the same texts and perturbed inputs.

    Writes into reports/metrics/TASK/: explanations.json (method -> metric -> value), comparisons.json (by metric, the
    best methods and those not significantly worse), pairs.parquet (paired tests), texts.parquet and mosaics.parquet
    (every metric's value on every text, and on every mosaic) and sanity.json (some test texts explained again on
    classifiers with random weights and with noise on their embeddings: by method random_model, random_labels,
    max_sensitivity and skipped; empty for planted words). With `evaluate.twin`, twin.json: the methods' faithfulness on
    the classifier's twin.
    """
    workspace = Workspace()
    judge_task(workspace, run.params, task, compute, run.seed)
    checks = {}
    if task not in run.params.planted_tasks:
        checks = check_task(workspace, run.params, task, compute, run.seed)
    write_json(workspace.metrics("sanity", task), checks)


if __name__ == "__main__":
    judge()
