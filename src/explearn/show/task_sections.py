"""The sections on one task as plain tables and sentences, for Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explearn.judge.significance import PairedTests
from explearn.methods.aml.report import aml_blocks
from explearn.methods.registry import get_info, leaderboard_order
from explearn.show.blocks import Block
from explearn.show.columns import (
    BEHAVIOUR_COLUMNS,
    FAITHFULNESS_COLUMNS,
    OWN_MODEL_COLUMNS,
    PLAUSIBILITY_COLUMNS,
    Column,
    leaderboard,
    marked,
)
from explearn.show.markdown import Markdown, escape_markdown
from explearn.show.missing import has_no_marks
from explearn.show.task_report import Number, TaskReport

COMPARED = (
    PLAUSIBILITY_COLUMNS[3],
    PLAUSIBILITY_COLUMNS[6],
    FAITHFULNESS_COLUMNS[3],
    FAITHFULNESS_COLUMNS[4],
    BEHAVIOUR_COLUMNS[0],
)
"""The figures whose paired tests the report shows for every two methods: F1 top-K, AUROC, both AOPC, stability."""

BETTER, WORSE, LEVEL, SELF = "+", "−", "·", ""
"""Cells of the significance matrix: the row's method against the column's."""

_RULES = {
    "top_k": "the K highest-scoring words",
    "threshold": "words that score {threshold} or more, at least one",
    "positive_rate": "each word at random, as often as training texts are marked",
    "expected_f1": "the words whose probabilities promise the largest F1",
}


def blocks(task: TaskReport) -> list[Block]:
    """What the report says about AML's methods, and about explainers with a classifier of their own."""
    return [*aml_blocks(task), *own_model_blocks(task)]


def own_model_blocks(task: TaskReport) -> list[Block]:
    """For each explainer with a classifier of its own: its accuracy, and the methods compared on it."""
    shown = []
    for name, found in task.own_models.items():
        criteria = escape_markdown(", ".join(found["criteria"]))
        sentence = f"Trained for {criteria}: epoch {found['best_epoch']} of {found['epochs']} was the best."
        if not found["best_epoch"]:
            sentence = (
                f"**Not trained:** it was to be trained for {criteria}, but none of {found['epochs']} epochs was "
                "better than the start. These are the figures of the untrained module on the task's own classifier."
            )
        accuracy, before = (of.get("test", {}).get("accuracy") for of in (found["classifier"], task.classifier))
        if accuracy is not None and before is not None:
            points = round(100 * (accuracy - before), 1) + 0.0
            sentence += (
                f" The test accuracy of its classifier is {accuracy:.3f}, that of the task's own {before:.3f} "
                f"({points:+.1f} points)."
            )
        sentence += (
            " All methods here explain that classifier, on the same texts. Bold: the best; underlined: not "
            "significantly worse. Important words: the share of words with outstanding scores, a measure of how "
            "concise explanations are; it is not tested."
        )
        standings = {
            column.metric: _standing(column, found["methods"], found["tied"][column.metric])
            for column in OWN_MODEL_COLUMNS
            if column.metric in found["tied"]
        }
        rows = [
            [row.method, *(cell.markdown(False) for cell in row.cells)]
            for row in leaderboard(found["methods"], OWN_MODEL_COLUMNS, standings)
        ]
        headings = ["Method", *(Markdown(column.title) for column in OWN_MODEL_COLUMNS)]
        shown.append(Block(f"On the classifier of {name}: {task.task}", Markdown(sentence), headings, rows))
    return shown


@dataclass(frozen=True, slots=True)
class _Standing:
    """Who has the best figure of a metric, and who is worse, but not significantly so."""

    best: Sequence[str]
    tied: Sequence[str]


def _standing(column: Column, methods: Mapping[str, Mapping[str, Number]], level: Sequence[str]) -> _Standing:
    """level: the best methods and those not significantly worse, together, as the stage evaluate writes them."""
    values = {method: value for method in level if (value := methods[method].get(column.metric)) is not None}
    top = (max if column.larger_is_better else min)(values.values(), default=None)
    best = [method for method, value in values.items() if value == top]
    return _Standing(best, [method for method in level if method not in best])


