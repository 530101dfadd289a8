"""Stage marks-curve: what marked texts of a task bring to ExpNet."""

from explearn.core.compute import ComputeOptions
from explearn.core.storage import write_json
from explearn_study.marks_curve import marks_curve, write_curve_plot
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace


@stage()
def run(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Train ExpNet with none, some and all of a task's marked texts, and judge it on the run's test texts.

    Writes reports/metrics/curve/TASK.json (texts, k, draws, and points: marks, protocol, f1_topk, auroc, f1, their
    intervals and each draw's figure) and reports/plots/curve/TASK.csv.
    """
    workspace = Workspace()
    curve = marks_curve(workspace, params, task, compute, seed)
    write_curve_plot(workspace.plot("curve", task), curve)
    write_json(workspace.metrics("curve", task), curve)


if __name__ == "__main__":
    run()
