"""Bundles from a folder or the hub, ready to explain; and explainers by any name or folder.

The token for writing to the hub comes only from the environment (HF_TOKEN). It is never written, logged or shown.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from explearn.bundle.manifest import (
    CLASSIFIER,
    EXPLAINER,
    FIGURES,
    MANIFEST,
    BundleManifest,
    config_of,
    differences,
    is_bundle,
    read_manifest,
)
from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike, is_folder, read_json
from explearn.core.errors import ModelError, ParamsError, UnknownNameError, kind_of
from explearn.methods.base.explainer import Explainer
from explearn.methods.registry import get_explainer, get_info, known_infos, make_explainer
from explearn.predictors.loading import hub_errors, may_be_on_hub
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier

TOKEN = "HF_TOKEN"


class Bundle:
    """A loaded bundle: an explainer, and the classifier that it was made for (`explearn.load`).

    Attributes:
        folder: the bundle's folder, whose files match its manifest.
        manifest: content of its manifest.
        classifier: its classifier; None if the bundle has none, or was opened without it.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> bundle = explearn.load(explearn.export("shared-bundle", method="gae"))
        >>> [attribution.method for attribution in bundle.explain(make_classifier(), ["a lazy fox"])]
        ['gae']
    """

    def __init__(self, folder: Path, manifest: BundleManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.classifier: Predictor | None = None

    @cached_property
    def explainer(self) -> Explainer:
        """The explainer.

        Raises:
            ModelError: this version does not have the method or its options.
        """
        folder = str(self.explainer_folder) if self.explainer_folder else None
        try:
            return make_explainer(get_info(self.manifest.method), self.manifest.options, folder)
        except (UnknownNameError, ParamsError) as error:
            raise ModelError(f"{self.folder}, made with Explearn {self.manifest.explearn}: {error}") from error

    @property
    def explainer_folder(self) -> Path | None:
        """The folder of its trained explainer; None if its method needs no training."""
        return self.folder / EXPLAINER if self.manifest.trained else None

    @property
    def classifier_folder(self) -> Path | None:
        """The folder of its classifier; None if the bundle does not contain it."""
        facts = self.manifest.classifier
        if facts is None or facts.folder is None:
            return None
        return self.folder / facts.folder

    @property
    def metrics(self) -> dict[str, Any] | None:
        """The figures that were passed to the export, if any: `task`, `method` and `figures` (name -> value)."""
        if FIGURES not in self.manifest.files:
            return None
        return dict(read_json(self.folder / FIGURES))

    def check_classifier(self, classifier: Predictor) -> None:
        """Raise ModelError unless the bundle was made for this classifier, or for any.

        Args:
            classifier: the classifier.
        """
        facts = self.manifest.classifier
        if facts is not None and classifier.fingerprint != facts.fingerprint:
            made_for = facts.fingerprint[:12]
            if facts.name:
                made_for += f" ({facts.name})"
            raise ModelError(
                f"{self.folder}: made for the classifier with fingerprint {made_for}, but "
                f"{classifier.name or 'this one'} has {classifier.fingerprint[:12]}; expected the same weights "
                "and labels"
            )

    def load_classifier(self, compute: ComputeOptions | None = None) -> None:
        """Load the classifier that the bundle contains, if it does.

        Args:
            compute: compute options.

        Raises:
            ModelError: it has another fingerprint.
        """
        if self.classifier_folder is not None:
            self.classifier = load_classifier(self.classifier_folder, compute)
            self.check_classifier(self.classifier)
            self.explainer.check_explains(self.classifier)

    def explain(self, *arguments: Any, **options: Any) -> list[Attribution]:
        """Explain texts by `explain(texts)`, or by `explain(classifier, texts)` if the bundle has no classifier.

        Args:
            arguments: the texts, with the classifier before them or not.
            options: as for `Explainer.explain`.

        Returns:
            What `Explainer.explain` returns.

        Raises:
            ModelError: the bundle was made for another classifier.
            ParamsError: there is no classifier.
        """
        *classifiers, texts = arguments
        (classifier,) = classifiers or [self.classifier]
        if classifier is None:
            raise ParamsError(
                f"{self.folder}: holds no classifier; expected explain(classifier, texts), with the one it was made for"
            )
        if not isinstance(classifier, Predictor):
            raise ParamsError(f"explain: got {kind_of(classifier)} as the classifier; expected a predictor")
        if classifiers:
            self.check_classifier(classifier)
        return self.explainer.explain(classifier, texts, **options)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None) -> str:
        """Upload the bundle to the Hugging Face hub in one commit; return the repository's address.

        The token comes from the environment variable HF_TOKEN.

        Args:
            repo_id: OWNER/NAME; the repository is created if it does not exist, an earlier bundle there is replaced.
            private: whether a new repository is private. None: as the owner's settings say.

        Raises:
            ModelError: a file has changed since the bundle was loaded, or the hub refuses.
            ParamsError: there is no token.
        """
        manifest = open_bundle(self.folder).manifest
        token = os.environ.get(TOKEN, "").strip()
        if not (token and token.isascii()):
            raise ParamsError(f"{TOKEN}: not set or not ASCII; expected a token with write access, in the environment")
        from huggingface_hub import HfApi

        with hub_errors(f"{repo_id}: the bundle cannot be uploaded", token):
            api = HfApi(token=token)
            address = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=address.repo_id,
                folder_path=self.folder,
                commit_message="Bundle of Explearn",
                allow_patterns=[MANIFEST, *manifest.files],
                delete_patterns=[f"{EXPLAINER}/*", f"{CLASSIFIER}/*", FIGURES],
            )
        return str(address)

    def __repr__(self) -> str:
        name = None if self.classifier is None else self.classifier.name
        return f"Bundle(method={self.manifest.method!r}, classifier={name!r}, folder={str(self.folder)!r})"


def open_bundle(folder: PathLike) -> Bundle:
    """Open a bundle, checking its manifest and files, without loading its classifier.

    Raises:
        ModelError: the manifest cannot be used, or a file differs from it.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    for difference in differences(folder, manifest):
        raise ModelError(difference)
    return Bundle(folder, manifest)


