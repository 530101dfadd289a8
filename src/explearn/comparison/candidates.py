"""The methods that a comparison may use: rosters, names, and explainers as objects."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explearn.core.errors import ParamsError, UnknownNameError, shown
from explearn.methods import __file__ as METHODS
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.registry import get_explainer, get_info, known_infos, with_seed
from explearn.report.verdict import LEADING

ROSTERS = Path(METHODS).with_name("rosters.json")
"""Roster -> method -> options; `make index` writes it from conf/roster/."""

FLOOR = "random"
"""The method that a budget never drops."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The methods that a comparison may use.

    Attributes:
        options: method -> its options.
        explainers: methods that were passed as objects, by name.
        seed: seed of methods that draw at random.
    """

    options: Mapping[str, Mapping[str, Any]]
    explainers: Mapping[str, Explainer]
    seed: int

    @classmethod
    def of(cls, methods: str | Sequence[str | Explainer], seed: int) -> Candidates:
        """Return the methods of rosters, names and explainers.

        Raises:
            UnknownNameError: there is no such method.
            ParamsError: a method needs training or is named twice, or there is none.
        """
        names: Any = methods
        explainers: dict[str, Explainer] = {}
        if isinstance(methods, list | tuple):
            names = [method for method in methods if not isinstance(method, Explainer)]
            explainers = {method.name: method for method in methods if isinstance(method, Explainer)}
            if len(names) + len(explainers) < len(methods):
                named = ", ".join(method.name for method in methods if isinstance(method, Explainer))
                raise ParamsError(f"methods: got {named}; expected each once")
        options: dict[str, Mapping[str, Any]] = dict(choose_methods(names))
        for name, explainer in explainers.items():
            options[name] = settings_of(explainer)
        if not options:
            raise ParamsError("methods: got none; expected at least one roster, name or explainer")
        return cls(options, explainers, seed)

    def make(self, name: str) -> tuple[Explainer, dict[str, Any]]:
        """Return a method and its options: a copy of one of the explainers, since checks change it, or a new one."""
        if name in self.explainers:
            return copy.copy(self.explainers[name]), dict(self.options[name])
        options = with_seed(name, self.options[name], self.seed)
        return get_explainer(name, **options), options


def settings_of(explainer: Explainer) -> dict[str, Any]:
    """Return all that scores depend on but the classifier: options and, of a trained explainer, SHA-256 of weights."""
    settings = explainer.options.model_dump(mode="json")
    if isinstance(explainer, LearnedExplainer):
        settings["weights"] = explainer.content_hash()
    return settings


def choose_methods(wanted: str | Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options of rosters' and named methods: FLOOR, then quick methods, LEADING ones first in each group.

    A named method gets its options in the roster light, else its defaults.

    Args:
        wanted: names, as a list or separated by commas.

    Returns:
        Method -> options.

    Raises:
        UnknownNameError: there is no such method.
        ParamsError: a method needs training or is named twice, or got anything but names.
    """
    rosters: dict[str, dict[str, Any]] = json.loads(ROSTERS.read_text(encoding="utf-8"))
    names: Sequence[str] = wanted
    if isinstance(wanted, str):
        names = wanted.split(",")
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ParamsError(f"methods: got {shown(wanted)}; expected {', '.join(rosters)}, or names of methods")
    names = [name.strip() for name in names]
    if len(set(names)) != len(names):
        raise ParamsError(f"methods: {shown(wanted)} repeats a name; expected each once")
    chosen: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in rosters:
            chosen |= rosters[name]
        else:
            _check_ready(name, rosters)
            chosen[name] = rosters["light"].get(name, {})
    return {name: chosen[name] for name in sorted(chosen, key=_rank)}


def _check_ready(name: str, rosters: Collection[str]) -> None:
    """Raise an error for a method that does not exist, or that needs training."""
    try:
        info = get_info(name)
    except UnknownNameError:
        usable = [info.name for info in known_infos() if not info.untrained]
        raise UnknownNameError("method", name, (*rosters, *usable)) from None
    if info.untrained:
        raise ParamsError(
            f"methods: {name!r} needs training; train it with `explearn train` and pass it (--explainer FOLDER, or the "
            "explainer itself in the list), or leave it out"
        )


def _rank(name: str) -> tuple[bool, bool, bool]:
    return name != FLOOR, get_info(name).costly, name not in LEADING
