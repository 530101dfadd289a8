"""What methods there are, by name: Explearn's own, those of programs and packages, and the variants of a run.

A method's class says what it is (`explearn.methods.info.About`). Of Explearn's own, `methods/index.json` holds the
same (scripts/make_index.py writes it), so that names, help and parameters need neither torch nor a method's module.
`explearn.methods.base.registry` makes methods of these names.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar

from explearn.core.documents import kind_of
from explearn.core.errors import ParamsError, UnknownNameError, first_line
from explearn.methods.info import FAMILIES, MethodInfo, check_name

INDEX = Path(__file__).resolve().parents[1] / "methods" / "index.json"
"""What the classes of Explearn's own methods declare, in the order of reports."""


ENTRY_POINTS = "explearn.methods"
"""The group in which a package names its methods: `name = "module:Class"`."""


WITH_MARKS: Mapping[str, Any] = {"input_dropout": 0.3, "dropout": 0.5, "reach": 1}
"""How ExpNet learns from marks of the task: marked texts are few, so that more of what it reads is dropped at random;
and people mark phrases, so that it reads more of the words beside."""


BUILT_IN_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "expnet_few_shot": {
        "of": "expnet",
        "protocol": "few_shot",
        **WITH_MARKS,
        "summary": "ExpNet trained on a few marked texts of the task, and without marks on its others.",
    },
    "expnet_in_domain": {
        "of": "expnet",
        "protocol": "in_domain",
        # It learns from people's marks alone, whatever `expnet.aim` is.
        "aim": 0.0,
        **WITH_MARKS,
        "summary": "ExpNet trained on the task's own rationales.",
    },
}
"""Variants that every run knows: name -> `of`, `summary`, and the options it stands for."""


AnyClass = TypeVar("AnyClass", bound=type)


@dataclass(slots=True)
class _State:
    """What this process has been told of methods.

    registered: the classes given to `register`, by name. variants: those of the run, by name.
    """

    registered: dict[str, type] = field(default_factory=dict)
    variants: dict[str, MethodInfo] = field(default_factory=dict)


_state = _State()


@functools.cache
def _index() -> dict[str, MethodInfo]:
    entries = json.loads(INDEX.read_text(encoding="utf-8"))
    infos = [MethodInfo(**{**entry, "needs": frozenset(entry.get("needs", ()))}) for entry in entries]
    return {info.name: info for info in infos}


@functools.cache
def _plug_ins() -> dict[str, EntryPoint]:
    """The methods of installed packages, by name; nothing of them is imported."""
    found: dict[str, EntryPoint] = {}
    for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        if entry.name in found and entry == found[entry.name]:
            continue  # A package that is on the path twice.
        if entry.name in _index() or entry.name in BUILT_IN_VARIANTS or entry.name in found:
            warnings.warn(f"{_package(entry)}: its method {entry.name!r} is left out; the name is taken", stacklevel=3)
            continue
        found[entry.name] = entry
    return found


def _package(entry: EntryPoint) -> str:
    return f"package {entry.dist.name!r}" if entry.dist is not None else "a package"


@functools.cache
def _load(entry: EntryPoint) -> type:
    """The class of a package's method. Raises ParamsError, naming the package, where there is none."""
    what = f"{_package(entry)}: its method {entry.name!r} ({entry.value})"
    try:
        found = entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ParamsError(f"{what} cannot be loaded ({reason}); mend the package or remove it") from error
    try:
        name = _checked(found).name
    except ParamsError as error:
        raise ParamsError(f"{what} is of no use: {error}") from error
    if name != entry.name:
        raise ParamsError(f"{what} calls itself {name!r}; expected the same name in both places")
    loaded: type = found
    return loaded


def _checked(cls: Any) -> MethodInfo:
    """What a class declares. Raises ParamsError unless it is a method that can be made."""
    # By name, for no module of the core may import a method.
    base: Any = importlib.import_module("explearn.methods.base.explainer").Explainer
    if not (isinstance(cls, type) and issubclass(cls, base)):
        given = getattr(cls, "__name__", None) or kind_of(cls)
        raise ParamsError(f"got {given}; expected a class that inherits from explearn.Explainer")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise ParamsError(f"class {cls.__qualname__} is abstract; expected it to define {', '.join(missing)}")
    return MethodInfo.of_class(cls)


def register(cls: AnyClass) -> AnyClass:
    """Make a method known by its name, in this process; returns the class, so that it serves as a decorator.

    A package names its methods in the entry-point group `explearn.methods` instead, and every process finds them.

    Raises ParamsError for what is no method that can be made, declares no `about`, or has another method's name.
    """
    info = _checked(cls)
    if owner := _owner(info):
        raise ParamsError(f"class {info.target}: the name {info.name!r} is taken by {owner}; choose another")
    if info.name not in _index() and info.name not in _plug_ins():
        _state.registered[info.name] = cls
    return cls