def fetched(name: str, revision: str | None = None) -> Path:
    """Return a folder. If the name can only be a hub name, the files in the bundle's manifest are downloaded.

    Args:
        name: a folder, or a hub name (OWNER/NAME).
        revision: branch, tag or commit of a hub name. None: main.

    Raises:
        ModelError: there is no such bundle, it cannot be reached, or its manifest cannot be used.
    """
    if is_folder(name) or "/" not in name or not may_be_on_hub(name):
        return Path(name)
    from huggingface_hub import hf_hub_download, snapshot_download

    with hub_errors(f"{name}: cannot be fetched as a bundle"):
        first = Path(hf_hub_download(name, MANIFEST, revision=revision)).parent
        files = read_manifest(first).files
        # The cache names a snapshot after its commit: all files are those of one.
        return Path(snapshot_download(name, revision=first.name, allow_patterns=[MANIFEST, *files]))


# ---- explainers by any name ------------------------------------------------------------------------------------------


def find_explainer(source: PathLike, **options: Any) -> tuple[Explainer, Bundle | None]:
    """Return an explainer, and the bundle that it comes from, if any.

    Args:
        source: a method's name, a trained explainer's folder, or a bundle (folder or hub name).
        options: options of an untrained method.

    Raises:
        UnknownNameError: any other name.
        ParamsError: an option that the source fixes.
        ModelError: an explainer or a bundle that cannot be used.
    """
    name = os.fspath(source)
    is_method = any(info.name == name for info in known_infos())
    if is_method or (not is_folder(name) and "/" not in name):
        return get_explainer(name, **options), None
    return explainer_in(fetched(name), options)


def explainer_in(
    folder: Path, options: Mapping[str, Any], method: str | None = None
) -> tuple[Explainer, Bundle | None]:
    """Return the explainer in a folder where one was trained, or in a bundle, and the bundle.

    Args:
        folder: the folder.
        options: options of a trained explainer that can still be chosen.
        method: the method that uses what was trained. None: the one that was trained.

    Raises:
        ParamsError: an option that the folder fixes.
        ModelError: an explainer or a bundle that cannot be used.
    """
    if is_folder(folder) and not is_bundle(folder):
        return make_explainer(get_info(method or method_of(folder)), options, str(folder)), None
    fixed = [*options]
    if method is not None:
        fixed.append("method")
    if fixed:
        raise ParamsError(f"options: got {', '.join(fixed)}; the bundle {folder} fixes these options")
    bundle = open_bundle(folder)
    return bundle.explainer, bundle


def method_of(folder: Path) -> str:
    """Return the name of the method, or of the variant with the saved options, that was trained in a folder.

    Raises:
        ModelError: no method fits, or more than one.
    """
    config = config_of(folder)
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
    return max(fitting, key=lambda info: len(info.defaults)).name
