"""Stage judge: all metrics of every method on a task, comparisons of the methods, and sanity checks."""

from explearn.cli.common import Compute
from explearn_study.evaluate import judge_task
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def judge(task: TaskOption, run: RunOptions, compute: Compute) -> None:
    """Evaluate every method's attributions of a task's test texts, all on the same texts and perturbed inputs.

    Writes the `explearn.Evaluation` into reports/metrics/TASK/: evaluation.json (figures, sanity checks, and facts),
    pairs.parquet (paired tests), texts.parquet (every metric's value on every text, and on every mosaic) and
    attributions.parquet (example texts). With `evaluate.twin`, twin/ has the methods' faithfulness on the classifier's
    twin. Of planted words only agreement with them is measured.
    """
    judge_task(Workspace(), run.params, task, compute, run.seed)


if __name__ == "__main__":
    judge()