def _owner(info: MethodInfo) -> str | None:
    """Whose the name of a class is already, if it is another's."""
    if info.name in _index():
        return None if _index()[info.name].target == info.target else "a method of Explearn"
    if info.name in _variants():
        return "a variant"
    if info.name in _state.registered:
        # The same class again is one that was defined anew, as in a notebook.
        other = MethodInfo.of_class(_state.registered[info.name]).target
        return None if other == info.target else f"class {other}"
    if entry := _plug_ins().get(info.name):
        # A package may export its class under a shorter path than that of the module which defines it.
        same = entry.module.partition(".")[0] == info.target.partition(":")[0].partition(".")[0]
        return None if same else _package(entry)
    return None


def class_of(name: str) -> Any:
    """The class behind a name. Raises UnknownNameError, and ParamsError for a package that cannot be loaded."""
    info = get_info(name)
    method = info.of or name
    if method in _state.registered:
        return _state.registered[method]
    if method not in _index():
        return _load(_plug_ins()[method])
    module, _, attribute = info.target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def set_variants(variants: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the variants of the run: methods that are others with options of their own.

    Args:
        variants: name -> `of`, the name of a method, and the options that the variant stands for. The name of a variant
            that every run knows gives it other options.

    Raises ParamsError for a variant without `of`, with the name of a method, or of another variant; UnknownNameError
    for one of a method that does not exist. The variants stay as they were then.
    """
    _state.variants = {name: _variant(name, given) for name, given in variants.items()}


def _variant(name: str, given: Mapping[str, Any]) -> MethodInfo:
    check_name(name)
    if _is_method(name):
        raise ParamsError(f"variant {name!r}: a method has that name; choose another")
    options = dict(given)
    base = options.pop("of", None)
    if not isinstance(base, str):
        raise ParamsError(f"variant {name!r}: its 'of' is missing; expected the name of the method it is a variant of")
    if not _is_method(base):
        if base in _variants():
            raise ParamsError(f"variant {name!r}: {base!r} is a variant itself; expected the name of a method")
        raise UnknownNameError(f"method under variants.{name}.of", base, _method_names())
    info = _method(base)
    listed = ", ".join(f"{option} {value}" for option, value in options.items())
    summary = f"{info.summary} Here with {listed}." if options else info.summary
    return replace(info, name=name, of=base, summary=summary, defaults=options)


@functools.cache
def _built_in_variants() -> dict[str, MethodInfo]:
    found = {}
    for name, given in BUILT_IN_VARIANTS.items():
        info = _index()[given["of"]]
        options = {option: value for option, value in given.items() if option not in ("of", "summary")}
        found[name] = replace(info, name=name, of=info.name, summary=given["summary"], defaults=options)
    return found


def _variants() -> dict[str, MethodInfo]:
    found = dict(_built_in_variants())
    for name, info in _state.variants.items():
        same = name in found and (found[name].of, found[name].defaults) == (info.of, info.defaults)
        # A run that says the same of a variant as is known anyway keeps the summary that was written for it.
        found[name] = found[name] if same else info
    return found


def _method_names() -> list[str]:
    return [*dict.fromkeys([*_index(), *_state.registered, *_plug_ins()])]


def _is_method(name: str) -> bool:
    # Packages are looked for last: that takes longest.
    return name in _index() or name in _state.registered or name in _plug_ins()


def _method(name: str) -> MethodInfo:
    if name in _index():
        return _index()[name]
    if name in _state.registered:
        return MethodInfo.of_class(_state.registered[name])
    return MethodInfo.of_class(_load(_plug_ins()[name]))


def list_explainers() -> list[str]:
    """Names of all methods: Explearn's own, learned first, then by family; those registered; those of packages.

    A variant follows the method that it is a variant of.
    """
    variants = _variants()
    names = []
    for name in _method_names():
        names += [name, *(variant for variant, info in variants.items() if info.of == name)]
    return names


def get_info(name: str) -> MethodInfo:
    """What is known of a method.

    Raises UnknownNameError, with near names, and ParamsError for a method of a package that cannot be loaded.
    """
    if not isinstance(name, str):
        raise UnknownNameError("explainer", name, ())
    if name in _index():
        return _index()[name]
    if name in (variants := _variants()):
        return variants[name]
    if _is_method(name):
        return _method(name)
    raise UnknownNameError("explainer", name, list_explainers())


def is_variant(name: str) -> bool:
    """Whether a name is a variant of the run (`set_variants`)."""
    return name in _state.variants


def learned_sections() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Of the learned methods, the section of options of each: name -> its `module:Class`, and its own defaults."""
    found = {}
    for info in known_infos():
        if info.learned and info.section is not None and not is_variant(info.name):
            found[info.name] = (info.section, info.defaults)
    return found


def leaderboard_order(methods: Iterable[str]) -> list[str]:
    """Method names by family, in the order given within each."""
    return sorted(methods, key=lambda method: FAMILIES.index(get_info(method).family))


def known_infos() -> Iterator[MethodInfo]:
    """What is known of each method, as ordered by `list_explainers`; warns of one that cannot be loaded and goes on."""
    for name in list_explainers():
        try:
            yield get_info(name)
        except ParamsError as error:
            warnings.warn(str(error), stacklevel=2)
