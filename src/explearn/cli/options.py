"""The command-line options that several commands share; docs/explearn/options.md says which command has which."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from explearn.cli.common import DEFAULT_SEED, Group, Seed
from explearn.core.documents import parse_yaml
from explearn.core.errors import DataError, ParamsError, UnknownNameError
from explearn.methods.defaults import ROSTERS
from explearn.methods.finding import fetched, find_explainer, method_in
from explearn.methods.registry import explainer_class, get_info
from explearn.subject.texts import TextColumns
from explearn.text.encoding import TEXT

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer

# ---- classifiers -----------------------------------------------------------------------------------------------------

LLM = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file, instead of a classifier: the model behind an OpenAI-compatible server, its prompt, label "
        "words and budget (docs/explearn/llm.md).",
    ),
]
Completion = Annotated[
    Path | None,
    typer.Option(
        help="A JSON or YAML file: the prompt and label words of a generative model (default: completion.json next to "
        "the model); or candidate labels with their hypothesis (docs/explearn/classifiers.md).",
    ),
]
ClassNames = Annotated[
    list[str] | None,
    typer.Option(help="Rename a class of the classifier, CLASS=NAME, such as LABEL_0=negative; may be repeated."),
]


def classifier_options(
    classifier: Annotated[
        str,
        typer.Option(
            help="Folder of a saved sequence classifier, or its hub name; or a scikit-learn classifier or a function "
            "in Python code, as module:name or file.py:name: this runs your code. Not needed if an explainer comes "
            "with one.",
            envvar="EXPLEARN_CLASSIFIER",
            show_default=False,
        ),
    ] = "",
    class_name: ClassNames = None,
    completion: Completion = None,
    llm: LLM = None,
) -> Callable[..., Any]:
    """Return a function from the explainers, of which one may come with its classifier, to `classifier_source`."""
    names = parse_names("--class-name", class_name)
    return partial(classifier_source, classifier, names, llm, completion)


def classifier_source(
    name: str,
    class_names: Mapping[str, str],
    llm: Path | None = None,
    completion: Path | None = None,
    explainers: Sequence[Explainer | None] = (),
    option: str = "--classifier",
    required: bool = True,
) -> Any:
    """Return what `as_predictor` takes: a named classifier or, without a name, the first that an explainer came with.

    Args:
        name: folder, hub name or name of code; empty if none is named.
        class_names: class -> its new name.
        llm: file of a prompt that is the classifier.
        completion: file of the prompt of a generative model.
        explainers: the explainers.
        option: the option that names a classifier.
        required: whether there must be one; if not, None is returned without.

    Raises:
        ParamsError: both a classifier and a prompt are named, or there is none.
    """
    if llm is not None:
        if name or completion:
            raise ParamsError(f"got the classifier {name or completion} and the prompt {llm}; expected one of them")
        from explearn.predictors.llm.classifier import LLMClassifier  # brings torch

        return LLMClassifier(llm).renamed(class_names)
    for explainer in explainers:
        if not name and explainer is not None and explainer.classifier_folder is not None:
            name = str(explainer.classifier_folder)
    if not name and not required:
        return None
    if not name:
        raise ParamsError(f"{option}: got none; expected the folder of a saved classifier, a hub name, or file.py:name")
    from explearn.predictors.heads.completion import read_completion  # brings torch
    from explearn.predictors.pretrained import NamedClassifier

    return NamedClassifier(name, class_names, completion and read_completion(completion))


ClassifierToExplain = Annotated[Callable[..., Any], Group("Classifier", classifier_options)]
LoadedClassifier = Annotated[Callable[..., Any], Group("Classifier", classifier_options, without=("llm",))]

# ---- methods and their options ---------------------------------------------------------------------------------------

Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="Set an option, NAME=VALUE; may be repeated. With several methods, NAME applies to all that have it, "
        "METHOD.NAME to one.",
        rich_help_panel="Methods",
    ),
]


TrainingOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", help="NAME=VALUE of the training: epochs, learning_rate, lora, ...; may be repeated."
    ),
]


@dataclass(frozen=True, slots=True)
class NamedMethods:
    """The methods that --method, --explainer and --option name.

    A learned method takes the folder of its own training, or of the method that it starts from; other folders follow.
    One explainer gets all options. Of several, NAME goes to all that have it and METHOD.NAME to one.

    Attributes:
        names: of methods, and for `compare` of rosters.
        folders: folders of trained explainers, and bundles.
        options: NAME or METHOD.NAME -> value.
        seed: seed of all draws.
    """

    names: Sequence[str] = ()
    folders: Sequence[Path] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = DEFAULT_SEED

    def explainers(self) -> list[Explainer]:
        """Return the explainers; none if nothing is named.

        Raises:
            UnknownNameError: there is no such method, or none with such an option.
            ParamsError: a method is repeated or needs a folder, or an option cannot be set.
            ModelError: a folder or bundle cannot be used.
        """
        return [self._find(*source) for source in self._sources(self.names)]

    def one(self) -> Explainer | None:
        """Return the explainer, None if nothing is named; raise ParamsError for several, else as `explainers`."""
        explainers = self.explainers()
        only("--method", [explainer.name for explainer in explainers])
        return next(iter(explainers), None)

    def listed(self) -> list[str | Explainer]:
        """Return what `explearn.compare` takes: explainers only where a folder or an option is given.

        Raises as `explainers`.
        """
        listed: list[str | Explainer] = [name for name in self.names or ["light"] if name in ROSTERS]
        for name, folder, chosen in self._sources([name for name in self.names if name not in ROSTERS]):
            if folder is None and not chosen:
                listed.append(name)
            else:
                listed.append(self._find(name, folder, {**ROSTERS["light"].get(name, {}), **chosen}))
        return listed

    def _find(self, name: str, folder: Path | None, chosen: Mapping[str, Any]) -> Explainer:
        return find_explainer(folder or name, chosen, method=name, seed=self.seed)

    def _sources(self, methods: Sequence[str]) -> list[tuple[str, Path | None, dict[str, Any]]]:
        """Return each method with its folder and its options."""
        sources: dict[str, Path | None] = dict.fromkeys(methods)
        names = list(methods)
        for folder in map(fetched, self.folders):
            held = method_in(folder)
            fitting = [name for name, source in sources.items() if source is None and _root(name) == _root(held)]
            # The method of the folder itself, or else one that can explain with what it holds.
            name = min(fitting, key=lambda name: name != held, default=held)
            if name not in fitting:
                names.append(name)
            sources[name] = folder
        if len(sources) < len(names):
            raise ParamsError(f"methods: got {', '.join(names)}; expected each once")
        if self.options and not sources:
            named = ", ".join(self.options)
            raise ParamsError(f"--option: got {named}; expected the method, too (--method or --explainer)")
        chosen = _options_of_each(sources, self.options)
        return [(name, folder, chosen[name]) for name, folder in sources.items()]


def method_options(
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a method; `explearn methods` lists them. Repeat it for several; audit, diff and record take "
            "one. compare takes rosters, too (quick, light, complete).",
            show_default="light for compare; else the method of --explainer, or the default for the classifier",
        ),
    ] = None,
    explainer: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of a trained explainer (data/explainers/TASK/NAME), or a bundle of any method (`explearn "
            "export`), beside the methods named; may be repeated likewise.",
        ),
    ] = None,
    option: Options = None,
    seed: Seed = DEFAULT_SEED,
) -> NamedMethods:
    """Return the methods named on the command line."""
    return NamedMethods(method or (), explainer or (), parse_options(option), seed)


MethodsToUse = Annotated[NamedMethods, Group("Methods", method_options)]


def only(option: str, values: Sequence[str] | None) -> str | None:
    """Return the value of an option that may be repeated elsewhere, None without one.

    Raises:
        ParamsError: there are several.
    """
    if len(values or ()) > 1:
        raise ParamsError(f"{option}: got {' and '.join(values or ())}; expected one")
    return next(iter(values or ()), None)


def _root(method: str) -> str:
    """Return the method whose training another explains with: its base, or the one that it is a variant of."""
    trained = get_info(method).base or method
    return get_info(trained).of or trained


def _options_of_each(sources: Mapping[str, Path | None], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return method -> its options."""
    if len(sources) == 1:
        return {name: dict(options) for name in sources}
    accepted: dict[str, Collection[str]] = {}
    for name, folder in sources.items():
        info = get_info(name)
        accepted[name] = explainer_class(name).Options.model_fields
        if folder is not None and info.base is None:
            accepted[name] = info.later
    chosen: dict[str, dict[str, Any]] = {name: {} for name in sources}
    for option, value in options.items():
        method, dot, name = option.rpartition(".")
        takers = [taker for taker, names in accepted.items() if option in names]
        if dot:
            takers = [method]
        if dot and method not in chosen:
            raise UnknownNameError("method of --option", method, chosen)
        if not takers:
            known = set().union(*accepted.values())
            raise UnknownNameError(f"option of {', '.join(sources)}", option, known or ["(none)"])
        for taker in takers:
            chosen[taker][name] = value
    return chosen


