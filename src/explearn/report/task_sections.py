"""The section on one task."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from explearn.methods.results import RunFacts, TaskReport, Tasks
from explearn.metrics.base import Group
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import paired_tests
from explearn.report.caveats import has_no_marks
from explearn.report.columns import leaderboard, marked, metrics_of
from explearn.report.examples import example_text
from explearn.report.figures.critical_difference import critical_difference_picture
from explearn.report.verdict import (
    ANNOTATORS,
    MARKS,
    MODEL,
    MOST_NAMED,
    if_several,
    means,
    near_chance,
    over_all_texts,
    unranked_metrics,
)
from explearn.show.blocks import (
    Block,
    Bullets,
    Cell,
    Fold,
    Heading,
    Paragraph,
    Table,
    columns,
    count_range,
    figure,
    several,
)

BOARDS: dict[str, tuple[Group, ...]] = {
    "Agreement with the marks": ("plausibility",),
    "Agreement with the model": ("faithfulness",),
    "Known answers, stability, consistency, simulatability and cost": ("known", "behaviour", "cost"),
}
"""The tables of a task: title and groups of metrics."""

OPEN_BOARDS = tuple(BOARDS)[:2]

NOT_CHECKED: Mapping[str, Any] = {
    "random_model": {},
    "random_labels": None,
    "max_sensitivity": None,
    "skipped": "not among sanity.methods",
}
"""The sanity checks of a method that was not among those to check."""


def task_section(
    run: RunFacts, task: TaskReport, opened: Collection[str] = OPEN_BOARDS, named: Collection[str] = ()
) -> list[Block]:
    """Return the report's section on one task.

    Args:
        run: facts about the run.
        task: its results on the task.
        opened: titles of BOARDS that are not folded.
        named: methods that all example texts show; only the first text shows the others, too.
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
    blocks.append(Fold("Data, annotators and the classifier", [Bullets(list(_facts(task, run.unit)))]))
    if task.methods:
        blocks.append(Paragraph(_judged_on(task, run.unit)))
    unranked = unranked_metrics(run, [task])
    for caption, groups in BOARDS.items():
        metrics = [metric for group in groups for metric in metrics_of(group)]
        board = leaderboard(run, f"{caption}: {task.task}", task.methods, metrics, task.standings, unranked)
        if board is not None and caption in opened:
            blocks.append(board)
        elif board is not None:
            blocks.append(Fold(caption, [board]))
    if task.texts:
        first, *rest = task.texts
        methods = [method for method in run.ordered(first.attributions) if method not in run.chance]
        best = [method for method in methods if method in named] or methods
        texts = [example_text(run, first, first.example.id, methods)]
        texts += [example_text(run, text, text.example.id, best) for text in rest]
        blocks.append(Fold(several(len(texts), "example text"), texts, page_only=True))
    return blocks


def _facts(task: TaskReport, unit: str) -> Iterator[str]:
    """Yield labels, texts, rationales, annotator agreement, and the classifier's figures."""
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
    if agreement.get("marked_by"):
        facts["Rationales"] += f", by {_annotators(agreement['marked_by'])}"
    if agreement.get("alpha") is not None:
        name = "Annotator agreement"
        if agreement.get("alpha_texts"):
            name += f" over {several(agreement['alpha_texts'], 'text')}"
        facts[name] = _agreement(agreement)
    pairs = agreement.get("alpha_by_pair") or {}
    if len(pairs) > 1:
        for who, of_pair in pairs.items():
            facts[f"{who} ({several(of_pair['texts'], 'text')})"] = _agreement(of_pair)
    names = {"accuracy": "accuracy", "most frequent class": "majority_rate", "macro F1": "macro_f1", "MCC": "mcc"}
    for split, figures in task.classifier.items():
        shown = [f"{title} {figure(figures.get(name))}" for title, name in names.items()]
        facts[f"Classifier, {split}"] = f"{', '.join(shown)} ({figures.get('texts') or 0:,} texts)"
    for name, fact in facts.items():
        if fact:
            yield f"{name}: {fact}"


def _agreement(figures: Mapping[str, Any]) -> str:
    alpha = f"Krippendorff's alpha {figure(figures['alpha'])} (1: perfect, 0: chance)"
    return f"{alpha}, mean F1 over pairs {figure(figures.get('pairwise_f1'))}"


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


