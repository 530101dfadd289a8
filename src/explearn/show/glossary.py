"""The meaning of the report's figures, for a reader who has never met them."""

from __future__ import annotations

from explearn.core.blocks import Fold, Paragraph, Table, columns
from explearn.judge import catalogue
from explearn.judge.params import EvaluateParams

INTRODUCTION = (
    "A text classifier reads a text and answers with a label. An explanation says which {unit}s led to the answer: "
    "every method gives each {unit} a score, higher meaning more evidence for the predicted label, and the "
    "highest-scoring {unit}s are the ones it chooses. A rationale is the answer to the same question by someone who "
    "read the text: the {unit}s marked as the reason for its label. Some methods are learned: they were trained on "
    "rationales or on other explanations. The others compute scores from the classifier directly.",
    "The questions below are different questions, and a method can do well on one alone.",
)


def glossary(params: EvaluateParams, unit: str = "word") -> list[Fold]:
    """Return every figure of the leaderboards, by question. unit: what is scored."""
    removed = "deleting them" if params.removal == "delete" else "the mask token"
    paper = params.protocol.upper()
    protocol = "" if paper == "DEFAULT" else f" Counts and means follow {paper}'s protocol (docs/explearn/metrics.md)."
    groups: tuple[tuple[catalogue.Group, str, str], ...] = (
        (
            "plausibility",
            "Does it agree with people? (plausibility)",
            f"Compared are chosen and marked {unit}s, all texts pooled.",
        ),
        (
            "faithfulness",
            "Does it agree with the model? (faithfulness)",
            f"The {unit}s a method ranks highest are taken out of the text (by {removed}), or kept alone, and the "
            f"classifier is asked again; p is its probability for the explained label.{protocol}",
        ),
        (
            "behaviour",
            "Can one rely on it? (stability, consistency, simulatability)",
            "Texts and their explanations are compared with each other; the last figure trains small students.",
        ),
        ("cost", "What does it cost?", "Measured on the texts explained, a first few left out."),
    )
    settings = {
        "confidence": f"{100 * params.confidence:g}",
        "percents": ", ".join(str(percent) for percent in params.percents),
        "top": f"top {params.headline_percent} %",
        "neighbours": str(params.neighbours),
        "unit": unit,
    }
    heads = columns(["Measure", "Meaning", "Better"])
    folds = []
    for group, question, answer in groups:
        of_group = [metric for metric in catalogue.CATALOGUE.values() if metric.group == group]
        leading = [metric for metric in of_group if not metric.explained_with]
        rows = []
        for metric in leading:
            explained = [other for other in of_group if other is metric or other.explained_with == metric.name]
            directions = ", ".join(dict.fromkeys(other.direction for other in explained if other.direction))
            rows.append([metric.term or metric.heading, metric.summary.format(**settings), directions])
        folds.append(Fold(question, [Paragraph(answer), Table(heads, rows)]))
    return folds
