"""Judging the methods of a comparison: figures, sanity checks, mosaics, and remarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explearn.comparison.explaining import MethodsRun
from explearn.comparison.plan import SANITY_TEXTS
from explearn.evaluation.result import Evaluation
from explearn.evaluation.run import EvaluateOptions, evaluate
from explearn.methods.info import MethodInfo
from explearn.methods.registry import get_info, known_infos
from explearn.metrics.mosaics import Mosaics, make_mosaics
from explearn.metrics.params import SanityParams
from explearn.metrics.plausibility import rationale_k
from explearn.predictors.finetune import evaluate_classifier
from explearn.show.blocks import several
from explearn.text.agreement import agreement_metrics
from explearn.text.sampling import texts_to_explain
from explearn.text.units import unit_name

SHOWN_TEXTS = 20
"""Number of example texts on the page."""

MOST_MOSAICS = 12
"""Most mosaics, which take as long as the sanity checks do."""


def judge(run: MethodsRun, from_files: Mapping[str, MethodInfo], seed: int, by_budget: bool) -> Evaluation:
    """Evaluate all methods of a comparison.

    Args:
        run: the methods' runs.
        from_files: methods whose scores are from a file.
        seed: seed of all draws.
        by_budget: whether a time budget chose the texts.
    """
    texts = run.texts
    model = texts.classifier
    # All explain the classifier of this comparison, also those that trained it.
    infos = {info.name: info.model_copy(update={"own_model": False}) for info in known_infos() if info.name in run.runs}
    # Without training texts, K and the share of marked words come from these texts.
    marks: dict[str, Any] = agreement_metrics(texts.rationales, texts.units.values(), "test")
    performance = {}
    labelled = [example for example in texts.user_texts.examples if example.label]
    if labelled:
        performance["test"] = evaluate_classifier(model, labelled)
    mosaics = Mosaics([], [])
    if texts.unit == "word":
        # Whole texts are joined, of which words are scored.
        mosaics = make_mosaics(model, texts.examples, min(MOST_MOSAICS, run.params.mosaics), seed)
    quick = {name: run.used[name] for name in run.runs if name in run.used and not get_info(name).costly}
    checked = min(SANITY_TEXTS, len(texts.examples))
    options = EvaluateOptions(
        params=run.params,
        seed=seed,
        task=texts.user_texts.name,
        k=rationale_k(marks["mean_length"]),
        positive_rate=marks["positive_rate"] or 0.0,
        answers=run.predictions,
        encodings=texts.encodings,
        unit=texts.unit,
        infos={**infos, **from_files},
        explainers=quick,
        mosaics=mosaics,
        checked=texts_to_explain(texts.examples, texts.gold, checked, seed),
        sanity=SanityParams(),
        shown=SHOWN_TEXTS,
        facts={
            "marks": marks,
            "performance": performance,
            "splits": {"test": len(texts.user_texts.examples)},
            "left_out": {**run.plan.left_out, **run.refused},
            "remarks": _remarks(run, by_budget),
        },
    )
    return evaluate(model, run.runs, texts.gold, texts=texts.units.values(), options=options)


def _remarks(run: MethodsRun, by_budget: bool) -> list[str]:
    """Return sentences on the texts."""
    texts = run.texts.user_texts
    remarks = []
    if run.plan.texts < len(texts.examples):
        why = "as many as requested"
        if by_budget:
            why = "as the time budget allows"
        remarks.append(f"{run.plan.texts} of {len(texts.examples)} texts were used, {why}.")
    unlabelled = sum(not example.label for example in texts.examples)
    if texts.labels and unlabelled:
        remarks.append(f"{several(unlabelled, 'text')} without a label; accuracy is that on the others.")
    if texts.rationales and not run.texts.rationales:
        unit = unit_name(run.texts.unit)
        remarks.append(f"Agreement with the marks is not measured: no {unit} has half of its words marked.")
    if texts.hint:
        remarks.append(texts.hint)
    return remarks
