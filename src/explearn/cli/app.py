"""The command line: `explearn explain`, `methods`, `report`, `gate` and `annotate`."""

from __future__ import annotations

import inspect
import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from explearn.cli.annotate import app as annotate
from explearn.cli.compare import compare
from explearn.cli.verify import verify
from explearn.core.errors import DataError, ParamsError
from explearn.core.method_info import Family, MethodInfo
from explearn.core.method_names import get_info, list_explainers
from explearn.core.records import Attribution
from explearn.methods.base.registry import accepted_options, explainer_class, get_explainer
from explearn.pipeline.base.params import load_params
from explearn.pipeline.base.staging import COMPUTE_OPTIONS, compute_options, user_errors
from explearn.pipeline.base.workspace import Workspace
from explearn.reporting.gate import WORKSPACE, Gate, check, from_path, from_revision, load_gate
from explearn.reporting.pages.gate_changes import print_changes, summary

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Say why a text classifier gave a text its label.",
)
app.add_typer(annotate, name="annotate")
app.command()(compare)
app.command()(verify)

_DEVICE, _PRECISION, _MAX_TOKENS, _COMPILE, _SEED = (annotation for annotation, _ in COMPUTE_OPTIONS.values())


@app.command()
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
    for name, field in section.model_fields.items():
        meaning = " ".join((field.description or "").split())
        console.print(Padding(Text(f"{name}: {meaning}"), (0, 0, 0, indent)))
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            _describe_options(console, field.annotation, indent + 4)


@app.command()
def explain(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to explain; none: one a line from standard input.", show_default=False),
    ] = None,
    classifier: Annotated[
        str,
        typer.Option(
            help="Folder of a saved sequence classifier, or its hub name; not needed by explainers with their own.",
            envvar="EXPLEARN_CLASSIFIER",
        ),
    ] = "",
    method: Annotated[str, typer.Option(help="Name of a method; `explearn methods` lists them.")] = "rollout",
    explainer: Annotated[
        Path | None,
        typer.Option(help="Folder of a trained explainer, for learned methods (data/explainers/TASK/NAME)."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="An option of the method, NAME=VALUE; may be repeated.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Class to explain (default: the predicted class).")] = None,
    pair: Annotated[
        str | None,
        typer.Option(
            help="Second segment, for classifiers of pairs, or the passage of questions; goes with every text."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a text, a line each.")] = False,
    device: _DEVICE = "auto",  # type: ignore[valid-type]
    precision: _PRECISION = "fp32",  # type: ignore[valid-type]
    max_tokens: _MAX_TOKENS = "auto",  # type: ignore[valid-type]
    compile: _COMPILE = False,  # type: ignore[valid-type]
    seed: _SEED = None,  # type: ignore[valid-type]
) -> None:
    """Explain texts: a score for each word, larger meaning more evidence for the class."""
    with user_errors():
        # Names and options are checked before torch is loaded for the classifier.
        info = get_info(method)
        if info.learned and explainer is None:
            raise ParamsError(f"--explainer: got none; {method!r} is trained, expected the folder of a trained one")
        if not classifier and explainer is not None and info.own_model:
            classifier = str(explainer / "classifier")
        if not classifier:
            raise ParamsError("--classifier: got none; expected the folder of a saved classifier, or a hub name")
        compute = compute_options(device, precision, max_tokens, compile)
        options = _options(option or [])
        if seed is not None and (explainer is None or info.base is not None) and "seed" in accepted_options(method):
            options.setdefault("seed", seed)
        found = get_explainer(method, path=str(explainer) if explainer else None, **options)
        lines = texts or _lines()
        from explearn.core.seeds import seed_everything
        from explearn.models.classifier import Classifier, QuestionAnswerer

        if seed is not None:
            seed_everything(seed)
        loaded = Classifier.from_pretrained(classifier, compute)
        inputs: list[Any] = [(line, pair) for line in lines] if pair is not None else list(lines)
        targets = None if target is None else [target] * len(inputs)
        console = Console()
        explained = found.explain(loaded, inputs, targets, description=None if texts else "explain")
        for text, attribution in zip(inputs, explained, strict=True):
            # Of a question, the answer is what is explained.
            answer = loaded.answer(text) if isinstance(loaded, QuestionAnswerer) else None
            if as_json:
                record = attribution.to_record() | ({} if answer is None else {"answer": answer})
                print(json.dumps(record, ensure_ascii=False))
            else:
                if answer is not None:
                    console.print(Text(f"answer: {answer}"))
                console.print(_rendered(attribution))


@app.command()
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
        from explearn.reporting.project import report_project

        found = load_params(params)
        workspace = Workspace()
        report_project(workspace, found, found.seed if seed is None else seed)
        for name in ("report.md", "report.html"):
            print(workspace.reports / name)


@app.command()
def gate(
    rules: Annotated[Path, typer.Argument(help="YAML file of rules, as conf/gate.yaml.", show_default=False)],
    base: Annotated[str, typer.Option(help="Git revision to compare with.")] = "HEAD",
    head: Annotated[
        str, typer.Option(help="Git revision to judge, or workspace: the files as they stand.")
    ] = WORKSPACE,
    old: Annotated[
        Path | None, typer.Option(help="Metrics file, or project folder, to compare with, instead of --base.")
    ] = None,
    new: Annotated[
        Path | None, typer.Option(help="Metrics file, or project folder, to judge, instead of --head.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--md", help="Print Markdown, for a job summary.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show every figure, not just those that became worse.")] = False,
) -> None:
    """End with exit code 1 where a figure has become worse than the rules allow, and show which.

    Exit code 2: the comparison could not be made.
    """
    with user_errors():
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


def _lines() -> list[str]:
    """Texts from standard input, one a line."""
    try:
        return [line.rstrip("\n") for line in sys.stdin]
    except UnicodeDecodeError as error:
        raise DataError(f"standard input: byte {error.start} is not valid {error.encoding}") from error


def _options(pairs: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ParamsError(f"--option: got {pair!r}; expected NAME=VALUE")
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ParamsError(f"--option {name}: got {value!r}; expected a number, a word or a YAML value") from error
    return options


def _rendered(attribution: Attribution) -> Text:
    """The text with its words on a background: green for the target, red against, stronger for larger scores."""
    head = f"{attribution.predicted} (p = {attribution.probability:.3f})"
    if attribution.target != attribution.predicted:
        head = f"{attribution.target} (p = {attribution.probability:.3f}; predicted: {attribution.predicted})"
    text = Text(f"{attribution.method}: {head}\n", style="bold")
    largest = max(abs(float(score)) for score in attribution.scores) or 1.0
    for word, score in zip(attribution.words, attribution.scores, strict=True):
        strength = int(160 * abs(float(score)) / largest)
        shade = f"rgb(0,{strength},0)" if score >= 0 else f"rgb({strength},0,0)"
        text.append(word, style=f"default on {shade}" if strength > 24 else "")
        text.append(" ")
    ranked = sorted(zip(attribution.words, attribution.scores, strict=True), key=lambda item: -item[1])
    text.append("\n" + "  ".join(f"{word} {score:+.4f}" for word, score in ranked[:8]) + "\n", style="dim")
    return text


def main() -> None:
    app()


if __name__ == "__main__":
    main()
