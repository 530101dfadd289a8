"""`explearn export`: write a bundle."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
from huggingface_hub import EvalResult, ModelCardData

from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.bundles import (
    CARD,
    CLASSIFIER,
    EXPLAINER,
    FIGURES,
    FORMAT,
    MANIFEST,
    BundleManifest,
    ClassifierFacts,
    Place,
    files_in,
    is_bundle,
    read_config,
    read_manifest,
)
from explearn.core.documents import PathLike, checked_path, public_name, read_json
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError
from explearn.core.file_facts import FileFacts
from explearn.core.validation import Figures, Shape, check, check_shape
from explearn.core.writing import atomic_folder, check_place, write_json, write_text
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.finding import find_explainer
from explearn.methods.info import MethodInfo
from explearn.methods.registry import get_info
from explearn.metrics.registry import CATALOGUE
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.predictors.pretrained import load_classifier
from explearn.show.markdown import Markdown, escape_markdown, table

BUNDLE = "a bundle"


@inputs_left_as_they_came
def export(
    out: PathLike,
    *,
    method: str | None = None,
    explainer: PathLike | None = None,
    options: Mapping[str, Any] | None = None,
    classifier: PathLike | None = None,
    with_classifier: bool = False,
    metrics: PathLike | None = None,
    task: str | None = None,
) -> Path:
    """Write a bundle, whole or not at all.

    Args:
        out: a new folder, or that of an earlier bundle, which is replaced.
        method: name of the method (default: the method of `explainer`).
        explainer: folder of a trained explainer; not for methods that need no training.
        options: options of an untrained method; those left out are saved with their current defaults.
        classifier: folder or hub name of the bundle's classifier (default: the trained explainer's; else any).
        with_classifier: put the classifier into the bundle.
        metrics: a run's reports/metrics.json, for the figures of the method on `task`.
        task: one of the tasks in `metrics`.

    Raises:
        ParamsError: `out` would replace something else, or lies in a bundle; arguments that do not go together; an
            option's bad value.
        UnknownNameError: no such method, option, task, or figures of the method.
        ModelError: a trained explainer or a classifier that cannot be used, or that do not belong together.
        UnsupportedError: the method cannot explain the classifier.
        DataError: `metrics` cannot be read, or `out` cannot be written.

    Example:
        >>> import explearn
        >>> folder = explearn.export("gae-bundle", method="gae")
        >>> sorted(path.name for path in folder.glob("[!.]*"))
        ['README.md', 'manifest.json']
    """
    out = Path(checked_path(out, "out"))
    _check_arguments(out, classifier, with_classifier, metrics, task)
    if method is None and explainer is None:
        raise ParamsError("got neither a method nor a trained explainer; expected one of them")
    named = method if explainer is None else Path(checked_path(explainer, "explainer"))
    made = find_explainer(named, options, method=method)
    info = get_info(made.name)
    folder = made.folder
    if folder is not None and is_bundle(folder):
        raise ModelError(f"{folder}: is already a bundle; expected the folder of a trained explainer")
    figures = None
    if metrics is not None:
        figures = _figures(Path(checked_path(metrics, "metrics")), task, info.name)
    source = classifier
    place: Place | None = None
    if made.classifier_folder is not None:
        place = "explainer/classifier"
        source = classifier or made.classifier_folder
    elif with_classifier:
        place = "classifier"
    loaded = None
    if source is not None:
        loaded = load_classifier(source, device="cpu")
        made.check_explains(loaded)
    with atomic_folder(out, BUNDLE) as partial:
        if folder is not None:
            _copy(folder, partial / EXPLAINER)
        elif isinstance(made, LearnedExplainer):
            # Its packaged weights may differ in other versions of Explearn.
            made.save_pretrained(partial / EXPLAINER)
        if loaded is not None and place == CLASSIFIER:
            _save_classifier(loaded, partial / CLASSIFIER)
        trained = (partial / EXPLAINER).exists()
        record: Mapping[str, Any] = {}
        if trained:
            record = read_config(partial / EXPLAINER)
        facts = _facts(loaded, os.fspath(classifier or ""), place, record)
        values = made.options.model_dump(mode="json")
        if figures is not None:
            write_json(partial / FIGURES, figures)
        write_text(partial / CARD, card(info, made.signed, values, record, facts, figures))
        values_of_manifest = {
            "format": FORMAT,
            "explearn": metadata.version("explearn"),
            "method": info.name,
            "trained": trained,
            "options": {} if isinstance(made, LearnedExplainer) else values,
            "classifier": facts,
            "files": {path.relative_to(partial).as_posix(): FileFacts.of(path) for path in files_in(partial)},
        }
        where = f"{folder or classifier}: cannot go into a bundle: "
        manifest: BundleManifest = check(BundleManifest, values_of_manifest, ModelError, where)
        write_json(partial / MANIFEST, manifest.model_dump(mode="json"))
    return out


def _check_arguments(out: Path, classifier: Any, with_classifier: bool, metrics: Any, task: str | None) -> None:
    """Raise ParamsError if `out` cannot be written or lies in a bundle, or one argument needs another."""
    check_place(out, BUNDLE, folder=True)
    for folder in out.resolve().parents:
        with suppress(ModelError, DataError):  # there is no bundle
            read_manifest(folder)
            raise ParamsError(
                f"{out}: lies in the bundle {folder}, which may hold nothing else; expected another place"
            )
    if with_classifier and classifier is None:
        raise ParamsError("with_classifier: got no classifier to put into the bundle; expected its folder or hub name")
    if metrics is None and task is not None:
        raise ParamsError("task: got a task, but no metrics; expected a run's metrics.json")


def _save_classifier(classifier: Any, folder: Path) -> None:
    transformer_of(classifier).tokenizer.chat_template = None  # a file of another kind, which no classifier reads
    classifier.save_pretrained(folder)
    if load_classifier(folder, device="cpu").fingerprint != classifier.fingerprint:
        raise ModelError(
            f"{classifier.name}: its weights change when it is saved and read again; it cannot go into a bundle"
        )


def _facts(
    classifier: Predictor | None, source: str, place: Place | None, record: Mapping[str, Any]
) -> ClassifierFacts | None:
    """Return what a manifest says of the bundle's classifier; None if there is none.

    Args:
        classifier: the classifier. None: the one that `record` names, if any.
        source: the folder or hub name that it was loaded from; of a folder only the name is kept: the rest of the path
            is private.
        place: its folder in the bundle, if any.
        record: config.json of the trained explainer; empty without one.
    """
    if classifier is None:
        if not record.get("trained_classifier"):
            return None
        return ClassifierFacts(fingerprint=str(record["trained_classifier"]))
    return ClassifierFacts(
        fingerprint=classifier.fingerprint,
        name=public_name(source),
        architecture=str(transformer_of(classifier).model.config.model_type),
        labels=list(classifier.labels),
        folder=place,
    )


class _Metrics(Shape):
    tasks: dict[str, dict[str, Any]]


def _figures(path: Path, task: str | None, method: str) -> dict[str, Any]:
    """Return the part of a run's metrics that bundles keep: the figures of one method on one task."""
    tasks = check_shape(read_json(path), _Metrics, path, "expected a run's reports/metrics.json")["tasks"]
    if task is None:
        if len(tasks) != 1:
            raise ParamsError(f"task: got none; expected one of {', '.join(tasks)}, which {path} has figures of")
        (task,) = tasks
    if task not in tasks:
        raise UnknownNameError(f"task in {path}", task, tasks)
    if method not in tasks[task]:
        raise UnknownNameError(f"method in {path}, task {task!r},", method, tasks[task])
    figures = check(dict[str, Any], tasks[task][method], before=f"{path}, {method}: ")
    shown = {name: value for name, value in figures.items() if re.sub("_(low|high)$", "", name) in CATALOGUE}
    check(Figures, shown, before=f"{path}, {method}, ")
    return {"task": task, "method": method, "figures": figures}