def parse_options(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Return NAME=VALUE pairs as a dict, values read as YAML.

    Raises:
        ParamsError: a pair has another form, or a NAME is repeated.
    """
    options: dict[str, Any] = {}
    for pair in pairs or ():
        name, _, value = pair.partition("=")
        if "=" not in pair or not name or name in options:
            raise ParamsError(f"--option: got {', '.join(pairs or ())}; expected NAME=VALUE, each NAME once")
        try:
            options[name] = parse_yaml(value)
        except ValueError as error:
            raise ParamsError(
                f"--option {name}: got {value[:60]!r}; expected a number, a word or a YAML value ({error})"
            ) from error
    return options


def parse_names(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Return OLD=NEW pairs as a dict.

    Args:
        option: the option, for errors.
        pairs: the pairs.

    Raises:
        ParamsError: a pair has another form, or an OLD is repeated.
    """
    names: dict[str, str] = {}
    for pair in pairs or ():
        old, _, new = pair.partition("=")
        if not old or not new or old in names:
            raise ParamsError(f"{option}: got {', '.join(pairs or ())}; expected OLD=NEW, each OLD once")
        names[old] = new
    return names


# ---- what is explained -----------------------------------------------------------------------------------------------

_EXPLAINED = "What is explained"
Targets = Annotated[
    list[str] | None,
    typer.Option(
        help="Class to explain; may be repeated, but not for a record (default: the predicted class; for a multi-label "
        "classifier each label that applies; for a regression each value).",
        rich_help_panel=_EXPLAINED,
    ),
]
Versus = Annotated[
    str | None,
    typer.Option(
        help="Explain why the target rather than this class: the difference of their logits.",
        rich_help_panel=_EXPLAINED,
    ),
]
Units = Annotated[
    Literal["token", "word", "phrase", "sentence"],
    typer.Option(
        help="Unit that is scored. Methods that perturb texts leave out whole units.", rich_help_panel=_EXPLAINED
    ),
]
Windows = Annotated[
    int | None,
    typer.Option(
        help="Read texts that are too long for the classifier through windows that begin this many sub-tokens apart "
        "(default: they are cut).",
        rich_help_panel=_EXPLAINED,
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(
        help="Second segment for classifiers of pairs, or the passage for questions; used with every text.",
        rich_help_panel=_EXPLAINED,
    ),
]

# ---- texts -----------------------------------------------------------------------------------------------------------

_TABLE = typer.Option("--texts", help="A .csv, .jsonl or .parquet table, or a .txt file with one text per line.")
Table = Annotated[Path, _TABLE]
TableOrTexts = Annotated[Path | None, _TABLE]


def given_texts(texts: Sequence[str], table: Path | None, columns: TextColumns, pair: str | None) -> list[Any]:
    """Return the texts, or pairs, that are given on the command line or in a file.

    Raises:
        ParamsError: both are given.
        DataError: the file has none, or one that cannot be explained; file, row and field are named.
    """
    if table is None:
        return [text if pair is None else (text, pair) for text in texts]
    if texts or pair is not None:
        raise ParamsError("--texts: got other texts, too; expected a file, or texts on the command line")
    from explearn.text.rows import read_file  # brings Arrow

    names = [columns.text or TEXT]
    if columns.pair is not None:
        names.append(columns.pair)
    found: list[Any] = []
    for row in read_file(table, names):
        segments = tuple(row.text(name) for name in names)
        found.append(segments if len(segments) > 1 else segments[0])
    if not found:
        raise DataError(f"{table}: no text; expected at least one")
    return found


def text_columns(
    text_column: Annotated[str | None, typer.Option(help="Column with the text.", show_default="text")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column with the second segment, for pairs.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column with the true label.")] = None,
    label_name: Annotated[
        list[str] | None,
        typer.Option(help="Map a value in the label column to a class, VALUE=CLASS, such as 1=good; may be repeated."),
    ] = None,
    rationales: Annotated[
        str | None,
        typer.Option(help="Column with the marked words, FORMAT:COLUMN; formats: mask (0/1), marked ([[...]]), spans."),
    ] = None,
    marks_by: Annotated[
        str | None, typer.Option(help="Who marked the words: people, model, or a name.", show_default="not known")
    ] = None,
    token_column: Annotated[
        str | None,
        typer.Option(help="Column with the classified word, or its number, for models that classify tokens."),
    ] = None,
) -> TextColumns:
    """Return the columns named on the command line.

    Raises:
        ParamsError: a --label-name is malformed.
    """
    names = parse_names("--label-name", label_name)
    return TextColumns(text_column, pair_column, label_column, None, rationales, names, token_column, marks_by)


_TITLE = "Columns of the table"
_OF_MARKS = ("rationales", "marks_by", "token_column")
TextsAlone = Annotated[TextColumns, Group(_TITLE, text_columns, without=("label_column", "label_name", *_OF_MARKS))]
ColumnsOfTable = Annotated[TextColumns, Group(_TITLE, text_columns)]
LabelledColumns = Annotated[TextColumns, Group(_TITLE, text_columns, without=_OF_MARKS)]

# ---- outputs ---------------------------------------------------------------------------------------------------------

Page = Annotated[Path, typer.Option("--out", help="The page to write, and beside it files with its name.")]
WorkFolder = Annotated[
    Path | None, typer.Option("--work", help="Working folder to keep, so that a stopped run can resume.")
]
