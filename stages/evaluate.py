"""Stage evaluate: plausibility, faithfulness and cost of every method on a task."""

from dataclasses import asdict

from explearn.attribute import read_run
from explearn.compute import ComputeOptions
from explearn.data.storage import read_attributions, read_json, write_json
from explearn.errors import DataError
from explearn.metrics.evaluate import evaluate_task
from explearn.metrics.plausibility import rationale_k
from explearn.models.classifier import Classifier
from explearn.params import Params
from explearn.reporting.plots import AUROC_PLOT, F1_PLOT, write_plot_data
from explearn.staging import TaskOption, stage
from explearn.workspace import Workspace


@stage()
def evaluate(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Judge every method's attributions of a task's test texts, all on the same texts and the same perturbed inputs.

    Writes reports/metrics/explanations/TASK.json (method -> metric -> value), and reports/plots/f1/TASK.csv and
    auroc/TASK.csv for DVC.
    """
    workspace = Workspace()
    files = workspace.attribution_files(params, task)
    agreement = read_json(workspace.agreement(task))
    runs = {method: read_run(path) for method, path in files.items()}
    classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
    for method, run in runs.items():
        if run.classifier != classifier.fingerprint:
            raise DataError(f"{files[method]}: explains another classifier than {classifier.name}; run attribute again")
    metrics = evaluate_task(
        task=task,
        attributions={method: read_attributions(path) for method, path in files.items()},
        costs={method: asdict(run.cost) for method, run in runs.items()},
        examples={example.id: example for example in workspace.read_examples(task)},
        gold=workspace.read_gold(task, params),
        k=rationale_k(agreement["mean_length"]),
        positive_rate=agreement["positive_rate"] or 0.0,
        classifier=classifier,
        params=params.evaluate,
        seed=seed,
        thresholds={method: run.threshold for method, run in runs.items() if run.threshold is not None},
    )
    for spec in (F1_PLOT, AUROC_PLOT):
        write_plot_data(workspace.plot(spec.name, task), spec, task, metrics)
    write_json(workspace.metrics("explanations", task), metrics)


if __name__ == "__main__":
    evaluate()
