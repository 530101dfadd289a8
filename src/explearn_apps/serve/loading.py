"""Loading the classifier and the methods named on the command line of `explearn serve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from explearn.bundle.loading import Bundle, find_explainer
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError
from explearn.core.validation import Shape, check
from explearn.methods.base.explainer import Explainer
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier

QUICK = ("attn_lrp", "attcat", "gae", "occlusion")
"""Default methods, if they can explain the classifier. Each takes a few model passes, or, for occlusion, which needs
only predictions, one per word."""


class ComparisonManifest(Shape):
    """What is read of the manifest of a comparison."""

    verdict: str
    parameters: dict[str, Any]


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
    if classifier is not None:
        loaded = load_classifier(classifier, compute)
    else:
        loaded = _bundled_classifier(bundles, compute)
    loaded = loaded.renamed(label_names)
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


def _bundled_classifier(bundles: Sequence[Bundle], compute: ComputeOptions) -> Predictor:
    """Load the classifier of the first bundle that has one."""
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
    hint = "; expected the manifest that `explearn compare` writes next to its page"
    manifest: ComparisonManifest = check(ComparisonManifest, read_json(path), DataError, f"{path}: ", hint)
    if manifest.parameters.get("classifier") != classifier.fingerprint:
        raise ModelError(f"{path}: the comparison is not of {classifier.name} but of another classifier")
    return manifest.verdict
