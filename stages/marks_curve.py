"""Stage marks-curve: what marked texts of a task bring to ExpNet."""

from explearn.core.compute import ComputeOptions
from explearn.core.storage import write_json
from explearn.pipeline.base.params import Params
from explearn.pipeline.base.staging import TaskOption, stage
from explearn.pipeline.base.workspace import Workspace
from explearn.pipeline.marks_curve import marks_curve, write_curve_plot


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
