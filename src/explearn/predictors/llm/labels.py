"""Probabilities of label words, from the likeliest tokens of an answer."""

from __future__ import annotations

import codecs
import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from explearn.predictors.llm.server.transport import TokenPosition  # needs an extra

AROUND = " \t\r\n.,:;!?\"'`*_#()[]▁Ġ"
"""Characters around a word that do not count."""

REASONING_ENDS = ("</think>", "</thinking>", "[/THINK]", "<|END_THINKING|>", "<|channel|>final<|message|>")
"""Marks behind which a model's answer stands, after its reasoning."""

NEGATION = re.compile(
    r"\b(?:not?|non|never|nor|neither|cannot|without|hardly|\w+n['’]t|nicht|kein\w*|pas|aucun\w*|ni|não|niet|geen|ikke"
    r"|inte|nie|не|нет)\b",
    re.IGNORECASE,
)
"""Words before a label that may turn its meaning."""

Stage = Literal["blank", "part", "whole", "ended"]
"""How far an output is in writing a label: it may yet begin, since one letter, such as `I`, says nothing; has begun; is
written, and may go on as a longer word; is written, with something else behind it."""


class LabelReading(NamedTuple):
    """What an answer says of the labels.

    Attributes:
        share: the labels' probability in all. The rest is that of answers that name none.
        probabilities: the probability of each label among them, (C,); they add up to 1.
    """

    share: float
    probabilities: list[float]


def normalised_word(text: str) -> str:
    """Return a word for comparison, without case and without the characters around it."""
    return text.strip(AROUND).casefold()


def answer_start(output: str, ends: Sequence[str]) -> int | None:
    """Return where the answer begins in an output, behind the reasoning; None if the reasoning does not end.

    Args:
        output: what the model wrote.
        ends: marks that end reasoning. A mark such as `</think>` has a counterpart that begins it, `<think>`.
    """
    starts = [output.rfind(mark) + len(mark) for mark in ends if mark in output]
    if not starts:
        open_marks = [mark.replace("/", "") for mark in ends if "/" in mark]
        return None if any(mark in output for mark in open_marks) else 0
    start = max(starts)
    return len(output) - len(output[start:].lstrip())


def find_label(answer: str, words: Sequence[str], cut: bool = False) -> tuple[int, int] | None:
    """Return the number of the label word that an answer gives, and the character where it is; None if it gives none.

    That is the word that the answer begins with, or else the only one in it, unless a negation stands before it.

    Args:
        answer: the answer, without reasoning.
        words: the label words.
        cut: whether the answer was cut off; then only the word that it begins with counts.
    """
    names = [normalised_word(word) for word in words]
    for number, name in enumerate(names):
        if _stage(answer.encode(), name) in ("whole", "ended"):
            return number, 0
    if cut:
        return None
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    found = list(re.finditer(rf"(?<![\w-])(?:{listed})(?!\w)", answer, re.IGNORECASE))
    different = {match[0].casefold() for match in found}
    if len(different) != 1 or NEGATION.search(answer, 0, found[0].start()):
        return None
    return names.index(different.pop()), found[0].start()


def read_labels(
    content: str, positions: Sequence[TokenPosition], words: Sequence[str], ends: Sequence[str], cut: bool = False
) -> LabelReading | None:
    """Return what an answer says of the labels; None if it says nothing, or was cut within a label.

    The answer is read behind the reasoning, where it begins; if it names a label later (`The review is bad`), at the
    place of these two where the labels have the larger share.

    Args:
        content: the answer. A server that gives the reasoning in a field of its own leaves it out here, but perhaps not
            from the tokens.
        positions: the likeliest tokens at each position of the output.
        words: the label words; none begins another.
        ends: marks that end reasoning.
        cut: whether the answer was cut off.
    """
    pieces = [position.piece for position in positions]
    output = b"".join(pieces).decode("utf-8", "replace")
    start = answer_start(output, ends)
    if start is None or not content.strip():
        return None
    if start == 0 and content.strip() in output:
        start = output.rfind(content.strip())
        if not output[:start].strip():
            start = 0
    elif start == 0 and not content.strip().startswith(output.strip()):
        return None
    places = [start]
    named = find_label(output[start:], words, cut)
    if named is not None and named[1] > 0:
        places.append(start + named[1])
    token_ends = list(accumulate(map(len, pieces)))
    readings = []
    for place in places:
        passed = len(output[:place].encode())
        first = sum(end <= passed for end in token_ends)
        readings.append(label_probabilities(positions[first:], words, cut))
    known = [reading for reading in readings if reading is not None]
    return max(known, key=lambda reading: reading.share, default=None)


