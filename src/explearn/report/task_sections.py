"""The section on one task."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.base import Group
from explearn.metrics.registry import CATALOGUE
from explearn.report.caveats import has_no_marks
from explearn.report.columns import Standing, leaderboard, marked, metrics_of
from explearn.report.examples import example_text
from explearn.report.verdict import QUESTIONS, near_chance, several
from explearn.show.blocks import Block, Cell, Fold, Heading, Paragraph, Table, columns, figure

BOARDS: dict[Group, str] = {
    "plausibility": "Agreement with the marks",
    "faithfulness": "Agreement with the model",
    "behaviour": "Stability, consistency and simulatability",
    "cost": "Cost",
}
"""The tables of a task: group of metrics and title."""

OPEN_BOARDS: tuple[Group, ...] = ("plausibility", "faithfulness")

OWN_MODEL_METRICS = tuple(
    CATALOGUE[name]
    for name in ("simulatability", "aopc_comprehensiveness", "aopc_sufficiency", "consistency", "important_words")
)
"""Figures of methods on the classifier that an explainer trained."""

EXAMPLES_IN_MARKDOWN = 1
"""Example texts of a task that the Markdown page shows; the HTML page shows all."""


def task_section(run: RunFacts, task: TaskReport, opened: Collection[Group] = OPEN_BOARDS) -> list[Block]:
    """Return the report's section on one task. opened: groups of BOARDS that are not folded."""
    blocks: list[Block] = [Heading(f"Texts: {task.task}", task=task.task)]
    if (rates := near_chance(run, task)) is not None:
        blocks.append(
            Paragraph(
                f"The classifier's test accuracy is {rates[0]:.3f}; always choosing the most frequent class would give "
                f"{rates[1]:.3f}. There is little to explain in a model that has learned so little: read this task's "
                "numbers as a check that the pipeline works, not as evidence about the methods.",
                style="warning",
            )
        )
    blocks.append(Fold("Data, annotators and the classifier", list(_data(task, run.unit))))
    if task.methods:
        blocks.append(Paragraph(_judged_on(task, run.unit)))
    for group, caption in BOARDS.items():
        board = leaderboard(run, f"{caption}: {task.task}", task.methods, metrics_of(group), task.standings)
        if board is not None and group in opened:
            blocks.append(board)
        elif board is not None:
            blocks.append(Fold(caption, [board]))
    blocks += own_model_blocks(run, task)
    if pairs := list(pair_tables(run, task)):
        blocks.append(
            Fold(f"Which differences are significant, and how alike methods order {run.unit}s", pairs, page_only=True)
        )
    if checks := sanity_table(run, task):
        blocks.append(Fold("Sanity checks", [Paragraph(_sanity_sentence(task)), checks]))
    if task.texts:
        texts = [example_text(run, text, text.example.id) for text in task.texts]
        few, rest = texts[:EXAMPLES_IN_MARKDOWN], texts[EXAMPLES_IN_MARKDOWN:]
        blocks.append(Fold("Example texts", few))
        if rest:
            blocks.append(Fold(f"{len(rest)} more example texts", rest, page_only=True))
    return blocks


