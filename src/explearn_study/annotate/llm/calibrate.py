"""Comparing models and prompts on texts marked by people, and picking one (ExpNet, appendix A.1, stages 1 and 2); and
printing facts about models' answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from explearn.cli.common import plain_console, printed
from explearn.metrics.plausibility import pooled_agreement, rationale_counts
from explearn.predictors.llm.budget import PRICES, Meter, Price
from explearn.predictors.llm.server.transport import worst_input_tokens
from explearn.show.blocks import figure
from explearn.text.agreement import krippendorff_alpha
from explearn_study.annotate.llm.prompts import BoundPrompt
from explearn_study.annotate.llm.rationales import FATES, Annotated, AnnotationQuestion, kept_answers
from explearn_study.annotate.task import TaskMarks

TIE = 0.01
"""F1s that differ by less than this count as equal; the cheaper candidate is then picked."""

MOST_INVALID = 0.1
"""A candidate with a larger share of unreadable answers than this is not picked if there are others."""

Mask = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model with one prompt, evaluated on texts marked by people.

    Attributes:
        model: name of the model.
        prompt: name and number of the prompt.
        version: version of the prompt.
        texts: number of texts.
        precision: over the words of all texts pooled; an unreadable answer marks nothing.
        recall: over the same words.
        f1: over the same words.
        alpha: Krippendorff's alpha between the model and people, over words.
        label_accuracy: share of answers with the gold label.
        invalid_rate: share of unreadable answers.
        hallucination_rate: share of the answers' words that are not in the text.
        kept_rate: share of texts whose rationale the filters would keep.
        requests: requests that the answers took.
        input_tokens: tokens that the model read.
        output_tokens: tokens that it wrote.
        money: cost at the model's price; None without a price.
    """

    model: str
    prompt: str
    version: str
    texts: int
    precision: float | None
    recall: float | None
    f1: float | None
    alpha: float | None
    label_accuracy: float
    invalid_rate: float
    hallucination_rate: float
    kept_rate: float
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None


def measure_candidate(
    model: str,
    prompt: BoundPrompt,
    annotated: Sequence[Annotated],
    gold: Mapping[str, Mask],
    price: Price | None,
) -> Candidate:
    """Return the figures of one candidate.

    Args:
        model: name of the model.
        prompt: its prompt.
        annotated: its answers, at least one; all answered.
        gold: text -> the words that people marked.
        price: the model's price; None if it is not known.
    """
    marked = [gold[item.example.id] for item in annotated]
    masks = [item.mask for item in annotated]
    answers = [item.kept for item in annotated if item.kept]
    pooled = pooled_agreement(rationale_counts(masks, marked))
    money = None
    if price is not None:
        money = sum(price.cost(answer.input_tokens, answer.output_tokens) for answer in answers)
    words = sum(item.answer.words for item in annotated if item.answer)
    invented = sum(item.alignment.hallucinated_words for item in annotated if item.alignment)
    agreed = sum(item.answer is not None and item.answer.label == item.example.label for item in annotated)
    return Candidate(
        model=model,
        prompt=prompt.name,
        version=prompt.version,
        texts=len(annotated),
        precision=pooled.precision,
        recall=pooled.recall,
        f1=pooled.f1,
        alpha=krippendorff_alpha(zip(marked, masks, strict=True)),
        label_accuracy=agreed / len(annotated),
        invalid_rate=sum(item.fate == "invalid" for item in annotated) / len(annotated),
        hallucination_rate=invented / words if words else 0.0,
        kept_rate=sum(item.fate == "kept" for item in annotated) / len(annotated),
        requests=sum(answer.requests for answer in answers),
        input_tokens=sum(answer.input_tokens for answer in answers),
        output_tokens=sum(answer.output_tokens for answer in answers),
        money=money,
    )


def pick(candidates: Sequence[Candidate]) -> Candidate:
    """Return the best candidate.

    Takes the highest F1 among candidates with at most a tenth of unreadable answers; among those less than 0.01 below
    it, the cheapest (by money if all prices are known, else by tokens).
    """
    pool = [candidate for candidate in candidates if candidate.invalid_rate <= MOST_INVALID] or candidates
    top = max(candidate.f1 or 0.0 for candidate in pool)
    equal = [candidate for candidate in pool if top - (candidate.f1 or 0.0) < TIE]
    priced = all(candidate.money is not None for candidate in equal)

    def expense(candidate: Candidate) -> float:
        if priced:
            return candidate.money or 0.0
        return float(candidate.input_tokens + candidate.output_tokens)

    return min(equal, key=lambda candidate: (expense(candidate), -(candidate.f1 or 0.0)))


CHARS_PER_TOKEN = 4.0
"""Characters of a token in English, with common tokenizers; for estimates only."""

TYPICAL_OUTPUT_TOKENS = 90
"""Tokens of an answer with three quotes and one sentence; for estimates without earlier answers."""


def print_candidates(candidates: Sequence[Candidate], best: Candidate) -> None:
    """Print a row for each model and prompt; the best one is bold."""
    title = f"{best.texts} texts that people have marked"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, collapse_padding=True)
    table.add_column("model\nwith prompt", overflow="fold")
    # Two-line headings, and no more columns than 80 characters hold: figures are never cut. The file has them all.
    priced = all(c.money is not None for c in candidates)
    expense = "cost" if priced else "tokens"
    for heading in ("prec.", "recall", "F1", "alpha", "label\nright", "kept", "in-\nvalid", "not in\ntext", expense):
        table.add_column(heading, justify="right", no_wrap=True)
    for c in sorted(candidates, key=lambda candidate: -(candidate.f1 or 0.0)):
        figures = map(figure, (c.precision, c.recall, c.f1, c.alpha))
        shares = [f"{share:.0%}" for share in (c.label_accuracy, c.kept_rate, c.invalid_rate, c.hallucination_rate)]
        cost = f"{c.money:,.4f}" if priced else f"{c.input_tokens + c.output_tokens:,}"
        style = "bold" if c is best else None
        table.add_row(printed(f"{c.model}\n{c.prompt}"), *figures, *shares, cost, style=style)
    plain_console().print(table)


def print_estimate(questions: Sequence[AnnotationQuestion], marks: TaskMarks, meter: Meter) -> None:
    """Print what the questions that have no answer yet would cost, by the texts' lengths and the answers there are."""
    new: dict[str, AnnotationQuestion] = {}
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
