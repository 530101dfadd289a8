"""The section on how methods rank where faithfulness is measured on a twin of the classifier."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from explearn.evaluation.result import Evaluation
from explearn.metrics.registry import CATALOGUE
from explearn.report.run import MODEL, RunFacts, pooled
from explearn.show.blocks import Block, Fold, Heading, Paragraph, Table, columns, figure

FAR = 3
"""Most places that a method may move without being named."""


def twin_blocks(run: RunFacts, twins: Mapping[str, Evaluation]) -> list[Block]:
    """Return the section: how far the two orders of the methods agree, who moves far, and a folded table.

    Args:
        run: the run.
        twins: task -> the evaluation on its classifier's twin; empty if no twin was trained.
    """
    if not twins:
        return []
    on_twins = pooled([twins[task.task] for task in run.counted]).values(MODEL)
    figures = pd.DataFrame({"classifier": run.overall.values(MODEL), "twin": on_twins}).dropna()
    # Rank 1 is the largest value.
    places = figures.rank(ascending=False).sort_values("classifier")
    rho = places["classifier"].corr(places["twin"])
    rows = []
    moved = []
    for method, before, after in places.itertuples():
        on_classifier, on_twin = figures.loc[method]
        rows.append([method, figure(on_classifier), f"{before:g}", figure(on_twin), f"{after:g}"])
        if abs(before - after) > FAR:
            moved.append(f"{method} (from place {before:g} to {after:g})")
    title = CATALOGUE[MODEL].heading
    sentence = (
        "On a twin of each classifier, fine-tuned with words removed at random, so that shortened texts are no news to "
        f"it (F-Fidelity, Zheng et al. 2025), the order of the methods by {title} has a rank correlation of {rho:.2f} "
        f"with that on the classifiers; moved by more than {FAR} places: {', '.join(moved) or 'none'}."
    )
    table = Table(columns(["Method"], [title, "Place", f"{title}, twin", "Place, twin"]), rows)
    return [Heading("Removal inside the distribution"), Paragraph(sentence), Fold("Places of all methods", [table])]
