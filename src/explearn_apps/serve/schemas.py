"""The JSON of the service: requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from explearn.core.attribution import Attribution
from explearn.core.validation import Section
from explearn_apps.serve.limits import Limits

OneOrMore = Annotated[
    list[str],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
]


class ExplainRequest(Section):
    """Texts, and how to explain them."""

    model_config = ConfigDict(strict=True)

    texts: list[str] = Field(min_length=1)
    """Texts to explain."""
    pairs: list[str] | None = None
    """Second segments, one for each text, for classifiers of pairs."""
    methods: list[str] | None = None
    """Names from GET /methods (default: the first). An empty list: only probabilities."""
    label: OneOrMore | None = None
    """Class to explain, or a list of several (default: the predicted one; for a multi-label classifier each that
    applies)."""
    unit: Literal["token", "word", "phrase", "sentence"] = "word"
    """Unit that is scored. Methods that perturb texts leave out whole units."""
    probabilities: bool = False
    """Whether to also return the probabilities of all classes."""

    def check(self, limits: Limits) -> None:
        """Raise HTTPException beyond the limits, and if there are not as many pairs as texts."""
        for name, values, most in (
            ("texts", self.texts, limits.texts),
            ("methods", self.methods or [], limits.methods),
            ("label", self.label or [], limits.labels),
        ):
            if len(values) > most:
                raise HTTPException(413, f"{name}: got {len(values):,}; expected at most {most:,}")
            if name != "texts" and len(set(values)) != len(values):
                raise HTTPException(422, f"{name}: got a repeated entry; expected each once")
        pairs = [""] * len(self.texts) if self.pairs is None else self.pairs
        if len(pairs) != len(self.texts):
            raise HTTPException(422, f"pairs: got {len(pairs):,} for {len(self.texts):,} texts; expected one for each")
        for number, segments in enumerate(zip(self.texts, pairs, strict=True), start=1):
            if (length := sum(map(len, segments))) > limits.text_chars:
                raise HTTPException(
                    413, f"text {number}: got {length:,} characters; expected at most {limits.text_chars:,}"
                )


class Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Explanation(Answer):
    """One method's word scores of one text for one class."""

    method: str
    label: str
    """The explained class."""
    probability: float | None
    """The probability of the label; null for a regression."""
    value: float | None
    """The value of a regression; null for a classifier."""
    predicted: str
    words: list[str]
    """The words, or other units, that are scored."""
    scores: list[float | None]
    """One per word; larger means more evidence for the label, null that the classifier did not read the word."""
    spans: list[tuple[int, int]]
    """The [start, end) of each word in the characters of its segment."""
    pair_start: int | None
    """Index of the second segment's first word."""
    signed: bool
    """Whether scores below zero are evidence against the label."""
    unread: int
    """Number of words that the classifier did not read, mostly because the text is too long."""
    completeness_error: float | None
    """By how much the scores miss what they should add up to; null if the method promises no sum."""
    missed: float | None
    """The same as a share of the absolute scores; from 0.1 on, do not take the scores as shares of the output."""
    certificate: dict[str, Any] | None
    """How far the scores can be relied on, for methods that say so: agreement, bound, familiar and verdict."""


class TextResult(Answer):
    probabilities: dict[str, float] | None
    """The probabilities of all labels, if requested."""
    explanations: list[Explanation]
    """Explanations by method, then by label, in the order of the request."""


class ExplainResponse(Answer):
    results: list[TextResult]
    """One for each text, in order."""


class MethodSummary(Answer):
    name: str
    family: str
    cost: str
    summary: str


class Served(Answer):
    """The classifier, its labels, the methods, and the limits of a request."""

    classifier: str
    problem: str
    labels: list[str]
    methods: list[MethodSummary]
    verdict: str | None
    """The verdict of a comparison of methods on this classifier, if the service was started with one."""
    limits: Limits


class ErrorResponse(Answer):
    """The reason why a request failed."""

    error: str
    """One sentence."""


def result(probabilities: dict[str, float] | None, attributions: Sequence[Attribution]) -> dict[str, Any]:
    """Return a TextResult as plain values."""
    explanations = []
    for attribution in attributions:
        record = attribution.to_record() | {
            "label": attribution.target,
            "unread": attribution.unaligned,
            "missed": attribution.missed,
        }
        explanations.append({name: record[name] for name in Explanation.model_fields})
    return {"probabilities": probabilities, "explanations": explanations}
