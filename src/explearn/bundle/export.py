"""`explearn export`: write a bundle."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.bundle.card import Facts, card
from explearn.bundle.making import check_trained_for, method_of, trained_for
from explearn.bundle.manifest import (
    CARD,
    CLASSIFIER,
    EXPLAINER,
    FIGURES,
    FORMAT,
    MANIFEST,
    ClassifierFacts,
    Manifest,
    config_of,
    facts_of,
    files_in,
    is_bundle,
    may_hold,
)
from explearn.core.documents import is_folder, kind_of, name_of, read_json
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError
from explearn.core.storage import atomic_folder, write_json, write_text
from explearn.core.version import explearn_version
from explearn.methods.base.learned import LearnedExplainer, RefiningExplainer
from explearn.methods.info import MethodInfo
from explearn.methods.registry import explainer_class, get_info, make_explainer
from explearn.model.classifier import Classifier
from explearn.model.loading import load_trained

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer


@dataclass(frozen=True, slots=True)
class _Made:
    """The method to bundle: what is known of it, made, with every option; and the folder of its training."""

    info: MethodInfo
    explainer: Explainer
    options: Mapping[str, Any]
    folder: Path | None


def export(
    out: str | os.PathLike[str],
    *,
    method: str | None = None,
    explainer: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    classifier: str | os.PathLike[str] | None = None,
    with_classifier: bool = False,
    metrics: str | os.PathLike[str] | None = None,
    task: str | None = None,
) -> Path:
    """Write a bundle, whole or not at all.

    Args:
        out: a new folder.
        method: name of the method (default: that whose training is in `explainer`).
        explainer: folder of a trained explainer; not for methods that need no training.
        options: of a method that is not trained. All others are written with their defaults of today.
        classifier: folder or hub name of the classifier that the bundle is for (default: the one that a trained
            explainer belongs to; else any).
        with_classifier: put it into the bundle.
        metrics: a run's reports/metrics.json, for the figures of the method on `task`.
        task: one of its tasks.

    Raises:
        ParamsError: `out` is there already; arguments that do not go together; an option's bad value.
        UnknownNameError: no such method, option, task, or figures of the method.
        ModelError: a trained explainer or a classifier that cannot be used, or do not belong together.
        UnsupportedError: the method cannot explain the classifier.
        DataError: `metrics` cannot be read, or `out` not be written.
    """
    for what, given in (("explainer", explainer), ("classifier", classifier), ("metrics", metrics)):
        if given is not None:
            name_of(given, what)
    if options is not None and not isinstance(options, Mapping):
        raise ParamsError(f"options: got {kind_of(options)}; expected values by the names of options")
    out = Path(name_of(out, "out"))
    if os.path.lexists(out):
        raise ParamsError(f"{out}: is there already; expected the name of a new folder")
    if with_classifier and classifier is None:
        raise ParamsError("with_classifier: got no classifier to put into the bundle; expected its folder or hub name")
    if explainer is not None and Path(explainer).resolve() in out.resolve().parents:
        raise ParamsError(f"{out}: is inside {explainer}; expected a folder outside that of the explainer")
    made = _make(method, None if explainer is None else Path(explainer), options or {})
    figures = None if metrics is None else _figures(Path(metrics), task, made.info.name)
    if metrics is None and task is not None:
        raise ParamsError("task: got a task, but no metrics; expected a run's metrics.json")
    own = made.folder / CLASSIFIER if made.folder is not None and made.info.own_model else None
    name = os.fspath(classifier) if classifier is not None else None if own is None else str(own)
    loaded = None if name is None else _loaded(name, made)
    with atomic_folder(out) as partial:
        trained = _write_explainer(partial / EXPLAINER, made)
        where = None
        if own is not None:
            where = f"{EXPLAINER}/{CLASSIFIER}"
        elif with_classifier and name is not None and loaded is not None:
            _write_classifier(partial / CLASSIFIER, name, loaded)
            where = CLASSIFIER
        facts = _facts(made, loaded, "" if classifier is None else os.fspath(classifier), where)
        if figures is not None:
            write_json(partial / FIGURES, figures)
        record = config_of(partial / EXPLAINER) if trained else {}
        options = made.options or record.get("options", {})
        write_text(partial / CARD, card(Facts(made.info, made.explainer.signed, options or {}, record, facts, figures)))
        _check_names(partial)
        manifest = Manifest(
            format=FORMAT,
            explearn=explearn_version(),
            method=made.info.name,
            trained=trained,
            options=dict(made.options),
            classifier=facts,
            files=facts_of(partial),
        )
        write_json(partial / MANIFEST, manifest.model_dump(mode="json"))
    return out


def _make(method: str | None, folder: Path | None, options: Mapping[str, Any]) -> _Made:
    """The method, made as a reader of the bundle will make it."""
    if folder is None and method is None:
        raise ParamsError("got neither a method nor a trained explainer; expected one of them to put into the bundle")
    if folder is not None and not is_folder(folder):
        raise ModelError(f"{folder}: no such folder; expected that of a trained explainer")
    if folder is not None and is_bundle(folder):
        raise ModelError(f"{folder}: is a bundle already; expected the folder of a trained explainer")
    name = method or method_of(folder or Path())
    info = get_info(name)
    if folder is None and info.learned and not info.ready:
        raise ParamsError(f"{name!r} is trained; expected the folder of a trained one (--explainer)")
    made = make_explainer(info, options, None if folder is None else str(folder))
    if folder is not None and not issubclass(explainer_class(name), RefiningExplainer):
        return _Made(info, made, {}, folder)
    if info.ready:
        return _Made(info, made, {}, None)
    return _Made(info, made, made.options.model_dump(mode="json"), folder)


def _figures(path: Path, task: str | None, method: str) -> dict[str, Any]:
    """What bundles keep of a run's metrics: the figures of one method on one task."""
    found = read_json(path)
    tasks = found.get("tasks") if isinstance(found, dict) else None
    if not isinstance(tasks, dict) or not tasks or not all(isinstance(rows, dict) for rows in tasks.values()):
        raise DataError(f"{path}: holds no figures by task; expected a run's reports/metrics.json")
    if task is None and len(tasks) > 1:
        raise ParamsError(f"task: got none; expected one of {', '.join(tasks)}, which {path} has figures of")
    task = next(iter(tasks)) if task is None else task
    if task not in tasks:
        raise UnknownNameError(f"task in {path}", task, tasks)
    if not isinstance(tasks[task].get(method), dict):
        raise UnknownNameError(f"method in {path}, task {task!r},", method, tasks[task])
    return {"task": task, "method": method, "figures": tasks[task][method]}


