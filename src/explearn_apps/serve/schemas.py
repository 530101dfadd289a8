"""The JSON of the service: what it takes and what it gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from explearn.core.records import Attribution
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.refusals import RefusedError


class _Given(BaseModel):
    """What clients send: no field too many, no value of another kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


OneOrMore = Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=str | list[str])]


class ExplainRequest(_Given):
    """Texts, and what to say of them."""

    texts: list[str]
    """Texts to explain."""
    pairs: list[str] | None = None
    """Second segments, one for each text, for classifiers of pairs."""
    methods: list[str] | None = None
    """Names from GET /methods (default: the first there). An empty list: just probabilities."""
    label: OneOrMore | None = None
    """Class to explain, or a list of several (default: the predicted one; of a multi-label classifier each that
    holds)."""
    probabilities: bool = False
    """Whether to give the probabilities of all classes, too."""

    @property
    def segments(self) -> list[str | tuple[str, str]]:
        """Each text, with its second segment where there is one."""
        return list(self.texts) if self.pairs is None else list(zip(self.texts, self.pairs, strict=True))

    def check(self, limits: Limits) -> None:
        """Raise RefusedError for more than the limits allow, and for pairs that are not as many as the texts."""
        for name, values, most in (
            ("texts", self.texts, limits.texts),
            ("methods", self.methods or [], limits.methods),
            ("label", self.label or [], limits.labels),
        ):
            if len(values) > most:
                raise RefusedError(413, "size", f"{name}: got {len(values):,}; expected at most {most:,}")
            if name != "texts" and len(set(values)) != len(values):
                raise RefusedError(422, "invalid", f"{name}: got one twice; expected each once")
        if not self.texts:
            raise RefusedError(422, "invalid", "texts: got none; expected at least one")
        if self.pairs is not None and len(self.pairs) != len(self.texts):
            raise RefusedError(
                422, "invalid", f"pairs: got {len(self.pairs):,} for {len(self.texts):,} texts; expected one for each"
            )
        for number, parts in enumerate(zip(self.texts, self.pairs or [""] * len(self.texts), strict=True), start=1):
            if (length := sum(map(len, parts))) > limits.text_chars:
                raise RefusedError(
                    413, "size", f"text {number}: got {length:,} characters; expected at most {limits.text_chars:,}"
                )


class Explanation(_Answer):
    """The word scores of one text by one method for one class."""

    method: str
    label: str
    """The class that is explained."""
    probability: float | None
    """Of the label; null for a regression."""
    value: float | None
    """Of a regression; null for a classifier."""
    predicted: str
    words: list[str]
    scores: list[float | None]
    """One for each word, larger meaning more evidence for the label; null where the classifier did not read it."""
    spans: list[tuple[int, int]]
    """Of each word, its first character and the one behind its last, in the characters of its segment."""
    pair_start: int | None
    """Number of the second segment's first word."""
    signed: bool
    """Whether scores below zero are evidence against the label."""
    unread: int
    """Words that the classifier did not read, mostly because the text is too long."""

    @classmethod
    def of(cls, found: Attribution) -> dict[str, Any]:
        """The fields' values, for JSON."""
        return {
            "method": found.method,
            "label": found.target,
            "probability": None if math.isnan(found.probability) else found.probability,
            "value": found.value,
            "predicted": found.predicted,
            "words": found.words,
            "scores": [None if math.isnan(score) else score for score in found.scores.tolist()],
            "spans": found.spans,
            "pair_start": found.pair_start,
            "signed": found.signed,
            "unread": found.unaligned,
        }


class TextResult(_Answer):
    """What was found of one text."""

    probabilities: dict[str, float] | None
    """Of all labels, where asked for."""
    explanations: list[Explanation]
    """By method, then by label, as asked for."""


class ExplainResponse(_Answer):
    results: list[TextResult]
    """One for each text, in order."""


class MethodAnswer(_Answer):
    name: str
    family: str
    cost: str
    summary: str


class Bounds(_Answer):
    """Most of each in one request; texts a second for one client."""

    texts: int
    text_chars: int
    methods: int
    labels: int
    scores: int
    """Of an answer: words of all texts, times methods, times labels."""
    body_bytes: int
    rate: float

    @classmethod
    def of(cls, limits: Limits) -> Bounds:
        return cls(**{name: getattr(limits, name) for name in cls.model_fields})


class Served(_Answer):
    """What is served."""

    classifier: str
    problem: str
    labels: list[str]
    methods: list[MethodAnswer]
    limits: Bounds


class State(_Answer):
    status: str


class Problem(_Answer):
    """Why a request was not answered."""

    error: str
    """One sentence."""


def results(
    per_method: Sequence[Sequence[Sequence[Attribution]]], probabilities: Sequence[dict[str, float]] | None, texts: int
) -> dict[str, Any]:
    """The body of an answer. per_method: for each method, of each text its attributions."""
    return {
        "results": [
            {
                "probabilities": None if probabilities is None else probabilities[row],
                "explanations": [Explanation.of(a) for method in per_method for a in method[row]],
            }
            for row in range(texts)
        ]
    }
