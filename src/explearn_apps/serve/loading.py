"""Loading the classifier and the methods named on the command line of `explearn serve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from explearn.bundle.loading import find_explainer
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
    label_names: Mapping[str, str] | None = None,
) -> tuple[Predictor, list[Explainer], dict[str, str]]:
    """Load a classifier and its methods.

    Args:
        sources: bundles (folders or hub names), folders of trained explainers, or names of methods.
        classifier: folder or hub name. None: the classifier of the first bundle that has one.
        compute: device and precision.
        label_names: class -> new name.

    Returns:
        The classifier, its explainers, and, by name, why methods of QUICK cannot explain the classifier.

    Raises:
        ParamsError: there is no classifier.
        ModelError: a source cannot be read, or was made for another classifier.
        UnsupportedError: a named method cannot explain the classifier.
    """
    chosen = [find_explainer(source) for source in sources]
    bundles = [bundle for _, bundle in chosen if bundle is not None]
    holding = [bundle for bundle in bundles if bundle.classifier_folder is not None]
    if classifier is None and not holding:
        raise ParamsError(
            "--classifier: got none, and no bundle with a classifier; expected the folder of a saved classifier, or a "
            "hub name"
        )
    if classifier is not None:
        loaded = load_classifier(classifier, compute)
    else:
        folder, facts = holding[0].classifier_folder, holding[0].manifest.classifier
        assert folder is not None and facts is not None
        loaded = load_classifier(folder, compute)
        # In every bundle the classifier's folder is called `classifier`.
        loaded.name = facts.name or loaded.name
    loaded = loaded.renamed(label_names or {})
    for bundle in bundles:
        bundle.check_classifier(loaded)
    if chosen:
        return loaded, [explainer for explainer, _ in chosen], {}
    explainers, left_out = [], {}
    for name in QUICK:
        explainer, _ = find_explainer(name)
        try:
            explainer.check_explains(loaded)
        except UnsupportedError as error:
            left_out[name] = str(error)
        else:
            explainers.append(explainer)
    return loaded, explainers, left_out


def read_verdict(path: Path, classifier: Predictor) -> str:
    """Return the verdict of a comparison of the classifier's methods, from the manifest of its page.

    Raises DataError for a file that is not such a manifest, ModelError for a comparison on another classifier.
    """
    manifest = read_json(path)
    verdict = manifest.get("verdict") if isinstance(manifest, dict) else None
    if not isinstance(verdict, str):
        raise DataError(
            f"{path}: has no verdict; expected the manifest that `explearn compare` writes next to its page"
        )
    parameters = manifest.get("parameters")
    if not isinstance(parameters, dict) or parameters.get("classifier") != classifier.fingerprint:
        raise ModelError(f"{path}: the comparison is not of {classifier.name} but of another classifier")
    return verdict
