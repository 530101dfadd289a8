"""Printing what the commands of `explearn annotate` report on models' answers: estimates, summaries, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from explearn.cli.common import plain_console, printed
from explearn.predictors.llm.budget import PRICES, Meter
from explearn.predictors.llm.server.transport import worst_input_tokens
from explearn_study.annotate.llm.calibrate import Candidate
from explearn_study.annotate.llm.questions import Question, kept_answers
from explearn_study.annotate.llm.rationales import FATES
from explearn_study.annotate.task import TaskMarks

CHARS_PER_TOKEN = 4.0
"""Characters of a token in English, with common tokenizers; for estimates only."""

TYPICAL_OUTPUT_TOKENS = 90
"""Tokens of an answer with three quotes and one sentence; for estimates without earlier answers."""


def print_candidates(candidates: Sequence[Candidate], best: Candidate) -> None:
    """Print a row for each model and prompt; the best one is bold."""
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
        figures = ["-" if value is None else f"{value:.3f}" for value in (c.precision, c.recall, c.f1, c.alpha)]
        shares = [f"{share:.0%}" for share in (c.label_accuracy, c.kept_rate, c.invalid_rate, c.hallucination_rate)]
        cost = f"{c.money:,.4f}" if priced else f"{c.input_tokens + c.output_tokens:,}"
        style = "bold" if c is best else None
        table.add_row(printed(f"{c.model}\n{c.prompt}"), *figures, *shares, cost, style=style)
    plain_console().print(table)


def print_estimate(questions: Sequence[Question], marks: TaskMarks, meter: Meter) -> None:
    """Print what the questions that have no answer yet would cost, by the texts' lengths and the answers there are."""
    new: dict[str, Question] = {}
    written: list[int] = []
    answered = 0
    for question, answer in zip(questions, kept_answers(questions, marks), strict=True):
        if answer is None:
            new[question.key] = question
        else:
            answered += 1
            written.append(answer.output_tokens // max(1, answer.requests))
    output_each = round(fmean(written)) if written else TYPICAL_OUTPUT_TOKENS
    inputs = 0
    money = 0.0
    worst = 0.0
    priced = True
    for question in new.values():
        messages = question.prompt.messages(question.example)
        read = round(sum(len(message["content"]) for message in messages) / CHARS_PER_TOKEN)
        inputs += read
        price = meter.price(question.model)
        if price is None:
            priced = False
            continue
        money += price.cost(read, output_each)
        worst += price.cost(worst_input_tokens(messages, question.prompt.schema), question.prompt.max_tokens)
    print(f"texts:         {len(questions):,} to be answered, {answered:,} of them already are")
    print(f"requests:      {len(new):,}, more where the server fails for the moment")
    print(f"tokens:        about {inputs:,} read and {output_each * len(new):,} written")
    if priced:
        print(f"cost:          about {money:,.4f}; at most {worst:,.4f} without repeats")
    else:
        print(f"cost:          unknown; set {PRICES} to INPUT,OUTPUT, the money for a million tokens")


def print_summary(summary: Mapping[str, Any], meter: Meter) -> None:
    """Print what became of the texts that a model was asked about, and what was spent."""
    name = "{model} with {prompt} (version {version}, {shots} examples)".format_map(summary)
    plain_console().print(f"[bold]{printed(name)}[/bold]: {summary['texts']:,} texts")
    for fate, words in FATES.items():
        if count := summary["fates"][fate]:
            print(f"  {count:>7,}  {words}")
    quotes = summary["quotes"]
    print(
        f"quotes: {quotes['exact']:,} as in the text, {quotes['insensitive']:,} but for case and punctuation, "
        f"{quotes['fuzzy']:,} nearly; {quotes['hallucinated']:,} not in the text, {quotes['repeated']:,} repeated"
    )
    if summary["mean_length"] is not None:
        print(f"words marked in a text, mean: {summary['mean_length']:.2f}")
    print_spent(meter)


def print_spent(meter: Meter) -> None:
    """Print what all runs with the task's file of answers have sent."""
    spent = meter.spent
    cost = f", cost {spent.money:,.4f}" if meter.prices else ""
    print(
        f"so far: {spent.requests:,} requests, {spent.input_tokens:,} tokens read, "
        f"{spent.output_tokens:,} written{cost}"
    )
