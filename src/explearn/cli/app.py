"""The command line: `explearn explain`, `demo`, `compare` and the others that `explearn --help` lists."""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from explearn.cli.choosing import check_bundles, choose, make, parse_options
from explearn.cli.compare import compare
from explearn.cli.demo.command import demo
from explearn.cli.explain_options import (
    AsJson,
    ClassifierOption,
    CompletionOption,
    Explainers,
    Html,
    Methods,
    Options,
    Output,
    Pair,
    Targets,
    Texts,
    Windows,
)
from explearn.cli.export import export
from explearn.cli.running import COMPUTE_OPTIONS, compute_options, user_errors
from explearn.core.errors import DataError, ParamsError
from explearn.core.version import explearn_version
from explearn.core.visible import visible, visible_json
from explearn.methods.info import Family, MethodInfo
from explearn.methods.registry import explainer_class, get_info, list_explainers

if TYPE_CHECKING:
    from pydantic import BaseModel

    from explearn.core.records import Attribution
    from explearn.model.classifier import Classifier

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_DEVICE, _PRECISION, _MAX_TOKENS, _COMPILE, _DEVICE_MAP, _MAX_MEMORY, _SEED = (
    annotation for annotation, _ in COMPUTE_OPTIONS.values()
)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"explearn {explearn_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Say why a text classifier gave a text its label."""


def methods(
    name: Annotated[
        str | None, typer.Argument(help="A method, for its definition, sources and options.", show_default=False)
    ] = None,
) -> None:
    """List all methods, with their family, their cost for one text and what they need; or tell all about one."""
    console = Console(highlight=False)
    if name is not None:
        with user_errors():
            _describe(console, name)
        return
    for family, infos in groupby(_by_family(), key=lambda info: info.family):
        console.print(f"[bold]{family}[/bold]")
        for info in infos:
            needs = f"; needs {', '.join(sorted(need.replace('_', ' ') for need in info.needs))}" if info.needs else ""
            console.print(f"  [bold cyan]{info.name}[/bold cyan] ({info.cost}{needs})")
            console.print(Padding(Text(info.summary), (0, 0, 0, 4)))


def _by_family() -> list[MethodInfo]:
    """What is known of each method, by family; a package's method that cannot be loaded is a line on standard error."""
    found = []
    for name in list_explainers():
        try:
            found.append(get_info(name))
        except ParamsError as error:
            print(f"warning: {error}", file=sys.stderr)
    families = get_args(Family)
    return sorted(found, key=lambda info: families.index(info.family))


def _describe(console: Console, name: str) -> None:
    info = get_info(name)
    console.print(f"[bold cyan]{name}[/bold cyan] ({info.family}; {info.cost})\n")
    if info.of is not None:
        console.print(Text(f"A variant of {info.of}: {info.summary}\n"), soft_wrap=True)
    console.print(Text(inspect.getdoc(explainer_class(name)) or info.summary), soft_wrap=True)
    cls = explainer_class(name)
    values = {**cls.Options().model_dump(), **info.defaults}
    defaults = [f"{option}={value}" for option, value in values.items()]
    console.print(Text(f"\nDefaults: {', '.join(defaults) or 'it has no options'}"), soft_wrap=True)
    if cls.Options.model_fields:
        console.print()
        _describe_options(console, cls.Options)


def _describe_options(console: Console, section: type[BaseModel], indent: int = 0) -> None:
    """What each option of a section means, those of the sections in it below it."""
    from pydantic import BaseModel

    for name, field in section.model_fields.items():
        meaning = " ".join((field.description or "").split())
        console.print(Padding(Text(f"{name}: {meaning}"), (0, 0, 0, indent)))
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            _describe_options(console, field.annotation, indent + 4)


