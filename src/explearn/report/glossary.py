"""The meaning of the report's figures, for readers who do not know them."""

from __future__ import annotations

from explearn.metrics.base import Group, Metric
from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE
from explearn.show.blocks import Bullets, Fold, Table, bold, columns

INTRODUCTION = (
    "A text classifier reads a text and predicts a label. An explanation says which {unit}s led to the prediction: "
    "every method gives each {unit} a score, where higher means more evidence for the predicted label, and chooses the "
    "highest-scoring {unit}s. A rationale is the same kind of answer from a reader of the text, a person or a language "
    "model: the {unit}s marked as the reason for its label. Some methods are learned: they were trained on rationales, "
    "on other explanations or on the classifier's predictions. The others compute scores from the classifier directly.",
    "The questions below are independent: a method can do well on only one of them.",
)


def glossary(params: EvaluateParams, unit: str = "word") -> Fold:
    """Return an explanation of every figure in the leaderboards, by question.

    Args:
        params: settings of the metrics.
        unit: what is scored.
    """
    removed = {"delete": "deleting them", "mask": "the mask token"}[params.removal]
    protocol = ""
    if params.protocol != "default":
        protocol = f" Counts and means follow {params.protocol.upper()}'s protocol (docs/explearn/metrics.md)."
    groups: tuple[tuple[Group, str, str], ...] = (
        (
            "plausibility",
            "Does it agree with the marks? (plausibility)",
            f"Chosen {unit}s are compared with marked ones, pooled over all texts.",
        ),
        (
            "faithfulness",
            "Does it agree with the model? (faithfulness)",
            f"The {unit}s that a method ranks highest are removed from the text (by {removed}), or only they are kept; "
            f"p is the probability that the classifier then gives the explained label.{protocol}",
        ),
        (
            "known",
            "Does it find what is known to be there? (known answers)",
            "Texts are made so that the answer is known without anybody's marks.",
        ),
        (
            "behaviour",
            "Can one rely on it? (stability, consistency, simulatability)",
            "Texts and their explanations are compared with each other; the last figure trains small students.",
        ),
        ("cost", "What does it cost?", "Measured on the explained texts, after a few to warm up."),
    )
    settings = {
        "confidence": f"{100 * params.confidence:g}",
        "percents": ", ".join(str(percent) for percent in params.percents),
        "top": f"top {params.headline_percent} %",
        "neighbours": str(params.neighbours),
        "unit": unit,
    }
    answers = []
    rows = []
    for group, question, answer in groups:
        answers.append(f"{bold(question)} {answer}")
        metrics = [metric for metric in CATALOGUE.values() if metric.group == group]
        for metric in metrics:
            if not metric.explained_with:
                summary = metric.summary.format(**settings)
                rows.append([metric.term or metric.heading, summary, _directions(metric, metrics)])
    return Fold("Each figure", [Bullets(answers), Table(columns(["Measure", "Meaning", "Better"]), rows)])


def _directions(metric: Metric, metrics: list[Metric]) -> str:
    """Return the better direction of a metric, and of those that are explained with it."""
    directions: dict[str, None] = {}
    for other in metrics:
        together = other is metric or other.explained_with == metric.name
        if together and other.direction:
            directions[other.direction] = None
    return ", ".join(directions)
