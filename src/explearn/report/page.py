"""A whole report: its blocks, and the page and pictures made from them.

What a reader with two minutes needs is open: the verdict, a table of questions, a picture and a few caveats. All else
is in folds, each table with the meaning of its columns above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from explearn.evaluation.result import COST_NOISE, LIKE_CHANCE, OWN_MODEL, UNCOUNTED, WATCHING, Evaluation
from explearn.methods.aml.report import section as aml
from explearn.methods.consensus.report import section as consensus
from explearn.methods.ivra.report import section as ivra
from explearn.metrics.base import Group, Metric
from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.sanity import SanityResult
from explearn.report.conclusions import (
    MARGIN,
    QUESTIONS,
    answers,
    caveats,
    has_no_marks,
    lead,
    named_methods,
    trust,
)
from explearn.report.examples import example_text, first_text
from explearn.report.figures.critical_difference import critical_difference_picture
from explearn.report.figures.dots import dot_plot
from explearn.report.figures.style import svg
from explearn.report.run import ANNOTATORS, MARKS, MODEL, RunFacts
from explearn.show.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    ExampleText,
    Fold,
    Heading,
    Paragraph,
    Picture,
    Table,
    bold,
    columns,
    count_range,
    figure,
    several,
    walk,
)
from explearn.show.display import SCALE
from explearn.show.html_page import render_html
from explearn.subject.manifest import python_version, versions

MOST_CAVEATS = 8
"""Most caveats that are not folded."""

MOST_ANNOTATORS = 4
"""Most annotators that are named."""

Notes = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Task -> method -> its notes."""

METHOD_SECTIONS: tuple[Callable[[Notes], list[Block]], ...] = (aml, ivra, consensus)
"""What some learned methods' folders add to a report; nothing if the run did not train the method."""

BOARDS: dict[str, tuple[tuple[Group, ...], str]] = {
    "Agreement with the marks": (
        ("plausibility",),
        "Chosen {unit}s are compared with marked ones, pooled over all texts. Precision and recall are not tested.",
    ),
    "Agreement with the model": (
        ("faithfulness",),
        "The {unit}s that a method ranks highest are removed from the text (by {removed}), or only they are kept; p is "
        "the explained label's probability.{protocol}",
    ),
    "Known answers, stability, consistency, simulatability": (
        ("known", "behaviour"),
        "Can one rely on it? Texts and their explanations are compared with each other, and with texts made so that "
        "the answer is known.",
    ),
    "The model's own reasons": (("reasons",), "What are the {unit}s worth that the model itself names?"),
    "Other metrics": (("other",), "Metrics of your own, or of installed packages."),
    "Cost": (
        ("cost",),
        "Measured on the explained texts, after a few to warm up. Costs are not tested: every best figure is bold, and "
        f"for times and memory every one within {100 * COST_NOISE:g} % of the best, since they vary as much from run "
        f"to run. {UNCOUNTED} after passes: the method also does other work, and is never bold.",
    ),
}
"""The tables of a task: title, groups of metrics, and what is measured."""

MARKED = "Bold: the best figure. Underlined: worse, but not significantly."
NOT_MARKED = f"{LIKE_CHANCE}: few methods, if any, are significantly better than random scores, so none is marked."

SIGNS = {
    OWN_MODEL: "explains a classifier of its own, so that only its agreement with marks compares.",
    WATCHING: "optimises a faithfulness metric on every text: its figures under that metric are optimised.",
}
"""Signs after some methods' names, and their meaning."""

TESTS = (
    "Methods are compared by Wilcoxon's signed-rank test over the texts, with Holm's correction over all pairs of "
    "methods in a metric, at the level {significance:g}. Figures pooled over all texts (F1, F1 top-K, Span F1, AUROC, "
    "AUPRC) are tested with the figures of the single texts. Methods are called about equally good if p is {most:g} or "
    "more; from {least:g} to {most:g} one is perhaps as good, because another processor's rounding can move such a p. "
    "Not told apart does not mean equal: with few texts, large differences can go unnoticed. In small print or "
    "brackets: {confidence:g} % intervals over the texts."
)