def facts(task: TaskReport) -> list[tuple[str, Markdown]]:
    """Labels, texts, rationales and the agreement of annotators: name and value."""
    agreement = task.agreement
    found = [
        ("Labels", Markdown(", ".join(escape_markdown(label) for label in task.labels))),
        ("Texts", Markdown(", ".join(f"{escape_markdown(s)} {n:,}" for s, n in task.split_counts.items() if n))),
    ]
    marked = agreement.get("texts")
    if marked:
        listed = ", ".join(f"{escape_markdown(split)} {n:,}" for split, n in marked.items())
        found.append(("Texts with rationales", Markdown(listed)))
    mean_length = agreement.get("mean_length")
    # Where nobody marked a word, K is 1 for want of anything better.
    if task.k is not None and (mean_length is not None or not has_no_marks(task)):
        mean = "" if mean_length is None else f" (mean length of the rationales in training: {mean_length:.2f})"
        found.append(("Number of words chosen by the top-K rule, K", Markdown(f"{task.k}{mean}")))
    if task.positive_rate is not None:
        found.append(("Share of words marked in training", figure(task.positive_rate)))
    kinds = agreement.get("kinds")
    if kinds:
        found.append(("Rationales", Markdown(", ".join(f"{escape_markdown(kind)} {n:,}" for kind, n in kinds.items()))))
    none = "no text was marked by two annotators"
    texts = agreement.get("alpha_texts")
    over = f" over {texts:,} texts" if texts else ""
    found.append(
        (
            f"Agreement of annotators{over}, Krippendorff's alpha (1: perfect, 0: chance)",
            figure(agreement.get("alpha"), none),
        )
    )
    found.append((f"Agreement of annotators{over}, mean F1 over pairs", figure(agreement.get("pairwise_f1"), none)))
    return found


def annotator_pairs(task: TaskReport) -> list[list[str]]:
    """A row for each pair of annotators: names, texts, alpha and mean F1. None where there are fewer than two pairs."""
    pairs = task.agreement.get("alpha_by_pair") or {}
    if len(pairs) < 2:
        return []
    return [
        [who, f"{found['texts']:,}", figure(found["alpha"]), figure(found["pairwise_f1"])]
        for who, found in pairs.items()
    ]


def classifier_rows(task: TaskReport) -> list[list[str]]:
    """A row for each split: accuracy, share of the most frequent class, macro F1, MCC and texts."""
    return [
        [
            split,
            *(figure(row.get(name)) for name in ("accuracy", "majority_rate", "macro_f1", "mcc")),
            Markdown("–" if row.get("texts") is None else f"{row['texts']:,}"),
        ]
        for split, row in task.classifier.items()
    ]


def counted(task: TaskReport) -> Markdown | None:
    """How many texts the figures rest on; the number may differ for methods that explain their own classifier."""
    if not task.methods:
        return None

    def span(name: str) -> str:
        values = sorted({int(v) for m in task.methods.values() if (v := m.get(name)) is not None})
        if not values:
            return "–"
        return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"

    right = ", and classified correctly" if task.classifier else ""
    sentence = (
        f"Agreement is measured on {span('plausibility_texts')} test texts (marked{right}), faithfulness on "
        f"{span('texts')}."
    )
    if has_no_marks(task):
        sentence = f"Faithfulness is measured on {span('texts')} test texts."
    lost = max((int(m.get("unaligned_words") or 0) for m in task.methods.values()), default=0)
    if lost:
        sentence += (
            f" Up to {lost:,} words have no sub-token, or the classifier does not read them because they are cut off "
            "or unknown; they have no score, and are never chosen and ranked last."
        )
    own = [method for method in leaderboard_order(task.methods) if get_info(method).own_model]
    if own:
        sentence += (
            f" {', '.join(escape_markdown(marked(method)) for method in own)}: explains a classifier of its own. Where "
            "a figure depends on the classifier, it is never marked as best or not significantly worse. Its agreement "
            "is measured on the texts that its own classifier gets right."
        )
    return Markdown(sentence)


def method_rows(tasks: Sequence[TaskReport]) -> list[list[str]]:
    """A row for each method: family, name, what it does, the words it chooses and its cost."""
    rows = []
    for name in leaderboard_order(list(dict.fromkeys(m for task in tasks for m in task.methods))):
        info = get_info(name)
        thresholds = sorted({task.thresholds[name] for task in tasks if name in task.thresholds})
        rule = _RULES[info.binarisation].format(
            threshold=" or ".join(f"{value:g}" for value in thresholds) or "its threshold"
        )
        rows.append([info.family, name, info.summary, rule, info.cost])
    return rows


