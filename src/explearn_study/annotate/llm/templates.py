"""Filling a prompt's template: jinja2's sandbox, the part of its language that prompts need, and bounds on the work.

A template may come from anybody. The sandbox keeps it from Python's objects, but not from `'x' * 10**10` or a loop in a
loop. So only what is listed here is taken; every round of a loop is counted, and so is every character.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jinja2
import jinja2.sandbox
from jinja2 import nodes

from explearn.core.errors import first_line

MAX_TEMPLATE_CHARS = 20_000
MAX_CHARS = 100_000
"""Longest result, and longest text on the way to it."""

MAX_ROUNDS = 10_000
"""Most rounds of all loops together, and longest `range`."""

MAX_SECONDS = 5.0

FILTERS = (
    *("capitalize", "count", "d", "default", "first", "join", "last", "length", "list", "lower", "replace", "reverse"),
    *("sort", "string", "title", "trim", "unique", "upper"),
)
METHODS = ("items", "keys", "values", "upper", "lower", "capitalize", "title", "strip", "startswith", "endswith")

_PARTS: tuple[type[nodes.Node], ...] = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If),
    *(nodes.Name, nodes.Const, nodes.Tuple, nodes.List, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call),
    *(nodes.Filter, nodes.Test, nodes.Concat, nodes.CondExpr, nodes.Compare, nodes.Operand),
    *(nodes.And, nodes.Or, nodes.Not, nodes.Add, nodes.Sub, nodes.Neg, nodes.Keyword),
)


class TemplateProblem(ValueError):
    """A template that cannot be filled; the message says why and what was expected."""


def fill_template(text: str, values: Mapping[str, Any]) -> str:
    """The text that a template makes of some values. Raises TemplateProblem."""
    if len(text) > MAX_TEMPLATE_CHARS:
        raise TemplateProblem(f"got {len(text):,} characters; expected at most {MAX_TEMPLATE_CHARS:,}")
    work = _Work()
    environment = jinja2.sandbox.SandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters = {name: environment.filters[name] for name in FILTERS}
    environment.filters |= {"join": _join, "replace": _replace, "counted": work.counted}
    try:
        tree = environment.parse(text)
        _check_parts(tree)
        for loop in list(tree.find_all(nodes.For)):
            counted = nodes.Filter(loop.iter, "counted", [], [], None, None, lineno=loop.lineno)
            loop.iter = counted.set_environment(environment)
        template = jinja2.Template.from_code(environment, environment.compile(tree), {"range": _range})
        pieces = []
        for piece in template.generate(values):
            pieces.append(piece)
            work.written += len(piece)
            work.check()
        return "".join(pieces)
    except TemplateProblem:
        raise
    except jinja2.TemplateSyntaxError as error:
        raise TemplateProblem(f"cannot be filled (line {error.lineno}: {first_line(error)})") from error
    except RecursionError as error:
        raise TemplateProblem("cannot be filled (its parts are inside one another too deeply)") from error
    except Exception as error:  # a template is a program: it can fail in any way
        raise TemplateProblem(f"cannot be filled ({first_line(error)})") from error


class _Work:
    """What filling a template has taken so far."""

    def __init__(self) -> None:
        self.rounds = self.written = 0
        self.end = time.monotonic() + MAX_SECONDS

    def check(self) -> None:
        if self.rounds > MAX_ROUNDS:
            raise TemplateProblem(f"its loops take more than {MAX_ROUNDS:,} rounds; expected fewer")
        if self.written > MAX_CHARS:
            raise TemplateProblem(f"makes a text of more than {MAX_CHARS:,} characters; expected fewer")
        if time.monotonic() > self.end:
            raise TemplateProblem(f"takes more than {MAX_SECONDS:g} seconds to fill; expected less")

    def counted(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.rounds += 1
            self.check()
            yield item


def _check_parts(tree: nodes.Template) -> None:
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, _PARTS):
            name = type(node).__name__.lower()
            raise TemplateProblem(
                f"line {node.lineno}: got a part of kind {name!r}; expected loops, conditions, values and filters"
            )
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            raise TemplateProblem(f"line {node.lineno}: got the filter {node.name!r}; expected {', '.join(FILTERS)}")
        if isinstance(node, nodes.For) and node.recursive:
            raise TemplateProblem(f"line {node.lineno}: got a recursive loop; expected a plain one")
        if isinstance(node, nodes.Call):
            of = node.node
            known = (isinstance(of, nodes.Getattr) and of.attr in METHODS) or (
                isinstance(of, nodes.Name) and of.name == "range"
            )
            if not known:
                raise TemplateProblem(f"line {node.lineno}: got a call; expected range, {', '.join(METHODS)}")


def _range(*bounds: int) -> range:
    found = range(*bounds)
    # Two comparisons: len() fails for what is longer than 2^63.
    if found and (abs(found[0]) > 10**9 or abs(found[-1]) > 10**9 or len(found) > MAX_ROUNDS):
        raise TemplateProblem(f"got a range of more than {MAX_ROUNDS:,} numbers; expected fewer")
    return found


def _bounded(size: int) -> None:
    if size > MAX_CHARS:
        raise TemplateProblem(f"makes a text of more than {MAX_CHARS:,} characters; expected fewer")


def _join(items: Iterable[Any], between: str = "") -> str:
    words = [str(item) for item in items]
    _bounded(sum(map(len, words)) + len(str(between)) * len(words))
    return str(between).join(words)


def _replace(text: Any, old: str, new: str) -> str:
    _bounded(len(str(text)) + len(str(new)) * str(text).count(old))
    return str(text).replace(old, new)
