"""Explainers from what a user has: a method's name, the folder or bundle of a trained explainer, or only a classifier.

`index.json` names all methods, so that an unknown name is told before torch is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.bundles import (
    CLASSIFIER,
    EXPLAINER,
    MANIFEST,
    checked_manifest,
    is_bundle,
    read_config,
    read_manifest,
)
from explearn.core.documents import PathLike, checked_path, is_folder
from explearn.core.errors import ModelError, ParamsError, UnknownNameError, UnsupportedError, kind_of, shown
from explearn.methods.info import MethodInfo
from explearn.methods.registry import explainer_class, get_explainer, get_info, known_infos, list_explainers

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer
    from explearn.predictors.predictor import Predictor


def find_explainer(
    source: PathLike | Explainer | None,
    options: Mapping[str, Any] | None = None,
    *,
    classifier: Predictor | None = None,
    seed: int | None = None,
    method: str | None = None,
) -> Explainer:
    """Return the explainer that something stands for, ready to explain.

    Args:
        source: the name of a method or variant; the folder of a trained explainer; a bundle (folder or hub name); an
            explainer; or None, for the first default method that can explain the classifier.
        options: options of the method. Training and bundles fix theirs, but for those that `later` of its facts names.
        classifier: the classifier, which a default is chosen for.
        seed: seed of a named or default method that draws at random, if the options have none.
        method: method that explains with what a folder holds. None: the one that was trained.

    Raises:
        UnknownNameError: there is no such method; the message suggests similar names.
        ParamsError: an option cannot be set, a method needs training, or the source is something else.
        ModelError: a folder or bundle cannot be used.
        UnsupportedError: no default can explain the classifier.

    Example:
        >>> find_explainer("lime", {"samples": 100}, seed=3)
        lime(samples=100, seed=3)
    """
    options = options or {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise ParamsError(f"options: got {shown(options)}; expected names with values, such as {{'samples': 100}}")
    if isinstance(source, str) and source in list_explainers():
        info = get_info(source)
        if info.untrained:
            raise ParamsError(
                f"method: {source!r} needs training (`explearn train`); expected the folder of a trained "
                f"{info.base or source} (--explainer FOLDER, or explearn.load(FOLDER))"
            )
        return get_explainer(source, **seeded(source, options, seed))
    if isinstance(source, str) and "/" not in source and not is_folder(source):
        raise UnknownNameError("method", source, list_explainers())
    if isinstance(source, str | os.PathLike):
        return _load(fetched(source), options, method)
    if options:
        raise ParamsError(f"options: got {', '.join(options)}; expected the name of their method, too")
    if source is None and classifier is not None:
        return _default(classifier, seed)
    from explearn.methods.base.explainer import Explainer

    if not isinstance(source, Explainer):
        raise ParamsError(f"method: got {kind_of(source)}; expected a name or an explainer, or a list of them")
    return source


def listed_methods(sources: Any) -> list[str | Explainer]:
    """Return rosters and methods by name, and explainers in place of folders and bundles.

    Args:
        sources: rosters, and what `find_explainer` takes, as a list; names may be separated by commas instead.

    Raises:
        UnknownNameError: there is no such method.
        ParamsError: there is none, one needs training, or something is neither name nor explainer.
        ModelError: a folder or bundle cannot be used.
    """
    from explearn.methods.defaults import ROSTERS

    listed = sources
    if isinstance(sources, str):
        listed = [name.strip() for name in sources.split(",")]
    elif not isinstance(sources, list | tuple):
        listed = [sources]
    if not listed:
        raise ParamsError(f"methods: got none; expected {', '.join(ROSTERS)}, names of methods or explainers")
    methods: list[str | Explainer] = []
    for source in listed:
        if isinstance(source, str) and source in ROSTERS:
            methods.append(source)
            continue
        explainer = find_explainer(source)
        by_name = isinstance(source, str) and source in list_explainers()
        methods.append(source if by_name else explainer)
    return methods


def find_explainers(sources: Any, seed: int, classifier: Predictor | None = None) -> dict[str, Explainer]:
    """Return several explainers by name, in the order in which a comparison tries them.

    Quick methods come first, among them the defaults of `compare`; explainers that are given, and those of folders,
    come last. A named method takes its options in the roster light, else its defaults.

    Args:
        sources: as for `listed_methods`.
        seed: seed of methods that draw at random.
        classifier: the classifier, for whose kind rosters are made. None: a transformer.

    Raises:
        ParamsError: a method is named twice, or as by `listed_methods`.
        UnknownNameError: as by `listed_methods`.
        ModelError: likewise.

    Example:
        >>> list(find_explainers("gae,quick", seed=13))
        ['random', 'consensus', 'attn_lrp', 'attcat', 'gae']
    """
    from explearn.methods.defaults import ROSTERS, defaults, roster

    by_predictions = classifier is not None and classifier.transformer is None
    names = []
    chosen: dict[str, Mapping[str, Any]] = {}
    given = {}
    for source in listed_methods(sources):
        if not isinstance(source, str):
            given[source.name] = source
            names.append(source.name)
            continue
        names.append(source)
        if source not in ROSTERS:
            chosen[source] = ROSTERS["light"].get(source, {})
            continue
        if not by_predictions:
            chosen.update((info.name, {}) for info in known_infos() if info.ready)
        chosen |= roster(source, by_predictions)
    if len(set(names)) < len(names):
        raise ParamsError(f"methods: got {', '.join(names)}; expected each once")
    first = [default.method for default in defaults("compare")]
    order = sorted(chosen, key=lambda name: (get_info(name).costly, first.index(name) if name in first else len(first)))
    return {name: find_explainer(name, chosen[name], seed=seed) for name in order} | given


def seeded(method: str, options: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """Return a method's options, with the seed if the method draws at random and they have none."""
    if seed is None or "seed" not in explainer_class(method).Options.model_fields:
        return dict(options)
    return {"seed": seed, **options}