INTRODUCTION = (
    "A text classifier reads a text and predicts a label. An explanation says which {unit}s led to the prediction: "
    "every method gives each {unit} a score, where higher means more evidence for the predicted label, and chooses the "
    "highest-scoring {unit}s. Some methods are learned: they were trained on marked {unit}s, on other explanations or "
    "on the classifier's predictions. The others compute scores from the classifier directly."
)

CHOICES = {
    "top_k": "the K highest-scoring {unit}s",
    "threshold": "{unit}s that score {threshold} or more, at least one",
    "positive_rate": "each {unit} at random, with the share of marked {unit}s in training",
    "expected_f1": "the {unit}s with the largest expected F1",
}
"""The rules by which methods choose words, or other units."""


def report_blocks(run: RunFacts, more: Sequence[Block] = ()) -> list[Block]:
    """Return the whole report: the first page, each task, then what only some readers look for.

    Args:
        run: the evaluations, and facts about the run.
        more: further sections, placed before the sections on the tasks.
    """
    blocks = [*_first_page(run), *_caveats(run), *_all_methods(run), *more]
    for task in run.tasks:
        blocks += _task_section(run, task)
    blocks += sanity_blocks(run)
    notes = {task.task: task.notes for task in run.tasks}
    blocks += training_blocks(notes)
    for section in METHOD_SECTIONS:
        blocks += section(notes)
    return [*blocks, *_appendix(run)]


def page(run: RunFacts) -> str:
    """Return the whole report as one HTML page."""
    blocks = report_blocks(run)
    return render_html(blocks, draw(blocks))


def draw(blocks: Sequence[Block]) -> dict[str, str]:
    """Draw every picture among the blocks: file -> SVG."""
    return {block.file: svg(block) for block in walk(blocks) if isinstance(block, Picture)}


# ---- what is open ----------------------------------------------------------------------------------------------------


def _first_page(run: RunFacts) -> Iterator[Block]:
    yield Heading(run.title, level=1)
    first = lead(run)
    yield Paragraph(" ".join(found.sentence for found in first), style="lead")
    over = ""
    if len(run.tasks) > 1:
        over = f"Figures are means over {', '.join(task.task for task in run.counted)}."
    yield Paragraph(f"{run.subtitle} {over}".strip(), style="note")
    if table := question_table(run):
        yield table
        yield Bullets(list(_question_meanings(run)))
    named = named_methods(run)
    if picture := dot_plot(run, {*named, str(run.study)}):
        yield picture
    if text := first_text(run, named):
        legend = f"Orange: evidence for the label. Blue: evidence against it. Underlined: chosen by a method. {SCALE}"
        yield Fold(
            "A text, explained by the methods named above", [text, Paragraph(legend, style="note", page_only=True)]
        )


def question_table(run: RunFacts) -> Table | None:
    """Return a table with one row for each question that the run's figures answer; None without figures."""
    rows: list[list[Cell | str]] = []
    for found in answers(run):
        metric: Metric = found.values["metric"]
        of_what = metric.heading.partition(": ")[2]
        question = f"Find planted {{unit}}s ({of_what})"
        if metric.name.startswith("marks_"):
            question = f"Choose the {{unit}}s that {of_what} marked"
        question = QUESTIONS.get(metric.name, question).format(unit=run.unit)
        if found.values["without_marks"]:
            question = f"… without learning from such {run.unit}s"
        to_beat = ", ".join(filter(None, [f"random {found.values['chance']}", run.overall.to_beat(metric)]))
        shown = f"{metric.heading} {found.values['figure']} ({to_beat})"
        rows.append([question, found.values["use"], found.certainty, shown])
    if not rows:
        return None
    return Table(columns(["To", "Use", "How sure", "Figure"]), rows)


