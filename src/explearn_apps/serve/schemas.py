"""The JSON of the service: requests and answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
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
        """Check the request against the service's limits.

        Raises:
            HTTPException: it is beyond them, a method or label is repeated, or there are not as many pairs as texts.
        """
        _check_count("texts", self.texts, limits.texts)
        _check_names("methods", self.methods or (), limits.methods)
        _check_names("label", self.label or (), limits.labels)
        pairs = self.pairs
        if pairs is None:
            pairs = [""] * len(self.texts)
        if len(pairs) != len(self.texts):
            raise HTTPException(422, f"pairs: got {len(pairs):,} for {len(self.texts):,} texts; expected one for each")
        for number, (text, pair) in enumerate(zip(self.texts, pairs, strict=True), start=1):
            length = len(text) + len(pair)
            if length > limits.text_chars:
                raise HTTPException(
                    413, f"text {number}: got {length:,} characters; expected at most {limits.text_chars:,}"
                )


def _check_count(name: str, values: Sequence[str], most: int) -> None:
    if len(values) > most:
        raise HTTPException(413, f"{name}: got {len(values):,}; expected at most {most:,}")


def _check_names(name: str, values: Sequence[str], most: int) -> None:
    _check_count(name, values, most)
    if len(set(values)) != len(values):
        raise HTTPException(422, f"{name}: got a repeated entry; expected each once")


class DocumentedModel(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


_SERVED = (
    "method target probability value predicted output unit words scores spans pair_start signed unaligned "
    "completeness_error certificate"
)
"""Fields of an attribution that are served; sub-tokens, times and ids are not."""

_RENAMED = {"target": "label", "unaligned": "unread"}

SERVED = {name: _RENAMED.get(name, name) for name in _SERVED.split()}
"""Field of an attribution -> its name in an answer."""


def _served_fields() -> type[DocumentedModel]:
    """Return the shape of the served fields of an `Attribution`, with their types and meanings."""
    types = get_type_hints(Attribution, include_extras=True)
    meanings = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", inspect.getdoc(Attribution) or "", re.MULTILINE))
    fields: dict[str, Any] = {}
    for name, served in SERVED.items():
        meaning = re.sub(r"\s+", " ", re.sub(r"\b(NaN|None)\b", "null", meanings.get(name, "")))
        fields[served] = (types[name], Field(description=meaning))
    return create_model("_ServedFields", __base__=DocumentedModel, **fields)


class Explanation(_served_fields()):  # type: ignore[misc]
    """One method's word scores of one text for one class."""

    missed: float | None
    """The completeness error as a share of the absolute scores; from 0.1 on, do not take the scores as shares of the
    output."""


class TextResult(DocumentedModel):
    probabilities: dict[str, float] | None
    """The probabilities of all labels, if requested."""
    explanations: list[Explanation]
    """Explanations by method, then by label, in the order of the request."""


class ExplainResponse(DocumentedModel):
    results: list[TextResult]
    """One for each text, in order."""


class MethodSummary(DocumentedModel):
    name: str
    family: str
    cost: str
    summary: str


class Served(DocumentedModel):
    """The classifier, its labels, the methods, and the limits of a request."""

    classifier: str
    problem: str
    labels: list[str]
    methods: list[MethodSummary]
    verdict: str | None
    """The verdict of a comparison of methods on this classifier, if the service was started with one."""
    limits: Limits


class ErrorResponse(DocumentedModel):
    """The reason why a request failed."""

    error: str
    """One sentence."""


def result(probabilities: dict[str, float] | None, attributions: Sequence[Attribution]) -> dict[str, Any]:
    """Return a TextResult as plain values."""
    explanations = []
    for attribution in attributions:
        document = attribution.to_dict()
        explanation = {served: document[name] for name, served in SERVED.items()}
        explanations.append(explanation | {"missed": attribution.missed})
    return {"probabilities": probabilities, "explanations": explanations}
