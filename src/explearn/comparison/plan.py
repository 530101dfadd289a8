"""The choice of methods and texts for a comparison, by name, roster and time budget; its plan and file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from explearn.core.documents import read_json
from explearn.core.errors import DataError, ParamsError, UnknownNameError, shown
from explearn.core.validation import MOST, Number, Shape, check
from explearn.core.writing import write_json
from explearn.methods import __file__ as METHODS
from explearn.methods.registry import get_info, known_infos
from explearn.report.verdict import LEADING

ROSTERS = Path(METHODS).with_name("rosters.json")
"""Roster -> method -> options; `make index` writes it from conf/roster/."""

FEWEST_TEXTS = 20
"""Fewest texts: a budget drops the slowest method rather than going below. Intervals over fewer texts say little."""

FLOOR = "random"
"""The method that a budget never drops."""

JUDGING_PASSES = 8
"""Estimated passes, in whole texts, to evaluate one method on one text: some 16 shortened or masked inputs are
classified, many of them short, duplicates once."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


PLAN = "plan.json"
"""First file written to a comparison's folder."""


def choose_methods(wanted: str | Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return method -> options for rosters and named methods: FLOOR, then quick methods, LEADING ones first in each
    group.

    A named method gets its options in the roster light, else its defaults.

    Args:
        wanted: names, as a list or separated by commas.

    Raises UnknownNameError for an unknown name, ParamsError for a method that needs training or is named twice, and
    for anything but names.
    """
    rosters: dict[str, dict[str, Any]] = json.loads(ROSTERS.read_text(encoding="utf-8"))
    names = wanted.split(",") if isinstance(wanted, str) else wanted
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ParamsError(f"methods: got {shown(wanted)}; expected {', '.join(rosters)}, or names of methods")
    names = [name.strip() for name in names]
    if len(set(names)) != len(names):
        raise ParamsError(f"methods: {shown(wanted)} repeats a name; expected each once")
    chosen: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in rosters:
            chosen |= rosters[name]
            continue
        try:
            info = get_info(name)
        except UnknownNameError:
            usable = (info.name for info in known_infos() if not info.untrained)
            raise UnknownNameError("method", name, (*rosters, *usable)) from None
        if info.untrained:
            raise ParamsError(
                f"methods: {name!r} needs training; train it with `explearn train` and pass it (--explainer FOLDER, or "
                "the explainer itself in the list), or leave it out"
            )
        chosen[name] = rosters["light"].get(name, {})

    def rank(name: str) -> tuple[bool, bool, bool]:
        return name != FLOOR, get_info(name).costly, name not in LEADING

    return {name: chosen[name] for name in sorted(chosen, key=rank)}


def parse_budget(value: str | float | None) -> float | None:
    """Return seconds from a number, or from a string such as 90s, 10m or 1.5h. Raises ParamsError for anything else."""
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


class Plan(Shape):
    """The methods and texts of a comparison, and the speeds that the choice is based on.

    Attributes:
        methods: names, fastest first.
        texts: how many texts they explain.
        left_out: method -> why it is not compared.
        seconds: method -> time to explain one text, if it was timed.
        forward: time to classify one text, in seconds.
    """

    methods: Annotated[list[str], Field(min_length=1)]
    texts: Annotated[int, Field(ge=1)]
    left_out: dict[str, str]
    seconds: dict[str, Number]
    forward: Number

    def expected(self, name: str) -> float | None:
        """Seconds to explain all texts by a method and to evaluate it; None if it was not timed."""
        return self.texts * (self.seconds[name] + JUDGING_PASSES * self.forward) if name in self.seconds else None


def within_budget(
    seconds: Mapping[str, float],
    forward: float,
    texts: int,
    budget: float | None,
    checks: Mapping[str, float] = MappingProxyType({}),
) -> Plan:
    """Plan as many texts as a budget allows; rather than going below FEWEST_TEXTS, drop the slowest methods.

    At least two methods stay, FLOOR among them if it is there; quick methods in LEADING are dropped last.

    Args:
        seconds: method -> time to explain one text. forward: time to classify one text.
        texts: number of texts. budget: remaining seconds; None for no limit.
        checks: method -> time of its sanity checks, for any number of texts.
    """
    order = sorted(seconds, key=seconds.__getitem__)
    left_out: dict[str, str] = {}
    if budget is not None:
        fewest = min(FEWEST_TEXTS, texts)

        def of_a_text() -> float:
            return sum(seconds[name] + JUDGING_PASSES * forward for name in order)

        def of_checks() -> float:
            return sum(checks.get(name, 0.0) for name in order)

        # Without FLOOR, or with FLOOR alone, figures say nothing.
        slow = [name for name in order if name != FLOOR]
        slow.sort(key=lambda name: name not in LEADING or get_info(name).costly)
        while len(slow) > 1 and len(order) > 2 and fewest * of_a_text() + of_checks() > budget:
            order.remove(slowest := slow.pop())
            left_out[slowest] = f"too slow for the budget: {seconds[slowest]:.2g} s per text"
        texts = max(fewest, min(texts, int((budget - of_checks()) / of_a_text()))) if order else texts
    # A plan without methods is completed with methods that were not timed.
    return Plan.model_construct(methods=order, texts=texts, left_out=left_out, seconds=dict(seconds), forward=forward)


class _Planned(Shape):
    request: dict[str, Any]
    plan: Plan


def read_plan(folder: Path, request: Mapping[str, Any]) -> Plan | None:
    """Return the plan of an earlier call in this folder with the same request; None if there was none.

    Choices by speed are kept, so that an interrupted comparison resumes unchanged.
    Raises DataError for a damaged plan.
    """
    path = folder / PLAN
    if not path.exists():
        return None
    hint = "; remove it, or work in another folder"
    planned: _Planned = check(_Planned, read_json(path), before=f"{path}, ", after=hint)
    if planned.request != request:
        return None
    if not set(planned.plan.methods) <= set(request["methods"]):
        raise DataError(f"{path}: plans methods that were not requested{hint}")
    return planned.plan


def write_plan(folder: Path, request: Mapping[str, Any], plan: Plan) -> None:
    write_json(folder / PLAN, {"request": request, "plan": plan.model_dump()})
