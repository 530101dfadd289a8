"""Simulatability: do explanations help a student to predict the classifier? IvRA (2.2.1, eq. 6 and 7).

The student is small, as in Pruthi et al. 2022: it reads a text as a bag of word embeddings, weights
them by attention and classifies the weighted mean.

    a = softmax over words of (E u),  z = a E,  q = softmax(W z + b)
    loss = -log q[y^] + weight KL(r || a),  y^ the classifier's class, r the explanation

E holds principal components of the classifier's own input embeddings (frozen), u, W and b are learned. r is the
positive part of the word scores, rescaled to sum to 1 (even over the words where no score is above 0). At test time the
student gets no explanation. The metric is its accuracy at predicting y^ minus that of the same student, with the same
initial weights, trained without explanations (weight = 0).

The students of a method (partitions, folds) are trained side by side, in full-batch steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from tqdm.auto import tqdm

from explearn.core.arrays import Array, Array32
from explearn.core.errors import DataError
from explearn.metrics.arrays import check_scores
from explearn.metrics.base import Metric, computed_together
from explearn.metrics.context import Context
from explearn.metrics.params import SimulatabilityParams
from explearn.text.equal import text_hash

if TYPE_CHECKING:
    import torch


class SimulatabilityResult(NamedTuple):
    """Accuracy at predicting the classifier's class for held-out texts, averaged over partitions.

    Attributes:
        with_explanations: of the student trained with this method's explanations, (texts,).
        without: of the student trained without, (texts,).
    """

    with_explanations: Array
    without: Array

    @property
    def gain(self) -> Array:
        """with_explanations - without, shape (texts,); larger is better."""
        return self.with_explanations - self.without


def to_simplex(scores: ArrayLike) -> Array:
    """Return the positive part of word scores divided by its sum, uniform if no score is above 0; shape (words,)."""
    shares = np.maximum(check_scores(scores), 0.0)
    if not shares.any():
        shares = np.ones(len(shares))
    # Scores may be as large as a float32 goes; the sum of their shares is not.
    shares = shares / shares.max()
    return np.asarray(shares / shares.sum())


def simulatability(
    embeddings: Sequence[ArrayLike],
    classes: Sequence[int],
    scores: Mapping[str, Sequence[ArrayLike]],
    params: SimulatabilityParams | None = None,
    seed: int = 0,
    description: str | None = None,
    same: Sequence[Hashable] | None = None,
) -> dict[str, SimulatabilityResult]:
    """Train students with and without each method's explanations and test them on other texts.

    The texts are split into `params.folds` parts, `params.repeats` times; every part is predicted by a student trained
    on the others, so each text is tested `params.repeats` times.

    Args:
        embeddings: of each text's words, (words, d), NaN rows for words unknown to the classifier.
        classes: index of each text's predicted class.
        scores: method -> one array (words,) per text.
        params: size and training of the student.
        seed: seed of the partitions and initial weights.
        description: text of a progress bar (default: no bar).
        same: what equal texts share (`explearn.text.equal.text_hash`); they lie in one part. None: all differ.

    Returns:
        Method -> accuracy of its students.

    Raises:
        DataError: a score is not finite, no word has an embedding, or there are fewer different texts than folds.
    """
    # torch takes seconds to load; importing this module should not.
    import torch

    params = params or SimulatabilityParams()
    words, known = principal_components(embeddings, params.dimensions)
    texts = len(words)
    target = torch.as_tensor(np.asarray(classes, dtype=np.int64))
    numbers: dict[Hashable, int] = {}
    alike = [numbers.setdefault(text, len(numbers)) for text in same or range(texts)]
    if len(numbers) < params.folds:
        raise DataError(f"{len(numbers)} different texts; expected at least one for each of {params.folds} folds")
    rng = np.random.default_rng(seed)
    # The texts that each student learns from, (repeats folds, texts): all but one part of a partition.
    partitions = np.array([(rng.permutation(len(numbers)) % params.folds)[alike] for _ in range(params.repeats)])
    learns = (partitions[:, None] != np.arange(params.folds)[:, None]).reshape(-1, texts)
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    first = torch.randn(words.shape[-1], generator=generator) / words.shape[-1] ** 0.5

    tested = ~learns
    learned = torch.from_numpy(learns)
    share = learned / learned.sum(1, keepdim=True)
    absent = ~known[:, None]
    rows = torch.arange(texts)

    def accuracy(explanations: Array32, weight: float) -> Array:
        """Train students that are shown explanations, (texts, words); return the share that is right on each text."""
        pull = weight * torch.from_numpy(explanations)
        query = first.repeat(len(learns), 1).requires_grad_()
        head = torch.zeros(len(learns), words.shape[-1], max(classes) + 1, requires_grad=True)
        bias = torch.zeros(len(learns), 1, max(classes) + 1, requires_grad=True)
        optimiser = torch.optim.Adam([query, head, bias], lr=params.learning_rate)
        with torch.enable_grad():
            for _ in range(params.steps):
                optimiser.zero_grad()
                outputs, attention = read_bags(words, absent, query, head, bias)
                # KL(r || a) without its constant, the entropy of r.
                divergence = -(pull[:, None] * attention.masked_fill(absent, 0.0)).sum(-1).T
                loss = divergence - outputs.log_softmax(-1)[:, rows, target]
                (share * loss).sum().backward()
                optimiser.step()
        with torch.no_grad():
            outputs, _ = read_bags(words, absent, query, head, bias)
        right = (outputs.argmax(-1) == target).numpy()
        return np.asarray((right & tested).sum(axis=0) / tested.sum(axis=0))

    shown = np.zeros(known.shape, dtype=np.float32)
    without = accuracy(shown, 0.0)
    results = {}
    for method, of_method in tqdm(
        scores.items(), desc=description, unit="method", disable=None if description else True
    ):
        for row, real, text in zip(shown, known.numpy(), of_method, strict=True):
            values = check_scores(text)
            row[real] = to_simplex(values[real[: len(values)]])
        results[method] = SimulatabilityResult(accuracy(shown, params.weight), without)
    return results


def principal_components(embeddings: Sequence[ArrayLike], dimensions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return principal components of the words, scaled to unit mean variance, (texts, words, d), and which are real.

    A text without any known word still has all of its words, at the centre, so that attention has somewhere to go.
    """
    import torch

    arrays = [np.asarray(text, dtype=np.float64) for text in embeddings]
    usable = [~np.isnan(array).any(axis=1) for array in arrays]
    count = sum(int(real.sum()) for real in usable)
    if not count:
        raise DataError("no word has an embedding; expected texts whose words the classifier knows")
    centre = sum(array[real].sum(axis=0) for array, real in zip(arrays, usable, strict=True)) / count
    covariance = np.zeros((len(centre), len(centre)))
    for array, real in zip(arrays, usable, strict=True):
        covariance += (array[real] - centre).T @ (array[real] - centre) / count
    axes = leading_axes(covariance, dimensions)
    words = np.zeros((len(arrays), max(map(len, arrays)), axes.shape[1]), dtype=np.float32)
    known = np.zeros(words.shape[:2], dtype=np.bool_)
    for row, (array, real) in enumerate(zip(arrays, usable, strict=True)):
        words[row, : len(array)][real] = (array[real] - centre) @ axes
        known[row, : len(array)] = real | ~real.any()
    return torch.from_numpy(words), torch.from_numpy(known)


