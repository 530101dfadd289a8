"""How explainers do on tasks that they were not trained on: tables, and heat maps of the gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explearn.show.blocks import Block
from explearn.show.columns import OWN_MODEL_COLUMNS, Column
from explearn.show.gains import CRITERIA, GainMap, gain
from explearn.show.markdown import Markdown, escape_markdown

ACCURACY = Column("accuracy", "Accuracy", True)

TRANSFER_INTRODUCTION = Markdown(
    "Each explainer, with the classifier that it trained on one task, is used here on the texts of another task with "
    "the same classes (IvRA, appendix E). Gains compare it with the explainer trained on the task itself, in percent "
    "of that one's figure. Below 0, training on the task itself is better. A dash: that figure is too close to 0."
)

Document = Mapping[str, Any]
"""What `explearn_study.transfer.transfer` gives."""


def transfer_blocks(documents: Sequence[Document]) -> list[Block]:
    """A table for each explainer, and the name of the figure that `transfer_maps` describes."""
    columns = [column for column in OWN_MODEL_COLUMNS if column.metric in {metric for metric, _ in CRITERIA.values()}]
    blocks = []
    for document in documents:
        rows = [
            [task, source, *(column.text(by_source[source][column.metric]) for column in (ACCURACY, *columns))]
            for task, by_source in document["tasks"].items()
            # What was trained on the task itself comes first.
            for source in (task, *(source for source in by_source if source != task))
        ]
        shown = escape_markdown(str(document["explainer"]))
        texts = ", ".join(f"{escape_markdown(task)} {count}" for task, count in document["texts"].items())
        blocks.append(
            Block(
                f"{shown} on other tasks",
                Markdown(f"Trained for {', '.join(document['criteria'])}. Texts: {texts}."),
                headings=["Task", "Trained on", ACCURACY.title, *(column.title for column in columns)],
                rows=rows,
                left=2,
                figure=_file(document),
                alt=f"Gains of {shown} trained elsewhere over trained here, by criterion",
            )
        )
    return blocks


def transfer_maps(documents: Sequence[Document]) -> list[GainMap]:
    """A heat map for each explainer: gains of training on another task, a row for each pair of tasks."""
    maps = []
    for document in documents:
        gains, moves = [], []
        for task, by_source in document["tasks"].items():
            for source, figures in by_source.items():
                if source != task:
                    moves.append(f"{source} → {task}")
                    gains.append([gain(figures[m], by_source[task][m], sign) for m, sign in CRITERIA.values()])
        title = f"Gain of {document['explainer']} trained elsewhere over trained here"
        maps.append(GainMap(_file(document), title, moves, list(CRITERIA), np.array(gains)))
    return maps


def _file(document: Document) -> str:
    return f"transfer-{document['explainer']}.svg"
