"""The model card of a bundle: Markdown for code hosts and the hub, with text from files escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import jinja2
from huggingface_hub import EvalResult, ModelCardData

from explearn.bundle.manifest import ClassifierFacts
from explearn.methods.info import MethodInfo
from explearn.metrics.base import Metric
from explearn.metrics.registry import CATALOGUE
from explearn.show.markdown import Markdown, escape_markdown, table

GROUPS = ("plausibility", "faithfulness", "behaviour")
"""Groups of metrics on the card; metrics.json has all figures that were passed."""

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("explearn.bundle", "templates"),
    finalize=lambda value: value if isinstance(value, Markdown) else escape_markdown(str(value)),
    trim_blocks=True,
    keep_trailing_newline=True,
)


def card(
    info: MethodInfo,
    signed: bool,
    options: Mapping[str, Any],
    record: Mapping[str, Any],
    classifier: ClassifierFacts | None,
    figures: Mapping[str, Any] | None,
) -> str:
    """Return the text of README.md.

    Args:
        info: the method's facts. signed: whether its scores below zero are evidence against the class.
        options: the method's options, by name. record: config.json of a trained explainer, else empty.
        classifier: the bundle's classifier, None for any. figures: content of the bundle's metrics.json, or None.
    """
    values: Mapping[str, Any] = figures["figures"] if figures else {}
    shown: list[tuple[Metric, float]] = [
        (metric, value)
        for name, metric in CATALOGUE.items()
        if metric.group in GROUPS and (value := values.get(name)) is not None
    ]
    data = ModelCardData(library_name="explearn", tags=["explearn", "explanation", "attribution"])
    if figures is not None:
        data.model_name = info.name
        data.eval_results = [
            EvalResult(
                task_type="text-classification",
                dataset_type=figures["task"],
                dataset_name=figures["task"],
                metric_type=metric.name,
                metric_name=metric.heading,
                metric_value=value,
            )
            for metric, value in shown
        ]
    facts: list[tuple[str, str]] = []
    if classifier is not None:
        if "/" in classifier.name:
            data.base_model = classifier.name
        known = {**classifier.model_dump(), "labels": ", ".join(classifier.labels)}
        facts = [(what, known[what]) for what in ("fingerprint", "name", "architecture", "labels") if known[what]]
        facts.append(("in this bundle", f"{classifier.folder}/" if classifier.folder else "no"))
    rows = []
    for metric, value in shown:
        low, high = values.get(f"{metric.name}_low"), values.get(f"{metric.name}_high")
        digits = f".{metric.decimals}f"
        interval = f"{low:{digits}} to {high:{digits}}" if low is not None and high is not None else ""
        rows.append((metric.heading, f"{value:{digits}}", interval, metric.direction or ""))
    return _TEMPLATES.get_template("card.md.j2").render(
        head=Markdown(data.to_yaml()),
        info=info,
        signed=signed,
        version=metadata.version("explearn"),
        record=record,
        options=options,
        classifier=classifier,
        figures=figures,
        classifier_table=table(("", ""), facts, left=2),
        figure_table=table(("Metric", "Value", "Interval", "Better"), rows),
        option_table=table(("Option", "Value"), [(k, json.dumps(v)) for k, v in options.items()], left=2),
    )
