"""Comparing models and prompts on texts marked by people, and picking one (ExpNet, appendix A.1, stages 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explearn.metrics.plausibility import pooled_agreement, rationale_counts
from explearn.predictors.llm.budget import Price
from explearn.text.agreement import krippendorff_alpha
from explearn_study.annotate.llm.prompts import BoundPrompt
from explearn_study.annotate.llm.rationales import Annotated

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


def judge(
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