def _question_meanings(run: RunFacts) -> Iterator[str]:
    """Yield the meaning of each metric in the table of questions."""
    shown = dict.fromkeys(found.values["metric"].name for found in answers(run))
    for name in shown:
        metric = run.overall.metrics[name]
        yield f"{bold(metric.heading)}: {meaning(metric, run.overall.params, run.unit)}"


def _caveats(run: RunFacts) -> Iterator[Block]:
    found = [conclusion.sentence for conclusion in caveats(run)]
    if found:
        yield Heading("What not to trust")
        yield Bullets(found[:MOST_CAVEATS])
    if found[MOST_CAVEATS:]:
        yield Fold(f"{len(found) - MOST_CAVEATS} more", [Bullets(found[MOST_CAVEATS:])])


# ---- what is folded --------------------------------------------------------------------------------------------------


def meaning(metric: Metric, params: EvaluateParams, unit: str) -> str:
    """Return what a metric means under some settings."""
    return metric.summary.format(
        confidence=f"{100 * params.confidence:g}",
        percents=", ".join(str(percent) for percent in params.percents),
        top=f"top {params.headline_percent} %",
        neighbours=str(params.neighbours),
        unit=unit,
    )


def meanings(metrics: Sequence[Metric], params: EvaluateParams, unit: str) -> Table:
    """Return a table with the meaning of each metric."""
    rows = [[metric.heading, meaning(metric, params, unit)] for metric in metrics]
    return Table(columns(["Metric", "Meaning"]), rows)


def _board(task: Evaluation, metrics: Sequence[Metric], caption: str, about: str) -> list[Block]:
    """Return a table of methods' figures with what its columns mean; nothing without figures."""
    shown = [metric for metric in metrics if task.values(metric.name)]
    if not shown:
        return []
    blocks = []
    # What the machine did has no place in a file under version control, and neither has what it means.
    for machine in (False, True):
        some = [metric for metric in shown if metric.of_machine == machine]
        if some:
            blocks.append(replace(meanings(some, task.params, task.unit), machine=machine))
    marked = MARKED
    if any(task.like_chance(metric.name) for metric in shown):
        marked += NOT_MARKED
    return [Paragraph(about), *blocks, Paragraph(marked, style="note"), task.table(shown, caption)]


def _all_methods(run: RunFacts) -> Iterator[Block]:
    """Yield the figures of all methods, and how many of them can be told apart."""
    overall = run.overall
    names = [*QUESTIONS, *run.of_some_tasks, "time"]
    metrics = [overall.metrics[name] for name in names if name in overall.metrics]
    params = overall.params
    caption = "All methods"
    if len(run.counted) > 1:
        caption = "Means over the tasks"
    board = _board(overall, metrics, caption, used_signs(run))
    if not board:
        return
    yield Heading("All methods")
    yield Fold(f"The figures of {several(len(overall.figures), 'method')}", board)
    if pictures := list(against_each_other(run)):
        tests = TESTS.format(
            significance=params.significance,
            most=params.significance * MARGIN,
            least=params.significance / MARGIN,
            confidence=100 * params.confidence,
        )
        yield Fold("Which methods can be told apart", [Paragraph(tests), *pictures])
    if run.folder:
        yield Paragraph("All figures as a data frame, by task and method, or by text:")
        lines = ["import explearn", "", f'explearn.read_report("{run.folder}")']
        lines.append(f'explearn.read_report("{run.folder}", by_text=True)')
        yield Code("\n".join(lines), "python")