def against_each_other(run: RunFacts, tasks: Tasks) -> Iterator[Block]:
    """Yield pictures of the two main metrics' ranks over all texts."""
    for metric in (MARKS, MODEL):
        by_text = over_all_texts(tasks, CATALOGUE[metric].by_text)
        values = {}
        for method, value in means(run, metric, tasks).items():
            if method in by_text and run.comparable(method, metric):
                values[method] = value
        if len(values) > 1:
            larger = CATALOGUE[metric].larger_is_better
            tests = paired_tests(metric, values, by_text, larger, run.evaluate.significance)
            yield critical_difference_picture(tests, by_text)


def sanity_blocks(run: RunFacts, tasks: Tasks) -> list[Block]:
    """Return the sanity checks of all tasks in one table, a row per checked method; nothing if none was to be checked.

    For each task a row has the rank correlation after randomising each part of the classifier, the same for permuted
    labels if that was run, and max-sensitivity.
    """
    checked = [task for task in tasks if task.sanity.get("methods")]
    if not checked:
        return []
    titles = []
    cells: dict[str, list[Cell | str]] = {}
    for task in checked:
        results: Mapping[str, Any] = task.sanity["methods"]
        changes = _changes(results)
        of_task = if_several(checked, f"{task.task}: ")
        titles += [f"{of_task}{change}" for change in [*changes.values(), "max-sensitivity ↓"]]
        for method in run.methods:
            result = results.get(method, NOT_CHECKED)
            similar = {**result["random_model"], "labels": result["random_labels"]}
            row = cells.setdefault(method, [])
            for change in changes:
                # A dash if it was not checked.
                rho = (similar.get(change) or {}).get("spearman")
                row.append(Cell("–") if rho is None else Cell(f"{rho:.2f}", rho))
            row.append(figure(result["max_sensitivity"]))
    methods = []
    for method in run.methods:
        if any(task.sanity["methods"].get(method, NOT_CHECKED)["skipped"] == "" for task in checked):
            methods.append(method)
    rows = [[marked(run, method), *cells[method]] for method in methods]
    table = Table(columns(["Method"], titles), rows, "Rank correlation with the earlier scores", methods)
    return [Heading("Sanity checks"), Fold("Does a method notice the classifier?", [_sanity_note(checked), table])]


def _changes(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the changes of the classifier that were tried, with their titles."""
    parts: dict[str, None] = {}
    for result in results.values():
        parts |= dict.fromkeys(result["random_model"])
    changes = {part: f"new weights down to {part}" for part in parts}
    if len(parts) == 1:
        changes = dict.fromkeys(parts, "new weights")
    if any(result["random_labels"] for result in results.values()):
        changes["labels"] = "permuted labels"
    return changes


def _sanity_note(tasks: Tasks) -> Paragraph:
    """Say which checks were run, on how many texts, and which were not."""
    texts = count_range([task.sanity["texts"] for task in tasks])
    seeds = {task.sanity.get("seeds") or 0 for task in tasks}
    draws = ""
    if max(seeds):
        draws = f", with {max(seeds)} seeds (means)"
    sentence = (
        f"{texts} texts{if_several(tasks, ' per task')} were explained again after all weights of the classifier were "
        f"randomised{draws}. A method that depends on the model then gives different scores, so their rank "
        "correlation with the earlier scores should be low. Max-sensitivity is the largest relative change of the "
        "scores under slight noise on the word embeddings; small means stable."
    )
    skipped: dict[str, dict[str, None]] = {}
    labels = False
    for task in tasks:
        results = task.sanity["methods"]
        labels = labels or any(result["random_labels"] for result in results.values())
        for method in task.methods:
            reason = results.get(method, NOT_CHECKED)["skipped"]
            if reason:
                skipped.setdefault(reason, {})[method] = None
    if not labels:
        sentence += " The check with a classifier trained on permuted labels was not run (sanity.random_labels)."
    for reason, methods in skipped.items():
        sentence += f" Not checked: {', '.join(methods)} ({reason})."
    return Paragraph(sentence)


def _annotators(marked_by: Mapping[str, Sequence[str]]) -> str:
    """Return who marked words: kind -> names, of which MOST_NAMED at most are listed."""
    listed = []
    for kind, names in marked_by.items():
        more = "" if len(names) <= MOST_NAMED else f" and {len(names) - MOST_NAMED} more"
        listed.append(f"{ANNOTATORS.get(kind, kind)} ({', '.join(names[:MOST_NAMED])}{more})")
    return "; ".join(listed)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
