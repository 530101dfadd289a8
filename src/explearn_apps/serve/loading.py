"""Loading the classifier and the methods named on the command line of `explearn serve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, ModelError, UnsupportedError
from explearn.methods.base.explainer import Explainer
from explearn.methods.defaults import defaults
from explearn.methods.finding import find_explainer
from explearn.predictors.predictor import Predictor, named
from explearn.predictors.pretrained import NamedClassifier


def load_served(
    explainers: Sequence[Explainer], classifier: NamedClassifier, compute: ComputeOptions
) -> tuple[Predictor, list[Explainer], dict[str, str]]:
    """Load a classifier, and choose its methods if none is named.

    Args:
        explainers: the named methods, which may be none.
        classifier: the classifier.
        compute: device and precision.

    Returns:
        The classifier, its methods, and by name why defaults cannot explain it.

    Raises:
        ModelError: the classifier cannot be loaded.
    """
    loaded = classifier.load(compute)
    for explainer in explainers:
        if explainer.made_for is not None and Path(classifier.path) == explainer.classifier_folder:
            # In every bundle the classifier's folder is called `classifier`.
            loaded = named(loaded, explainer.made_for.name or loaded.name)
    if explainers:
        return loaded, list(explainers), {}
    left_out = {}
    chosen = []
    for default in defaults("serve"):
        explainer = find_explainer(default.method, default.options)
        try:
            explainer.check_explains(loaded)
        except UnsupportedError as error:
            left_out[default.method] = str(error)
        else:
            chosen.append(explainer)
    return loaded, chosen, left_out


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
