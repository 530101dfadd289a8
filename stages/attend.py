"""Stage attend: predictions and attention features of every sub-token."""

from explearn.core.compute import ComputeOptions
from explearn.core.records import SPLITS
from explearn.core.storage import atomic_folder
from explearn.introspection.features import write_features
from explearn.models.classifier import Classifier
from explearn.pipeline.base.params import Params
from explearn.pipeline.base.staging import TaskOption, stage
from explearn.pipeline.base.workspace import Workspace


@stage()
def attend(task: TaskOption, params: Params, compute: ComputeOptions) -> None:
    """Classify a task's texts and keep, for every sub-token, its attention from and to the [CLS] token, in every
    layer and head.

    Writes data/features/TASK/SPLIT.parquet, shard by shard: memory does not grow with the number of texts.
    """
    workspace = Workspace()
    classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
    with atomic_folder(workspace.features(task)) as folder:
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