def _data(task: TaskReport, unit: str) -> Iterator[Block]:
    """Yield tables of labels, texts, rationales, annotator agreement, and the classifier's accuracy."""
    agreement, texts_of = task.agreement, task.agreement.get("texts") or {}
    mean_length, alpha = agreement.get("mean_length"), agreement.get("alpha")
    mean = "" if mean_length is None else f" (mean length of the rationales in training: {mean_length:.2f})"
    over = f" over {several(agreement['alpha_texts'], 'text')}" if agreement.get("alpha_texts") else ""
    # If nothing is marked, K is 1 and the share 0 by convention.
    k, rate = (None, None) if has_no_marks(task) else (task.k, task.positive_rate)
    facts = {
        "Labels": ", ".join(task.labels),
        "Texts": _counts(task.split_counts),
        "Texts with rationales": _counts(texts_of),
        f"Number of {unit}s chosen by the top-K rule, K": f"{k}{mean}" if k else "",
        f"Share of {unit}s marked in training": "" if rate is None else figure(rate),
        "Rationales": _counts(agreement.get("kinds") or {}),
    }
    if alpha is not None:
        facts[f"Annotator agreement{over}, Krippendorff's alpha (1: perfect, 0: chance)"] = figure(alpha)
        facts[f"Annotator agreement{over}, mean F1 over pairs"] = figure(agreement.get("pairwise_f1"))
    yield Table(columns(["", ""]), [[name, fact] for name, fact in facts.items() if fact])
    pairs = agreement.get("alpha_by_pair") or {}
    if len(pairs) > 1:
        figures = [
            [who, f"{of['texts']:,}", figure(of["alpha"]), figure(of["pairwise_f1"])] for who, of in pairs.items()
        ]
        heads = columns(["Annotators"], ["Texts", "Alpha", "Mean F1"])
        yield Table(heads, figures, "Agreement by pair of annotators")
    if task.classifier:
        names = {"Accuracy": "accuracy", "Most frequent class": "majority_rate", "Macro F1": "macro_f1", "MCC": "mcc"}
        figures = [
            [split, *(figure(of.get(name)) for name in names.values()), f"{of.get('texts') or 0:,}"]
            for split, of in task.classifier.items()
        ]
        yield Table(columns(["Split"], [*names, "Texts"]), figures, "The classifier that the methods explain")


def _judged_on(task: TaskReport, unit: str) -> str:
    """Say how many texts the figures are based on; methods that explain their own classifier may differ."""

    def span(name: str) -> str:
        values = sorted({int(v) for figures in task.methods.values() if (v := figures.get(name)) is not None})
        return " to ".join(f"{value:,}" for value in dict.fromkeys([*values[:1], *values[-1:]])) or "no"

    if has_no_marks(task):
        sentence = f"Faithfulness is measured on {span('texts')} test texts."
    else:
        right = ", and classified correctly" if task.classifier else ""
        sentence = (
            f"Agreement is measured on {span('plausibility_texts')} test texts (marked{right}), faithfulness on "
            f"{span('texts')}."
        )
    lost = max((int(figures.get("unaligned_words") or 0) for figures in task.methods.values()), default=0)
    if lost:
        sentence += (
            f" Up to {several(lost, unit)} of these texts cannot be scored, because they are cut off or unknown to the "
            f"classifier; such {unit}s are never chosen, and ranked last."
        )
    return sentence


def own_model_blocks(run: RunFacts, task: TaskReport) -> list[Block]:
    """Return, for each explainer with its own classifier, that classifier's accuracy and the methods compared on it."""
    blocks: list[Block] = []
    for name, own in task.own_models.items():
        sentence = (
            "All methods here explain that classifier, on the same texts. Important words: the share of words with "
            "high scores, which measures how concise explanations are; it is not tested."
        )
        standings: dict[str, Standing] = {}
        for metric in OWN_MODEL_METRICS:
            # The file lists the best methods together with those not significantly worse.
            values = {
                m: v for m in own["tied"].get(metric.name, ()) if (v := own["methods"][m].get(metric.name)) is not None
            }
            top = (max if metric.larger_is_better else min)(values.values(), default=None)
            if values:
                standings[metric.name] = {m for m, v in values.items() if v == top}, set(values)
        caption = f"On the classifier of {name}: {task.task}"
        board = leaderboard(run, caption, own["methods"], OWN_MODEL_METRICS, standings)
        blocks.append(Fold(f"On the classifier of {name}", [Paragraph(sentence), *([board] if board else [])]))
    return blocks


