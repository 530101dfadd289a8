"""The contents of the report for one task, read from the files that the stages wrote."""

from __future__ import annotations

from explearn.core.documents import read_json
from explearn.core.examples import SPLITS
from explearn.evaluation import compare_methods
from explearn.methods.results import TaskReport
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.runs import read_run
from explearn.report.examples import draw_examples
from explearn_study.metric_files import read_by_text
from explearn_study.params import Params
from explearn_study.report.costs import join_costs, read_costs
from explearn_study.workspace import Workspace


def collect_task(workspace: Workspace, params: Params, task: str, seed: int) -> TaskReport:
    """Collect a task's metrics, comparisons of its methods, and the example texts to show.

    Raises:
        DataError: a file is missing or damaged.
    """
    agreement = read_json(workspace.agreement(task))
    classifier = read_json(workspace.classifier_figures(task))
    by_split = {split: workspace.read_examples(task, split) for split in SPLITS}
    files = workspace.attribution_files(params, task)
    runs = {method: read_run(path) for method, path in files.items()}
    thresholds = {method: run.threshold for method, run in runs.items() if run.threshold is not None}
    k = rationale_k(agreement["mean_length"])
    rate = agreement["positive_rate"] or 0.0
    own = [method.name for method in params.with_own_model]
    figures = read_json(workspace.metrics("explanations", task))
    # Costs are missing if a method was not run on this machine.
    methods = join_costs(figures, read_costs(workspace, task, params.methods))
    by_text = read_by_text(workspace.metrics_table("texts", task))
    by_text |= read_by_text(workspace.metrics_table("mosaics", task))
    return TaskReport(
        task=task,
        labels=workspace.read_labels(task),
        split_counts={split: len(examples) for split, examples in by_split.items()},
        agreement=agreement,
        classifier={split: classifier[split] for split in ("validation", "test") if classifier[split]},
        methods=methods,
        k=k,
        positive_rate=rate,
        thresholds=thresholds,
        comparisons=compare_methods(methods, by_text, own, params.evaluate.significance),
        by_text=by_text,
        sanity=read_json(workspace.metrics("sanity", task)),
        texts=draw_examples(
            by_split["test"],
            workspace.read_rationales(task),
            workspace.read_gold(task, params),
            runs,
            {name: method.info for name, method in params.methods.items()},
            count=params.report.examples,
            seed=seed,
            k=k,
            positive_rate=rate,
        ),
        notes={method: run.notes for method, run in runs.items() if run.notes},
    )
