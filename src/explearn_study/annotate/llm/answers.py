"""What a model wrote, read as label, evidence and reason; near-valid answers are mended."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import json_repair

from explearn_study.annotate.llm.quotes import Quote

EVIDENCE_NAMES = ("evidence", "evidence_words", "words", "rationale", "quotes")
"""Names under which models put the evidence, the one asked for first."""

QUOTE_NAMES = ("quote", "words", "word", "text")

_THINKING = re.compile(r"^.*</think>", re.DOTALL)
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*|\s*```\s*$")


class InvalidAnswerError(ValueError):
    """An answer that cannot be used; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer: the label, the words given as evidence, the reason, and whether it had to be mended."""

    label: str
    quotes: tuple[Quote, ...]
    reason: str
    repaired: bool


def parse_answer(content: str, finish: str, labels: Sequence[str]) -> ParsedAnswer:
    """Read an answer.

    Args:
        content: what the model wrote.
        finish: why it stopped; an answer cut short counts where what matters is whole.
        labels: those of the task.

    Mended are: text and code fences around the JSON, JSON that is not quite valid, a label in other capitals, evidence
    under another name, as plain words or as one text, a missing reason.
    Raises InvalidAnswerError for everything else.
    """
    if finish == "refused":
        raise InvalidAnswerError("the server refused the text")
    if finish == "content_filter":
        raise InvalidAnswerError("the server's filter withheld the answer")
    if not content.strip():
        raise InvalidAnswerError("nothing was written")
    try:
        value, repaired = json.loads(content), False
    except (ValueError, RecursionError):
        value, repaired = _repaired(content), True
    if isinstance(value, list):
        answers = [item for item in value if isinstance(item, dict) and "label" in item]
        if len(answers) != 1:
            raise InvalidAnswerError(f"{len(answers)} JSON objects with a label; expected one")
        value, repaired = answers[0], True
    if not isinstance(value, dict):
        raise InvalidAnswerError("no JSON object")
    cut = repaired and (finish == "length" or not _closed(content))
    if cut and value and next(reversed(value)) in ("label", *EVIDENCE_NAMES):
        raise InvalidAnswerError("cut short before the evidence was whole")
    label, relabelled = _label(value.get("label"), labels)
    quotes, mended = _evidence(value)
    reason = value.get("reason")
    whole = isinstance(reason, str) and not (repaired or relabelled or mended)
    return ParsedAnswer(label, quotes, _clean(reason) if isinstance(reason, str) else "", not whole)


def _repaired(content: str) -> Any:
    text = _FENCE.sub("", _THINKING.sub("", content))
    start = text.find("{")
    if start < 0:
        raise InvalidAnswerError("no JSON object")
    try:
        return json_repair.loads(text[start:])
    except (ValueError, RecursionError) as error:
        raise InvalidAnswerError("JSON beyond repair") from error


def _closed(content: str) -> bool:
    """Whether the JSON of an answer ends, whatever is written after it."""
    return content.count("}") >= content.count("{") > 0


def _label(value: object, labels: Sequence[str]) -> tuple[str, bool]:
    if isinstance(value, str):
        if value in labels:
            return value, False
        near = [label for label in labels if label.casefold() == value.strip(" \t\n.\"'").casefold()]
        if len(near) == 1:
            return near[0], True
    shown = _clean(repr(value))[:60]
    raise InvalidAnswerError(f"label {shown}; expected one of {', '.join(labels)}")


def _evidence(answer: dict[str, Any]) -> tuple[tuple[Quote, ...], bool]:
    name = next((name for name in EVIDENCE_NAMES if name in answer), None)
    if name is None:
        raise InvalidAnswerError("no evidence; expected a list, if need be an empty one")
    value, mended = answer[name], name != EVIDENCE_NAMES[0]
    if value is None or isinstance(value, (str, dict)):
        value, mended = ([] if value in (None, "") else [value]), True
    if not isinstance(value, list):
        raise InvalidAnswerError(f"evidence of type {type(value).__name__}; expected a list")
    quotes: list[Quote] = []
    for item in value:
        text, occurrence = item, 1
        if isinstance(item, dict):
            text = next((item[name] for name in QUOTE_NAMES if name in item), None)
            given = item.get("occurrence")
            occurrence = given if type(given) is int and given > 0 else 1
            mended = mended or "quote" not in item or occurrence != given
        else:
            mended = True
        if isinstance(text, (int, float)) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str):
            raise InvalidAnswerError(f"evidence {_clean(repr(item))[:60]}; expected a quote")
        if text.strip():
            quotes.append(Quote(text, occurrence))
    return tuple(quotes), mended


def _clean(text: str) -> str:
    """Text without halves of characters, on one line."""
    return " ".join(text.encode("utf-8", "replace").decode().split())
