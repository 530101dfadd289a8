"""`explearn.load`: a bundle from a folder or the hub, ready to explain; and explainers by any name or folder.

The token for writing to the hub comes only from the environment (HF_TOKEN). It is never written, logged or shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
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
from explearn.core.arguments import path_of
from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.documents import is_folder, read_json
from explearn.core.errors import ModelError, ParamsError, UnknownNameError, kind_of
from explearn.methods.base.explainer import Explainer
from explearn.methods.registry import get_explainer, get_info, known_infos, make_explainer
from explearn.predictors.loading import hub_errors, may_be_on_hub
from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor

TOKEN = "HF_TOKEN"


class Bundle:
    """A loaded bundle: an explainer, and the classifier that it was made for.

    Attributes:
        folder: the bundle's folder, whose files match its manifest.
        manifest: content of its manifest.
        classifier: its classifier; None if the bundle has none, or was opened without it.
    """

    def __init__(self, folder: Path, manifest: BundleManifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.classifier: TransformerPredictor | None = None

    @cached_property
    def explainer(self) -> Explainer:
        """The explainer.

        Raises ModelError if this version does not have the method or its options.
        """
        path = None if self.explainer_folder is None else str(self.explainer_folder)
        try:
            return make_explainer(get_info(self.manifest.method), self.manifest.options, path)
        except (UnknownNameError, ParamsError) as error:
            raise ModelError(f"{self.folder}, made with Explearn {self.manifest.explearn}: {error}") from error

    @property
    def explainer_folder(self) -> Path | None:
        return self.folder / EXPLAINER if self.manifest.trained else None

    @property
    def classifier_folder(self) -> Path | None:
        facts = self.manifest.classifier
        return None if facts is None or facts.folder is None else self.folder / facts.folder

    @property
    def metrics(self) -> dict[str, Any] | None:
        """`task`, `method` and `figures` (name -> value) that were passed to the export, if any."""
        return dict(read_json(self.folder / FIGURES)) if FIGURES in self.manifest.files else None

    def check_classifier(self, classifier: TransformerPredictor) -> None:
        """Raise ModelError unless the bundle was made for this classifier, or for any."""
        facts = self.manifest.classifier
        if facts is not None and classifier.fingerprint != facts.fingerprint:
            name = f" ({facts.name})" if facts.name else ""
            raise ModelError(
                f"{self.folder}: made for the classifier with fingerprint {facts.fingerprint[:12]}{name}, but "
                f"{classifier.name or 'this one'} has {classifier.fingerprint[:12]}; expected the same weights "
                "and labels"
            )

    def explain(self, *given: Any, **options: Any) -> Iterator[Attribution]:
        """Explain texts by `explain(texts)`, or by `explain(classifier, texts)` if the bundle has no classifier.

        Otherwise works and raises as `Explainer.explain`; also raises ModelError for a classifier that the bundle was
        not made for, ParamsError if there is none.
        """
        *classifiers, texts = given
        classifier = classifiers[0] if classifiers else self.classifier
        if classifier is None:
            raise ParamsError(
                f"{self.folder}: holds no classifier; expected explain(classifier, texts), with the one it was made for"
            )
        if not isinstance(classifier, TransformerPredictor):
            raise ParamsError(f"explain: got {kind_of(classifier)} as the classifier; expected a Classifier")
        if classifiers:
            self.check_classifier(classifier)
        return self.explainer.explain(classifier, texts, **options)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None) -> str:
        """Upload the bundle to the Hugging Face hub in one commit; return the repository's address.

        The token comes from the environment variable HF_TOKEN.

        Args:
            repo_id: OWNER/NAME; the repository is created if it does not exist, an earlier bundle there is replaced.
            private: whether a new repository is private (default: the owner's settings).

        Raises ModelError if a file has changed since the bundle was loaded, or the hub refuses; ParamsError without a
        token.
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
        holds = "" if self.classifier is None else " with its classifier"
        return f"Bundle({self.manifest.method}{holds}, {self.folder})"


def open_bundle(folder: str | os.PathLike[str]) -> Bundle:
    """Open a bundle, checking its manifest and files, without loading its classifier.

    Raises ModelError as `read_manifest` does, and for the first of `differences`.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    for difference in differences(folder, manifest):
        raise ModelError(difference)
    return Bundle(folder, manifest)


def load(
    source: str | os.PathLike[str],
    compute: ComputeOptions | None = None,
    revision: str | None = None,
    **options: Any,
) -> Bundle:
    """Load a bundle that `explearn export` wrote.

    Args:
        source: a folder, or a hub name (OWNER/NAME).
        compute: compute options of its classifier; or pass their fields as keyword arguments (device="cuda").
        revision: git revision of a hub name.

    Raises ModelError for a missing or changed file, a newer format, a method unknown to this version, and a classifier
    with another fingerprint.
    """
    bundle = open_bundle(_fetched(path_of("source", source), revision))
    compute = replace(compute or ComputeOptions(), **options)
    explainer = bundle.explainer
    if bundle.classifier_folder is not None:
        bundle.classifier = load_classifier(bundle.classifier_folder, compute)
        bundle.check_classifier(bundle.classifier)
        explainer.check_explains(bundle.classifier)
    return bundle


def _fetched(name: str, revision: str | None = None) -> Path:
    """Return the folder of a bundle, downloading it if `name` can only be a hub name."""
    return fetch(name, revision) if not is_folder(name) and "/" in name and may_be_on_hub(name) else Path(name)


def fetch(name: str, revision: str | None = None) -> Path:
    """Download the files named in a bundle's manifest to the hub's cache; return their folder.

    Args:
        name: the repository, OWNER/NAME.
        revision: branch, tag or commit (default: main).

    Raises ModelError if there is no such bundle, it cannot be reached, or its manifest cannot be used.
    """
    from huggingface_hub import hf_hub_download, snapshot_download

    with hub_errors(f"{name}: cannot be fetched as a bundle"):
        first = Path(hf_hub_download(name, MANIFEST, revision=revision)).parent
        files = read_manifest(first).files
        # The cache names a snapshot after its commit: all files are those of one.
        return Path(snapshot_download(name, revision=first.name, allow_patterns=[MANIFEST, *files]))


# ---- explainers by any name ------------------------------------------------------------------------------------------


def find_explainer(source: str | os.PathLike[str], **options: Any) -> tuple[Explainer, Bundle | None]:
    """Return an explainer from a method's name, a trained explainer's folder, or a bundle (folder or hub); and the
    bundle.

    Args:
        options: options of an untrained method.

    Raises UnknownNameError for any other name, ParamsError for options that the source fixes, and the errors of
    `get_explainer` and `open_bundle`.
    """
    name = path_of("source", source)
    is_method = any(info.name == name for info in known_infos())
    if is_folder(name) and not is_method and not is_bundle(Path(name)):
        return get_explainer(method_of(Path(name)), path=name, **options), None
    if is_method or (not is_folder(name) and "/" not in name):
        return get_explainer(name, **options), None
    if options:
        raise ParamsError(f"options: got {', '.join(options)}; the bundle {name} fixes these options")
    bundle = open_bundle(_fetched(name))
    return bundle.explainer, bundle


def method_of(folder: Path) -> str:
    """Return the name of the method, or of the variant with the saved options, that was trained in a folder.

    Raises ModelError if no method fits, or more than one.
    """
    config = config_of(folder)
    of_class = [info for info in known_infos() if info.target.endswith(f":{config['explainer']}")]
    fitting = [info for info in of_class if info.defaults.items() <= config["options"].items()]
    methods = {info.of or info.name for info in fitting}
    if len(methods) != 1:
        having = f"the methods {', '.join(sorted(methods))} have" if methods else "no method here has"
        raise ModelError(f"{folder}: holds a {config['explainer']!r}, a class that {having}; expected one method")
    return max(fitting, key=lambda info: len(info.defaults)).name