def _copy(folder: Path, target: Path) -> None:
    """Copy a trained explainer.

    Raises:
        ModelError: there is a link, which may lead to any file of this machine.
    """
    for path in files_in(folder):
        if path.is_symlink() or not path.is_file():
            raise ModelError(f"{path}: is a link or no regular file, and cannot go into a bundle; remove it")
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


GROUPS = ("plausibility", "faithfulness", "behaviour")
"""Groups of metrics on the card; metrics.json has all figures that were passed."""

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("explearn.bundle", "templates"),
    finalize=lambda value: value if isinstance(value, Markdown) else escape_markdown(str(value)),
    trim_blocks=True,
    keep_trailing_newline=True,
)


def card(
    info: MethodInfo,
    signed: bool,
    options: Mapping[str, Any],
    record: Mapping[str, Any],
    classifier: ClassifierFacts | None,
    figures: Mapping[str, Any] | None,
) -> str:
    """Return the text of README.md.

    Args:
        info: the method's facts.
        signed: whether its scores below zero are evidence against the class.
        options: the method's options, by name.
        record: config.json of a trained explainer, else empty.
        classifier: the bundle's classifier, None for any.
        figures: content of the bundle's metrics.json, or None.
    """
    data = ModelCardData(library_name="explearn", tags=["explearn", "explanation", "attribution"])
    rows: list[tuple[str, ...]] = []
    if figures is not None:
        values = figures["figures"]
        data.model_name = info.name
        data.eval_results = []
        task = str(escape_markdown(figures["task"]))  # some viewers render the head, too
        for metric in CATALOGUE.values():
            value = values.get(metric.name)
            if metric.group not in GROUPS or value is None:
                continue
            bounds = [values.get(f"{metric.name}_{bound}") for bound in ("low", "high")]
            interval = ""
            if None not in bounds:
                interval = " to ".join(f"{bound:.{metric.decimals}f}" for bound in bounds)
            rows.append((metric.heading, f"{value:.{metric.decimals}f}", interval, metric.direction or ""))
            data.eval_results.append(
                EvalResult(
                    task_type="text-classification",
                    dataset_type=task,
                    dataset_name=task,
                    metric_type=metric.name,
                    metric_name=metric.heading,
                    metric_value=value,
                )
            )
    facts = []
    if classifier is not None:
        facts = [
            ("fingerprint", classifier.fingerprint),
            ("name", classifier.name),
            ("architecture", classifier.architecture),
            ("labels", ", ".join(classifier.labels)),
            ("in this bundle", f"{classifier.folder}/" if classifier.folder else "no"),
        ]
        if "/" in classifier.name:
            data.base_model = classifier.name
    listed_options = [(name, json.dumps(value)) for name, value in options.items()]
    return _TEMPLATES.get_template("card.md.j2").render(
        head=Markdown(data.to_yaml()),
        info=info,
        signed=signed,
        version=metadata.version("explearn"),
        record=record,
        options=options,
        classifier=classifier,
        figures=figures,
        classifier_table=table(("", ""), [(name, fact) for name, fact in facts if fact], left=2),
        figure_table=table(("Metric", "Value", "Interval", "Better"), rows),
        option_table=table(("Option", "Value"), listed_options, left=2),
    )
