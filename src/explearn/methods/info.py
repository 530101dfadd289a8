"""What a method says of itself, on its class, and what the registry knows of it. Imports neither torch nor a method."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from explearn.core.arguments import SEVERAL, TEXT, Kind, check_argument, one_of, or_none, shown
from explearn.core.errors import ParamsError

Family = Literal["learned", "chance", "attention", "gradient", "relevance", "perturbation", "decomposition", "given"]
FAMILIES: tuple[str, ...] = get_args(Family)
"""In the order of tables."""
Need = Literal["gradients", "attentions", "training_rationales", "other_tasks", "teacher"]

Binarisation = Literal["threshold", "positive_rate", "top_k", "expected_f1"]
"""How a method chooses words by its own rule: a threshold on the score, a chance of being chosen equal to the training
rationales' positive rate, the top K, or the words with the largest expected F1, of scores that are probabilities."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")


_NAMES = Kind("a set of names", lambda value: SEVERAL.fits(value) and all(isinstance(name, str) for name in value))


@dataclass(frozen=True, slots=True)
class About:
    """What a method's class declares as `about`. The first sentence of its docstring is the method's summary.

    Attributes:
        name: registry name: lower-case letters, digits and underscores.
        family: how it looks at the model.
        cost: model passes for one text, in words.
        needs: what it needs beyond the classifier's predictions.
        binarisation: its own way to choose words: a threshold on the score, a chance of being chosen equal to the
            training rationales' positive rate, the top K, or the largest expected F1.
        costly: takes tens of model passes a text or more; the pipeline gives such a method a stage of its own.
        uncounted: does notable work that is no pass through the classifier, so that counted passes say too little.
        own_model: trains the classifier that it explains, and keeps it beside its own weights.
        watches_metric: chooses what it says of a text by a metric of faithfulness on that text.
        ready: is trained, but explains without a training of its own, too, with weights that come with the package.
        base: the trained explainer that a method without a training of its own starts from on every text.

    Raises ParamsError for a name of another form, and for a family, need or binarisation that does not exist.
    """

    name: str
    family: Family
    cost: str
    needs: frozenset[Need] = frozenset()
    binarisation: Binarisation = "top_k"
    costly: bool = False
    uncounted: bool = False
    own_model: bool = False
    watches_metric: bool = False
    ready: bool = False
    base: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        for part in ("family", "binarisation", "cost"):
            check_argument(f"method {self.name!r}, {part}", getattr(self, part), TEXT)
        check_argument(f"method {self.name!r}, needs", self.needs, _NAMES)
        check_argument(f"method {self.name!r}, base", self.base, or_none(TEXT))
        choices = (("family", self.family, Family), ("binarisation", self.binarisation, Binarisation))
        needs = (("needs", need, Need) for need in self.needs)
        for option, value, known in (*choices, *needs):
            if value not in get_args(known):
                raise ParamsError(
                    f"method {self.name!r}, {option}: got {shown(value)}; expected one of {', '.join(get_args(known))}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodInfo(About):
    """What is known of a method without importing it.

    Attributes:
        target: `module:Class`.
        summary: one sentence for a reader who has never met it.
        section: `module:Class` of the options of a learned method, None for others.
        of: the method that this one is a variant of.
        defaults: the options that a variant stands for.
    """

    target: str
    summary: str
    section: str | None = None
    of: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def room(self) -> str:
        """The folder of explearn.methods that holds its class, `other` for a method from outside."""
        parts = self.target.partition(":")[0].split(".")
        return parts[2] if parts[:2] == ["explearn", "methods"] else "other"

    @property
    def learned(self) -> bool:
        return self.family == "learned"

    @property
    def trained(self) -> bool:
        """Whether it has a training of its own; a learned method that has none starts from `base`."""
        return self.learned and self.base is None

    @classmethod
    def of_class(cls, method: type) -> MethodInfo:
        """What a method's class declares. Raises ParamsError where it declares nothing, or has no docstring."""
        check_argument("method", method, one_of(type, "a class"))
        name = f"{method.__module__}:{method.__qualname__}"
        about = vars(method).get("about")
        if not isinstance(about, About):
            raise ParamsError(f"class {name}: its `about` is missing; expected `about = About(name=..., ...)`")
        summary = first_sentence(vars(method).get("__doc__") or "")
        if not summary.endswith("."):
            raise ParamsError(
                f"class {name}: its docstring starts with no sentence; expected one, for it is the method's summary"
            )
        declared = {entry.name: getattr(about, entry.name) for entry in fields(About)}
        section = vars(method).get("Options")
        where = None if section is None else f"{section.__module__}:{section.__qualname__}"
        return cls(**declared, target=name, summary=summary, section=where)


def check_name(name: object) -> None:
    """Raise ParamsError unless `name` may name a method: it names files, parameters and rows of tables."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParamsError(
            f"method {shown(name)}: expected a name of lower-case letters, digits and underscores, a letter first"
        )


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring, on one line; it ends with its paragraph, or with a full stop and a blank."""
    paragraph = " ".join(inspect.cleandoc(docstring).partition("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.strip()
