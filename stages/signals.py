"""Stage signals: word scores of many methods, for learned explainers to learn from."""

from explearn.core.compute import ComputeOptions
from explearn.core.storage import atomic_folder
from explearn.methods.consensus.signals import write_signals
from explearn.model.classifier import Classifier
from explearn.text.choice import texts_to_learn_from
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace


@stage()
def run(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Explain the predicted class of a task's training and validation texts by many methods at once.

    Texts with marks come first, then others, drawn by seed; then more of those without marks. Writes
    data/signals/TASK/train.parquet and validation.parquet, with signals.removal_samples above 0 with LIME's scores of
    the marked texts' words.
    """
    workspace = Workspace()
    classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
    gold = workspace.read_gold(task, params)
    with atomic_folder(workspace.signals(task)) as folder:
        for split in ("train", "validation"):
            examples, wanted = workspace.read_examples(task, split), params.signals
            chosen = texts_to_learn_from(examples, gold, wanted.max_texts, wanted.unmarked_texts, seed)
            write_signals(
                folder / f"{split}.parquet",
                classifier,
                chosen,
                f"{task}: signals of {split}",
                gold,
                wanted.removal_samples,
                wanted.removal_texts,
                seed,
            )


if __name__ == "__main__":
    run()