def label_probabilities(
    positions: Sequence[TokenPosition], words: Sequence[str], cut: bool = False
) -> LabelReading | None:
    """Return the share and the probabilities of label words at the first of some positions; None without any.

    The tokens that the answer took are followed until a label is written and no longer word can come of it (`No` +
    `ne`). A token that the answer did not take counts for the label that it begins; for several labels (`very good`,
    `very bad`), it is divided equally. A label that is not among the likeliest tokens gets an upper bound: the
    probability of the least likely of them, or what they leave.

    Args:
        positions: the likeliest tokens at each position, from where the answer begins.
        words: the C label words; none begins another.
        cut: whether the answer was cut off; None, too, if that was within a label.
    """
    names = [normalised_word(word) for word in words]
    probabilities = np.zeros(len(names))
    bounds = np.zeros(len(names))
    followed = list(range(len(names)))
    begun = b""
    weight = 1.0
    for position in positions:
        if not followed:
            break
        listed = position.likeliest()
        written = [n for n in followed if _stage(begun, names[n]) == "whole"]
        if written:
            longer = sum(p for piece, p in listed if _stage(begun + piece, names[written[0]]) is None)
            weight *= max(0.0, 1 - longer)
            break
        rest = max(0.0, 1 - sum(p for _, p in listed))
        bounds[followed] = weight * min(rest, *(p for _, p in listed))
        taken: list[int] = []
        for place, (piece, p) in enumerate(listed):
            stages = {n: _stage(begun + piece, names[n]) for n in followed}
            fitting = [n for n in followed if stages[n] is not None]
            if place == 0 and "ended" not in stages.values():
                taken = fitting
            elif fitting and "blank" not in stages.values():
                probabilities[fitting] += weight * p / len(fitting)
        followed = taken
        begun += position.piece
        weight *= math.exp(min(0.0, position.logprob))
    for number in followed:
        stage = _stage(begun, names[number])
        if stage == "whole":
            probabilities[number] += weight
        elif stage == "part" and cut:
            return None
    if not probabilities.any():
        return None
    filled = np.where(probabilities > 0, probabilities, bounds)
    return LabelReading(min(1.0, float(probabilities.sum())), (filled / filled.sum()).tolist())


def _stage(begun: bytes, name: str) -> Stage | None:
    """Return how far an output is in writing a label, None if it writes something else; it may end within a character.

    Args:
        begun: the output, from where the label may begin.
        name: the label (`normalised_word`).
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(begun).lstrip(AROUND).casefold()
    rest = decoder.getstate()[0]
    if text.startswith(name):
        behind = text[len(name) : len(name) + 1]
        if behind.isalnum() and not _is_wide(name):
            return None
        return "ended" if behind or rest else "whole"
    if not name.startswith(text):
        return None
    following = name[len(text)]
    if not any(character.encode().startswith(rest) for character in (following, following.upper())):
        return None
    return "part" if len(text) > 1 or rest or _is_wide(text) else "blank"


def _is_wide(text: str) -> bool:
    """Return whether a text ends in a script that is as wide as Chinese, without blanks between words."""
    return unicodedata.east_asian_width(text[-1:] or " ") in "WF"
