"""The command line: all commands that `explearn --help` lists."""

from __future__ import annotations

import importlib.metadata
import inspect
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from explearn.cli.common import command
from explearn.cli.compare import compare
from explearn.cli.demo.command import demo
from explearn.cli.explain import explain
from explearn.cli.export import export
from explearn.cli.finetune import finetune
from explearn.cli.train import train
from explearn.core.errors import UnsupportedError
from explearn.methods.info import Family
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
    name: Annotated[
        str | None, typer.Argument(help="Describe this method: definition, sources and options.", show_default=False)
    ] = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub name: list only methods that can explain it, and why others cannot.", show_default=False
        ),
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
    infos = list(known_infos())
    refused: dict[str, str] = {}
    if classifier is not None:
        from explearn.predictors.pretrained import load_classifier

        loaded = load_classifier(classifier)
        for info in infos:
            if not info.untrained:
                try:
                    get_explainer(info.name).check_explains(loaded)
                except UnsupportedError as error:
                    refused[info.name] = str(error)
    infos.sort(key=lambda info: (info.untrained, get_args(Family).index(info.family)))
    for (untrained, family), of_family in groupby(infos, key=lambda info: (info.untrained, info.family)):
        console.print(f"[bold]{family}{', needs training (explearn train)' if untrained else ''}[/bold]")
        for info in of_family:
            if info.name in refused:
                continue
            needs = ", ".join(sorted(need.replace("_", " ") for need in info.needs if not info.ready))
            cost = f"({info.cost}; needs {needs})" if needs else f"({info.cost})"
            console.print(Padding(f"[bold cyan]{info.name}[/bold cyan] {cost}", (0, 0, 0, 2)))
            console.print(Padding(Text(info.summary), (0, 0, 0, 4)))
    if refused:
        console.print("[bold]cannot explain this classifier[/bold]")
    for reason in refused.values():
        console.print(Padding(Text(reason), (0, 0, 0, 2)))


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
        console.print(Padding(Text(f"{name}: {meaning}"), (0, 0, 0, indent)))
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            _describe_options(console, field.annotation, indent + 4)


for _command in (explain, compare, train, finetune, methods, demo, export):
    app.command()(_command)
# Commands that installed packages declare: Typer apps, or functions.
for _entry in sorted(importlib.metadata.entry_points(group="explearn.commands"), key=lambda entry: entry.name):
    _loaded = _entry.load()
    if isinstance(_loaded, typer.Typer):
        app.add_typer(_loaded, name=_entry.name)
    else:
        app.command(_entry.name)(_loaded)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
