"""The command line: `explearn explain`, `demo`, `compare` and the others that `explearn --help` lists."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from explearn.cli.annotate import app as annotate
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
from explearn.cli.jobs.command import (
    SHARD_TEXTS,
    Devices,
    EngineOption,
    IdColumn,
    InputOption,
    PairColumn,
    ShardTexts,
    TextColumn,
    Workers,
    input_of,
    run_job,
)
from explearn.cli.serve import serve
from explearn.cli.verify import verify
from explearn.core.errors import DataError, ExplearnError, ParamsError, sentence_of
from explearn.core.garbage import start_up
from explearn.core.method_info import Family, MethodInfo
from explearn.core.method_names import get_info, list_explainers
from explearn.core.version import explearn_version
from explearn.core.visible import visible, visible_json
from explearn.methods.base.registry import explainer_class
from explearn.pipeline.base.staging import COMPUTE_OPTIONS, compute_options, run_alone, user_errors

if TYPE_CHECKING:
    from pydantic import BaseModel

    from explearn.core.records import Attribution
    from explearn.models.classifier import Classifier

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
    found = {option.name: option.default for option in inspect.signature(explainer_class(name)).parameters.values()}
    section: type[BaseModel] | None = getattr(explainer_class(name), "section", None)
    found |= ({} if section is None else section().model_dump()) | dict(info.defaults)
    defaults = [f"{option}={value}" for option, value in found.items()]
    console.print(Text(f"\nDefaults: {', '.join(defaults) or 'it has no options'}"), soft_wrap=True)
    if section is not None:
        console.print()
        _describe_options(console, section)


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
    input: InputOption = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    id_column: IdColumn = None,
    shard_texts: ShardTexts = None,
    engine: EngineOption = None,
    workers: Workers = None,
    devices: Devices = None,
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
        own: dict[str, Any] = {"--text-column": text_column, "--pair-column": pair_column, "--id-column": id_column}
        own |= {"--shard-texts": shard_texts, "--engine": engine, "--workers": workers, "--devices": devices}
        other = {"a text": texts, "--json": as_json, "--html": html, "--completion": completion}
        large = input_of(input, output, own, pair, other)
        if large is None:
            check_files(html, output)
        choices = choose(method, explainer or [])
        classifier = classifier or next((str(c.own_classifier) for c in choices if c.own_classifier is not None), "")
        if not classifier:
            raise ParamsError("--classifier: got none; expected the folder of a saved classifier, or a hub name")
        compute = compute_options(device, precision, max_tokens, compile, device_map, max_memory)
        if large is not None and output is not None:
            size = shard_texts or SHARD_TEXTS
            settings = (size, classifier, choices, option or [], target or [], windows, seed, compute)
            run_job(large, output, *settings, engine or "local", workers, devices)
            return
        with start_up():
            explainers = make(choices, parse_options(option or []), seed)
            lines = texts or _lines()
            from explearn.core.seeds import seed_everything
            from explearn.models.classifier import Classifier

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
    from explearn.models.classifier import QuestionAnswerer

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


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="With --experiments: those to compare (default: all of the current commit).", show_default=False
        ),
    ] = None,
    experiments: Annotated[
        bool, typer.Option("--experiments", help="Set DVC experiments side by side instead.")
    ] = False,
    output: Annotated[
        Path, typer.Option(help="With --experiments: folder for experiments.md and experiments.html.")
    ] = Path("reports/experiments"),
    params: Annotated[
        Path, typer.Option("--params", help="File of the run's parameters.", envvar="EXPLEARN_PARAMS")
    ] = Path("params.yaml"),
    seed: _SEED = None,  # type: ignore[valid-type]
) -> None:
    """Write the report of the project in this folder anew, or compare DVC experiments (--experiments)."""
    with user_errors():
        if experiments:
            from explearn.reporting.pages.experiments import read_experiments, write_experiments

            for path in write_experiments(output, read_experiments(names or [])):
                print(path)
            return
        if names:
            raise ParamsError(f"got {names[0]!r}; names of experiments go with --experiments")
        from explearn.pipeline.base.params import load_params
        from explearn.pipeline.base.workspace import Workspace
        from explearn.reporting.project import report_project

        found = load_params(params)
        workspace = Workspace()
        with run_alone("report"):
            report_project(workspace, found, found.seed if seed is None else seed)
        for name in ("report.md", "report.html"):
            print(workspace.reports / name)


@contextmanager
def _faults_are_no_regression() -> Iterator[None]:
    """End with exit code 2 for what is no error of the user's or the machine's; Python itself would take 1."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ExplearnError) or sentence_of(error) is not None:
            raise
        traceback.print_exc()
        raise SystemExit(2) from error


def gate(
    rules: Annotated[Path, typer.Argument(help="YAML file of rules, as conf/gate.yaml.", show_default=False)],
    base: Annotated[str, typer.Option(help="Git revision to compare with.")] = "HEAD",
    head: Annotated[
        str, typer.Option(help="Git revision to judge, or workspace: the files as they stand.")
    ] = "workspace",
    old: Annotated[
        Path | None, typer.Option(help="Metrics file, or project folder, to compare with, instead of --base.")
    ] = None,
    new: Annotated[
        Path | None, typer.Option(help="Metrics file, or project folder, to judge, instead of --head.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a job summary.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show every figure, not just those that became worse.")] = False,
) -> None:
    """Compare two runs figure by figure, and show what has become worse than the rules allow.

    Exit code 0: nothing has. 1: something has, and for no other reason. 2: the comparison could not be made (rules or
    metrics that cannot be used, a fault of the program).
    """
    with user_errors(), _faults_are_no_regression():
        from explearn.reporting.gate import Gate, check, from_path, from_revision, load_gate
        from explearn.reporting.pages.gate_changes import print_changes, summary

        if (old is None) != (new is None):
            raise ParamsError("--old and --new go together; expected both or neither")
        found = load_gate(rules)
        files = list(dict.fromkeys(rule.file for rule in found.rules))
        if old is not None and new is not None:
            before, after = from_path(files, old), from_path(files, new)
            if old.is_file() or new.is_file():
                shared = before.keys() | after.keys()
                found = Gate(rules=[rule for rule in found.rules if rule.file in shared])
        else:
            before, after = from_revision(files, base), from_revision(files, head)
        changes = check(found, before, after)
        worse = [change for change in changes if change.regression]
        print_changes(changes if every else worse, markdown)
        print(f"\n{summary(changes)}")
    if worse:
        raise typer.Exit(1)


# As --help lists them: what a newcomer wants first.
for _command in (demo, explain, methods, compare, export, serve, report, gate, verify):
    app.command()(_command)
app.add_typer(annotate, name="annotate")


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
