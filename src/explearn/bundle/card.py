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
        info: the method's facts.
        signed: whether its scores below zero are evidence against the class.
        options: the method's options, by name.
        record: config.json of a trained explainer, else empty.
        classifier: the bundle's classifier, None for any.
        figures: content of the bundle's metrics.json, or None.
    """
    data = ModelCardData(library_name="explearn", tags=["explearn", "explanation", "attribution"])
    rows: list[tuple[str, ...]] = []
    if figures is not None:
        values = figures["figures"]
        data.model_name = info.name
        data.eval_results = []
        task = str(escape_markdown(figures["task"]))  # some viewers render the head, too
        for metric in CATALOGUE.values():
            value = values.get(metric.name)
            if metric.group not in GROUPS or value is None:
                continue
            rows.append((metric.heading, _rounded(metric, value), _interval(metric, values), metric.direction or ""))
            data.eval_results.append(
                EvalResult(
                    task_type="text-classification",
                    dataset_type=task,
                    dataset_name=task,
                    metric_type=metric.name,
                    metric_name=metric.heading,
                    metric_value=value,
                )
            )
    facts = []
    if classifier is not None:
        facts = [
            ("fingerprint", classifier.fingerprint),
            ("name", classifier.name),
            ("architecture", classifier.architecture),
            ("labels", ", ".join(classifier.labels)),
            ("in this bundle", f"{classifier.folder}/" if classifier.folder else "no"),
        ]
        if "/" in classifier.name:
            data.base_model = classifier.name
    listed_options = [(name, json.dumps(value)) for name, value in options.items()]
    return _TEMPLATES.get_template("card.md.j2").render(
        head=Markdown(data.to_yaml()),
        info=info,
        signed=signed,
        version=metadata.version("explearn"),
        record=record,
        options=options,
        classifier=classifier,
        figures=figures,
        classifier_table=table(("", ""), [(name, fact) for name, fact in facts if fact], left=2),
        figure_table=table(("Metric", "Value", "Interval", "Better"), rows),
        option_table=table(("Option", "Value"), listed_options, left=2),
    )


def _rounded(metric: Metric, value: float) -> str:
    return f"{value:.{metric.decimals}f}"


def _interval(metric: Metric, values: Mapping[str, Any]) -> str:
    low = values.get(f"{metric.name}_low")
    high = values.get(f"{metric.name}_high")
    if low is None or high is None:
        return ""
    return f"{_rounded(metric, low)} to {_rounded(metric, high)}"
