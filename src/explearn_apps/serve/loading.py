"""Loading the classifier and the methods named on the command line of `explearn serve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from explearn.bundle.loading import Bundle, find_explainer
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError
from explearn.methods.base.explainer import Explainer
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier

QUICK = ("attn_lrp", "attcat", "gae", "occlusion")
"""Default methods, if they can explain the classifier. Each takes a few model passes, or, for occlusion, which needs
only predictions, one per word."""


def load(
    sources: Sequence[str],
    classifier: str | None,
    compute: ComputeOptions,
    label_names: Mapping[str, str],
) -> tuple[Predictor, list[Explainer], dict[str, str]]:
    """Load a classifier and its methods.

    Args:
        sources: bundles (folders or hub names), folders of trained explainers, or names of methods.
        classifier: folder or hub name. None: the classifier of the first bundle that has one.
        compute: device and precision.
        label_names: class -> new name.

    Returns:
        The classifier, its methods, and by name why methods of QUICK cannot explain it.

    Raises:
        ParamsError: there is no classifier.
        ModelError: a source cannot be read, or was made for another classifier.
    """
    explainers = []
    bundles = []
    for source in sources:
        explainer, bundle = find_explainer(source)
        explainers.append(explainer)
        if bundle is not None:
            bundles.append(bundle)
    loaded = _load_classifier(classifier, bundles, compute).renamed(label_names)
    for bundle in bundles:
        bundle.check_classifier(loaded)
    left_out: dict[str, str] = {}
    if sources:
        return loaded, explainers, left_out
    for name in QUICK:
        explainer, _ = find_explainer(name)
        try:
            explainer.check_explains(loaded)
        except UnsupportedError as error:
            left_out[name] = str(error)
        else:
            explainers.append(explainer)
    return loaded, explainers, left_out


def _load_classifier(name: str | None, bundles: Sequence[Bundle], compute: ComputeOptions) -> Predictor:
    if name is not None:
        return load_classifier(name, compute)
    for bundle in bundles:
        if bundle.classifier_folder is not None:
            loaded = load_classifier(bundle.classifier_folder, compute)
            facts = bundle.manifest.classifier
            if facts is not None and facts.name:
                # In every bundle the classifier's folder is called `classifier`.
                loaded.name = facts.name
            return loaded
    raise ParamsError(
        "--classifier: got none, and no bundle with a classifier; expected the folder of a saved classifier, or a hub "
        "name"
    )


def read_verdict(path: Path, classifier: Predictor) -> str:
    """Return the verdict of a comparison of the classifier's methods, from the manifest of its page.

    Raises:
        DataError: the file is not such a manifest.
        ModelError: another classifier was compared.
    """
    match read_json(path):
        case {"verdict": str(verdict), "parameters": {"classifier": fingerprint}}:
            if fingerprint != classifier.fingerprint:
                raise ModelError(f"{path}: the comparison is not of {classifier.name} but of another classifier")
            return verdict
    raise DataError(f"{path}: has no verdict; expected the manifest that `explearn compare` writes next to its page")
