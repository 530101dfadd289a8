"""A method's declaration in its class, and the facts that the registry has without importing the class."""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from explearn.core.errors import MethodError, ParamsError, blaming
from explearn.core.validation import Section

Family = Literal[
    "learned", "chance", "attention", "gradient", "relevance", "perturbation", "decomposition", "reason", "given"
]
FAMILIES: tuple[str, ...] = get_args(Family)
"""In the order of tables."""
Need = Literal["gradients", "attentions", "training_rationales", "other_tasks", "teacher"]

Binarisation = Literal["threshold", "positive_rate", "top_k", "expected_f1"]
"""A method's own rule to choose words: a threshold on the score, at random with the training rationales' positive rate,
the top K, or the words with the largest expected F1, for scores that are probabilities."""

ON_MARKS = ("in_domain", "few_shot")
"""The protocols in which a learned method needs marked words of the task that it explains."""

MethodName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""Lower-case letters, digits and underscores, a letter first: it names files, parameters and rows of tables."""


class About(Section):
    """The declaration of a method's class, its `about`. The first sentence of its docstring is the method's summary.

    Raises:
        pydantic.ValidationError: a name of another form, or an unknown family, need or binarisation.

    Example:
        >>> from explearn import About
        >>> about = About(name="word_length", family="chance", cost="one forward pass")
        >>> about.name, about.binarisation
        ('word_length', 'top_k')
    """

    name: MethodName
    """Registry name."""
    family: Family
    """Family of methods."""
    cost: str
    """Model passes for one text, in words."""
    needs: frozenset[Need] = frozenset()
    """What it needs beyond the classifier's predictions."""
    binarisation: Binarisation = "top_k"
    """Its own way to choose words."""
    costly: bool = False
    """Takes tens of model passes per text or more; the pipeline gives such a method its own stage."""
    uncounted: bool = False
    """Does considerable work other than passes through the classifier, which pass counts miss."""
    own_model: bool = False
    """Trains the classifier that it explains, and saves it in the folder of its own weights, unless the property
    `own_model` of its options says otherwise."""
    watches_metric: bool = False
    """Chooses a text's scores by a faithfulness metric on that text."""
    ready: bool = False
    """Can be trained, but also works without training, with weights that come with the package."""
    later: frozenset[str] = frozenset()
    """Options that can still be set for a trained explainer; training fixes all others."""
    base: str | None = None
    """The method whose trained explainer this method refines on every text."""


class Variant(Section):
    """A method with other options under another name, declared on its class as `variants`."""

    summary: str
    options: dict[str, Any]
    base: str | None = None
    """The method that this one refines, if not that of its class."""


class MethodInfo(About):
    """The facts of a method, or of a variant of one, without importing its class.

    Example:
        >>> import explearn
        >>> info = explearn.get_info("lime")
        >>> info.family, info.learned
        ('perturbation', False)
    """

    target: str
    """`module:Class`."""
    summary: str
    """One sentence for a reader who does not know the method."""
    options_class: str | None = None
    """`module:Class` of its options; None for a method without any."""
    of: str | None = None
    """The method that this one is a variant of."""
    defaults: Mapping[str, Any] = Field(default_factory=dict)
    """The variant's options."""

    @property
    def learned(self) -> bool:
        return self.family == "learned"

    @property
    def at_random(self) -> bool:
        """True if it draws its scores at random."""
        return self.binarisation == "positive_rate"

    @property
    def trained(self) -> bool:
        """True if the method itself is trained; a learned method that is not starts from `base`."""
        return self.learned and self.base is None

    @property
    def untrained(self) -> bool:
        """True if the method cannot explain before it is trained."""
        return self.learned and not self.ready

    @classmethod
    def of_class(cls, method: type) -> MethodInfo:
        """Return the facts of a method's class.

        Args:
            method: the class.

        Raises:
            ParamsError: it has no `about`, or no docstring of its own.
        """
        target = _target(method)
        declared = vars(method)
        about = declared.get("about")
        if not isinstance(about, About):
            raise ParamsError(f"class {target}: its `about` is missing; expected `about = About(name=..., ...)`")
        summary = first_sentence(declared.get("__doc__") or "")
        stripped = sys.flags.optimize > 1  # python -OO removes docstrings
        if not (summary.endswith(".") or stripped):
            raise ParamsError(
                f"class {target}: its docstring does not start with a sentence; expected the method's summary"
            )
        options = getattr(method, "Options", Section)
        options_class = None
        if options.model_fields:
            options_class = _target(options)
        return cls(**about.model_dump(), target=target, summary=summary, options_class=options_class)


@contextmanager
def blaming_package(method: type, name: str, failed: str = "failed") -> Iterator[None]:
    """Put a method's name and package before a MethodError of the block, or before what else fails in the package.

    Args:
        method: the method's class.
        name: its name.
        failed: what the method did not do, for the message.
    """
    try:
        with blaming(method.__module__, failed, MethodError):
            yield
    except MethodError as error:
        module = method.__module__.partition(".")[0]
        (package, *_) = importlib.metadata.packages_distributions().get(module, [module])
        raise MethodError(f"{name}, of {package!r}, {error}") from error


def _target(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, on one line; it ends at a full stop or with its paragraph."""
    paragraph = " ".join(inspect.cleandoc(docstring).partition("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.strip()
