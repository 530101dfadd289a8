"""A whole report: its blocks, and the page and pictures made from them."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence

from explearn.evaluation import Standing
from explearn.methods.results import Number, RunFacts, Tasks
from explearn.metrics.base import Group, Metric
from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE
from explearn.report.caveats import find_caveats, part_caveats
from explearn.report.columns import COST_NOTE, leaderboard, used_marks
from explearn.report.examples import first_text
from explearn.report.figures.dots import dot_plot
from explearn.report.figures.style import svg
from explearn.report.known_answers import KnownAnswer, known_answers
from explearn.report.task_sections import OPEN_BOARDS, against_each_other, sanity_blocks, task_section
from explearn.report.verdict import (
    QUESTIONS,
    TIME,
    Recommendation,
    counted_tasks,
    counting_sentence,
    find_verdict,
    if_several,
    leader_explanation,
    leader_table,
    means,
    near_chance,
    unranked_metrics,
)
from explearn.show.blocks import Block, Bullets, Code, Fold, Heading, Paragraph, Picture, Table, bold, columns, walk
from explearn.show.html_page import render_html
from explearn.subject.manifest import python_version, versions

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


RULES = {
    "top_k": "the K highest-scoring {unit}s",
    "threshold": "{unit}s that score {threshold} or more, at least one",
    "positive_rate": "each {unit} at random, with the share of marked {unit}s in training",
    "expected_f1": "the {unit}s with the largest expected F1",
}
"""The rules by which methods choose words, or other units."""


def report_blocks(run: RunFacts, tasks: Tasks, more: Sequence[Block] = (), planted: Tasks = ()) -> list[Block]:
    """Return the whole report: the first page, each task, then what only some readers look for.

    Args:
        run: facts about the run.
        tasks: its results on each task.
        more: further sections, placed after the sections on the tasks.
        planted: its results on each task of planted words.
    """
    counted = counted_tasks(run, tasks)
    verdict = find_verdict(run, tasks)
    known = known_answers(run, tasks, planted)
    blocks: list[Block] = [
        *_first_page(run, tasks, verdict, known),
        Heading(f"All {if_several(tasks, 'tasks', 'methods')} at a glance"),
        *_overview(run, counted, known),
        *_advice(run, tasks, verdict),
    ]
    opened = OPEN_BOARDS
    if len(tasks) == 1:
        opened = ()
    named = {*verdict.methods, str(run.study)}
    for task in tasks:
        blocks += task_section(run, task, opened, named)
    if pairs := list(against_each_other(run, counted)):
        blocks += [Heading("Methods against each other"), *pairs]
    blocks += sanity_blocks(run, tasks)
    blocks += more
    # Methods may share a section.
    sections = dict.fromkeys(info.report for info in run.methods.values() if info.report)
    for section in sections:
        blocks += pkgutil.resolve_name(section)(run, tasks)
    return [*blocks, *_appendix(run, tasks)]


def page(run: RunFacts, tasks: Tasks) -> str:
    """Return the whole report as one HTML page."""
    blocks = report_blocks(run, tasks)
    return render_html(blocks, draw(blocks))


def draw(blocks: Sequence[Block]) -> dict[str, str]:
    """Draw every picture among the blocks: file -> SVG."""
    return {block.file: svg(block) for block in walk(blocks) if isinstance(block, Picture)}


def _first_page(run: RunFacts, tasks: Tasks, verdict: Recommendation, known: Sequence[KnownAnswer]) -> Iterator[Block]:
    counted = counted_tasks(run, tasks)
    yield Heading(run.title, level=1)
    yield Paragraph(verdict.sentence, style="lead")
    if picture := dot_plot(run, counted, {*verdict.methods, str(run.study)}, known):
        yield picture
    if text := first_text(run, counted, verdict.methods):
        yield text
        legend = "Orange: evidence for the label. Blue: evidence against it. Underlined: chosen by a method."
        yield Paragraph(legend, style="note", page_only=True)
    counting = counting_sentence(run, tasks)
    if all(near_chance(run, task) for task in tasks):
        counting = ""  # that is the verdict already
    yield Paragraph(f"{run.subtitle} {counting}".strip(), style="note")


def _advice(run: RunFacts, tasks: Tasks, verdict: Recommendation) -> Iterator[Block]:
    """Say which method is best at what, and what not to trust."""
    counted = counted_tasks(run, tasks)
    yield Heading("Who wins on what")
    if table := leader_table(run, counted):
        yield table
        yield Paragraph(leader_explanation(counted), style="note")
    found = find_caveats(run, tasks)
    measured = [caveat.text for caveat in found if caveat.machine]
    caveats, others = part_caveats([caveat for caveat in found if not caveat.machine], list(verdict.methods))
    yield Heading("What not to trust")
    yield Bullets([caveat.text for caveat in caveats])
    if measured:
        yield Bullets(measured, machine=True)
    if others:
        yield Fold(f"{len(others)} more", [Bullets([caveat.text for caveat in others])])


def _overview(run: RunFacts, counted: Tasks, known: Sequence[KnownAnswer]) -> Iterator[Block]:
    questions = [CATALOGUE[name] for name in QUESTIONS]
    figures: dict[str, dict[str, Number]] = {}
    for metric in [*questions, TIME]:
        for method, mean in means(run, metric.name, counted).items():
            figures.setdefault(method, {})[metric.name] = mean
    caption = "Means over the tasks"
    tests = "; tests of the differences follow, task by task"
    standings: dict[str, Standing] = {}
    if len(counted) == 1:
        (task,) = counted
        # With the intervals.
        figures = {method: {**task.methods[method], **of_method} for method, of_method in figures.items()}
        caption = "All methods"
        tests = "; underlined: not significantly worse; in small print: intervals"
        standings |= task.standings
    elif known:
        tests += ". Known answers are tested here: underlined, not significantly worse; in small print, intervals"
    for answer in known:
        standings[answer.metric.name] = answer.standing
        for method, found in answer.figures.items():
            figures[method] = {**figures.get(method, {}), **found}
    metrics = [*questions, *(answer.metric for answer in known), TIME]
    board = leaderboard(run, caption, figures, metrics, standings, unranked_metrics(run, counted))
    if board is not None:
        yield Paragraph(f"The best figure in each column is bold{tests}. {used_marks(run, counted)}".strip())
        yield board
    if known:
        yield Paragraph(" ".join(answer.meaning for answer in known), style="note")


def _appendix(run: RunFacts, tasks: Tasks) -> Iterator[Block]:
    """Explain the figures and the methods, and list the run's parameters and versions."""
    yield Heading("What the figures mean")
    for sentence in INTRODUCTION:
        yield Paragraph(sentence.format(unit=run.unit))
    yield Paragraph(
        "In the tables, the best figure is bold, and one that is worse, but not significantly, is underlined "
        f"(Wilcoxon's signed-rank test over the texts, Holm's correction over all pairs of methods, level "
        f"{run.evaluate.significance:g}). In small print or brackets: {100 * run.evaluate.confidence:g} % intervals. "
        "Figures pooled over all texts (F1, F1 top-K, Span F1, AUROC, AUPRC) are tested with the figures of the "
        f"single texts. {COST_NOTE} A dash marks an undefined figure."
    )
    yield glossary(run.evaluate, run.unit)
    rows = []
    chosen: dict[str, list[str]] = {}
    for name, info in run.methods.items():
        thresholds = dict.fromkeys(f"{task.thresholds[name]:g}" for task in tasks if name in task.thresholds)
        rule = RULES[info.binarisation].format(threshold=" or ".join(thresholds) or "its threshold", unit=run.unit)
        chosen.setdefault(rule, []).append(name)
        summary = info.summary
        if info.uncounted:
            summary += f" Cost: {info.cost}."
        rows.append([name, info.family, summary])
    rules = [f"{', '.join(methods)}: {rule}." for rule, methods in chosen.items()]
    note = (
        "Numbers of samples and steps are the methods' defaults. The values of this run are in the parameters below; "
        "counted passes are in the cost tables. What each method chooses by its own rule:"
    )
    heads = columns(["Method", "Family", "What it does"])
    yield Fold("Methods", [Table(heads, rows, methods=list(run.methods)), Paragraph(note), Bullets(rules)])
    yield Heading("Parameters and versions of this run")
    if run.made:
        yield Table(columns(["", ""]), list(run.made.items()))
    if run.parameters:
        yield Fold("Parameters", [Code(run.parameters, "yaml")])
    packages = [f"{name} {version}" for name, version in run.versions or versions()]
    yield Fold("Versions", [Paragraph(f"{', '.join(packages)}.")])
    if not run.made:
        yield Paragraph(f"The report was written with Python {python_version()}.", machine=True)
