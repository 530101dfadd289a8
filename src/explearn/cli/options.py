"""The command-line options that choose methods and set their options, shared by `explain` and `job`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from explearn.bundle.manifest import is_bundle
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
        show_default=False,
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
        "export`); may be repeated.",
        show_default=False,
        rich_help_panel="Methods",
    ),
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
        show_default=False,
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
        show_default=False,
        rich_help_panel="What is explained",
    ),
]
Completion = Annotated[
    Path | None,
    typer.Option(
        help="A JSON or YAML file: the prompt and label words of a generative model (default: completion.json next to "
        "the model); or candidate labels with their hypothesis (docs/explearn/classifiers.md).",
        show_default=False,
        rich_help_panel="Classifier",
    ),
]


@dataclass(frozen=True, slots=True)
class ChosenMethod:
    """A method, with the folder of the trained explainer if it is learned.

    Attributes:
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
        folder = None if self.folder is None else self.folder / "classifier"
        return folder if folder is not None and folder.is_dir() else None

    def check_classifier(self, classifier: Predictor) -> None:
        """Raise ModelError for a bundle that was made for another classifier."""
        if self.bundle is not None:
            self.bundle.check_classifier(classifier)


def choose(methods: Sequence[str] | None, folders: Sequence[Path]) -> list[ChosenMethod]:
    """Return the methods by name, each with the folder or bundle that holds it or, for a refining method, its base.

    Args:
        methods: names; if None or empty, the methods in the folders, or DEFAULT if there are no folders.
        folders: folders of trained explainers, and bundles.

    Raises:
        UnknownNameError: there is no such method.
        ParamsError: a method is repeated, a learned method has no folder, or a folder belongs to none of the methods.
        ModelError: a folder or bundle cannot be used.
    """
    from explearn.bundle.loading import method_of, open_bundle  # brings torch

    bundles = {folder: open_bundle(folder) for folder in folders if is_bundle(folder)}
    for bundle in bundles.values():
        _ = bundle.explainer  # raises where this version has no such method
    methods_in = {f: bundles[f].manifest.method if f in bundles else method_of(f) for f in folders}
    methods = list(methods or methods_in.values()) or [DEFAULT]
    for name in methods:
        if methods.count(name) > 1:
            raise ParamsError(f"--method: got {name!r} twice; expected each method once")
    chosen = []
    for info in map(get_info, methods):
        kin = {info.of or info.name, info.base}
        # The method itself before another variant of it.
        fitting = sorted(
            (folder for folder, name in methods_in.items() if (get_info(name).of or name) in kin),
            key=lambda folder: methods_in[folder] != info.name,
        )
        folder = next(iter(fitting), None)
        if folder is None and info.untrained:
            got = next((f"{folder}, which holds {name!r}" for folder, name in methods_in.items()), "none")
            raise ParamsError(f"--explainer: got {got}; expected the folder of a trained {info.name!r}")
        if folder is not None:
            del methods_in[folder]
        if folder in bundles:
            bundle = bundles[folder]
            chosen.append(ChosenMethod(info, bundle.explainer_folder, bundle.manifest.options, bundle))
        else:
            chosen.append(ChosenMethod(info, folder))
    for folder, name in methods_in.items():
        raise ParamsError(f"--explainer: got {folder}, which holds {name!r}; expected one of {' or '.join(methods)}")
    return chosen


def classifier_for(methods: Sequence[ChosenMethod], classifier: str) -> str:
    """Return the named classifier, or else the first that comes with a method. Raises ParamsError."""
    own = next((str(method.own_classifier) for method in methods if method.own_classifier is not None), "")
    if not classifier and not own:
        raise ParamsError("--classifier: got none; expected the folder of a saved classifier, or a hub name")
    return classifier or own


def make(methods: Sequence[ChosenMethod], options: Mapping[str, Any]) -> list[Explainer]:
    """Make the methods with their options (`parse_options`).

    With one method, it gets all options. With several, NAME applies to all that have it and METHOD.NAME to one.

    Raises UnknownNameError for an option that no method has, ParamsError for one that a bundle fixes, and the errors
    of `make_explainer`.
    """
    own: dict[str, dict[str, Any]] = {method.info.name: {} for method in methods}
    accepted = {m.info.name: m.accepted for m in methods}
    for option, value in options.items():
        method, dot, name = option.partition(".")
        if len(methods) == 1:
            own[methods[0].info.name][option] = value
        elif dot:
            if method not in own:
                raise UnknownNameError("method of --option", method, own)
            own[method][name] = value
        else:
            takers = [taker for taker, names in accepted.items() if option in names]
            if not takers:
                known = {name for names in accepted.values() for name in names}
                raise UnknownNameError(f"option of {', '.join(own)}", option, known or ["(none)"])
            for taker in takers:
                own[taker][option] = value
    explainers = []
    for chosen in methods:
        name = chosen.info.name
        if chosen.bundle is not None and (fixed := set(own[name]) - chosen.info.later):
            names = ", ".join(sorted(fixed))
            raise ParamsError(f"--option: got {names}; the bundle {chosen.bundle.folder} fixes these options")
        path = str(chosen.folder) if chosen.folder else None
        explainers.append(make_explainer(chosen.info, {**chosen.options, **own[name]}, path))
    return explainers


def parse_label_names(pairs: Sequence[str] | None) -> dict[str, str]:
    """Return OLD=NEW pairs as a dict. Raises ParamsError for another form, and for a repeated OLD."""
    names = dict(pair.split("=", 1) for pair in pairs or () if re.fullmatch("[^=]+=.+", pair))
    if len(names) < len(pairs or ()):
        raise ParamsError(f"--label-name: got {', '.join(pairs or ())}; expected OLD=NEW, each OLD once")
    return names


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Return NAME=VALUE pairs as a dict, values read as YAML. Raises ParamsError for another form."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ParamsError(f"--option: got {pair!r}; expected NAME=VALUE")
        if name in options:
            raise ParamsError(f"--option: got {name} twice; expected each option once")
        try:
            options[name] = parse_yaml(value)
        except ValueError as error:
            raise ParamsError(
                f"--option {name}: got {value[:60]!r}; expected a number, a word or a YAML value ({error})"
            ) from error
    return options
