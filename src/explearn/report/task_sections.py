"""The section on one task."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from explearn.methods.results import RunFacts, TaskReport
from explearn.metrics.base import Group
from explearn.metrics.registry import CATALOGUE
from explearn.report.caveats import has_no_marks
from explearn.report.columns import leaderboard, marked, metrics_of
from explearn.report.examples import example_text
from explearn.report.verdict import QUESTIONS, near_chance
from explearn.show.blocks import Block, Cell, Fold, Heading, Paragraph, Table, columns, count_range, figure, several

BOARDS: dict[Group, str] = {
    "plausibility": "Agreement with the marks",
    "faithfulness": "Agreement with the model",
    "known": "Known answers",
    "behaviour": "Stability, consistency and simulatability",
    "cost": "Cost",
}
"""The tables of a task: group of metrics and title."""

OPEN_BOARDS: tuple[Group, ...] = ("plausibility", "faithfulness")

NOT_CHECKED: Mapping[str, Any] = {
    "random_model": {},
    "random_labels": None,
    "max_sensitivity": None,
    "skipped": "not among sanity.methods",
}
"""The sanity checks of a method that was not among those to check."""

EXAMPLES_IN_MARKDOWN = 1
"""Example texts of a task that the Markdown page shows; the HTML page shows all."""


def task_section(run: RunFacts, task: TaskReport, opened: Collection[Group] = OPEN_BOARDS) -> list[Block]:
    """Return the report's section on one task.

    Args:
        run: facts about the run.
        task: its results on the task.
        opened: groups of BOARDS that are not folded.
    """
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
    if pairs := list(pair_tables(run, task)):
        blocks.append(
            Fold(f"Which differences are significant, and how alike methods order {run.unit}s", pairs, page_only=True)
        )
    if checks := sanity_table(run, task):
        blocks.append(Fold("Sanity checks", [Paragraph(_sanity_sentence(task)), checks]))
    if task.texts:
        texts = [example_text(run, text, text.example.id) for text in task.texts]
        rest = texts[EXAMPLES_IN_MARKDOWN:]
        blocks.append(Fold("Example texts", texts[:EXAMPLES_IN_MARKDOWN]))
        if rest:
            blocks.append(Fold(f"{len(rest)} more example texts", rest, page_only=True))
    return blocks


def _data(task: TaskReport, unit: str) -> Iterator[Block]:
    """Yield tables of labels, texts, rationales, annotator agreement, and the classifier's accuracy."""
    agreement = task.agreement
    facts = {
        "Labels": ", ".join(task.labels),
        "Texts": _counts(task.split_counts),
        "Texts with rationales": _counts(agreement.get("texts") or {}),
    }
    # If nothing is marked, K is 1 and the share 0 by convention.
    if task.k and not has_no_marks(task):
        chosen = str(task.k)
        if agreement.get("mean_length") is not None:
            chosen += f" (mean length of the rationales in training: {agreement['mean_length']:.2f})"
        facts[f"Number of {unit}s chosen by the top-K rule, K"] = chosen
    if task.positive_rate is not None and not has_no_marks(task):
        facts[f"Share of {unit}s marked in training"] = figure(task.positive_rate)
    facts["Rationales"] = _counts(agreement.get("kinds") or {})
    if agreement.get("alpha") is not None:
        name = "Annotator agreement"
        if agreement.get("alpha_texts"):
            name += f" over {several(agreement['alpha_texts'], 'text')}"
        facts[f"{name}, Krippendorff's alpha (1: perfect, 0: chance)"] = figure(agreement["alpha"])
        facts[f"{name}, mean F1 over pairs"] = figure(agreement.get("pairwise_f1"))
    yield Table(columns(["", ""]), [[name, fact] for name, fact in facts.items() if fact])
    pairs = agreement.get("alpha_by_pair") or {}
    if len(pairs) > 1:
        rows = []
        for who, of_pair in pairs.items():
            rows.append([who, f"{of_pair['texts']:,}", figure(of_pair["alpha"]), figure(of_pair["pairwise_f1"])])
        heads = columns(["Annotators"], ["Texts", "Alpha", "Mean F1"])
        yield Table(heads, rows, "Agreement by pair of annotators")
    if task.classifier:
        names = {"Accuracy": "accuracy", "Most frequent class": "majority_rate", "Macro F1": "macro_f1", "MCC": "mcc"}
        rows = []
        for split, figures in task.classifier.items():
            shown = [figure(figures.get(name)) for name in names.values()]
            rows.append([split, *shown, f"{figures.get('texts') or 0:,}"])
        yield Table(columns(["Split"], [*names, "Texts"]), rows, "The classifier that the methods explain")


def _judged_on(task: TaskReport, unit: str) -> str:
    """Say how many texts the figures are based on; methods that explain their own classifier may differ."""
    texts = _range(task, "texts")
    measured = "marked"
    if task.classifier:
        measured = "marked, and classified correctly"
    sentence = (
        f"Agreement is measured on {_range(task, 'plausibility_texts')} test texts ({measured}), faithfulness on "
        f"{texts}."
    )
    if has_no_marks(task):
        sentence = f"Faithfulness is measured on {texts} test texts."
    lost = max((int(figures.get("unaligned_words") or 0) for figures in task.methods.values()), default=0)
    if lost:
        sentence += (
            f" Up to {several(lost, unit)} of these texts cannot be scored, because they are cut off or unknown to the "
            f"classifier; such {unit}s are never chosen, and ranked last."
        )
    return sentence


