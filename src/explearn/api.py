"""The first calls that a user learns: `explain` texts, and `load` an explainer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from explearn.bundle.loading import Bundle, explainer_in, fetched
from explearn.core.arguments import is_pair, models_left_as_they_came
from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike
from explearn.core.errors import ParamsError, UnsupportedError, kind_of
from explearn.core.examples import Example
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import Target
from explearn.methods.registry import get_explainer
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.show.attributions import Attributions
from explearn.text.units import Unit

if TYPE_CHECKING:
    from explearn.predictors.encoding import Text

Method = str | Explainer | Bundle

AT_ONCE: Sequence[tuple[str, dict[str, Any]]] = (
    ("attn_lrp", {}),
    ("integrated_gradients", {}),
    ("occlusion", {}),
    ("occlusion", {"removal": "delete"}),
)
"""Methods of the core that need no training, with options, each with less access to the model than the one before: its
architecture, its word embeddings, its mask, only its predictions."""

THRIFTY: Sequence[tuple[str, dict[str, Any]]] = (("hierarchical", {}),)
"""The method that asks for the same number of predictions however long the text."""


def default_explainer(classifier: Predictor) -> Explainer:
    """Return the first method of AT_ONCE that can explain a classifier; THRIFTY for one whose answers cost money.

    Raises:
        UnsupportedError: none can.
    """
    for name, options in THRIFTY if classifier.costs_money else AT_ONCE:
        explainer = get_explainer(name, **options)
        try:
            explainer.check_explains(classifier)
        except UnsupportedError as error:
            reason = error
        else:
            return explainer
    raise reason


@models_left_as_they_came
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
        classifier: a `Predictor`, a folder or hub name, a text-classification pipeline of transformers, or a pair
            (model, tokenizer). For a model that classifies tokens: `load_classifier(name).at(token)`.
        texts: a text, or a list of texts. A tuple of two strings is one text of two segments. Of a table of pandas or
            datasets, the column `text` is read.
        method: a method's name (`list_explainers`) or an explainer (`get_explainer`, `load`), or a list of them. None:
            AttnLRP, or integrated gradients or occlusion for a model that AttnLRP cannot explain; `hierarchical` for an
            `LLMClassifier`.
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
    several_methods = isinstance(method, list | tuple)
    methods: Any = method if several_methods else [method]
    if options and (several_methods or not isinstance(method, str)):
        raise ParamsError(f"{', '.join(options)}: no such argument; a method's options need its name, method='lime'")
    single = isinstance(texts, str | Example) or is_pair(texts)
    one_target = targets is None or isinstance(targets, str | int | np.integer)
    read: Any = list(texts) if isinstance(texts, Iterator) else texts
    attributions = Attributions()
    model = _loaded(classifier, device)
    explainers = [explainer_of(named, model, **options) for named in methods]
    for explainer in explainers:
        attributions.extend(explainer.explain(model, read, targets, windows=windows, unit=unit))
    if single and one_target and not several_methods and len(attributions) == 1:
        return attributions[0]
    return Attributions(chain.from_iterable(attributions.texts))


def explainer_of(method: Any, classifier: Predictor, **options: Any) -> Explainer:
    """Return the explainer that a method's name, an explainer or a bundle stands for; None: the default one.

    Args:
        method: as in `explain`.
        classifier: the classifier.
        options: options of a method that is given by name.

    Raises:
        ParamsError: it is something else.
        UnknownNameError: there is no such method.
    """
    if method is None:
        return default_explainer(classifier)
    if isinstance(method, str):
        return get_explainer(method, **options)
    if isinstance(method, Bundle):
        method.check_classifier(classifier)
        return method.explainer
    if not isinstance(method, Explainer):
        raise ParamsError(f"method: got {kind_of(method)}; expected a name or an explainer, or a list of them")
    return method


def _loaded(classifier: Any, device: str | ComputeOptions | None) -> Predictor:
    """Return the classifier, loaded onto the device if it is a folder or hub name."""
    compute = _compute(device)
    if compute is None or isinstance(classifier, str | os.PathLike):
        return as_predictor(classifier, compute)
    model = as_predictor(classifier)
    wanted = compute.resolve_device()
    if wanted.type != model.device.type or wanted.index not in (None, model.device.index):
        raise ParamsError(f"device: got {str(wanted)!r} for a model on {str(model.device)!r}; move the model first")
    return model


def _compute(device: str | ComputeOptions | None) -> ComputeOptions | None:
    return ComputeOptions(device=device) if isinstance(device, str) else device


def load(
    path: PathLike,
    method: str | None = None,
    *,
    device: str | ComputeOptions | None = None,
    revision: str | None = None,
    **options: Any,
) -> Explainer | Bundle:
    """Load a trained explainer, or a bundle with its classifier.

    Args:
        path: folder of a trained explainer or of a bundle, or a bundle's hub name (OWNER/NAME).
        method: method that explains with what was trained, if there are several: `paml` or `faml`. None: the method
            that was trained.
        device: device for a bundle's classifier, such as `cuda`, or `ComputeOptions`.
        revision: branch, tag or commit of a hub name. None: main.
        options: options of a trained explainer that can be chosen after training, such as `aim` of `reader`.

    Returns:
        The explainer, or the bundle, which also explains.

    Raises:
        ModelError: there is no such explainer or bundle, a file is missing or has changed, or this version does not
            have the method.
        ParamsError: an option is fixed by training.

    Example:
        >>> import explearn
        >>> explearn.load(explearn.export("my-bundle", method="gae")).explainer.name
        'gae'
    """
    explainer, bundle = explainer_in(fetched(os.fspath(path), revision), options, method)
    if bundle is None:
        return explainer
    bundle.load_classifier(_compute(device))
    return bundle
