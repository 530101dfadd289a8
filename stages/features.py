"""Stage features: what learned explainers read of a classifier: its attention, and word scores of many methods."""

import logging

from explearn.predictors.pretrained import load_classifier

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.core.examples import SPLITS
from explearn.core.writing import atomic_folder
from explearn.lens.attention import layer_count
from explearn_study.feature_files import texts_to_learn_from, write_features, write_refusal, write_signals
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace

logger = logging.getLogger(__name__)


@stage
def features(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Write what learned explainers read of a task's classifier, or why there is nothing to read.

    data/features/TASK/SPLIT.parquet: every sub-token's attention from and to the [CLS] token, in every layer and head,
    and the prediction. data/signals/TASK/train.parquet and validation.parquet: word scores of many methods for the
    predicted class of texts with marks, of others drawn by seed, and of more without marks. Memory does not grow with
    the number of texts.

    Where no method of the run learns from features, it loads no classifier.
    """
    workspace = Workspace()
    if not params.learned.from_features and params.studies.marks_curve is None:
        for place in (workspace.features(task), workspace.signals(task)):
            with atomic_folder(place) as folder:
                write_refusal(
                    folder, UnsupportedError("no method of the run learns from any; run the stage features again")
                )
        return
    classifier = load_classifier(workspace.classifier(task), compute)
    with atomic_folder(workspace.features(task)) as folder:
        try:
            layer_count(classifier.model)
        except UnsupportedError as error:
            write_refusal(folder, error)
            logger.warning("%s: no attention features are written: %s", task, error)
        else:
            for split in SPLITS:
                write_features(
                    folder / f"{split}.parquet",
                    classifier,
                    workspace.read_examples(task, split),
                    params.attend.layers,
                    params.attend.hidden_states,
                    f"{task}: attention of {split}",
                )
    gold, settings = workspace.read_gold(task, params), params.signals
    with atomic_folder(workspace.signals(task)) as folder:
        for split in ("train", "validation"):
            examples = workspace.read_examples(task, split)
            chosen = texts_to_learn_from(examples, gold, settings.max_texts, settings.unmarked_texts, seed)
            write_signals(folder / f"{split}.parquet", classifier, chosen, f"{task}: signals of {split}")


if __name__ == "__main__":
    features()
