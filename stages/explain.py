"""Stage explain: word scores of a task's test texts, by every method of the run."""

from explearn.cli.common import Compute
from explearn_study.explaining import explain_task
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def explain(task: TaskOption, run: RunOptions, compute: Compute) -> None:
    """Explain the predicted class of a task's test texts with every method.

    Writes data/attributions/TASK/METHOD.parquet, with the number of passes through the classifier in the file's
    metadata; times and memory go to data/costs, outside DVC's outputs. A file is kept if it was made with the same
    code, texts, classifier, options and training: after an edit of one method only that method runs, and an interrupted
    run resumes.
    """
    explain_task(Workspace(), run.params, task, compute, run.seed)


if __name__ == "__main__":
    explain()