def pair_tables(run: RunFacts, task: TaskReport) -> Iterator[Block]:
    """Yield tables of methods against methods: tests of the metrics in QUESTIONS, and rank correlations of scores."""
    tests = {m: t for m in QUESTIONS if (t := task.comparisons.get(m)) is not None and len(t.methods) > 1}
    if tests:
        yield Paragraph(
            "The row's method against the column's: + significantly better, − significantly worse, · no significant "
            "difference. F1 and AUROC are pooled over all texts, but tested with the figures of the single texts; if "
            "the two disagree on which method is better, the cell also shows ·."
        )
    signs = {1: Cell("+", 1, "better"), -1: Cell("−", -1, "worse"), 0: Cell("·", 0)}
    for metric, test in tests.items():
        outcomes = test.outcomes(run.evaluate.significance)
        cells = [[signs[int(outcome)] for outcome in row] for row in outcomes]
        yield _square(run, f"{CATALOGUE[metric].title}: {task.task}", test.methods, cells)
    matrix = task.method_agreement
    if matrix is not None and len(matrix) == len(task.methods) > 1:
        cells = [
            [Cell("–") if np.isnan(rho) else Cell(f"{round(100 * rho) + 0:d}", rho, shade=rho) for rho in row]
            for row in matrix.tolist()
        ]
        caption = f"How similarly two methods order the {run.unit}s: mean rank correlation, in percent: {task.task}"
        yield _square(run, caption, list(task.methods), cells)


def _square(run: RunFacts, caption: str, methods: Sequence[str], cells: Sequence[Sequence[Cell]]) -> Table:
    """Return a table of `methods` against each other, in the order of the run. cells: in the order of `methods`."""
    order = [methods.index(method) for method in run.ordered(methods)]
    rows: list[list[Cell | str]] = [
        [marked(run, methods[row]), *("" if row == column else cells[row][column] for column in order)] for row in order
    ]
    names = [methods[index] for index in order]
    return Table(columns(["Method"], names), rows, caption, names)


def sanity_table(run: RunFacts, task: TaskReport) -> Table | None:
    """Return the sanity checks, one row per method of the task; None if none was checked.

    A row has the rank correlation (with interval) and overlap after randomising each part of the classifier, the same
    for permuted labels if that was run, and max-sensitivity; or the reason why the method was not checked.
    """
    checked: Mapping[str, Any] = task.sanity.get("methods", {})
    if not checked:
        return None
    parts = dict.fromkeys(part for result in checked.values() for part in result["random_model"])
    changes = {part: "new weights" if len(parts) == 1 else f"new weights down to {part}" for part in parts}
    if any(result["random_labels"] for result in checked.values()):
        changes["labels"] = "permuted labels"
    titles = [f"{what}, {change}" for change in changes.values() for what in ("Rank correlation", "Top kept")]
    rows: list[list[Cell | str]] = []
    methods = run.ordered({*checked, *task.methods})
    for method in methods:
        result = checked.get(method, {"random_model": {}, "random_labels": None, "skipped": "not among sanity.methods"})
        similar = {**result["random_model"], "labels": result["random_labels"]}
        last = f"not checked: {result['skipped']}" if result["skipped"] else figure(result["max_sensitivity"])
        cells: list[Cell | str] = []
        for same in map(similar.get, changes):
            if same is None:
                cells += ["–", "–"]
                continue
            rho, low, high = same["spearman"], same["spearman_low"], same["spearman_high"]
            shown = "–" if rho is None else f"{rho:.2f}"
            cells += [
                Cell(shown, rho, note="" if low is None else f"{low:.2f} to {high:.2f}"),
                f"{same['overlap']:.2f}",
            ]
        rows.append([marked(run, method), *cells, last])
    return Table(columns(["Method"], [*titles, "Max-sensitivity ↓"]), rows, f"Sanity checks: {task.task}", methods)


def _sanity_sentence(task: TaskReport) -> str:
    """Say which checks were run, on how many texts, and which were not."""
    seeds = task.sanity.get("seeds")
    sentence = (
        f"{several(task.sanity['texts'], 'text')} were explained again after all weights of the classifier were "
        f"randomised{f', with {seeds} seeds (means; the intervals cover all of them)' if seeds else ''}. A method that "
        "depends on the model then gives different scores, so rank correlation and overlap with the earlier scores "
        "should be low. Max-sensitivity is the largest relative change of the scores under slight noise on the word "
        "embeddings; small means stable."
    )
    if not any(result["random_labels"] for result in task.sanity["methods"].values()):
        sentence += " The check with a classifier trained on permuted labels was not run (sanity.random_labels)."
    return sentence


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