def used_signs(run: RunFacts) -> str:
    """Return a sentence for each sign that any of the methods has, with the accuracies of own classifiers."""
    used = {run.overall.marked(method).removeprefix(method) for method in run.overall.figures}
    sentences = [f"{sign.strip()} {text}" for sign, text in SIGNS.items() if sign in used]
    accuracies = []
    for task in run.counted:
        for method, notes in task.notes.items():
            if task.infos[method].own_model and "accuracy" in notes:
                before, after = notes["accuracy"]
                accuracies.append(f"{method} on {task.task} {after:.3f} ({before:.3f})")
    if accuracies:
        start = "Accuracy of its classifier, and of the task's, on validation texts"
        sentences.append(f"{start}: {'; '.join(accuracies)}.")
    return " ".join(sentences)


def against_each_other(run: RunFacts) -> Iterator[Block]:
    """Yield pictures of the two main metrics' ranks over all texts."""
    for metric in (MARKS, MODEL):
        tests = run.overall.comparisons.get(metric)
        if tests is not None and len(tests.methods) > 1:
            yield critical_difference_picture(tests, run.overall.by_text[CATALOGUE[metric].by_text])


def _task_section(run: RunFacts, task: Evaluation) -> Iterator[Block]:
    yield Heading(f"Texts: {task.task}", task=task.task)
    if (rates := run.near_chance(task)) is not None:
        yield Paragraph(
            f"The classifier's test accuracy is {rates[0]:.3f}; always choosing the most frequent class would give "
            f"{rates[1]:.3f}. There is little to explain in a model that has learned so little: read this task's "
            "numbers as a check that the pipeline works, not as evidence about the methods.",
            style="warning",
        )
    yield Fold("Data, annotators and the classifier", [Bullets(list(_facts(task)))])
    removed = {"delete": "deleting them", "mask": "the mask token"}[task.params.removal]
    protocol = ""
    if task.params.protocol != "default":
        protocol = f" Counts and means follow {task.params.protocol.upper()}'s protocol (docs/explearn/metrics.md)."
    for title, (groups, about) in BOARDS.items():
        metrics = [metric for metric in task.metrics.values() if metric.group in groups]
        about = about.format(unit=task.unit, removed=removed, protocol=protocol)
        if board := _board(task, metrics, f"{title}: {task.task}", about):
            if groups == ("reasons",):
                board.insert(0, Paragraph(" ".join(found.sentence for found in trust(run))))
            yield Fold(title, board)
    if task.examples:
        named = {*named_methods(run), str(run.study)}
        # The first text has every method's words.
        methods = [method for method in task.ordered() if method not in task.chance]
        texts: list[ExampleText] = []
        for example in task.examples[: run.examples]:
            texts.append(example_text(task, example, example.id, methods))
            methods = [method for method in methods if method in named] or methods
        yield Fold(several(len(texts), "example text"), texts, page_only=True)


def _facts(task: Evaluation) -> Iterator[str]:
    """Yield labels, texts, rationales and annotator agreement, and what `_performance` returns."""
    marks = task.marks
    facts = {
        "Labels": ", ".join(task.labels),
        "Texts": _counts(task.splits),
        "Texts with rationales": _counts(marks.get("texts") or {}),
        "Rationales": _counts(marks.get("kinds") or {}),
    }
    # If nothing is marked, K is 1 and the share 0 by convention.
    if task.k and not has_no_marks(task):
        facts[f"Number of {task.unit}s chosen by the top-K rule, K"] = str(task.k)
        if marks.get("mean_length") is not None:
            facts["Mean length of the rationales in training"] = f"{marks['mean_length']:.2f}"
    if task.positive_rate is not None and not has_no_marks(task):
        facts[f"Share of {task.unit}s marked in training"] = figure(task.positive_rate)
    if marks.get("marked_by"):
        facts["Rationales"] += f", by {_annotators(marks['marked_by'])}"
    if marks.get("alpha") is not None:
        name = "Annotator agreement"
        if marks.get("alpha_texts"):
            name += f" over {several(marks['alpha_texts'], 'text')}"
        facts[name] = _agreement(marks)
    pairs = marks.get("alpha_by_pair") or {}
    if len(pairs) > 1:
        for who, of_pair in pairs.items():
            facts[f"{who} ({several(of_pair['texts'], 'text')})"] = _agreement(of_pair)
    for name, fact in {**facts, **_performance(task)}.items():
        if fact:
            yield f"{name}: {fact}"


