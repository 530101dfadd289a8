"""Parsing a model's answer into label, evidence and reason; nearly valid answers are repaired."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import json_repair

from explearn_study.annotate.llm.quotes import Quote

EVIDENCE_NAMES = ("evidence", "ranking")

WITHHELD = {
    "refused": "the server refused the text",
    "content_filter": "the server's filter withheld the answer",
}
"""Finish reasons without an answer -> what is wrong."""

_THINKING = re.compile(r"^.*</think>", re.DOTALL)


class InvalidAnswerError(ValueError):
    """An answer that cannot be used; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer: the label, the quotes that are evidence, and the reason."""

    label: str
    quotes: tuple[Quote, ...]
    reason: str

    @property
    def words(self) -> int:
        """The number of words in all quotes."""
        return sum(len(quote.text.split()) for quote in self.quotes)


def parse_answer(content: str, finish: str, labels: Sequence[str]) -> ParsedAnswer:
    """Read an answer.

    Repairs text and code fences around the JSON, nearly valid JSON, a label in other case, evidence as plain words or
    as one string, and a missing reason.

    Args:
        content: the model's output.
        finish: why it stopped; a truncated answer is accepted if its evidence is complete.
        labels: the task's labels.

    Raises:
        InvalidAnswerError: the answer is of no use.
    """
    if finish in WITHHELD:
        raise InvalidAnswerError(WITHHELD[finish])
    if not content.strip():
        raise InvalidAnswerError("empty answer")
    repaired = False
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        text = _THINKING.sub("", content)
        try:
            value = json_repair.loads(text[text.index("{") :])
        except (ValueError, RecursionError) as error:
            raise InvalidAnswerError("no JSON object") from error
        repaired = True
    if not isinstance(value, dict):
        raise InvalidAnswerError("no JSON object")
    closed = content.count("}") >= content.count("{")
    cut = repaired and (finish == "length" or not closed)
    if cut and value and next(reversed(value)) in ("label", *EVIDENCE_NAMES):
        raise InvalidAnswerError("truncated before the evidence was complete")
    reason = value.get("reason")
    return ParsedAnswer(
        _label(value.get("label"), labels), _evidence(value), _clean(reason) if isinstance(reason, str) else ""
    )


def _label(value: Any, labels: Sequence[str]) -> str:
    if value in labels:
        return str(value)
    stripped = str(value).strip(" \t\n.\"'").casefold()
    near = [label for label in labels if label.casefold() == stripped]
    if len(near) != 1 or not isinstance(value, str):
        raise InvalidAnswerError(f"label {_clean(repr(value))[:60]}; expected one of {', '.join(labels)}")
    return near[0]


def _evidence(answer: dict[str, Any]) -> tuple[Quote, ...]:
    name = next((name for name in EVIDENCE_NAMES if name in answer), None)
    if name is None:
        raise InvalidAnswerError("no evidence; expected a list, if need be an empty one")
    listed = answer[name]
    if listed is None or listed in ("", {}):
        listed = []
    elif isinstance(listed, str | dict):
        listed = [listed]
    if not isinstance(listed, list):
        raise InvalidAnswerError(f"evidence of type {type(listed).__name__}; expected a list")
    quotes: list[Quote] = []
    for item in listed:
        fields = item if isinstance(item, dict) else {"quote": item}
        text = fields.get("quote")
        occurrence = fields.get("occurrence")
        if type(occurrence) is not int or occurrence < 1:
            occurrence = 1
        if not isinstance(text, str | int | float) or isinstance(text, bool):
            raise InvalidAnswerError(f"evidence {_clean(repr(item))[:60]}; expected a quote")
        if str(text).strip():
            quotes.append(Quote(str(text), occurrence))
    return tuple(quotes)


def _clean(text: str) -> str:
    """Return a text on one line, without lone surrogates."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
