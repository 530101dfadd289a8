"""AT2: attention of every head, weighted by how well it predicts the answers to texts without some words.

Source: Cohen-Wang, Chuang, Madry (2025), "Learning to Attribute with Attention".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import torch

from explearn.core.arrays import Array
from explearn.core.errors import DataError
from explearn.lens.attention import Attention, reduced_attention
from explearn.lens.features import resolve_layers
from explearn.lens.listed_head import check_reads
from explearn.methods.at2.params import AT2Params
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import BoundExplainer, LayerList, TrainedState
from explearn.methods.base.task import TaskData, check_source
from explearn.methods.base.training import check_width
from explearn.methods.perturbation.random_words import random_answers, word_sums
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.sampling import texts_to_explain

LEAST_TEXTS = 5
"""Fewest training texts."""

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties of the ridge regression, relative to the sums of squares of the features."""

HELD_OUT = 5
"""Every fifth training text is held out to choose the penalty."""


class AT2(BoundExplainer, BatchExplainer):
    """Attention of all heads from the [CLS] token, weighted for each class by its effect on the answers.

    The score of sub-token j for class c is sum over layers l and heads h of theta[c, l, h] A[l, h, CLS, j]; a word's is
    the sum over its sub-tokens. theta is learned by ridge regression: the scores of the words left in a text are to add
    up to the classifier's probability of c, but for a constant of the text. The penalty is the one with the least
    squared error on texts held out.

    Differences from the paper: it attributes what a language model generates, to tokens or sentences before; here it
    is a classifier's classes, with coefficients for each class, attention from the token that the head reads, and the
    squared error of probabilities.

    It explains only the classifier that it was trained for. Options: `AT2Params`. The seed decides the words left out.
    """

    about = About(
        name="at2",
        family="learned",
        cost="one forward pass",
        needs={"attentions"},
    )
    aggregation = "sum"
    signed = True
    output = "probability"
    Options = AT2Params
    options: AT2Params
    weights_file = "at2.safetensors"
    kept: ClassVar = {**BoundExplainer.kept, "layers": LayerList}

    coefficients: torch.Tensor | None = None
    layers: Sequence[int] = ()

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Learn the coefficients from the classifier's answers; labels play no part.

        Args:
            task: the data to learn from.
            description: text of a progress bar. None: no bar.

        Raises:
            DataError: fewer than LEAST_TEXTS texts, or features of another classifier.
            ModelError: an answer of the classifier is not finite.
            UnsupportedError: the model's attention cannot be captured, or its head reads other tokens.
        """
        classifier = task.classifier
        check_reads(self.check_problem(classifier))
        source, features = task.features("train")
        check_source(task, source, "train")
        heads = int(source["heads"])
        examples = texts_to_explain(task.examples("train"), (), self.options.max_texts, self.options.seed)
        if len(examples) < LEAST_TEXTS:
            raise DataError(f"task {task.name!r} has {len(examples)} training texts; expected {LEAST_TEXTS} at least")
        encodings = classifier.read(examples)
        counts = [self.options.samples] * len(encodings)
        answered = {
            answer.text.encoding.example_id: answer
            for answer in random_answers(classifier, encodings, counts, self.options.seed, description)
        }
        self.layers = list(source["attended"])
        width = len(self.layers) * heads
        # Sums over the texts to learn from, and over those held out.
        squares = np.zeros((2, width, width))
        products = np.zeros((2, width, len(classifier.labels)))
        number = 0
        for row in features:
            answer = answered.get(row.example_id)
            if answer is None:
                continue
            encoding = answer.text.encoding
            # Each layer has the row of [CLS], then its column.
            by_layer = row.attention.reshape(-1, len(self.layers), 2, heads)
            attention = np.zeros((len(encoding), width))
            attention[encoding.positions] = by_layer[:, :, 0].reshape(-1, width)
            x = answer.kept @ word_sums(attention, answer.text)
            x -= x.mean(axis=0)
            part = int(number % HELD_OUT == 0)
            squares[part] += x.T @ x
            products[part] += x.T @ answer.answers
            number += 1
        errors = []
        for penalty in PENALTIES:
            theta = ridge(squares[0], products[0], penalty)
            errors.append((theta * (squares[1] @ theta - 2 * products[1])).sum())
        best = PENALTIES[int(np.argmin(errors))]
        theta = ridge(squares.sum(axis=0), products.sum(axis=0), best)
        self.coefficients = torch.from_numpy(theta.T.astype(np.float32))
        self.trained_classifier = classifier.fingerprint
        return self

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        coefficients = self._trained(self.coefficients).to(classifier.device)
        layers = resolve_layers(classifier.model, self.layers)
        logits, rows = reduced_attention(classifier, batch, Attention.row, layers)
        chosen = resolve_targets(logits, targets)
        attention = torch.cat(rows, -1).float()
        check_width(attention, coefficients.shape[1])
        return BatchScores(torch.einsum("bnd,bd->bn", attention, coefficients[chosen]), logits, chosen)

    def _state(self) -> TrainedState:
        return TrainedState({"coefficients": self._trained(self.coefficients)})

    def _restore(self, state: TrainedState) -> None:
        state.size("coefficients", 1)
        self.coefficients = state.tensors["coefficients"]


def ridge(squares: Array, products: Array, penalty: float) -> Array:
    """Solve a ridge regression on features brought to one scale, (d, C).

    Args:
        squares: X^T X, (d, d).
        products: X^T Y, (d, C).
        penalty: relative to the diagonal of `squares`.
    """
    # A head that looks at no word has zeros everywhere.
    diagonal = np.diag(squares) + 1e-9
    return np.asarray(np.linalg.solve(squares + penalty * np.diag(diagonal), products))
