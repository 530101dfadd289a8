"""Judging the methods of a comparison: their evaluation, sanity checks and remarks, for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import yaml

from explearn.comparison.explaining import MethodsRun
from explearn.comparison.plan import SANITY_TEXTS
from explearn.core.errors import UnsupportedError
from explearn.evaluation import EvaluateOptions, Evaluation, add_mosaics, evaluate
from explearn.methods.info import MethodInfo
from explearn.methods.registry import get_info, known_infos
from explearn.methods.results import RunFacts, TaskReport, in_table_order
from explearn.metrics.mosaics import make_mosaics
from explearn.metrics.params import SanityParams
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.runs import COST_FIGURES
from explearn.metrics.sanity import SanityResult, check_methods
from explearn.metrics.stability import SHARED_UNITS
from explearn.predictors.finetune import evaluate_classifier
from explearn.report.examples import draw_examples
from explearn.show.blocks import several
from explearn.text.agreement import agreement_metrics
from explearn.text.sampling import texts_to_explain
from explearn.text.units import unit_name

SHOWN_TEXTS = 20
"""Number of example texts on the page."""

MOST_MOSAICS = 12
"""Most mosaics, which take as long as the sanity checks do."""

TITLE = "Which explanations of this classifier can be trusted?"

FROM_FILE = "its scores are from a file, so it cannot explain anything else"


def judge(
    run: MethodsRun, from_files: Mapping[str, MethodInfo], seed: int, by_budget: bool
) -> tuple[Evaluation, RunFacts, TaskReport]:
    """Evaluate all methods of a comparison.

    Args:
        run: the methods' runs.
        from_files: methods whose scores are from a file.
        seed: seed of all draws.
        by_budget: whether a time budget chose the texts.

    Returns:
        The evaluation, and the run and its figures as the page shows them.
    """
    texts = run.texts
    model = texts.classifier
    name = texts.user_texts.name
    # All explain the classifier of this comparison, also those that trained it.
    infos = [info.model_copy(update={"own_model": False}) for info in known_infos() if info.name in run.runs]
    methods = in_table_order([*infos, *from_files.values()])
    # Without training texts, K and the share of marked words come from these texts.
    agreement: dict[str, Any] = agreement_metrics(texts.rationales, texts.units.values(), "test")
    k = rationale_k(agreement["mean_length"])
    positive_rate = agreement["positive_rate"] or 0.0
    options = EvaluateOptions(
        params=run.params,
        seed=seed,
        task=name,
        rules={method: methods[method].binarisation for method in run.runs},
        k=k,
        positive_rate=positive_rate,
        predictions=run.predictions,
        encodings=texts.encodings,
    )
    evaluation = evaluate(model, run.runs, texts.gold, texts=texts.units.values(), options=options)
    remarks = _remarks(run, from_files, by_budget)
    quick = [method for method in run.runs if not methods[method].costly]
    try:
        sanity = _sanity(run, quick, seed)
    except UnsupportedError as error:
        sanity = {"texts": 0, "methods": {}}
        remarks.append(f"No sanity checks: {error}.")
    if texts.unit == "word":
        # Whole texts are joined, of which words are scored.
        mosaics = make_mosaics(model, texts.examples, min(MOST_MOSAICS, run.params.mosaics), seed)
        add_mosaics(
            evaluation, {name: run.used[name] for name in quick if name in run.used}, model, mosaics, run.params
        )
    figures = {}
    thresholds = {}
    notes = {}
    for method, method_run in run.runs.items():
        costs: dict[str, float | None] = dict.fromkeys(COST_FIGURES)
        if method_run.cost:
            costs = method_run.cost.figures()
        figures[method] = {**evaluation.figures[method], **costs}
        if method_run.threshold is not None:
            thresholds[method] = method_run.threshold
        if method_run.notes:
            notes[method] = method_run.notes
    classifier = {}
    if texts.user_texts.labels:
        classifier["test"] = evaluate_classifier(model, texts.user_texts.examples)
    task = TaskReport(
        task=name,
        labels=model.labels,
        split_counts={"train": 0, "validation": 0, "test": len(texts.user_texts.examples)},
        agreement=agreement,
        classifier=classifier,
        methods=figures,
        texts=draw_examples(
            texts.explained,
            texts.rationales,
            texts.gold,
            run.runs,
            methods,
            count=SHOWN_TEXTS,
            seed=seed,
            k=k,
            positive_rate=positive_rate,
        ),
        k=k,
        positive_rate=positive_rate,
        thresholds=thresholds,
        comparisons=evaluation.comparisons,
        by_text=evaluation.by_text,
        sanity=sanity,
        notes=notes,
    )
    return evaluation, _facts(run, methods, task, remarks, seed), task


def _facts(
    run: MethodsRun,
    methods: Mapping[str, MethodInfo],
    task: TaskReport,
    remarks: list[str],
    seed: int,
) -> RunFacts:
    """Return the facts about the run that the page shows."""
    texts = run.texts
    model = texts.classifier
    unit = unit_name(texts.unit)
    accuracy = "accuracy not known"
    if task.classifier:
        accuracy = f"accuracy {task.classifier['test']['accuracy']:.3f}"
    subtitle = (
        f"Classifier {model.name} ({', '.join(model.labels)}; {accuracy}): {several(len(run.runs), 'method')} on "
        f"{several(len(texts.examples), 'text')}"
    )
    if texts.user_texts.name != "texts":  # the name of a list
        subtitle += f" ({texts.user_texts.name})"
    if unit != "word":
        scored = sum(len(encoding.words) for encoding in texts.encodings.values())
        subtitle += f", by their {several(scored, unit)}"
    options = {name: dict(method_run.options) for name, method_run in run.runs.items()}
    return RunFacts(
        title=TITLE,
        unit=unit,
        subtitle=f"{subtitle}.",
        methods=methods,
        options=options,
        evaluate=run.params,
        seed=seed,
        remarks=remarks,
        parameters=yaml.safe_dump({"seed": seed, "unit": unit, "methods": options}, sort_keys=False),
    )


def _sanity(run: MethodsRun, names: list[str], seed: int) -> dict[str, Any]:
    """Run the sanity checks of methods that take few passes; see `TaskReport.sanity`."""
    texts = run.texts
    params = SanityParams(texts=min(SANITY_TEXTS, len(texts.examples)))
    examples = texts_to_explain(texts.examples, texts.gold, params.texts, seed)
    explainers = [run.used[name] for name in names if name in run.used]
    percent = run.params.headline_percent
    results = check_methods(explainers, texts.classifier, examples, params, seed, percent, unit=texts.unit)
    checks: dict[str, Any] = {}
    for name in names:
        checks[name] = asdict(results.get(name, SanityResult(skipped=FROM_FILE)))
    return {"texts": len(examples), "methods": checks}


def _remarks(run: MethodsRun, from_files: Mapping[str, MethodInfo], by_budget: bool) -> list[str]:
    """Return sentences on what was left out, not trained or not measured."""
    texts = run.texts.user_texts
    unit = unit_name(run.texts.unit)
    remarks = []
    if run.plan.texts < len(texts.examples):
        why = "as many as requested"
        if by_budget:
            why = "as the time budget allows"
        remarks.append(f"{run.plan.texts} of {len(texts.examples)} texts were used, {why}.")
    for name, reason in {**run.plan.left_out, **run.refused}.items():
        remarks.append(f"Left out: {name} ({reason}).")
    for name in run.runs:
        if name not in from_files and name not in run.passed and get_info(name).ready:
            remarks.append(
                f"{name} uses the weights that come with the package (docs/explearn/{name}.md); nothing was trained "
                "here."
            )
    if unit not in SHARED_UNITS:
        remarks.append(f"Stability is not measured: different texts hardly ever share a {unit}.")
    if texts.rationales and not run.texts.rationales:
        remarks.append(f"Agreement with the marks is not measured: no {unit} has half of its words marked.")
    if from_files:
        remarks.append(
            f"{', '.join(from_files)}: the scores are from a file. Their cost is not known, and sanity checks need the "
            "method itself."
        )
    if texts.hint:
        remarks.append(texts.hint)
    return remarks