def _default(classifier: Predictor, seed: int | None) -> Explainer:
    """Return the first default that can explain a classifier.

    Raises:
        UnsupportedError: none can.
    """
    from explearn.methods.defaults import Use, defaults  # the stages of a run, which take none, do not depend on them

    use: Use = "explain"
    if classifier.costs_money:
        use = "paid"
    elif classifier.compares_texts:
        use = "similarity"
    for default in defaults(use):
        explainer = get_explainer(default.method, **seeded(default.method, default.options, seed))
        try:
            explainer.check_explains(classifier)
        except UnsupportedError as error:
            reason = error
        else:
            return explainer
    raise reason


# ---- folders and bundles ---------------------------------------------------------------------------------------------


def load(path: PathLike, method: str | None = None, *, revision: str | None = None, **options: Any) -> Explainer:
    """Load a trained explainer, or that of a bundle, whose files are then checked against its manifest.

    Args:
        path: folder of a trained explainer or of a bundle, or a bundle's hub name (OWNER/NAME).
        method: method that explains with what was trained, if there are several: `paml` or `faml`. None: the method
            that was trained.
        revision: branch, tag or commit of a hub name. None: main.
        options: options of a trained explainer that can be chosen after training, such as `aim` of `reader`.

    Returns:
        The explainer. Its `folder`, `made_for` and `classifier_folder` say where it and its classifier are.

    Raises:
        ModelError: there is no such explainer or bundle, a file is missing or has changed, or this version does not
            have the method.
        ParamsError: an option is fixed by training, or by the bundle.

    Example:
        >>> import explearn
        >>> explearn.load(explearn.export("my-bundle", method="gae")).name
        'gae'
    """
    return _load(fetched(path, revision), options, method)


def _load(folder: Path, options: Mapping[str, Any], method: str | None) -> Explainer:
    """Return the explainer in a folder; see `find_explainer`."""
    if is_bundle(folder):
        explainer = _of_bundle(folder, options, method)
    else:
        explainer = _trained(folder, get_info(method or method_in(folder)), options)
    explainer.folder = folder
    for place in (CLASSIFIER, f"{EXPLAINER}/{CLASSIFIER}"):
        if (folder / place).is_dir():
            explainer.classifier_folder = folder / place
    return explainer


