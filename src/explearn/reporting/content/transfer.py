"""How explainers do on tasks that they were not trained on: tables and heat maps of what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explearn.reporting.content.blocks import Panel
from explearn.reporting.content.columns import OWN_MODEL_COLUMNS, Column
from explearn.reporting.content.criterion_tables import CRITERIA, gain
from explearn.reporting.content.markdown import Markdown, escape_markdown
from explearn.reporting.figures.heatmaps import write_gains

ACCURACY = Column("accuracy", "Accuracy", True)

TRANSFER_INTRODUCTION = Markdown(
    "What an explainer learned on one task, with the classifier that it trained there, used on the texts of another "
    "with the same classes (IvRA, appendix E). Gains are those over the explainer that was trained on the task itself, "
    "in percent of its figure: below 0, training there is worth it; a dash stands where that figure is too near to 0."
)

Document = Mapping[str, Any]
"""What `explearn.pipeline.transfer.transfer` gives."""


def transfer_panels(documents: Sequence[Document], folder: Path | None = None) -> list[Panel]:
    """A table and a heat map an explainer; the heat maps are drawn into `folder`, where one is given."""
    columns = [column for column in OWN_MODEL_COLUMNS if column.metric in {metric for metric, _ in CRITERIA.values()}]
    panels = []
    for document in documents:
        name = str(document["explainer"])
        rows, gains, moves = [], [], []
        for task, by_source in document["tasks"].items():
            here = by_source[task]
            # First what was trained on the task itself.
            for source in (task, *(source for source in by_source if source != task)):
                figures = by_source[source]
                rows.append([task, source, *(column.text(figures[column.metric]) for column in (ACCURACY, *columns))])
                if source != task:
                    moves.append(f"{source} → {task}")
                    gains.append([gain(figures[m], here[m], sign) for m, sign in CRITERIA.values()])
        figure = f"transfer-{name}.svg"
        if folder is not None:
            title = f"Gain of {name} trained elsewhere over trained here"
            write_gains(folder / figure, title, moves, list(CRITERIA), np.array(gains))
        shown = escape_markdown(name)
        texts = ", ".join(f"{escape_markdown(task)} {count}" for task, count in document["texts"].items())
        panels.append(
            Panel(
                f"{shown} on other tasks",
                Markdown(f"Trained for {', '.join(document['criteria'])}. Texts: {texts}."),
                headings=["Task", "Trained on", ACCURACY.title, *(column.title for column in columns)],
                rows=rows,
                left=2,
                figure=figure,
                alt=f"Gains of {shown} trained elsewhere over trained here, by criterion",
            )
        )
    return panels
