"""The first call that a user learns: `explain` texts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explearn.core.arguments import inputs_left_as_they_came, is_pair
from explearn.core.attribution import Attribution
from explearn.core.bundles import is_classifier_bundle
from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike
from explearn.core.errors import ParamsError
from explearn.core.examples import Example
from explearn.methods.base.attributions import without_words
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import Target
from explearn.methods.finding import find_explainer
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.show.attributions import Attributions
from explearn.text.units import Unit

if TYPE_CHECKING:
    from explearn.predictors.encoding import Text

Method = PathLike | Explainer


@inputs_left_as_they_came
def explain(
    classifier: Any,
    texts: Text | Iterable[Text],
    method: Method | Sequence[Method] | None = None,
    targets: Target | Iterable[Target] | None = None,
    device: str | ComputeOptions | None = None,
    *,
    unit: Unit = "word",
    windows: int | None = None,
    **options: Any,
) -> Attribution | Attributions:
    """Explain a text, or several.

    A model that is passed as an object is left as it came: in its mode, with its `requires_grad` flags.

    Args:
        classifier: a `Predictor`, a folder or hub name, a text-classification pipeline of transformers, a pair
            (model, tokenizer), a fitted classifier of scikit-learn, a function of texts, a SetFit model, or a
            SentenceTransformer, whose similarity of two texts is explained. For a model that classifies
            tokens: `load_classifier(name).at(token)`. For a bundle's folder, the classifier in it, which the bundle's
            explainer explains unless `method` names another.
        texts: a text, or a list of texts. A tuple of two strings is one text of two segments. Of a table of pandas or
            datasets, the column `text` is read.
        method: a method's name (`list_explainers`), the folder or hub name of what `load` takes, an explainer
            (`get_explainer`, `load`), or a list of these. None: AttnLRP, or integrated gradients or occlusion for a
            model that AttnLRP cannot explain; `hierarchical` for an `LLMClassifier`, occlusion for a similarity.
        targets: class to explain, by name or index. One text: a class, or a list of several. Several texts: a class for
            all of them, or a list with an entry for each text. None: the predicted class (of a multi-label classifier
            each label that applies).
        device: device for a classifier that is loaded here, such as `cuda`, or `ComputeOptions`.
        unit: what is scored: `word`, `token`, `phrase`, `sentence`, the matches of a compiled pattern, or the
            [start, end) character spans that a function returns.
        windows: read texts that are too long for the classifier through windows, this many sub-tokens apart. None: cut
            them.
        options: options of the method, which is then given by name.

    Returns:
        One attribution for one text, method and target. Otherwise `Attributions`, text by text.

    Raises:
        DataError: a text cannot be used; the message gives its number.
        ModelError: a classifier or a trained explainer cannot be loaded, or they do not belong together.
        ParamsError: an argument cannot be used.
        UnknownNameError: there is no such method or class.
        UnsupportedError: a method cannot explain this classifier.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> classifier = make_classifier()  # or a folder, a hub name, a pipeline
        >>> attribution = explearn.explain(classifier, "a warm funny sequel", "gae")
        >>> attribution.words
        ('a', 'warm', 'funny', 'sequel')
        >>> explearn.explain(classifier, ["a lazy fox", "no refund"], ["gae", "rollout"])
        Attributions(2 texts, methods=gae, rollout)
    """
    if method is None and isinstance(classifier, str | os.PathLike) and is_classifier_bundle(Path(classifier)):
        method = Path(classifier)
    several_methods = isinstance(method, list | tuple)
    methods: Any = method if several_methods else [method]
    if options and (several_methods or not isinstance(method, str)):
        raise ParamsError(f"{', '.join(options)}: no such argument; a method's options need its name, method='lime'")
    single = isinstance(texts, str | Example) or is_pair(texts)
    one_target = targets is None or isinstance(targets, str | int | np.integer)
    if isinstance(texts, Iterator):
        texts = list(texts)
    attributions = Attributions()
    model = _loaded(classifier, device)
    explainers = [find_explainer(source, options, classifier=model) for source in methods]
    for explainer in explainers:
        attributions.extend(explainer.explain(model, texts, targets, windows=windows, unit=unit))
    empty: dict[str, float] = {}
    if attributions:
        empty = without_words(model, attributions[0])
    attributions[:] = [replace(found, without_words=empty.get(found.target, math.nan)) for found in attributions]
    if single and one_target and not several_methods and len(attributions) == 1:
        return attributions[0]
    return Attributions(chain.from_iterable(attributions.texts))


def _loaded(classifier: Any, device: str | ComputeOptions | None) -> Predictor:
    """Return the classifier, loaded onto the device if it is a folder or hub name."""
    compute = ComputeOptions(device=device) if isinstance(device, str) else device
    if compute is None or isinstance(classifier, str | os.PathLike):
        return as_predictor(classifier, compute)
    model = as_predictor(classifier)
    wanted = compute.resolve_device()
    if wanted.type != model.device.type or wanted.index not in (None, model.device.index):
        raise ParamsError(f"device: got {str(wanted)!r} for a model on {str(model.device)!r}; move the model first")
    return model
