"""Stage sanity: do the methods' scores depend on the classifier, and how steady are they?"""

from explearn.core.compute import ComputeOptions
from explearn.core.storage import write_json
from explearn_study.params import Params
from explearn_study.sanity import check_task
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace


@stage()
def sanity(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Explain some test texts anew on classifiers with random weights and with noise on their embeddings.

    Writes reports/metrics/sanity/TASK.json: texts, and for each method random_model (part of the model -> spearman,
    overlap), random_labels, max_sensitivity and skipped.
    """
    workspace = Workspace()
    write_json(workspace.metrics("sanity", task), check_task(workspace, params, task, compute, seed))


if __name__ == "__main__":
    sanity()
