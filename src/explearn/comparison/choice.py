"""Which methods and how many texts a comparison takes: by name, by roster, and by what a budget of time allows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explearn.core.arguments import shown
from explearn.core.documents import kind_of
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.settings import MOST
from explearn.methods import __file__ as METHODS
from explearn.methods.registry import get_info, known_infos

ROSTERS = Path(METHODS).with_name("rosters.json")
"""Roster -> quick and costly -> method -> options; `make index` writes it from conf/roster/."""

FEWEST_TEXTS = 20
"""A budget takes the slowest method out before it goes below this many texts. Intervals over fewer say little."""

JUDGING_PASSES = 16
"""Shortened or masked inputs that judging one method on one text asks the classifier about, at most: with five shares
of words twelve for comprehensiveness and sufficiency, four for the others."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def choose_methods(wanted: str) -> dict[str, dict[str, Any]]:
    """Method -> options, quick ones first: those of a roster, or those named, separated by commas.

    A method that is named takes the options that roster light gives it, else its own defaults.
    Raises UnknownNameError for a name that is neither, ParamsError for a method that has to be trained, or named
    twice, and for what is no text.
    """
    if not isinstance(wanted, str):
        raise ParamsError(f"methods: got {kind_of(wanted)}; expected a roster, or names separated by commas")
    rosters: dict[str, dict[str, dict[str, Any]]] = json.loads(ROSTERS.read_text(encoding="utf-8"))
    if wanted in rosters:
        found = rosters[wanted]["quick"] | rosters[wanted]["costly"]
    else:
        names = [name.strip() for name in wanted.split(",")]
        if not all(names):
            raise ParamsError(
                f"methods: got {shown(wanted)}; expected one of {', '.join(rosters)}, or names separated by commas"
            )
        if len(set(names)) != len(names):
            raise ParamsError(f"methods: {wanted!r} repeats a name; expected each once")
        light = rosters["light"]["quick"] | rosters["light"]["costly"]
        for name in names:
            if name in rosters:
                raise ParamsError(f"methods: got the roster {name!r} among names; expected a roster alone, or names")
            try:
                info = get_info(name)
            except UnknownNameError:
                untrained = (info.name for info in known_infos() if info.ready or not info.learned)
                raise UnknownNameError("method", name, (*rosters, *untrained)) from None
            if info.learned and not info.ready:
                raise ParamsError(f"methods: {name!r} has to be trained, and a comparison trains nothing; leave it out")
        found = {name: light.get(name, {}) for name in names}
    return {name: found[name] for name in sorted(found, key=lambda name: get_info(name).costly)}


def parse_budget(value: str | float | None) -> float | None:
    """Seconds: from a number, or from a text such as 90s, 10m or 1.5h. Raises ParamsError for anything else."""
    if value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value.strip())
        if match is None:
            raise ParamsError(f"budget: got {value!r}; expected a time such as 90s, 10m or 1.5h")
        value = float(match[1]) * _UNITS[match[2] or "s"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise ParamsError(f"budget: got {shown(value)}; expected seconds, more than 0 and at most {MOST:,}")
    return float(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a comparison takes.

    Attributes:
        methods: names, fastest first.
        texts: how many texts they explain.
        left_out: method -> why it is not compared.
    """

    methods: Sequence[str]
    texts: int
    left_out: Mapping[str, str]


def within_budget(seconds: Mapping[str, float], forward: float, texts: int, budget: float | None) -> Choice:
    """As many texts as a budget allows, at least FEWEST_TEXTS; where these are too many, without the slowest methods.

    Args:
        seconds: method -> time to explain one text. forward: time to classify one text.
        texts: how many there are. budget: seconds that are left; None: no end.
    """
    order = sorted(seconds, key=seconds.__getitem__)
    if budget is None:
        return Choice(order, texts, {})
    fewest = min(FEWEST_TEXTS, texts)
    left_out: dict[str, str] = {}

    def needed(methods: Sequence[str]) -> float:
        return sum(seconds[name] + JUDGING_PASSES * forward for name in methods)

    while len(order) > 1 and fewest * needed(order) > budget:
        slowest = order.pop()
        left_out[slowest] = f"too slow for the budget: {seconds[slowest]:.2g} s a text"
    return Choice(order, max(fewest, min(texts, int(budget / needed(order)))), left_out)