def explain(
    texts: Texts = None,
    classifier: ClassifierOption = "",
    method: Methods = None,
    explainer: Explainers = None,
    option: Options = None,
    target: Targets = None,
    windows: Windows = None,
    completion: CompletionOption = None,
    pair: Pair = None,
    as_json: AsJson = False,
    html: Html = None,
    output: Output = None,
    device: _DEVICE = "auto",  # type: ignore[valid-type]
    precision: _PRECISION = "fp32",  # type: ignore[valid-type]
    max_tokens: _MAX_TOKENS = "auto",  # type: ignore[valid-type]
    compile: _COMPILE = False,  # type: ignore[valid-type]
    device_map: _DEVICE_MAP = "",  # type: ignore[valid-type]
    max_memory: _MAX_MEMORY = "",  # type: ignore[valid-type]
    seed: _SEED = None,  # type: ignore[valid-type]
) -> None:
    """Explain texts: a score for each word, larger meaning more evidence for the class."""
    with user_errors():
        # What one command alone needs is loaded there: `explearn --help` takes a fraction of a second.
        from explearn.cli.outputs import check_files, writers

        # Names and options are checked before torch is loaded for the classifier.
        check_files(html, output)
        choices = choose(method, explainer or [])
        classifier = classifier or next((str(c.own_classifier) for c in choices if c.own_classifier is not None), "")
        if not classifier:
            raise ParamsError("--classifier: got none; expected the folder of a saved classifier, or a hub name")
        compute = compute_options(device, precision, max_tokens, compile, device_map, max_memory)
        explainers = make(choices, parse_options(option or []), seed)
        lines = texts or _lines()
        from explearn.core.seeds import seed_everything
        from explearn.model.classifier import Classifier

        if seed is not None:
            seed_everything(seed)
        loaded = Classifier.from_pretrained(classifier, compute, completion=completion)
        check_bundles(choices, loaded)
        inputs: list[Any] = [(line, pair) for line in lines] if pair is not None else list(lines)
        targets = [target] * len(inputs) if target else None
        # A text that is given here is explained at once; one that is read through windows may take hours.
        quiet = bool(texts) and windows is None
        said = [None if quiet else f"explain by {found.name}" for found in explainers]
        explained = (f.explain_each(loaded, inputs, targets, d, windows) for f, d in zip(explainers, said, strict=True))
        with writers(html, output) as files:
            for text, of_text in zip(inputs, zip(*explained, strict=True), strict=True):
                # One row of methods for each class that is explained.
                for found in zip(*of_text, strict=True):
                    for write in files:
                        write(found)
                    if as_json or not files:
                        _show(loaded, text, found, as_json)
        if not as_json:
            for path in (html, output):
                if path is not None:
                    print(path)


def _show(classifier: Classifier, text: Any, found: Sequence[Attribution], as_json: bool) -> None:
    """A text's attributions on standard output: in colour, or as JSON Lines."""
    from explearn.model.question_answering import QuestionAnswerer

    # Of a question, the answer is what is explained.
    answer = {"answer": classifier.answer(text)} if isinstance(classifier, QuestionAnswerer) else {}
    console = Console()
    if answer and not as_json:
        console.print(Text(visible(f"answer: {answer['answer']}")))
    for attribution in found:
        if as_json:
            print(visible_json(attribution.to_dict() | answer, ascii_only=not _speaks_unicode()))
        else:
            console.print(attribution)


for _command in (explain, compare, methods, demo, export):
    app.command()(_command)


def _add_commands_of_packages() -> None:
    """Add what installed packages declare in the entry-point group `explearn.commands`: Typer apps, or functions."""
    for entry in sorted(importlib.metadata.entry_points(group="explearn.commands"), key=lambda entry: entry.name):
        command = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


_add_commands_of_packages()


def _speaks_unicode() -> bool:
    """Whether standard output takes every character; where it does not, JSON has escapes of its own."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _lines() -> list[str]:
    """Texts from standard input, one a line."""
    if sys.stdin.isatty():
        print("no text given: type texts, one a line; Ctrl+D ends them", file=sys.stderr)
    lines = []
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"standard input, line {number}: byte {error.start} is not valid UTF-8") from error
        lines.append(line.rstrip("\r\n"))
    return lines


def main() -> None:
    with user_errors():
        app()


if __name__ == "__main__":
    main()
