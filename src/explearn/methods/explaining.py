"""Explaining texts in one call, by default with the best method that needs no training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from explearn.core.arguments import is_pair
from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError, UnsupportedError, kind_of
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import Target
from explearn.methods.registry import get_explainer
from explearn.predictors.pretrained import as_predictor
from explearn.predictors.transformer import TransformerPredictor
from explearn.show.side_by_side import SideBySide, side_by_side
from explearn.text.units import Unit

if TYPE_CHECKING:
    from explearn.predictors.encoding import Text

AT_ONCE = ("attn_lrp", "integrated_gradients", "lime")
"""Methods that need no training, each the most faithful (reports/report.md) of those that need the same access to the
model: to its architecture, to its word embeddings, only to its predictions."""


def best_at_once(classifier: TransformerPredictor) -> Explainer:
    """Return the first method of AT_ONCE that can explain a classifier. Raises UnsupportedError if none can."""
    for name in AT_ONCE:
        explainer = get_explainer(name)
        try:
            explainer.check_explains(classifier)
        except UnsupportedError as error:
            reason = error
        else:
            return explainer
    raise reason


def explain(
    classifier: Any,
    texts: Text | Iterable[Text],
    method: str | Explainer | None = None,
    *,
    targets: Iterable[Target] | None = None,
    windows: int | None = None,
    unit: Unit = "word",
    token: int | str | None = None,
    compute: ComputeOptions | None = None,
    **options: Any,
) -> SideBySide:
    """Explain a text, or several.

        explearn.explain("FOLDER_OR_HUB_NAME", "A warm, funny sequel.")

    Args:
        classifier: a TransformerPredictor, a folder or hub name, a text-classification pipeline of transformers, or a pair
        (model, tokenizer); see `as_predictor`. texts: one text, or a list; a tuple of two strings is one pair, here as
        in a list. For a table of pandas or datasets, the column `text` is read. method: a name, or an explainer
        (default: `best_at_once`; each attribution names its method). targets, windows, unit: as in `Explainer.explain`.
        token: the classified word, for a model that classifies tokens (`TokenPredictor.at`); the same in all texts.
        compute: compute options for a folder or hub name.
        options: options of a method given by name.

    Returns the attributions, which display themselves. Raises what `Explainer.explain` and `get_explainer` raise.
    """
    model = as_predictor(classifier, compute)
    if token is not None:
        model = model.at(token)
    if not isinstance(method, str | Explainer | None):
        raise ParamsError(
            f"method: got {kind_of(method)}; expected one name or explainer (explearn.side_by_side shows several)"
        )
    if options and not isinstance(method, str):
        raise ParamsError(f"{', '.join(options)}: no such argument; a method's options need its name, method='lime'")
    explainer = get_explainer(method, **options) if isinstance(method, str) else method or best_at_once(model)
    single = isinstance(texts, str) or is_pair(texts)
    return side_by_side(explainer.explain(model, [texts] if single else texts, targets, windows=windows, unit=unit))  # type: ignore[list-item,arg-type]