def _performance(task: Evaluation) -> dict[str, str]:
    """Return the classifier's figures, and what the methods' figures rest on."""
    facts = {}
    names = {"accuracy": "accuracy", "most frequent class": "majority_rate", "macro F1": "macro_f1", "MCC": "mcc"}
    for split, figures in task.performance.items():
        shown = [f"{title} {figure(figures.get(name))}" for title, name in names.items()]
        facts[f"Classifier, {split}"] = f"{', '.join(shown)} ({figures.get('texts') or 0:,} texts)"
    facts["Texts on which agreement with the marks is measured"] = _range(task, "plausibility_texts")
    facts["Texts on which all else is measured"] = _range(task, "texts")
    lost = _range(task, "unaligned_words")
    if lost != "0":
        facts[f"{task.unit.capitalize()}s that the classifier does not read, never chosen and ranked last"] = lost
    return facts


def _agreement(figures: Mapping[str, Any]) -> str:
    alpha = f"Krippendorff's alpha {figure(figures['alpha'])} (1: perfect, 0: chance)"
    return f"{alpha}, mean F1 over pairs {figure(figures.get('pairwise_f1'))}"


def _range(task: Evaluation, name: str) -> str:
    """Return the least and the largest of the methods' numbers in words, such as "20" or "20 to 40"."""
    values = [int(number) for number in task.values(name).values()]
    if not values:
        return ""
    return count_range(values)


def _annotators(marked_by: Mapping[str, Sequence[str]]) -> str:
    """Return who marked words: kind -> names, of which MOST_ANNOTATORS at most are listed."""
    listed = []
    for kind, names in marked_by.items():
        shown = ", ".join(names[:MOST_ANNOTATORS])
        if len(names) > MOST_ANNOTATORS:
            shown += f" and {len(names) - MOST_ANNOTATORS} more"
        listed.append(f"{ANNOTATORS.get(kind, kind)} ({shown})")
    return "; ".join(listed)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)


def sanity_blocks(run: RunFacts) -> list[Block]:
    """Return the sanity checks of all tasks in one table, a row per checked method; nothing if none was checked.

    For each task a row has the rank correlation after randomising each part of the classifier, the same for permuted
    labels if that was run, and max-sensitivity.
    """
    tasks = [task for task in run.tasks if task.sanity]
    if not tasks:
        return []
    titles = []
    cells: dict[str, list[Cell | str]] = {method: [] for method in run.overall.ordered()}
    reasons: dict[str, str] = {}
    for task in tasks:
        changes = _changes(task)
        before = ""
        if len(tasks) > 1:
            before = f"{task.task}: "
        titles += [f"{before}{change}" for change in [*changes.values(), "max-sensitivity ↓"]]
        for method, row in cells.items():
            result = task.sanity.get(method, SanityResult())
            reasons[method] = result.skipped
            similar = {**result.random_model, LABELS: result.random_labels}
            for change in changes:
                found = similar.get(change)
                cell = Cell("–")
                if found is not None and found.spearman is not None:
                    cell = Cell(f"{found.spearman:.2f}", found.spearman)
                row.append(cell)
            row.append(figure(result.max_sensitivity))
    checked = set().union(*(task.sanity for task in tasks))
    methods = [method for method in cells if method in checked and not reasons[method]]
    rows = [[run.overall.marked(method), *cells[method]] for method in methods]
    table = Table(columns(["Method"], titles), rows, "Rank correlation with the earlier scores", methods)
    note = (
        f"{count_range([task.checked for task in tasks])} texts of a task were explained again after all weights of "
        "the classifier were randomised. A method that depends on the model then gives different scores, so their rank "
        "correlation with the earlier scores should be low. A learned method keeps what it learned before, so that a "
        "high one does not mean that its scores ignore the model. Max-sensitivity is the largest relative change of "
        "the scores under slight noise on the word embeddings; small means stable."
    )
    for method, reason in reasons.items():
        if reason:
            note += f" {method} could not be checked ({reason})."
    return [Heading("Sanity checks"), Fold("Does a method notice the classifier?", [Paragraph(note), table])]


