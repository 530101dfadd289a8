"""Making a classifier from a name, a folder, a pipeline, or a model with its tokenizer."""

from __future__ import annotations

import os
from typing import Any

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError, kind_of
from explearn.predictors.loading import head_of
from explearn.predictors.params import Prompt
from explearn.predictors.pretrained import PREDICTORS, load_classifier
from explearn.predictors.transformer import TransformerPredictor


def as_predictor(
    classifier: Any, compute: ComputeOptions | None = None, completion: Prompt | None = None
) -> TransformerPredictor:
    """Return a classifier for a name, a folder or a loaded model.

    A loaded model stays on its device and in its precision, is put into evaluation mode, and its parameters are frozen
    (`requires_grad` is switched off).

    Args:
        classifier: a TransformerPredictor, a folder or hub name, a pipeline of transformers that classifies texts or
            tokens or answers questions, or a transformers model and its tokenizer as a pair.
        compute, completion: for a folder or hub name.

    Raises ParamsError for anything else, and what `load_classifier` raises.
    """
    if isinstance(classifier, str | os.PathLike):
        return load_classifier(classifier, compute, completion=completion)
    if completion is not None:
        raise ParamsError("completion: got one with a loaded classifier; give it where the classifier is loaded")
    if isinstance(classifier, TransformerPredictor):
        return classifier
    if isinstance(classifier, tuple) and len(classifier) == 2:
        model, tokenizer = classifier
    else:  # of a pipeline or a Trainer
        model = getattr(classifier, "model", None)
        tokenizer = getattr(classifier, "tokenizer", None) or getattr(classifier, "processing_class", None)
    if not hasattr(model, "config") or not hasattr(tokenizer, "is_fast"):
        raise ParamsError(
            f"classifier: got {kind_of(classifier)}; expected an explearn.TransformerPredictor, a folder or hub name, a "
            "text-classification pipeline of transformers, or a pair (model, tokenizer); a function goes in an "
            "explearn.FunctionPredictor"
        )
    name = str(getattr(model, "name_or_path", "")) or "the model"
    compute = compute or ComputeOptions(device=str(model.device), precision="saved")
    kind = PREDICTORS.get(head_of([type(model).__name__]), TransformerPredictor)
    return kind.around(model, tokenizer, compute, name)
