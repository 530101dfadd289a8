"""Stage evaluate: all metrics of every method on a task, and how the methods compare."""

from dataclasses import asdict

from explearn.attribute import read_run
from explearn.compute import ComputeOptions
from explearn.data.storage import read_attributions, read_json, write_json
from explearn.errors import DataError
from explearn.metrics.evaluate import evaluate_task
from explearn.metrics.files import write_by_text, write_comparisons
from explearn.metrics.plausibility import rationale_k
from explearn.models.classifier import Classifier
from explearn.models.representations import aggregate_states, word_embeddings
from explearn.params import Params
from explearn.reporting.plots import AUROC_PLOT, F1_PLOT, FAITHFULNESS_PLOT, write_plot_data
from explearn.staging import TaskOption, stage
from explearn.workspace import Workspace


@stage()
def evaluate(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Judge every method's attributions of a task's test texts, all on the same texts and the same perturbed inputs.

    Writes reports/metrics/explanations/TASK.json (method -> metric -> value), comparisons/TASK.json (who is best, and
    who is not significantly worse, metric by metric), pairs/TASK.parquet (the paired tests) and texts/TASK.parquet
    (every metric's value on every text), and reports/plots/KIND/TASK.csv for DVC (f1, auroc, faithfulness).
    """
    workspace = Workspace()
    files = workspace.attribution_files(params, task)
    agreement = read_json(workspace.agreement(task))
    runs = {method: read_run(path) for method, path in files.items()}
    classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
    for method, run in runs.items():
        if run.classifier != classifier.fingerprint:
            raise DataError(f"{files[method]}: explains another classifier than {classifier.name}; run attribute again")
    attributions = {method: read_attributions(path) for method, path in files.items()}
    examples = {example.id: example for example in workspace.read_examples(task)}
    explained = {a.example_id for texts in attributions.values() for a in texts}
    encodings = classifier.encode([example for i, example in examples.items() if i in explained])
    ids = [encoding.example_id for encoding in encodings]
    evaluation = evaluate_task(
        task=task,
        attributions=attributions,
        costs={method: asdict(run.cost) for method, run in runs.items()},
        examples=examples,
        gold=workspace.read_gold(task, params),
        k=rationale_k(agreement["mean_length"]),
        positive_rate=agreement["positive_rate"] or 0.0,
        classifier=classifier,
        params=params.evaluate,
        seed=seed,
        thresholds={method: run.threshold for method, run in runs.items() if run.threshold is not None},
        states=dict(zip(ids, aggregate_states(classifier, encodings, f"{task}: states"), strict=True)),
        embeddings=dict(zip(ids, word_embeddings(classifier, encodings), strict=True)),
    )
    for spec in (F1_PLOT, AUROC_PLOT, FAITHFULNESS_PLOT):
        write_plot_data(workspace.plot(spec.name, task), spec, task, evaluation.metrics)
    write_by_text(workspace.metrics_table("texts", task), evaluation)
    write_comparisons(workspace.metrics("comparisons", task), workspace.metrics_table("pairs", task), evaluation)
    write_json(workspace.metrics("explanations", task), evaluation.metrics)


if __name__ == "__main__":
    evaluate()
