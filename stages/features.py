"""Stage features: the inputs of learned explainers: a classifier's attention, and word scores of many methods."""

from explearn.cli.common import Compute
from explearn_study.feature_files import write_task_features
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def features(task: TaskOption, run: RunOptions, compute: Compute) -> None:
    """Write the inputs of learned explainers for a task, or why there are none.

    data/features/TASK/SPLIT.parquet: every sub-token's attention from and to the [CLS] token, in every layer and head,
    and the prediction. data/signals/TASK/train.parquet and validation.parquet: word scores of many methods for the
    predicted class of texts with marks, of others drawn by seed, and of more without marks. Memory does not grow with
    the number of texts.

    Where `attend` or `signals` is null, none are written; if both are, no classifier is loaded.
    """
    write_task_features(Workspace(), run.params, task, compute, run.seed)


if __name__ == "__main__":
    features()
