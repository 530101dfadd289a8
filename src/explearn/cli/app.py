"""The command line: all commands that `explearn --help` lists."""

from __future__ import annotations

import importlib.metadata
import inspect
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from explearn.cli.audit import audit, diff
from explearn.cli.common import command
from explearn.cli.compare import compare
from explearn.cli.demo.command import demo
from explearn.cli.explain import explain
from explearn.cli.fix import fix
from explearn.cli.record import record
from explearn.cli.train import export, finetune, train
from explearn.cli.verify import verify
from explearn.cli.watch import watch
from explearn.core.errors import ParamsError, UnsupportedError, blaming
from explearn.methods.info import Family, MethodInfo
from explearn.methods.registry import explainer_class, get_explainer, get_info, known_infos

if TYPE_CHECKING:
    from pydantic import BaseModel

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"explearn {importlib.metadata.version('explearn')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Explain text classifiers: find the words that led to a label."""


@command
def methods(
    name: Annotated[str | None, typer.Argument(help="Describe this method: definition, sources and options.")] = None,
    classifier: Annotated[
        str | None,
        typer.Option(help="As for explain: list only methods that can explain it, and why others cannot."),
    ] = None,
) -> None:
    """List all methods, those that need no training first, with their cost per text and what they need; or describe
    one method.

    explearn methods attn_lrp
    """
    console = Console(highlight=False)
    if name is not None:
        _describe(console, name)
        return
    infos = sorted(known_infos(), key=lambda info: (info.untrained, get_args(Family).index(info.family)))
    refused = {}
    if classifier is not None:
        refused = _refusals(infos, classifier)
    heading = ""
    for info in infos:
        group: str = info.family
        if info.untrained:
            group += ", needs training (explearn train)"
        if group != heading:
            console.print(f"[bold]{group}[/bold]")
            heading = group
        if info.name not in refused:
            _list(console, info)
    if refused:
        console.print("[bold]cannot explain this classifier[/bold]")
    for reason in refused.values():
        console.print(_indented(Text(reason), 2))


def _refusals(infos: Sequence[MethodInfo], classifier: str) -> dict[str, str]:
    """Return why methods cannot explain a classifier, by name; methods that must be trained first are not asked."""
    from explearn.predictors.pretrained import NamedClassifier  # brings torch

    loaded = NamedClassifier(classifier).load(None)
    refused = {}
    for info in infos:
        if info.untrained:
            continue
        try:
            get_explainer(info.name).check_explains(loaded)
        except UnsupportedError as error:
            refused[info.name] = str(error)
    return refused


def _list(console: Console, info: MethodInfo) -> None:
    cost = info.cost
    if info.needs and not info.ready:
        needs = sorted(need.replace("_", " ") for need in info.needs)
        cost += f"; needs {', '.join(needs)}"
    console.print(_indented(f"[bold cyan]{info.name}[/bold cyan] ({cost})", 2))
    console.print(_indented(Text(info.summary), 4))


def _indented(text: str | Text, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns))


def _describe(console: Console, name: str) -> None:
    info = get_info(name)
    cls = explainer_class(name)
    console.print(f"[bold cyan]{name}[/bold cyan] ({info.family}; {info.cost})\n")
    if info.of is not None:
        console.print(Text(f"A variant of {info.of}: {info.summary}\n"), soft_wrap=True)
    console.print(Text(inspect.getdoc(cls) or info.summary), soft_wrap=True)
    defaults = {**cls.Options().model_dump(), **info.defaults}
    listed = ", ".join(f"{option}={value}" for option, value in defaults.items())
    console.print(Text(f"\nDefaults: {listed or 'no options'}"), soft_wrap=True)
    if cls.Options.model_fields:
        console.print()
        _describe_options(console, cls.Options)


def _describe_options(console: Console, section: type[BaseModel], indent: int = 0) -> None:
    """Print the meaning of each option of a section, with nested sections indented."""
    from pydantic import BaseModel

    for name, field in section.model_fields.items():
        meaning = " ".join((field.description or "").split())
        console.print(_indented(Text(f"{name}: {meaning}"), indent))
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            _describe_options(console, field.annotation, indent + 4)


for _command in (explain, record, compare, verify, audit, diff, fix, watch, train, finetune, methods, demo, export):
    app.command()(_command)
# Commands that installed packages declare: Typer apps, or functions.
for _entry in sorted(importlib.metadata.entry_points(group="explearn.commands"), key=lambda entry: entry.name):
    try:
        with blaming(_entry.value, f"command {_entry.name!r} ({_entry.value}) cannot be loaded", ParamsError):
            _loaded = _entry.load()
    except ParamsError as _error:
        warnings.warn(f"{_error}; fix the package or remove it", stacklevel=1)
        continue
    if isinstance(_loaded, typer.Typer):
        app.add_typer(_loaded, name=_entry.name)
    else:
        app.command(_entry.name)(_loaded)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
