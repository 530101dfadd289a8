"""Methods by name: Explearn's own, those registered in this process, and those of installed packages.

`index.json` has the declarations of Explearn's own methods (scripts/make_index.py writes it), so that names, help and
parameters need neither torch nor a method's module.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import pkgutil
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from explearn.core.errors import ParamsError, UnknownNameError, blaming, kind_of, located
from explearn.methods.info import MethodInfo, blaming_package

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer

INDEX = Path(__file__).with_name("index.json")
"""Facts of Explearn's own methods in the order of reports, each followed by its variants."""

ENTRY_POINTS = "explearn.methods"
"""The entry-point group in which a package names its methods: `name = "module:Class"`."""

AnyClass = TypeVar("AnyClass", bound=type)

_registered: dict[str, type[Explainer]] = {}


@functools.cache
def _index() -> dict[str, MethodInfo]:
    entries = json.loads(INDEX.read_text(encoding="utf-8"))
    return {entry["name"]: MethodInfo(**entry) for entry in entries}


@functools.cache
def _plug_ins() -> dict[str, EntryPoint]:
    """Return the methods of installed packages by name, without importing them."""
    plug_ins: dict[str, EntryPoint] = {}
    for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        if entry.name not in _index() and plug_ins.setdefault(entry.name, entry) == entry:
            continue
        warnings.warn(f"{_package(entry)}: its method {entry.name!r} is left out; the name is taken", stacklevel=3)
    return plug_ins


def _package(entry: EntryPoint) -> str:
    return f"package {entry.dist.name!r}" if entry.dist is not None else "a package"


@functools.cache
def _load(entry: EntryPoint) -> type[Explainer]:
    """Import the class of a package's method. Raises ParamsError, naming the package, if that fails."""
    what = f"{_package(entry)}: its method {entry.name!r} ({entry.value})"
    with blaming(entry.value, f"{what} cannot be loaded", ParamsError, "; fix the package or remove it"):
        cls: type[Explainer] = entry.load()
    with located(f"{what} is of no use: "):
        name = _check_class(cls).name
    if name != entry.name:
        raise ParamsError(f"{what} calls itself {name!r}; expected the same name in both places")
    return cls


def _check_class(cls: Any) -> MethodInfo:
    """Return the facts that a class declares. Raises ParamsError unless it is a method."""
    from explearn.methods.base.explainer import Explainer

    if not (isinstance(cls, type) and issubclass(cls, Explainer)):
        name = getattr(cls, "__name__", None) or kind_of(cls)
        raise ParamsError(f"got {name}; expected a class that inherits from explearn.Explainer")
    return MethodInfo.of_class(cls)


def register(cls: AnyClass) -> AnyClass:
    """Register a method by its name in this process; return the class, for use as a decorator.

    A package names its methods in the entry-point group `explearn.methods` instead, so that every process finds them.
    A later class with the same name, as in a notebook, replaces the earlier one.

    Args:
        cls: a subclass of `Explainer` with `about`.

    Raises:
        ParamsError: it is no method, or has the name of one of Explearn's own.

    Example:
        >>> import explearn
        >>> from explearn.methods.chance.random import Random
        >>> @explearn.register
        ... class Chance(Random):
        ...     'Random scores under another name.'
        ...     about = explearn.About(name="chance", family="chance", cost="one forward pass")
        >>> explearn.get_explainer("chance").name
        'chance'
    """
    info = _check_class(cls)
    if info.name in _index():
        raise ParamsError(f"class {info.target}: the name {info.name!r} is taken by a method of Explearn")
    _registered[info.name] = cls
    return cls


def list_explainers() -> list[str]:
    """Return the names of all methods: Explearn's by family, learned first, then registered ones, then packages'.

    Example:
        >>> import explearn
        >>> "lime" in explearn.list_explainers()
        True
    """
    return list(dict.fromkeys([*_index(), *_registered, *_plug_ins()]))


def get_info(name: str) -> MethodInfo:
    """Return the facts about a method.

    Args:
        name: one of `list_explainers()`.

    Raises:
        UnknownNameError: there is no such method; the message suggests similar names.
        ParamsError: a package's method cannot be loaded.

    Example:
        >>> import explearn
        >>> explearn.get_info("lime").family
        'perturbation'
    """
    if not isinstance(name, str):
        raise UnknownNameError("method", name, list_explainers())
    # Packages are searched last, as that takes longest.
    info = _index().get(name)
    return MethodInfo.of_class(explainer_class(name)) if info is None else info


def known_infos() -> Iterator[MethodInfo]:
    """Yield the facts about each method, in the order of `list_explainers`; warn about methods that cannot be
    loaded."""
    for name in list_explainers():
        try:
            yield get_info(name)
        except ParamsError as error:
            warnings.warn(str(error), stacklevel=2)


def explainer_class(name: str) -> type[Explainer]:
    """Import the class behind a name. Raises UnknownNameError, and ParamsError for a package that cannot be loaded."""
    if name in _index():
        cls: type[Explainer] = pkgutil.resolve_name(_index()[name].target)
        return cls
    if name in _registered:
        return _registered[name]
    if name in _plug_ins():
        return _load(_plug_ins()[name])
    raise UnknownNameError("method", name, list_explainers())


def get_explainer(name: str, **options: Any) -> Explainer:
    """Make an explainer by the name of its method.

    Args:
        name: one of `list_explainers()`.
        options: options of the method; for a variant, they override its own.

    Returns:
        The explainer. One of a learned method is not trained; `load` returns a trained one.

    Raises:
        UnknownNameError: there is no such method; the message suggests similar names.
        ParamsError: an option is unknown or has a bad value.
        MethodError: the class of another package cannot be made with its options alone.

    Example:
        >>> import explearn
        >>> explearn.get_explainer("lime", samples=100)
        lime(samples=100)
    """
    info = get_info(name)
    cls = explainer_class(name)
    with blaming_package(cls, name, "cannot be made"):
        explainer = cls(**{**info.defaults, **options})
    explainer.name = info.name
    return explainer