def training_blocks(notes: Notes) -> list[Block]:
    """Return when the learned methods' training ended, a row a method; nothing if none was validated."""
    methods: dict[str, dict[str, str]] = {}
    limits: Mapping[str, Any] = {}
    for task, by_method in notes.items():
        for method, noted in by_method.items():
            if "ended" in noted:
                limits = noted
                cell = f"{noted['best_epoch']} of {noted['epochs'][-1]['epoch']}"
                if noted["ended"] != "patience":
                    cell += f" ({noted['ended']})"
                methods.setdefault(method, {})[task] = cell
    if not methods:
        return []
    about = (
        f"One rule for all methods that validation texts can judge: a training ends when {limits['patience']} epochs "
        "brought no better one, and the best is kept."
    )
    if limits["minutes"] is not None:
        about += f" After {limits['minutes']:g} minutes of processor time for a method and task no epoch begins."
    about += (
        " The other learned methods have no validation of their own and train for a fixed number of epochs, or solve "
        "an equation. Below: the best epoch, of those trained (0: none was better than the start); in brackets what "
        "else ended the training: epochs, their most, or time."
    )
    rows = []
    for method, cells in methods.items():
        rows.append([method, *(cells.get(task, "–") for task in notes)])
    table = Table(columns(["Method", *notes]), rows, "The best epoch", [*methods])
    return [Heading("Training"), Fold("How long the learned methods were trained", [Paragraph(about), table])]


LABELS = "labels"


def _changes(task: Evaluation) -> dict[str, str]:
    """Return the changes of the classifier that were tried, with their titles."""
    parts: dict[str, None] = {}
    for result in task.sanity.values():
        parts |= dict.fromkeys(result.random_model)
    changes = {part: f"new weights down to {part}" for part in parts}
    if len(parts) == 1:
        changes = dict.fromkeys(parts, "new weights")
    if any(result.random_labels for result in task.sanity.values()):
        changes[LABELS] = "permuted labels"
    return changes


def _appendix(run: RunFacts) -> Iterator[Block]:
    """Explain the methods, and list the run's parameters and versions."""
    yield Heading("Methods, parameters and versions")
    names = list(run.overall.infos)
    rows = []
    for name, info in run.overall.infos.items():
        thresholds = dict.fromkeys(f"{task.thresholds[name]:g}" for task in run.tasks if name in task.thresholds)
        rule = CHOICES[info.binarisation].format(threshold=" or ".join(thresholds) or "its threshold", unit=run.unit)
        summary = info.summary
        if info.uncounted:
            summary += f" Cost: {info.cost}."
        rows.append([name, info.family, summary, rule])
    yield Fold(
        "Methods",
        [
            Paragraph(INTRODUCTION.format(unit=run.unit)),
            Table(columns(["Method", "Family", "What it does", "By its own rule it chooses"]), rows, methods=names),
        ],
    )
    if run.made:
        yield Fold("How this page was made", [Table(columns(["", ""]), list(run.made.items()))])
    if run.parameters:
        yield Fold("Parameters", [Code(run.parameters, "yaml")])
    packages = [f"{name} {version}" for name, version in run.versions or versions()]
    yield Fold("Versions", [Paragraph(f"{', '.join(packages)}.")])
    if not run.made:
        yield Paragraph(f"The report was written with Python {python_version()}.", machine=True)
