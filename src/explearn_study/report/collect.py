"""All that the report shows of one task, from the files that the stages left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from explearn.core.errors import DataError
from explearn.core.records import SPLITS, Example, RationaleKind
from explearn.core.shapes import read_document
from explearn.core.storage import read_attributions
from explearn.judge.costs import join_costs
from explearn.judge.plausibility import rationale_k
from explearn.judge.runs import read_run
from explearn.methods.registry import get_info
from explearn.methods.results import ExampleReport, Number, TaskReport
from explearn.show.examples import choose_examples, example_reports
from explearn_study import shapes
from explearn_study.metric_files import read_by_text, read_comparisons
from explearn_study.params import Params
from explearn_study.runs import read_costs, read_own_model_costs
from explearn_study.workspace import Workspace


def collect_task(workspace: Workspace, params: Params, task: str, seed: int) -> TaskReport:
    """Gather a task's metrics, how its methods compare, and the example texts to show.

    Raises DataError where a file is missing or damaged.
    """
    agreement = read_document(workspace.agreement(task), shapes.AgreementFile, "rationalise")
    classifier = read_document(workspace.metrics("classifier", task), shapes.ClassifierFigures, "finetune")
    by_split = {split: workspace.read_examples(task, split) for split in SPLITS}
    files = workspace.attribution_files(params, task)
    runs = {method: read_run(path, attributions=False) for method, path in files.items()}
    thresholds = {method: run.threshold for method, run in runs.items() if run.threshold is not None}
    k = rationale_k(agreement["mean_length"])
    rate = agreement["positive_rate"] or 0.0
    comparisons, method_agreement = read_comparisons(
        workspace.metrics("comparisons", task), workspace.metrics_table("pairs", task), params.evaluate.significance
    )
    texts = _example_texts(
        workspace, params, task, seed, by_split["test"], k=k, thresholds=thresholds, positive_rate=rate
    )
    return TaskReport(
        task=task,
        labels=workspace.read_labels(task),
        split_counts={split: len(examples) for split, examples in by_split.items()},
        agreement=agreement,
        classifier={split: classifier[split] for split in ("validation", "test") if classifier[split]},
        methods=_figures(workspace, params, task),
        k=k,
        positive_rate=rate,
        thresholds=thresholds,
        comparisons=comparisons,
        by_text=read_by_text(workspace.metrics_table("texts", task)),
        method_agreement=method_agreement,
        sanity=read_document(workspace.metrics("sanity", task), shapes.Sanity, "sanity"),
        texts=texts,
        own_models=_own_models(workspace, params, task),
        notes={method: run.notes for method, run in runs.items() if run.notes},
    )


def _figures(workspace: Workspace, params: Params, task: str) -> dict[str, dict[str, Number]]:
    """Method -> its metrics and costs. Costs are missing where the method was not run on this machine."""
    figures = read_document(workspace.metrics("explanations", task), shapes.Explanations, "evaluate")
    return join_costs(figures, read_costs(workspace, params, task))


def _own_models(workspace: Workspace, params: Params, task: str) -> dict[str, dict[str, Any]]:
    """What evaluate wrote of explainers with a classifier of their own, costs joined."""
    found: dict[str, dict[str, Any]] = read_document(workspace.metrics("own_model", task), shapes.OwnModels, "evaluate")
    if missing := sorted(set(params.own_model) - set(found)):
        raise DataError(
            f"{workspace.metrics('own_model', task)}: {', '.join(missing)} is missing; run the stage evaluate again"
        )
    for name, of_name in found.items():
        of_name["methods"] = join_costs(of_name["methods"], read_own_model_costs(workspace, params, task, name))
    return found


def _example_texts(
    workspace: Workspace,
    params: Params,
    task: str,
    seed: int,
    examples: Sequence[Example],
    *,
    k: int,
    thresholds: Mapping[str, float],
    positive_rate: float,
) -> list[ExampleReport]:
    """Draw the texts to show."""
    files = workspace.attribution_files(params, task)
    attributions = {method: {a.example_id: a for a in read_attributions(path)} for method, path in files.items()}
    gold = workspace.read_gold(task, params)
    kinds: dict[str, set[RationaleKind]] = defaultdict(set)
    for rationale in workspace.read_rationales(task):
        kinds[rationale.example_id].add(rationale.kind)
    explained = set.intersection(*(set(found) for found in attributions.values()))
    candidates = [example for example in examples if example.id in explained]
    return example_reports(
        choose_examples(candidates, gold, params.report.examples, seed),
        gold,
        {example_id: tuple(sorted(found)) for example_id, found in kinds.items()},
        attributions,
        {method: get_info(method) for method in files},
        k=k,
        thresholds=thresholds,
        positive_rate=positive_rate,
    )
