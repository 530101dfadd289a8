"""Stage explain: word scores of a task's test texts, by every method of the run."""

from explearn.core.compute import ComputeOptions
from explearn_study.explaining import explain_task
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def explain(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Explain the predicted class of a task's test texts with every method.

    Writes data/attributions/TASK/METHOD.parquet, with the number of passes through the classifier in the file's
    metadata; times and memory go to data/costs, outside DVC's outputs. A file is kept if it was made with the same
    code, texts, classifier, options and training: after an edit of one method only that method runs, and an interrupted
    run resumes.
    """
    explain_task(Workspace(), params, task, compute, seed)


if __name__ == "__main__":
    explain()
