"""`explearn.load`: a bundle, from a folder or from the hub, ready to explain."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, overload

from explearn.bundle.hub import fetch, push
from explearn.bundle.making import Opened, is_method, method_of, open_bundle
from explearn.bundle.manifest import FIGURES, Manifest, is_bundle
from explearn.core.compute import ComputeOptions
from explearn.core.documents import is_folder, kind_of, name_of, read_json
from explearn.core.errors import ModelError, ParamsError, UnknownNameError
from explearn.core.records import Attribution
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import Target
from explearn.methods.registry import get_explainer
from explearn.model.classifier import Classifier
from explearn.model.reading import Text


class Bundle:
    """An explainer with what it was made for.

    Attributes:
        explainer: the method, trained where it learns.
        classifier: its classifier; None where the bundle holds none.
        manifest: what the bundle says of itself.
        folder: where it is.
    """

    def __init__(self, opened: Opened, explainer: Explainer, classifier: Classifier | None) -> None:
        self._opened = opened
        self.explainer = explainer
        self.classifier = classifier

    @property
    def folder(self) -> Path:
        return self._opened.folder

    @property
    def manifest(self) -> Manifest:
        return self._opened.manifest

    @property
    def metrics(self) -> dict[str, Any] | None:
        """`task`, `method` and `figures` (name -> value), as they were given to the export; None where none were."""
        if FIGURES not in self.manifest.files:
            return None
        found: dict[str, Any] = read_json(self.folder / FIGURES)
        return found

    @overload
    def explain(
        self,
        texts: Iterable[Text],
        /,
        *,
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
    ) -> Iterator[Attribution]: ...

    @overload
    def explain(
        self,
        classifier: Classifier,
        texts: Iterable[Text],
        /,
        *,
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
    ) -> Iterator[Attribution]: ...

    def explain(self, *given: Any, **options: Any) -> Iterator[Attribution]:
        """Explain texts by `explain(texts)`, or by `explain(classifier, texts)` where the bundle holds no classifier.

        Otherwise as `Explainer.explain`, and it raises what that raises; ModelError for another classifier than the
        bundle was made for, ParamsError where there is none.
        """
        if len(given) not in (1, 2):
            raise ParamsError(f"explain: got {len(given)} arguments; expected texts, or a classifier and texts")
        classifier = self.classifier if len(given) == 1 else given[0]
        if classifier is None:
            raise ParamsError(
                f"{self.folder}: holds no classifier; expected explain(classifier, texts), with the one it was made for"
            )
        if len(given) == 2:
            if not isinstance(classifier, Classifier):
                raise ParamsError(f"explain: got {kind_of(classifier)} as the classifier; expected a Classifier")
            self._opened.check_classifier(classifier)
        return self.explainer.explain(classifier, given[-1], **options)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        revision: str | None = None,
        message: str = "Bundle of Explearn",
    ) -> str:
        """Put the bundle on the Hugging Face hub, in one commit; returns the repository's address.

        The token comes from the environment variable HF_TOKEN.

        Args:
            repo_id: OWNER/NAME; made where there is none, an earlier bundle there is replaced.
            private: of a new repository (default: as the owner's settings say).
            revision: branch to write to (default: main).
            message: of the commit.

        Raises ModelError where a file has changed since the bundle was loaded, or the hub refuses; ParamsError where
        there is no token.
        """
        return push(open_bundle(self.folder), repo_id, private, revision, message)

    def __repr__(self) -> str:
        holds = "" if self.classifier is None else " with its classifier"
        return f"Bundle({self.manifest.method}{holds}, {self.folder})"


def load(
    source: str | os.PathLike[str],
    compute: ComputeOptions | None = None,
    revision: str | None = None,
    **options: Any,
) -> Bundle:
    """Load a bundle that `explearn export` wrote.

    Args:
        source: a folder, or the hub name (OWNER/NAME) of one that `push_to_hub` put there.
        compute: compute options of its classifier; or give their fields as keyword arguments (device="cuda").
        revision: git revision of a hub name.

    Raises ModelError, naming the file, where one is missing or has changed; for a newer format, a method that is not
    known here, and a classifier whose fingerprint is another's. ParamsError for an argument of another kind.
    """
    if compute is not None and not isinstance(compute, ComputeOptions):
        raise ParamsError(f"compute: got {kind_of(compute)}; expected ComputeOptions")
    if unknown := set(options) - {field.name for field in fields(ComputeOptions)}:
        raise UnknownNameError("option of load", min(unknown), [field.name for field in fields(ComputeOptions)])
    opened = open_bundle(_folder(name_of(source, "source"), revision))
    explainer = opened.explainer()
    classifier = None
    if (folder := opened.classifier_folder) is not None:
        classifier = Classifier.from_pretrained(folder, replace(compute or ComputeOptions(), **options))
        opened.check_classifier(classifier)
        explainer.check_explains(classifier)
    return Bundle(opened, explainer, classifier)


def _folder(name: str, revision: str | None) -> Path:
    """Where a bundle is, fetched where `name` can only be a hub name."""
    if is_folder(name):
        return Path(name)
    # What can only be a folder is not looked up on the hub, nor is NAME/NAME where the first is a folder here.
    owner, _, rest = name.partition("/")
    if not owner or not rest or "/" in rest or name.startswith((".", "~")) or is_folder(owner):
        raise ModelError(f"{name}: no such folder; expected a bundle that explearn export wrote, or OWNER/NAME")
    return fetch(name, revision)


def find_explainer(source: str | os.PathLike[str], **options: Any) -> tuple[Explainer, Opened | None]:
    """The explainer of a method's name, a trained one's folder, a bundle's folder or hub name; and the bundle.

    Args:
        options: of a method that is not trained.

    Raises UnknownNameError for a name that is none of these, ParamsError for options of what comes with its own; what
    `get_explainer` and `open_bundle` raise.
    """
    name = name_of(source, "explainer")
    if is_method(name):
        return get_explainer(name, **options), None
    folder = Path(name)
    if is_folder(folder) and not is_bundle(folder):
        return get_explainer(method_of(folder), path=name, **options), None
    if not is_folder(folder) and "/" not in name:
        return get_explainer(name, **options), None
    if options:
        raise ParamsError(f"options {', '.join(options)} come with the bundle {name}; give no others")
    opened = open_bundle(_folder(name, None))
    return opened.explainer(), opened
