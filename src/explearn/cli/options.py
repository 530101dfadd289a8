"""The command-line options that several commands share: classifiers, methods and their options, tables of texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from explearn.bundle.manifest import is_bundle
from explearn.cli.common import Group
from explearn.comparison.texts import TextColumns
from explearn.core.documents import parse_yaml
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.methods.info import MethodInfo
from explearn.methods.registry import accepted_options, get_info, make_explainer

if TYPE_CHECKING:
    from explearn.bundle.loading import Bundle
    from explearn.methods.base.explainer import Explainer
    from explearn.predictors.predictor import Predictor

DEFAULT = "attn_lrp"
"""The method if none is named."""

ClassifierOption = Annotated[
    str,
    typer.Option(
        help="Folder of a saved sequence classifier, or its hub name; not needed if an explainer comes with one.",
        envvar="EXPLEARN_CLASSIFIER",
        rich_help_panel="Classifier",
    ),
]
LabelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--label-name",
        help="Rename a class of the classifier, CLASS=NAME, such as LABEL_0=negative; may be repeated.",
        rich_help_panel="Classifier",
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        help="Name of a method; `explearn methods` lists them. Repeat it to compare several.",
        show_default="the method of the trained explainer or bundle, else attn_lrp",
        rich_help_panel="Methods",
    ),
]
Explainers = Annotated[
    list[Path] | None,
    typer.Option(
        help="Folder of a trained explainer (data/explainers/TASK/NAME), or a bundle of any method (`explearn "
        "export`), beside the methods named; may be repeated.",
        rich_help_panel="Methods",
    ),
]
TrainedExplainer = Annotated[
    Path | None,
    typer.Option("--explainer", help="Folder of a trained explainer, or a bundle.", rich_help_panel="Methods"),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="Set an option of the method, NAME=VALUE; may be repeated. With several methods, NAME applies to all that "
        "have it, METHOD.NAME to one.",
        rich_help_panel="Methods",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        help="Class to explain; may be repeated (default: the predicted class; for a multi-label classifier each label "
        "that applies; for a regression each value).",
        rich_help_panel="What is explained",
    ),
]
Units = Annotated[
    Literal["token", "word", "phrase", "sentence"],
    typer.Option(
        help="Unit that is scored. Methods that perturb texts leave out whole units.",
        rich_help_panel="What is explained",
    ),
]
Windows = Annotated[
    int | None,
    typer.Option(
        help="Read texts that are too long for the classifier through windows that begin this many sub-tokens apart "
        "(default: they are cut).",
        rich_help_panel="What is explained",
    ),
]
Completion = Annotated[
    Path | None,
    typer.Option(
        help="A JSON or YAML file: the prompt and label words of a generative model (default: completion.json next to "
        "the model); or candidate labels with their hypothesis (docs/explearn/classifiers.md).",
        rich_help_panel="Classifier",
    ),
]
LLM = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file, instead of a classifier: the model behind an OpenAI-compatible server, its prompt, label "
        "words and budget (docs/explearn/llm.md).",
        rich_help_panel="Classifier",
    ),
]


@dataclass(frozen=True, slots=True)
class ChosenMethod:
    """A method, with the folder of the trained explainer if it is learned.

    Attributes:
        info: the method.
        folder: folder of the trained explainer. None: the method needs no training.
        options: the bundle's options.
        bundle: the bundle that the method comes from, if any.
    """

    info: MethodInfo
    folder: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)
    bundle: Bundle | None = None

    @property
    def accepted(self) -> Collection[str]:
        """Names of the options that can still be set: few for a trained explainer, all for a method that refines
        one."""
        if self.bundle is None and (self.folder is None or self.info.base is not None):
            return accepted_options(self.info.name)
        return self.info.later

    @property
    def own_classifier(self) -> Path | None:
        """The folder of the classifier that came with the explainer."""
        if self.bundle is not None:
            return self.bundle.classifier_folder
        if self.folder is not None and (self.folder / "classifier").is_dir():
            return self.folder / "classifier"
        return None

    def check_classifier(self, classifier: Predictor) -> None:
        """Check that the bundle, if there is one, was made for a classifier.

        Raises:
            ModelError: it was made for another one.
        """
        if self.bundle is not None:
            self.bundle.check_classifier(classifier)


def choose(methods: Sequence[str] | None, folders: Sequence[Path]) -> list[ChosenMethod]:
    """Return the methods by name, each with the folder or bundle that holds it or, for a refining method, its base.

    After them come the methods of the other folders.

    Args:
        methods: names. Without any, and without folders: DEFAULT.
        folders: folders of trained explainers, and bundles.

    Raises:
        UnknownNameError: there is no such method.
        ParamsError: a method is repeated, or a learned method has no folder.
        ModelError: a folder or bundle cannot be used.
    """
    held = [_held(folder) for folder in folders]
    if not methods and not held:
        methods = [DEFAULT]
    chosen = []
    for name in methods or ():
        info = get_info(name)
        fitting = [one for one in held if _root(one.info.name) == _root(info.base or name)]
        if fitting:
            # The folder of the method itself, or else of a variant of it.
            one = min(fitting, key=lambda one: one.info.name != name)
            held.remove(one)
            chosen.append(replace(one, info=info))
        elif info.untrained:
            raise ParamsError(f"--explainer: got no folder of a trained {name!r}; expected one")
        else:
            chosen.append(ChosenMethod(info, None))
    chosen += held
    names = [one.info.name for one in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ParamsError(f"methods: got {name!r} twice; expected each once")
    return chosen


def _held(folder: Path) -> ChosenMethod:
    """Return the method that a folder or bundle holds."""
    from explearn.bundle.loading import method_of, open_bundle  # brings torch

    if not is_bundle(folder):
        return ChosenMethod(get_info(method_of(folder)), folder)
    bundle = open_bundle(folder)
    _ = bundle.explainer  # raises where this version has no such method
    return ChosenMethod(get_info(bundle.manifest.method), bundle.explainer_folder, bundle.manifest.options, bundle)


def _root(method: str) -> str:
    """Return the method of which another may be a variant."""
    return get_info(method).of or method


def classifier_for(methods: Sequence[ChosenMethod], classifier: str) -> str:
    """Return the named classifier, or else the first that comes with a method.

    Raises:
        ParamsError: there is none.
    """
    if classifier:
        return classifier
    for method in methods:
        if method.own_classifier is not None:
            return str(method.own_classifier)
    raise ParamsError("--classifier: got none; expected the folder of a saved classifier, a hub name, or --llm")


def classifier_or_prompt(classifier: str, llm: Path | None, methods: Sequence[ChosenMethod] = ()) -> str | Predictor:
    """Return the prompt that is a classifier, or the name that `classifier_for` returns.

    Raises:
        ParamsError: both are given, or neither is.
    """
    if llm is None:
        return classifier_for(methods, classifier)
    return prompt_alone(llm, classifier)


def prompt_alone(llm: Path, classifier: str) -> Predictor:
    """Return the prompt that is a classifier.

    Raises:
        ParamsError: a classifier is named, too, or the prompt cannot be used.
    """
    if classifier:
        raise ParamsError(f"got the classifier {classifier!r} and the prompt {llm}; expected one of them")
    from explearn.predictors.llm.classifier import LLMClassifier  # brings torch

    return LLMClassifier(llm)


def make(methods: Sequence[ChosenMethod], options: Mapping[str, Any]) -> list[Explainer]:
    """Make the methods with their options (`parse_options`).

    With one method, it gets all options. With several, NAME applies to all that have it and METHOD.NAME to one.
    Errors of `make_explainer` pass through.

    Raises:
        UnknownNameError: no method has the option.
        ParamsError: a bundle fixes the option.
    """
    own: dict[str, dict[str, Any]] = {method.info.name: {} for method in methods}
    for option, value in options.items():
        method, dot, name = option.partition(".")
        if len(methods) == 1:
            own[methods[0].info.name][option] = value
        elif dot:
            if method not in own:
                raise UnknownNameError("method of --option", method, own)
            own[method][name] = value
        else:
            takers = [chosen.info.name for chosen in methods if option in chosen.accepted]
            for taker in takers:
                own[taker][option] = value
            if not takers:
                accepted = set().union(*(chosen.accepted for chosen in methods))
                raise UnknownNameError(f"option of {', '.join(own)}", option, accepted or ["(none)"])
    explainers = []
    for chosen in methods:
        values = own[chosen.info.name]
        fixed = set(values) - chosen.info.later
        if chosen.bundle is not None and fixed:
            names = ", ".join(sorted(fixed))
            raise ParamsError(f"--option: got {names}; the bundle {chosen.bundle.folder} fixes these options")
        path = None
        if chosen.folder is not None:
            path = str(chosen.folder)
        explainers.append(make_explainer(chosen.info, {**chosen.options, **values}, path))
    return explainers


def parse_label_names(pairs: Sequence[str] | None) -> dict[str, str]:
    """Return OLD=NEW pairs as a dict.

    Raises:
        ParamsError: a pair has another form, or an OLD is repeated.
    """
    names: dict[str, str] = {}
    for pair in pairs or ():
        old, _, new = pair.partition("=")
        if not old or not new or old in names:
            raise ParamsError(f"--label-name: got {', '.join(pairs or ())}; expected OLD=NEW, each OLD once")
        names[old] = new
    return names


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


Table = Annotated[Path, typer.Option(help="A .csv, .jsonl or .parquet table, or a .txt file with one text per line.")]


def classifier_to_judge(
    classifier: Annotated[
        str,
        typer.Option(
            help="Folder of a saved sequence classifier, or its hub name.",
            envvar="EXPLEARN_CLASSIFIER",
            show_default=False,
        ),
    ] = "",
    llm: LLM = None,
) -> Any:
    """Return the name of the classifier, or the prompt that is one; see `classifier_or_prompt` for errors."""
    return classifier_or_prompt(classifier, llm)


def text_columns(
    text_column: Annotated[str | None, typer.Option(help="Column with the text.", show_default="text")] = None,
    pair_column: Annotated[str | None, typer.Option(help="Column with the second segment, for pairs.")] = None,
    labels: Annotated[str | None, typer.Option(help="Column with the true label.")] = None,
    label_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Map a value in the column of labels to a class, 1=good, or rename a class of the classifier, "
            "LABEL_1=good; may be repeated."
        ),
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
    names = parse_label_names(label_name)
    return TextColumns(text_column, pair_column, labels, None, rationales, names, token_column, marks_by)


ClassifierToJudge = Annotated[Any, Group("Classifier", classifier_to_judge)]
_TITLE = "Columns of the table"
_OF_MARKS = ("rationales", "marks_by", "token_column")
ColumnsOfTable = Annotated[TextColumns, Group(_TITLE, text_columns)]
LabelledColumns = Annotated[TextColumns, Group(_TITLE, text_columns, without=_OF_MARKS)]
