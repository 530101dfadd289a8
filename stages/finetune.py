"""Stage finetune: the classifier that all methods explain."""

from dataclasses import asdict

from explearn.core.compute import ComputeOptions
from explearn.core.storage import write_json, write_text
from explearn.models.classifier import Classifier
from explearn.models.finetune import evaluate_classifier, finetune
from explearn.pipeline.base.params import Params
from explearn.pipeline.base.staging import TaskOption, stage
from explearn.pipeline.base.workspace import Workspace


@stage(precision="auto")
def run(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Fine-tune the encoder on a task's train split, with early stopping on its validation split.

    Writes data/classifiers/TASK/ as save_pretrained does, reports/metrics/classifier/TASK.json (accuracy, macro-F1 and
    MCC on validation and test) and the training curve reports/plots/finetune/TASK.csv.

    Training is in mixed precision where the device has it (--precision auto): weights stay in fp32, and the classifier
    is judged and explained in fp32.
    """
    # pandas takes half a second, which --help need not wait for.
    import pandas as pd

    workspace = Workspace()
    examples = workspace.read_examples(task)
    folder = workspace.classifier(task)
    labels = workspace.read_labels(task)
    history = finetune(
        folder, examples, labels, params.encoder, params.finetune, compute, seed, params.encoder_revision
    )
    classifier = Classifier.from_pretrained(folder, compute, precision="fp32")
    metrics: dict[str, object] = {}
    for split in ("validation", "test"):
        rows = [example for example in examples if example.split == split]
        metrics[split] = evaluate_classifier(classifier, rows, f"{task}: classify {split}") if rows else None
    metrics["epochs"] = len(history)
    write_text(workspace.plot("finetune", task), pd.DataFrame(map(asdict, history)).to_csv(index=False))
    write_json(workspace.metrics("classifier", task), metrics)


if __name__ == "__main__":
    run()