def _of_bundle(folder: Path, options: Mapping[str, Any], method: str | None) -> Explainer:
    """Return the explainer of a bundle.

    Raises:
        ModelError: a file differs from the manifest, or this version does not have the method or its options.
        ParamsError: an option or a method that the bundle fixes.
    """
    manifest = checked_manifest(folder)
    before = f"{folder}, made with Explearn {manifest.explearn}: "
    if manifest.method not in list_explainers():
        raise ModelError(f"{before}{UnknownNameError('method', manifest.method, list_explainers())}")
    info = get_info(manifest.method)
    fixed = [name for name in options if name not in info.later]
    if method not in (None, info.name):
        fixed.append("method")
    if fixed:
        raise ParamsError(f"options: got {', '.join(fixed)}; the bundle {folder} fixes these options")
    try:
        if manifest.trained:
            explainer = _trained(folder / EXPLAINER, info, {**manifest.options, **options})
        else:
            explainer = get_explainer(info.name, **manifest.options)
    except ParamsError as error:
        raise ModelError(f"{before}{error}") from error
    explainer.made_for = manifest.classifier
    return explainer


def _trained(folder: Path, info: MethodInfo, options: Mapping[str, Any]) -> Explainer:
    """Return a method with what was trained in a folder, by itself or, for a refining method, by its base."""
    cls: Any = explainer_class(info.name)
    if not info.learned:
        raise ParamsError(f"method {info.name!r} needs no training; it has nothing to load from {folder}")
    if info.base is not None:
        options = {**info.defaults, **options}
    elif fixed := [name for name in options if name not in info.later]:
        raise ParamsError(f"options: got {', '.join(fixed)}; the trained explainer in {folder} fixes these options")
    explainer: Explainer = cls.from_pretrained(folder, **options)
    explainer.name = info.name
    return explainer


def method_in(folder: Path) -> str:
    """Return the name of the method of a bundle, or of the method or variant that was trained in a folder.

    Raises:
        ModelError: there is no such folder, or no method fits, or more than one.
    """
    if is_bundle(folder):
        return read_manifest(folder).method
    if not is_folder(folder):
        raise ModelError(f"{folder}: no such folder; expected that of a trained explainer or a bundle")
    config = read_config(folder)
    fitting = []
    for info in known_infos():
        is_class = info.target.endswith(f":{config['explainer']}")
        if is_class and info.defaults.items() <= config["options"].items():
            fitting.append(info)
    methods = sorted({info.of or info.name for info in fitting})
    if len(methods) != 1:
        raise ModelError(
            f"{folder}: holds a {config['explainer']!r}, a class of {', '.join(methods) or 'no method'}; expected one "
            "method"
        )
    # The variant with the saved options, if there is one.
    return max(fitting, key=lambda info: len(info.defaults)).name


def fetched(path: PathLike, revision: str | None = None) -> Path:
    """Return a folder. If the path can only be a hub name, the files in the bundle's manifest are downloaded.

    Args:
        path: a folder, or a hub name (OWNER/NAME).
        revision: branch, tag or commit of a hub name. None: main.

    Raises:
        ModelError: there is no such bundle, it cannot be reached, or its manifest cannot be used.
    """
    name = checked_path(path, "path")
    if is_folder(name) or "/" not in name:
        return Path(name)
    from explearn.predictors.loading import check_place, hub_errors, may_be_on_hub  # brings torch

    if not may_be_on_hub(name):
        return Path(name)
    check_place(name)
    from huggingface_hub import hf_hub_download, snapshot_download

    with hub_errors(f"{name}: cannot be fetched as a bundle"):
        first = Path(hf_hub_download(name, MANIFEST, revision=revision)).parent
        files = read_manifest(first).files
        # The cache names a snapshot after its commit: all files are those of one.
        return Path(snapshot_download(name, revision=first.name, allow_patterns=[MANIFEST, *files]))
