"""Stage finetune: the classifier that all methods explain, trained here or taken as it is."""

import os
from dataclasses import asdict, replace

from explearn.cli.common import Compute
from explearn.core.writing import write_json
from explearn.predictors.finetune import FinetuneEpoch, evaluate_classifier, finetune
from explearn.predictors.pretrained import load_classifier
from explearn_study.importing import import_classifier
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def run(task: TaskOption, run: RunOptions, compute: Compute) -> None:
    """Fine-tune the encoder on a task's train split, with early stopping on its validation split.

    A task with an entry under `classifiers` gets that classifier as it is: nothing is trained.

    Writes data/classifiers/TASK/ as save_pretrained does, and data/classifiers/TASK.json: accuracy, macro-F1 and MCC on
    validation and test, and how training went, epoch by epoch.

    Training is in mixed precision where the device has it, unless EXPLEARN_PRECISION or --precision say otherwise:
    weights stay in fp32, and the classifier is judged and explained in fp32.
    """
    if compute.precision == "fp32" and not os.environ.get("EXPLEARN_PRECISION"):
        compute = replace(compute, precision="auto")
    workspace = Workspace()
    examples = workspace.read_examples(task)
    folder = workspace.classifier(task)
    labels = workspace.read_labels(task)
    trained = run.params.classifiers.get(task)
    history: list[FinetuneEpoch] = []
    if trained is not None:
        import_classifier(folder, trained, task, labels, compute)
    else:
        encoder, revision = run.params.encoder_of(task)
        history = finetune(folder, examples, labels, encoder, run.params.finetune_of(task), compute, run.seed, revision)
    classifier = load_classifier(folder, compute, precision="fp32")
    metrics: dict[str, object] = {}
    for split in ("validation", "test"):
        rows = [example for example in examples if example.split == split]
        metrics[split] = evaluate_classifier(classifier, rows, f"{task}: classify {split}") if rows else None
    metrics["epochs"] = len(history)
    if trained is not None:
        metrics["imported"] = {**trained.model_dump(), "fingerprint": classifier.fingerprint}
    metrics["history"] = [asdict(epoch) for epoch in history]
    write_json(workspace.classifier_figures(task), metrics)


if __name__ == "__main__":
    run()
