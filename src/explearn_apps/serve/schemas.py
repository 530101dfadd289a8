"""The JSON of the service: requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from explearn.core.records import Attribution
from explearn.core.validation import Section
from explearn_apps.serve.limits import Limits

OneOrMore = Annotated[
    list[str],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=str | list[str]),
]


class ExplainRequest(Section):
    """Texts, and what to say of them."""

    model_config = ConfigDict(strict=True)

    texts: list[str] = Field(min_length=1)
    """Texts to explain."""
    pairs: list[str] | None = None
    """Second segments, one for each text, for classifiers of pairs."""
    methods: list[str] | None = None
    """Names from GET /methods (default: the first there). An empty list: just probabilities."""
    label: OneOrMore | None = None
    """Class to explain, or a list of several (default: the predicted one; of a multi-label classifier each that
    holds)."""
    unit: Literal["token", "word", "phrase", "sentence"] = "word"
    """What is scored. Methods that perturb texts leave out whole units."""
    probabilities: bool = False
    """Whether to give the probabilities of all classes, too."""

    def check(self, limits: Limits) -> None:
        """Raise HTTPException for more than the limits allow, and for pairs that are not as many as the texts."""
        for name, values, most in (
            ("texts", self.texts, limits.texts),
            ("methods", self.methods or [], limits.methods),
            ("label", self.label or [], limits.labels),
        ):
            if len(values) > most:
                raise HTTPException(413, f"{name}: got {len(values):,}; expected at most {most:,}")
            if name != "texts" and len(set(values)) != len(values):
                raise HTTPException(422, f"{name}: got one twice; expected each once")
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
    """The word scores of one text by one method for one class."""

    method: str
    label: str
    """The class that is explained."""
    probability: float | None
    """The probability of the label; null for a regression."""
    value: float | None
    """The value of a regression; null for a classifier."""
    predicted: str
    words: list[str]
    """The words, or the other units that are scored."""
    scores: list[float | None]
    """One for each word, larger meaning more evidence for the label; null where the classifier did not read it."""
    spans: list[tuple[int, int]]
    """The [start, end) of each word in the characters of its segment."""
    pair_start: int | None
    """Number of the second segment's first word."""
    signed: bool
    """Whether scores below zero are evidence against the label."""
    unread: int
    """Words that the classifier did not read, mostly because the text is too long."""
    completeness_error: float | None
    """By how much the scores miss what they should add up to; null where the method promises no sum."""
    missed: float | None
    """The same as a share of the absolute scores; from 0.1 on, do not take the scores as shares of the output."""
    certificate: dict[str, Any] | None
    """How far the scores can be relied on, of methods that say so: agreement, bound, familiar and verdict."""


class TextResult(Answer):
    probabilities: dict[str, float] | None
    """The probabilities of all labels, where asked for."""
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
    """The verdict of a comparison of methods on this classifier, where the service was started with one."""
    limits: Limits


class Problem(Answer):
    """Why a request was not answered."""

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