def _loaded(name: str, made: _Made) -> Classifier:
    """The classifier, after a check that the explainer can explain it and belongs to it."""
    loaded = Classifier.from_pretrained(name, device="cpu")
    if made.folder is not None:
        check_trained_for(made.folder, loaded)
    made.explainer.check_explains(loaded)
    return loaded


def _write_explainer(target: Path, made: _Made) -> bool:
    """Write what is trained of a method; False where nothing is.

    Of a method that comes with weights these are written too: other versions of Explearn may come with others.
    """
    if made.folder is None:
        if not (made.info.ready and isinstance(made.explainer, LearnedExplainer)):
            return False
        made.explainer.save_pretrained(target)
        return True
    for path in files_in(made.folder):
        name = path.relative_to(made.folder)
        if not path.is_file() or not may_hold(f"{EXPLAINER}/{name.as_posix()}"):
            raise ModelError(f"{path}: cannot go into a bundle, which holds .json and .safetensors files; remove it")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
    return True


def _write_classifier(target: Path, name: str, loaded: Classifier) -> None:
    """Write model and tokenizer as safetensors and JSON, whatever they were read from."""
    found = load_trained(name)
    found.tokenizer.chat_template = None  # a file of another kind, which no classifier reads
    found.model.save_pretrained(target)
    found.tokenizer.save_pretrained(target)
    if found.completion is not None:
        found.completion.save(target)
    if Classifier.from_pretrained(target, device="cpu").fingerprint != loaded.fingerprint:
        raise ModelError(f"{name}: saved and read again it has other weights; it cannot go into a bundle")


def _facts(made: _Made, loaded: Classifier | None, given: str, where: Any) -> ClassifierFacts | None:
    if loaded is None:
        bound = None if made.folder is None else trained_for(made.folder)
        return None if bound is None else ClassifierFacts(fingerprint=bound)
    return ClassifierFacts(
        fingerprint=loaded.fingerprint,
        # Of a folder the last part: where it is on this machine is nobody's business.
        name=Path(given).resolve().name if is_folder(given) else given,
        architecture=str(loaded.model.config.model_type),
        labels=list(loaded.labels),
        folder=where,
    )


def _check_names(partial: Path) -> None:
    for path in files_in(partial):
        name = path.relative_to(partial).as_posix()
        if not may_hold(name):
            raise ModelError(f"{name}: cannot go into a bundle, which holds .json and .safetensors files alone")
