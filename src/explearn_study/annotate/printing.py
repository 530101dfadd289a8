"""What the commands of `explearn annotate` say of models' answers: estimates, summaries, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from explearn.cli.printing import console, printed
from explearn_study.annotate.llm.asking import Estimate, Question, estimate
from explearn_study.annotate.llm.budget import Meter
from explearn_study.annotate.llm.cache import read_answers
from explearn_study.annotate.llm.collecting import FATES, Summary
from explearn_study.annotate.task import TaskMarks

if TYPE_CHECKING:
    from explearn_study.annotate.llm.calibrate import Candidate

FATE_WORDS = {
    "kept": "kept",
    "unanswered": "not answered yet",
    "invalid": "answer cannot be read",
    "other_label": "label differs from gold",
    "hallucinated": "too many words that are not in the text",
    "empty": "no words marked",
    "all_words": "all words marked",
    "diffuse": "too many words marked",
    "rejected": "rejected by a person",
}


def print_candidates(candidates: Sequence[Candidate], best: Candidate) -> None:
    """A row for each model and prompt; the best one is bold."""
    table = Table(
        title=f"{best.texts} texts that people have marked",
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        collapse_padding=True,
    )
    table.add_column("model\nwith prompt", overflow="fold")
    # Two-line headings, and no more columns than 80 characters hold: figures are never cut. The file has them all.
    priced = all(c.money is not None for c in candidates)
    expense = "cost" if priced else "tokens"
    for heading in ("prec.", "recall", "F1", "alpha", "label\nright", "kept", "in-\nvalid", "not in\ntext", expense):
        table.add_column(heading, justify="right", no_wrap=True)
    for c in sorted(candidates, key=lambda candidate: -(candidate.f1 or 0.0)):
        figures = [figure(value) for value in (c.precision, c.recall, c.f1, c.alpha)]
        shares = [f"{x:.0%}" for x in (c.label_accuracy, c.kept_rate, c.invalid_rate, c.hallucination_rate)]
        cost = f"{c.money:,.4f}" if priced else f"{c.input_tokens + c.output_tokens:,}"
        style = "bold" if c is best else None
        table.add_row(printed(f"{c.model}\n{c.prompt}"), *figures, *shares, cost, style=style)
    console().print(table)


def figure(value: float | None) -> str:
    """Three decimals, or a dash for what is not defined."""
    return "-" if value is None else f"{value:.3f}"


def print_estimate(questions: Sequence[Question], marks: TaskMarks, meter: Meter) -> None:
    """What the questions that have no answer yet would cost."""
    found: Estimate = estimate(questions, read_answers(marks.store.answers), meter.price)
    print(f"texts:         {found.texts:,} to be answered, {found.known:,} of them already are")
    print(f"requests:      {found.requests:,}, more where the server fails for the moment")
    print(f"tokens:        about {found.input_tokens:,} read and {found.output_tokens:,} written")
    if found.money is None or found.worst_money is None:
        print("cost:          unknown; give --price INPUT,OUTPUT, the money for a million tokens")
    else:
        print(f"cost:          about {found.money:,.4f}; at most {found.worst_money:,.4f} without repeats")


def print_summary(summary: Summary, meter: Meter) -> None:
    """What became of the texts that a model was asked about, and what was spent."""
    screen = console()
    name = f"{summary.model} with {summary.prompt} (version {summary.version}, {summary.shots} examples)"
    screen.print(f"[bold]{printed(name)}[/bold]: {summary.texts:,} texts")
    for fate in FATES:
        if summary.fates[fate]:
            screen.print(f"  {summary.fates[fate]:>7,}  {FATE_WORDS[fate]}")
    quotes = summary.quotes
    screen.print(
        f"quotes: {quotes['exact']:,} as in the text, {quotes['insensitive']:,} but for case and punctuation, "
        f"{quotes['fuzzy']:,} nearly; {quotes['hallucinated']:,} not in the text, {quotes['repeated']:,} repeated"
    )
    length = "-" if summary.mean_length is None else f"{summary.mean_length:.2f}"
    screen.print(f"answers mended: {summary.repaired:,}; words marked a text, mean: {length}")
    spent = meter.spent
    cost = f", cost {spent.money:,.4f}" if meter.prices else ""
    screen.print(
        f"this run: {spent.requests:,} requests, {spent.input_tokens:,} tokens read, "
        f"{spent.output_tokens:,} written{cost}"
    )
