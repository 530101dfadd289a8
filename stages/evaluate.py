"""Stage evaluate: all metrics of every method on a task, and how the methods compare."""

from explearn.core.compute import ComputeOptions
from explearn_study.evaluate import judge_task
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace


@stage()
def evaluate(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Judge every method's attributions of a task's test texts, all on the same texts and the same perturbed inputs.

    Writes reports/metrics/explanations/TASK.json (method -> metric -> value), comparisons/TASK.json (who is best, and
    who is not significantly worse, metric by metric), pairs/TASK.parquet (the paired tests) and texts/TASK.parquet
    (every metric's value on every text), and reports/plots/KIND/TASK.csv for DVC (f1, auroc, faithfulness).

    An explainer with a classifier of its own is judged on that one. For each, the same metrics of the baselines run on
    that classifier, and its accuracy, go to own_model/TASK.json.
    """
    judge_task(Workspace(), params, task, compute, seed)


if __name__ == "__main__":
    evaluate()
