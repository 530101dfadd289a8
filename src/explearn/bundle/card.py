"""The model card of a bundle: Markdown that code hosts and the hub show. What comes from files is escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explearn.bundle.manifest import ClassifierFacts
from explearn.core.version import explearn_version
from explearn.core.visible import visible_json
from explearn.judge.catalogue import CATALOGUE
from explearn.methods.info import MethodInfo
from explearn.show.markdown import Markdown, escape_markdown, table

GROUPS = ("plausibility", "faithfulness", "behaviour")
"""Of the metrics that a card shows; metrics.json holds all figures that were given."""

LIMITS = (
    "A score says how much a word counts for the class by this method. It is no proof that the classifier used the "
    "word, and it does not say whether the classifier is right.",
    "Methods disagree. Judge them on your own classifier and texts (`explearn compare`) before you rely on one.",
    "Words that the classifier does not read, since the text is longer than it takes, have no score.",
    "The hashes in `manifest.json` reveal damage and mix-ups. They do not say who made the bundle.",
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a card tells.

    Attributes:
        info: of the method. signed: whether its scores below zero are evidence against the class.
        options: of the method, by name. record: config.json of a trained one, else empty.
        classifier: that it was made for, None for any. figures: as in the bundle's metrics.json, None for none.
    """

    info: MethodInfo
    signed: bool
    options: Mapping[str, Any]
    record: Mapping[str, Any]
    classifier: ClassifierFacts | None
    figures: Mapping[str, Any] | None


def card(facts: Facts) -> str:
    """The text of README.md."""
    parts = [_head(facts), _what(facts), _training(facts), _classifier(facts), _loading(facts), _figures(facts)]
    parts += [_options(facts), "## Limits\n\n" + "\n".join(f"* {limit}" for limit in LIMITS)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(facts: Facts) -> str:
    """What the hub reads; JSON strings are YAML."""
    lines = ["library_name: explearn", "tags:", *(f"- {tag}" for tag in ("explearn", "explanation", "attribution"))]
    if facts.classifier is not None and "/" in facts.classifier.name:
        lines.append(f"base_model: {visible_json(facts.classifier.name, ascii_only=True)}")
    return "\n".join(["---", *lines, "---"])


def _what(facts: Facts) -> str:
    info = facts.info
    signed = (
        "Scores above 0 are evidence for the class, scores below 0 against it."
        if facts.signed
        else "The larger a score, the more the word counts; scores have no sign."
    )
    return (
        f"# {escape_markdown(info.name)}: why a text classifier gave a text its label\n\n"
        f"{escape_markdown(info.summary)} For each word of a text it gives a score for a class. {signed} "
        f"Family: {info.family}. Cost of one text: {escape_markdown(info.cost)}. "
        f"Written by Explearn {escape_markdown(explearn_version())}."
    )


def _training(facts: Facts) -> str:
    if not facts.record:
        return "## Training\n\nThe method is computed; nothing was trained."
    said = ["The weights are in `explainer/`."]
    tasks = facts.record.get("trained_on")
    if isinstance(tasks, list) and tasks:
        said.append(f"Marked words of these tasks played a part: {', '.join(_code(str(task)) for task in tasks)}.")
    teacher = facts.options.get("teacher")
    if isinstance(teacher, str):
        said.append(f"It was taught by {_code(teacher)}.")
    if facts.info.base is not None:
        said.append(f"They are those of {_code(facts.info.base)}, and are trained on with each text.")
    return f"## Training\n\n{' '.join(said)}"


def _classifier(facts: Facts) -> str:
    found = facts.classifier
    if found is None:
        return "## Classifier\n\nNone in particular: it explains every classifier that the method can take."
    rows = [("fingerprint", found.fingerprint)]
    rows += [(what, value) for what, value in (("name", found.name), ("architecture", found.architecture)) if value]
    if found.labels:
        rows.append(("labels", ", ".join(found.labels)))
    rows.append(("in this bundle", f"{found.folder}/" if found.folder else "no"))
    return (
        "## Classifier\n\nThe bundle belongs to this classifier and refuses others.\n\n"
        f"{table(('', ''), [(row[0], row[1]) for row in rows], left=2)}"
    )


def _loading(facts: Facts) -> str:
    if facts.classifier is not None and facts.classifier.folder is not None:
        more, call, option = "", "bundle.explain(texts)", ""
    else:
        more = 'classifier = explearn.Classifier.from_pretrained("FOLDER OR HUB NAME")\n'
        call, option = "bundle.explain(classifier, texts)", " --classifier FOLDER_OR_HUB_NAME"
    return (
        "## How to load\n\n```python\nimport explearn\n\n"
        'bundle = explearn.load("PATH OR HUB NAME OF THIS BUNDLE")\n'
        f'{more}texts = ["A text to explain."]\nfor attribution in {call}:\n    attribution.print()\n```\n\n'
        f'```sh\nexplearn explain --explainer PATH_OF_THIS_BUNDLE{option} "A text to explain."\n```'
    )


def _figures(facts: Facts) -> str:
    if facts.figures is None:
        return "## Figures\n\nNone were given."
    values, rows = facts.figures["figures"], []
    for name, metric in CATALOGUE.items():
        value = values.get(name)
        if metric.group not in GROUPS or not isinstance(value, int | float):
            continue
        low, high = values.get(f"{name}_low"), values.get(f"{name}_high")
        known = isinstance(low, int | float) and isinstance(high, int | float)
        interval = f"{low:.{metric.decimals}f} to {high:.{metric.decimals}f}" if known else ""
        better = {"higher": "higher", "lower": "lower", None: ""}[metric.direction]
        rows.append((metric.heading, f"{value:.{metric.decimals}f}", interval, better))
    texts = values.get("texts")
    count = f" on {texts:,} texts" if isinstance(texts, int) else ""
    return (
        f"## Figures\n\nOf {_code(str(facts.figures['method']))} on task {_code(str(facts.figures['task']))}{count}, "
        "as they were given to the export; intervals are over resampled texts. `metrics.json` has all of them.\n\n"
        f"{table(('Metric', 'Value', 'Interval', 'Better'), rows)}"
    )


def _options(facts: Facts) -> str:
    if not facts.options:
        return ""
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in facts.options.items()]
    return f"## Options\n\n{table(('Option', 'Value'), rows, left=2)}"


def _code(text: str) -> Markdown:
    return Markdown(f"**{escape_markdown(text)}**")
