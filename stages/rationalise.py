"""Stage rationalise: a task's rationales, native and imported, with the agreement of their annotators."""

from pathlib import Path

from explearn.data.agreement import agreement_metrics
from explearn.data.rationales import import_rationales
from explearn.data.storage import read_rationales, write_json, write_rationales
from explearn.errors import DataError
from explearn.params import Params
from explearn.staging import TaskOption, stage
from explearn.workspace import Workspace

HEADLINE = ("alpha", "pairwise_f1", "mean_length", "positive_rate")
"""What DVC shows of a task's rationales; the rest goes to data/rationales/TASK.json."""


@stage()
def rationalise(task: TaskOption, params: Params) -> None:
    """Collect the rationales that came with a task's texts and those in files named under `rationales`.

    Writes data/rationales/TASK.parquet, TASK.json beside it (all figures on agreement and length), and
    reports/metrics/agreement/TASK.json (Krippendorff's alpha, pairwise F1, mean length K, share of words marked). Runs
    no model: the compute options play no part.
    """
    workspace = Workspace()
    settings = params.rationale_params(task)
    examples = workspace.read_examples(task)
    rationales = read_rationales(workspace.examples(task) / "native.parquet", examples)
    unused = set(workspace.read_task(task)["unused_ids"])
    for file in settings.files:
        path = Path(params.data_dir) / file.path
        imported = import_rationales(path, file, examples, unused)
        known = {(r.example_id, r.annotator) for r in rationales}
        for rationale in imported:
            if (rationale.example_id, rationale.annotator) in known:
                raise DataError(
                    f"{path}: annotator {rationale.annotator!r} has marked {rationale.example_id!r} in another source "
                    "too; expected one rationale for each annotator and text"
                )
        rationales.extend(imported)
    found = agreement_metrics(rationales, examples, settings.train_split, params.rationale_agreement)
    write_rationales(workspace.rationales(task), rationales)
    write_json(workspace.agreement(task), found)
    write_json(workspace.metrics("agreement", task), {key: found[key] for key in HEADLINE})


if __name__ == "__main__":
    rationalise()
