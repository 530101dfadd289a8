"""Example texts, with the words that methods choose."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from explearn.core.attribution import Attribution
from explearn.core.examples import Example
from explearn.core.words import lay_out
from explearn.evaluation.result import Evaluation
from explearn.metrics.plausibility import binarise
from explearn.report.run import ANNOTATORS, RunFacts
from explearn.show.blocks import ExampleText, TextRow, several
from explearn.show.display import disagreed, output_of, pale

SHORT_TEXT = 30
"""Preferred length limit of the text that is shown first, in words."""


def first_text(run: RunFacts, methods: Collection[str]) -> ExampleText | None:
    """Return the most suitable drawn text: classified correctly, marked, short.

    Texts are drawn at random, before the methods' figures on them are known.

    Args:
        run: the run.
        methods: the methods to show.

    Returns:
        The text; None if there is no text or no method.
    """
    texts: list[tuple[Evaluation, Example]] = []
    for task in run.counted:
        texts += [(task, example) for example in task.examples]
    if not texts or not methods:
        return None
    task, example = min(texts, key=lambda pair: _unsuited(*pair))
    return example_text(task, example, f"A text of {task.task}", methods)


def _unsuited(task: Evaluation, example: Example) -> tuple[bool, bool, bool]:
    """Return what speaks against showing a text first, the most serious first."""
    return example.id not in task.gold, is_right(task, example) is not True, len(example.all_words) > SHORT_TEXT


def explanations_of(task: Evaluation, example: Example) -> dict[str, Attribution]:
    """Return the explanations of a shown text, by method."""
    return {found.method: found for found in task.attributions if found.example_id == example.id}


def answer_of(task: Evaluation, example: Example) -> Attribution | None:
    """Return an explanation that holds the prediction of the task's classifier; None if nothing was explained."""
    explanations = explanations_of(task, example)
    for method, attribution in explanations.items():
        if not task.infos[method].own_model:
            return attribution
    return next(iter(explanations.values()), None)


def is_right(task: Evaluation, example: Example) -> bool | None:
    """Return whether the predicted class is the true label; None if that is unknown, as for questions."""
    answer = answer_of(task, example)
    if answer is None or not example.label or (example.focus and example.pair):
        return None
    return answer.predicted == example.label


def example_text(task: Evaluation, example: Example, name: str, methods: Collection[str]) -> ExampleText:
    """Return a text with its marked words and the words that methods choose by their own rule.

    Args:
        task: the evaluation that it belongs to.
        example: the text.
        name: its heading.
        methods: the methods that are shown.
    """
    label = example.label
    if example.focus and example.pair:
        label = lay_out(example.all_words[slice(*example.focus)], example.joined, example.focus[0]).text
    facts = []
    if label:
        facts.append(f"true label {label}")
    answer = answer_of(task, example)
    if answer is not None:
        figures = [f"p = {answer.probability:.2f}"]
        figures += [f"{found.label} {found.probability:.2f}" for found in answer.classes[1:]]
        facts.append(f"predicted {answer.predicted} ({'; '.join(figures)})")
    rows = []
    gold = np.array(task.gold.get(example.id, [False] * len(example.all_words)))
    if gold.any():
        kinds = task.marks.get("kinds") or {}
        who = ", ".join(ANNOTATORS.get(kind, "by whom is unknown") for kind in kinds)
        rows.append(TextRow("marked", f"{who}: {several(int(gold.sum()), task.unit)}", gold.tolist()))
    # Attribution files have no positions of words.
    spans: tuple[tuple[int, int], ...] = ()
    for segment in example.segments:
        spans += segment.spans
    explanations = explanations_of(task, example)
    for method in methods:
        scores = replace(explanations[method], spans=spans)
        rule = task.infos[method].binarisation
        if rule == "threshold" and method not in task.thresholds:
            rule = "top_k"
        chosen = scores.read & binarise(
            scores.filled(),
            rule,
            k=task.k or 1,
            threshold=task.thresholds.get(method),
            positive_rate=task.positive_rate or 0.0,
        )
        count = int(chosen.sum())
        note = several(count, task.unit)
        if gold.any():
            note = f"{int((chosen & gold).sum())} of {count} are marked"
        if answer is not None and scores.target != answer.predicted:
            # A method with its own classifier explains that classifier's prediction.
            note += f"; explains “{scores.target}”"
        note = "; ".join(filter(None, [note, output_of(scores), pale(scores)]))
        rows.append(TextRow(method, note, chosen.tolist(), scores, method))
    if disagreement := disagreed([row.attribution for row in rows if row.attribution is not None]):
        facts.append(disagreement)
    pair = None
    if example.pair:
        pair = len(example.words)
    note = "".join(f" · {fact}" for fact in facts).lstrip()
    return ExampleText(name, note, example.all_words, rows, pair, is_right(task, example), example.joined)
