"""The heads that are wrapped to look like a classifier's."""

from __future__ import annotations

from collections.abc import Sequence

from explearn.predictors.heads.names import QUESTION_ANSWERING, TOKEN_CLASSIFICATION
from explearn.predictors.heads.question_answering import QuestionPredictor
from explearn.predictors.heads.token_classification import TokenPredictor
from explearn.predictors.transformer import TransformerPredictor

WRAPPED: dict[str, type[TransformerPredictor]] = {
    QUESTION_ANSWERING: QuestionPredictor,
    TOKEN_CLASSIFICATION: TokenPredictor,
}
"""Head -> class of predictors that have it; TransformerPredictor for others."""


def kind_for(labels: Sequence[str]) -> type[TransformerPredictor]:
    """Return the class of predictors to train for a task's labels."""
    for kind in WRAPPED.values():
        if kind.task_labels == tuple(labels):
            return kind
    return TransformerPredictor
