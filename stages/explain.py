"""Stage explain: word scores of a task's test texts, by every method of the run."""

from explearn.core.compute import ComputeOptions
from explearn_study.explaining import explain_task
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def explain(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Explain the predicted class of a task's test texts with every method.

    Writes data/attributions/TASK/METHOD.parquet and, of the baselines run on the classifier that an explainer trained
    for itself, data/attributions/TASK/on_EXPLAINER/METHOD.parquet, with the passes through the classifier in the file's
    metadata; times and memory go to data/costs, beside DVC's files. A file that was made by the same code of the same
    texts, classifier, options and training is kept, so that an edit of one method explains by that one alone, and a
    run that was ended goes on.
    """
    explain_task(Workspace(), params, task, compute, seed)


if __name__ == "__main__":
    explain()