def significance_matrix(comparison: PairedTests, level: float) -> list[tuple[str, list[str]]]:
    """Methods in leaderboard order, each with BETTER, WORSE or LEVEL against every other, and SELF against itself."""
    methods = leaderboard_order(list(comparison.methods))
    place = {method: comparison.methods.index(method) for method in methods}
    outcomes = comparison.outcomes(level)
    said = {1: BETTER, -1: WORSE, 0: LEVEL}

    def cell(row: str, column: str) -> str:
        return SELF if row == column else said[int(outcomes[place[row], place[column]])]

    return [(row, [cell(row, column) for column in methods]) for row in methods]


def matrices(task: TaskReport, level: float) -> list[tuple[Column, list[tuple[str, list[str]]]]]:
    """`significance_matrix` for those of COMPARED that at least two methods have."""
    return [
        (column, significance_matrix(comparison, level))
        for column in COMPARED
        if (comparison := task.comparisons.get(column.metric)) is not None and len(comparison.methods) > 1
    ]


def agreement_rows(task: TaskReport, measure: str = "rank_agreement") -> list[tuple[str, list[str]]]:
    """Methods in leaderboard order, each with its agreement with every other by a measure, in percent."""
    matrix = task.method_agreement.get(measure)
    names = list(task.methods)
    if matrix is None or len(matrix) != len(names) or len(names) < 2:
        return []
    order = [names.index(method) for method in leaderboard_order(names)]

    def cell(i: int, j: int) -> str:
        return "" if i == j else "–" if np.isnan(matrix[i, j]) else f"{round(100 * float(matrix[i, j])) + 0:d}"

    return [(names[i], [cell(i, j) for j in order]) for i in order]


def sanity_rows(task: TaskReport) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the sanity checks, one row per method of the task; no rows where none was checked.

    A row has the rank correlation (with interval) and the overlap after each part of the classifier was drawn anew, the
    same for permuted labels where that was done, and max-sensitivity; or the reason why the method was not checked.
    """
    checked: Mapping[str, Any] = task.sanity.get("methods", {})
    parts = list(dict.fromkeys(part for result in checked.values() for part in result["random_model"]))
    labels = any(result["random_labels"] for result in checked.values())
    whole = parts[-1:] if len(parts) == 1 else []
    headings = ["Method"]
    for part in parts:
        name = "new weights" if part in whole else f"new weights down to {part}"
        headings += [f"Rank correlation, {name}", f"Top words kept, {name}"]
    headings += ["Rank correlation, permuted labels", "Top words kept, permuted labels"] if labels else []
    headings.append("Max-sensitivity ↓")
    rows = []
    for method in leaderboard_order(list(dict.fromkeys([*checked, *task.methods]))) if checked else []:
        if method not in checked:
            rows.append([method, *["–"] * (len(headings) - 2), "not checked: not among sanity.methods"])
            continue
        result = checked[method]
        row = [method]
        for similarity in [
            *(result["random_model"].get(part) for part in parts),
            *([result["random_labels"]] * labels),
        ]:
            row += _similarity(similarity)
        sensitivity = result["max_sensitivity"]
        row.append("–" if sensitivity is None else f"{sensitivity:.3f}")
        if result["skipped"]:
            row[-1] = f"not checked: {result['skipped']}"
        rows.append(row)
    return headings, rows


def sanity_sentence(task: TaskReport) -> Markdown:
    """Which checks were made, on how many texts, and which were not."""
    seeds = task.sanity.get("seeds")
    sentence = (
        f"{task.sanity.get('texts', 0)} texts were explained again after all the classifier's weights were drawn anew"
        f"{f', under {seeds} seeds (means; the intervals take in all of them)' if seeds else ''}. "
        "A method that reads the model then gives other scores, so rank correlation and overlap with the earlier "
        "scores should be low. Max-sensitivity is the largest relative change of the scores under slight noise on the "
        "word embeddings; small means steady."
    )
    if not any(result["random_labels"] for result in task.sanity.get("methods", {}).values()):
        sentence += " The check with a classifier trained on permuted labels was not run (sanity.random_labels)."
    return Markdown(sentence)


def _similarity(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return ["–", "–"]
    rho, low, high = found["spearman"], found["spearman_low"], found["spearman_high"]
    shown = "–" if rho is None else f"{rho:.2f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")
    return [Markdown(shown), Markdown(f"{found['overlap']:.2f}")]


def figure(value: Number, missing: str = "–") -> Markdown:
    """A number with three decimals, or `missing` where there is none."""
    return Markdown(missing if value is None else f"{round(value, 3) + 0.0:.3f}")
