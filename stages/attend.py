"""Stage attend: predictions and attention features of every sub-token."""

import logging

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.core.records import SPLITS
from explearn.core.storage import atomic_folder
from explearn.lens.attention import layer_count
from explearn.lens.features import write_features, write_refusal
from explearn.model.classifier import Classifier
from explearn_study.features_read import readers_of_features
from explearn_study.params import Params
from explearn_study.staging import TaskOption, stage
from explearn_study.workspace import Workspace

logger = logging.getLogger(__name__)


@stage()
def attend(task: TaskOption, params: Params, compute: ComputeOptions) -> None:
    """Classify a task's texts and keep, for every sub-token, its attention from and to the [CLS] token, in every
    layer and head.

    Writes data/features/TASK/SPLIT.parquet, shard by shard: memory does not grow with the number of texts. Where the
    classifier's attention cannot be captured, it writes why, and explainers that need features refuse with that reason.
    So it does where no explainer of the run needs features; then it loads no classifier.
    """
    workspace = Workspace()
    if not readers_of_features(params):
        with atomic_folder(workspace.features(task)) as folder:
            write_refusal(folder, UnsupportedError("no explainer of the run needed any; run the stage attend again"))
        return
    classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
    with atomic_folder(workspace.features(task)) as folder:
        try:
            layer_count(classifier.model)
        except UnsupportedError as error:
            write_refusal(folder, error)
            logger.warning("%s: no attention features are written: %s", task, error)
            return
        for split in SPLITS:
            write_features(
                folder / f"{split}.parquet",
                classifier,
                workspace.read_examples(task, split),
                params.attend.layers,
                params.attend.hidden_states,
                f"{task}: attend to {split}",
            )


if __name__ == "__main__":
    attend()
