"""The explainer that a name, a folder of a trained one, or a bundle stands for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.bundle.manifest import EXPLAINER, Manifest, check_files, config_of, read_manifest
from explearn.core.documents import is_folder
from explearn.core.errors import ModelError, ParamsError, UnknownNameError
from explearn.core.version import explearn_version
from explearn.methods.registry import get_info, known_infos, make_explainer

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer
    from explearn.model.classifier import Classifier


@dataclass(frozen=True, slots=True)
class Opened:
    """A bundle on disk whose files are those of its manifest."""

    folder: Path
    manifest: Manifest

    @property
    def explainer_folder(self) -> Path | None:
        return self.folder / EXPLAINER if self.manifest.trained else None

    @property
    def classifier_folder(self) -> Path | None:
        facts = self.manifest.classifier
        return None if facts is None or facts.folder is None else self.folder / facts.folder

    def explainer(self) -> Explainer:
        """Raises ModelError where this version has no such method, or it takes no such options."""
        made, path = self.manifest, self.explainer_folder
        try:
            return make_explainer(get_info(made.method), made.options, None if path is None else str(path))
        except (UnknownNameError, ParamsError) as error:
            raise ModelError(
                f"{self.folder}: made with Explearn {made.explearn}, and this is {explearn_version()} ({error})"
            ) from error

    def check_classifier(self, classifier: Classifier) -> None:
        """Raise ModelError unless the bundle was made for this classifier, or for any."""
        facts = self.manifest.classifier
        if facts is not None and classifier.fingerprint != facts.fingerprint:
            name = f" ({facts.name})" if facts.name else ""
            raise ModelError(
                f"{self.folder}: made for the classifier with fingerprint {facts.fingerprint[:12]}{name}, and "
                f"{classifier.name or 'the one given'} has {classifier.fingerprint[:12]}; expected the same weights "
                "and labels"
            )


def open_bundle(folder: str | os.PathLike[str]) -> Opened:
    """Check manifest and files of a bundle. Raises ModelError as `read_manifest` and `check_files` do."""
    folder = Path(folder)
    if not is_folder(folder):
        raise ModelError(f"{folder}: no such folder; expected a bundle that explearn export wrote")
    manifest = read_manifest(folder)
    check_files(folder, manifest)
    return Opened(folder, manifest)


def method_of(folder: Path) -> str:
    """Name of the method whose training a folder holds: the variant whose options it has, else the method itself.

    Raises ModelError where there is no such method here, or more than one.
    """
    config = config_of(folder)
    options = config.get("options")
    given: Mapping[str, Any] = options if isinstance(options, dict) else {}
    of_class = [info for info in known_infos() if info.target.endswith(f":{config['explainer']}")]
    fitting = [info for info in of_class if info.defaults.items() <= given.items()]
    methods = {info.of or info.name for info in fitting}
    if len(methods) != 1:
        found = f"the methods {', '.join(sorted(methods))} have" if methods else "no method here has"
        raise ModelError(f"{folder}: holds a {config['explainer']!r}, a class that {found}; expected one method")
    return max(fitting, key=lambda info: len(info.defaults)).name


def check_trained_for(folder: Path, classifier: Classifier) -> None:
    """Raise ModelError for a trained explainer that says it belongs to another classifier."""
    bound = trained_for(folder)
    if bound is not None and bound != classifier.fingerprint:
        raise ModelError(
            f"{folder}: trained for a classifier with fingerprint {bound[:12]}, and {classifier.name} has "
            f"{classifier.fingerprint[:12]}; expected the classifier that it was trained for"
        )


def trained_for(folder: Path) -> str | None:
    """Fingerprint of the classifier that a trained explainer belongs to; None for one that explains others too."""
    found = config_of(folder).get("classifier")
    return found if isinstance(found, str) and found else None


def is_method(name: str) -> bool:
    try:
        get_info(name)
    except UnknownNameError:
        return False
    return True