def _range(task: TaskReport, name: str) -> str:
    """Return the least and the largest of the methods' numbers in words, such as "20" or "20 to 40"."""
    numbers = [figures.get(name) for figures in task.methods.values()]
    values = [int(number) for number in numbers if number is not None]
    return count_range(values) if values else "no"


def pair_tables(run: RunFacts, task: TaskReport) -> Iterator[Block]:
    """Yield tables of methods against methods: tests of the metrics in QUESTIONS, and rank correlations of scores."""
    tests = {}
    for metric in QUESTIONS:
        if metric in task.comparisons and len(task.comparisons[metric].methods) > 1:
            tests[metric] = task.comparisons[metric]
    if tests:
        yield Paragraph(
            "The row's method against the column's: + significantly better, − significantly worse, · no significant "
            "difference. F1 and AUROC are pooled over all texts, but tested with the figures of the single texts; if "
            "the two disagree on which method is better, the cell also shows ·."
        )
    signs = {1: Cell("+", 1, "better"), -1: Cell("−", -1, "worse"), 0: Cell("·", 0)}
    for metric, test in tests.items():
        outcomes = test.outcomes(run.evaluate.significance).tolist()
        cells = [list(map(signs.__getitem__, row)) for row in outcomes]
        yield _square(run, f"{CATALOGUE[metric].title}: {task.task}", test.methods, cells)
    matrix = task.method_agreement
    if matrix is not None and len(matrix) == len(task.methods) > 1:
        cells = [list(map(_correlation_cell, row)) for row in matrix.tolist()]
        caption = f"How similarly two methods order the {run.unit}s: mean rank correlation, in percent: {task.task}"
        yield _square(run, caption, list(task.methods), cells)


def _correlation_cell(rho: float) -> Cell:
    if np.isnan(rho):
        return Cell("–")
    return Cell(f"{round(100 * rho) + 0:d}", rho, shade=rho)


def _square(run: RunFacts, caption: str, methods: Sequence[str], cells: Sequence[Sequence[Cell]]) -> Table:
    """Return a table of methods against each other, in the order of the run.

    Args:
        run: facts about the run.
        caption: the table's caption.
        methods: the methods.
        cells: each method against each, in the order of `methods`.
    """
    names = run.ordered(methods)
    order = [methods.index(name) for name in names]
    rows: list[list[Cell | str]] = []
    for index, row in enumerate(order):
        shown: list[Cell | str] = [cells[row][column] for column in order]
        shown[index] = ""
        rows.append([marked(run, names[index]), *shown])
    return Table(columns(["Method"], names), rows, caption, names)


def sanity_table(run: RunFacts, task: TaskReport) -> Table | None:
    """Return the sanity checks, one row per method of the task; None if none was checked.

    A row has the rank correlation (with interval) and overlap after randomising each part of the classifier, the same
    for permuted labels if that was run, and max-sensitivity; or the reason why the method was not checked.
    """
    checked: Mapping[str, Any] = task.sanity.get("methods", {})
    if not checked:
        return None
    parts: dict[str, None] = {}
    for result in checked.values():
        parts |= dict.fromkeys(result["random_model"])
    changes = {part: f"new weights down to {part}" for part in parts}
    if len(parts) == 1:
        changes = dict.fromkeys(parts, "new weights")
    if any(result["random_labels"] for result in checked.values()):
        changes["labels"] = "permuted labels"
    titles = []
    for change in changes.values():
        titles += [f"Rank correlation, {change}", f"Top kept, {change}"]
    rows: list[list[Cell | str]] = []
    methods = run.ordered({*checked, *task.methods})
    for method in methods:
        result = checked.get(method, NOT_CHECKED)
        similar = {**result["random_model"], "labels": result["random_labels"]}
        row: list[Cell | str] = [marked(run, method)]
        for change in changes:
            row += _similarity_cells(similar.get(change))
        sensitivity = figure(result["max_sensitivity"])
        if result["skipped"]:
            sensitivity = f"not checked: {result['skipped']}"
        rows.append([*row, sensitivity])
    return Table(columns(["Method"], [*titles, "Max-sensitivity ↓"]), rows, f"Sanity checks: {task.task}", methods)


def _similarity_cells(similar: Mapping[str, Any] | None) -> list[Cell | str]:
    """Return the rank correlation and the overlap of scores before and after a change; dashes if not checked."""
    if similar is None:
        return ["–", "–"]
    rho = similar["spearman"]
    shown = "–"
    interval = ""
    if rho is not None:
        shown = f"{rho:.2f}"
    if similar["spearman_low"] is not None:
        interval = f"{similar['spearman_low']:.2f} to {similar['spearman_high']:.2f}"
    return [Cell(shown, rho, note=interval), f"{similar['overlap']:.2f}"]


def _sanity_sentence(task: TaskReport) -> str:
    """Say which checks were run, on how many texts, and which were not."""
    draws = ""
    if task.sanity.get("seeds"):
        draws = f", with {task.sanity['seeds']} seeds (means; the intervals cover all of them)"
    sentence = (
        f"{several(task.sanity['texts'], 'text')} were explained again after all weights of the classifier were "
        f"randomised{draws}. A method that depends on the model then gives different scores, so rank correlation "
        "and overlap with the earlier scores should be low. Max-sensitivity is the largest relative change of the "
        "scores under slight noise on the word embeddings; small means stable."
    )
    if not any(result["random_labels"] for result in task.sanity["methods"].values()):
        sentence += " The check with a classifier trained on permuted labels was not run (sanity.random_labels)."
    return sentence


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