def leading_axes(covariance: Array, dimensions: int) -> Array:
    """Return the first principal axes, (width, d), that scale what is projected on them to a mean variance of 1."""
    variances, axes = np.linalg.eigh(covariance)
    scale = np.sqrt(max(0.0, variances[::-1][:dimensions].mean())) or 1.0
    leading: Array = axes[:, ::-1][:, :dimensions] / scale
    return leading


def read_bags(
    words: torch.Tensor, absent: torch.Tensor, query: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what each of s students makes of each of n texts, a bag of up to w words.

    Args:
        words: what the students read, (n, w, d).
        absent: bool, True where a text has no word, (n, 1, w).
        query: u, (s, d).
        weight: W, (s, d, C).
        bias: b, (s, 1, C).

    Returns:
        Logits, (s, n, C), and the logarithm of the attention to words, (n, s, w).
    """
    attention = (query @ words.transpose(1, 2)).masked_fill(absent, float("-inf")).log_softmax(-1)
    pooled = (attention.exp() @ words).transpose(0, 1)
    return pooled @ weight + bias, attention


def _all_methods(context: Context) -> dict[str, SimulatabilityResult]:
    """Train the students of all methods.

    A method whose classes are all the same has none, as nothing is to learn. Nor has any if simulatability is switched
    off, and where there are no word embeddings, or fewer different texts than folds.
    """
    params = context.params.simulatability
    embeddings = context.embeddings
    same = list(map(text_hash, context.examples))
    if not params.enabled or embeddings is None or len(set(same)) < params.folds:
        return {}
    # Methods may explain other classes than the most probable ones, which their students then predict.
    groups: dict[tuple[int, ...], dict[str, list[ArrayLike]]] = defaultdict(dict)
    for method, texts in context.attributions.items():
        classes = tuple(context.classifier.labels.index(text.predicted) for text in texts)
        groups[classes][method] = [text.filled(0.0) for text in texts]
    results: dict[str, SimulatabilityResult] = {}
    for classes, scores in groups.items():
        if len(set(classes)) > 1:
            description = f"{context.task}: students"
            results |= simulatability(embeddings, classes, scores, params, context.seed, description, same)
    return results


METRICS = (
    Metric(
        "simulatability",
        "Simulatability",
        "gain in accuracy at predicting the classifier for a student that was trained with explanations",
        "higher",
        computed_together(_all_methods, attrgetter("gain")),
        group="behaviour",
        reference="IvRA, section 2.2.1, equations 6 and 7",
        lowest=-1.0,
        highest=1.0,
        of_model=True,
    ),
    Metric(
        "student_accuracy",
        "Student's accuracy",
        "accuracy of the students that saw explanations in training",
        None,
        computed_together(_all_methods, attrgetter("with_explanations")),
        lowest=0.0,
        highest=1.0,
        by_text="",
        of_model=True,
    ),
    Metric(
        "student_accuracy_without",
        "Student's accuracy without explanations",
        "accuracy of the students that saw no explanations",
        None,
        computed_together(_all_methods, attrgetter("without")),
        lowest=0.0,
        highest=1.0,
        by_text="",
        of_model=True,
    ),
)
"""What explanations teach a student."""
