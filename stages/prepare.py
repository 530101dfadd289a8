"""Stage prepare: a task's texts from its source into one Parquet file a split."""

from explearn.core.examples import SPLITS
from explearn.core.writing import atomic_folder, write_json
from explearn_study.example_files import write_examples, write_rationales
from explearn_study.sources import load_task
from explearn_study.sources.planted import add_neutral, plant_words
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.workspace import Workspace


@stage
def prepare(task: TaskOption, run: RunOptions) -> None:
    """Read a task's source (embedded corpus, files or hub), map its rows, split and subsample them by seed.

    Writes data/examples/TASK/: train, validation, test (.parquet), native.parquet with the rationales the source
    brings, and task.json. Runs no model.
    """
    source = run.params.sources[task]
    data = load_task(task, source, run.params.data_dir, run.seed)
    if source.neutral is not None:
        data = add_neutral(data, source.neutral)
    if source.plant is not None:
        data = plant_words(data, source.plant, run.seed)
    used = {example.id for example in data.examples}
    workspace = Workspace()
    # Later stages depend on these folders, also in a run without learned methods or teachers.
    for folder in (workspace.explainer(task, ""), workspace.teacher(task, "")):
        folder.mkdir(parents=True, exist_ok=True)
    with atomic_folder(workspace.examples(task)) as folder:
        for split in SPLITS:
            write_examples(folder / f"{split}.parquet", [e for e in data.examples if e.split == split])
        write_rationales(folder / "native.parquet", data.rationales)
        write_json(
            folder / "task.json",
            {"labels": data.labels, "dropped": data.dropped, "unused_ids": sorted(data.source_ids - used)},
        )


if __name__ == "__main__":
    prepare()
