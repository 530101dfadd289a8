"""Checks of arguments of public functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar

from explearn.core.errors import ParamsError, kind_of
from explearn.core.writing import replacing

P = ParamSpec("P")
R = TypeVar("R")


def is_pair(texts: object) -> bool:
    """Return whether the argument is a pair, a text of two segments: a tuple of two strings."""
    return isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(part, str) for part in texts)


def each_text(texts: Any) -> Iterable[Any]:
    """Return an iterable of texts: for a table of pandas or datasets its rows, column -> value.

    Raises:
        ParamsError: as `check_listed`, for a pair, which is one text, and for two columns of one name.
    """
    if is_pair(texts):
        raise ParamsError(
            "texts: got a tuple of two strings, which is a pair; expected [(a, b)], or [a, b] for two texts"
        )
    if hasattr(texts, "iloc") and hasattr(texts, "columns"):  # pandas; a column has no columns
        names = texts.columns.map(str)
        if not names.is_unique:
            raise ParamsError(f"texts: got the columns {', '.join(names)}; expected a different name for each")
        rows: Iterable[Any] = texts.set_axis(names, axis=1).to_dict("records")
        return rows
    if not hasattr(texts, "features"):  # datasets
        check_listed("texts", texts)
    return texts  # type: ignore[no-any-return]


def check_listed(what: str, values: object, of: str = "") -> None:
    """Raise ParamsError for anything but a list, such as a single string, a set, which has no order, or a table.

    Args:
        what: name of the parameter.
        values: its value.
        of: what the list should hold, for the message. Default: `what`.
    """
    expected = f"expected a list of {of or what}"
    # Iterating over a pandas table would give column names, over a table of datasets its rows.
    if hasattr(values, "columns") or hasattr(values, "column_names"):
        raise ParamsError(f"{what}: got {kind_of(values)}, a table; {expected}, such as a column")
    if isinstance(values, str):
        raise ParamsError(f"{what}: got one string; {expected}")
    # An array or a tensor without dimensions also has __iter__.
    single = isinstance(values, bytes | Mapping | set | frozenset) or getattr(values, "ndim", 1) == 0
    if single or not isinstance(values, Iterable):
        raise ParamsError(f"{what}: got {kind_of(values)}; {expected}")


def options_of(kind: type[R], options: R | None) -> R:
    """Return the options of a function, which are an object of one class; None: the default ones.

    Raises:
        ParamsError: they are something else.
    """
    if options is None:
        return kind()
    if not isinstance(options, kind):
        raise ParamsError(f"options: got {kind_of(options)}; expected explearn.{kind.__name__}(...)")
    return options


def inputs_left_as_they_came(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: what its arguments hold stays as it came.

    Models keep their mode and their `requires_grad` flags, and no output replaces a file that an argument names.
    """
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with replacing([*zip(names, args, strict=False), *kwargs.items()]), ExitStack() as stack:
            for argument in (*args, *kwargs.values()):
                stack.enter_context(_left_as_it_came(argument))
            return function(*args, **kwargs)

    return call


@contextmanager
def _left_as_it_came(argument: Any) -> Iterator[None]:
    """Restore a model that is given itself, with its tokenizer, or in a pipeline or a SetFit model, if it is one."""
    model: Any = argument
    for name in ("model", "model_body"):
        model = getattr(argument, name, model)
    if isinstance(argument, tuple) and argument:
        model = argument[0]
    if not hasattr(model, "modules"):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, requires_grad in flags:
            if parameter.requires_grad != requires_grad:
                parameter.requires_grad_(requires_grad)
