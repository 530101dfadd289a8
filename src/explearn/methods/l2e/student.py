"""L2E's student: a Transformer encoder over the classifier's sub-tokens, with whole or local attention.

Its training on a teacher's lessons stops early, by how well it agrees with the teacher.

b = batch, n = tokens, h = heads, d = width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from explearn.core.arrays import Array, Counts
from explearn.methods.base.training import History, seeded, train_epochs
from explearn.methods.l2e.params import HEADS, L2EParams
from explearn.metrics.arrays import correlation, levels, ranks
from explearn.predictors.batching import random_batches
from explearn.predictors.encoding import Encoding
from explearn.text.alignment import NO_WORD, aggregate

LEVELS = (-2, -1, 0, 1, 2)
"""High negative, low negative, neutral, low positive, high positive: the outputs under formulation `labelling`."""

DROPOUT = 0.1
"""Dropout rate of embeddings and of each sublayer's result."""

WAVELENGTH = 10_000.0
"""Longest wavelength of the position code, in units of 2 pi tokens (Vaswani et al., 2017, section 3.5)."""

BATCH_TEXTS = 32
"""Texts in a step."""

SORTED_BATCHES = 16
"""Batches' worth of texts that are sorted by length together: less padding, and the order stays random."""

WEIGHT_DECAY = 0.01
"""Weight decay of the optimizer."""


def position_code(tokens: int, width: int) -> Tensor:
    """Return sines and cosines of the position, (tokens, width); a text may have any length."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(WAVELENGTH) / width))
    angles = torch.arange(tokens)[:, None] * rates
    code = torch.zeros(tokens, width)
    code[:, 0::2] = angles.sin()
    code[:, 1::2] = angles.cos()[:, : width // 2]
    return code


def attended(real: Tensor, ends: Tensor, window: int | None) -> Tensor:
    """Return which positions each position attends to, bool, (b, 1, n or 1, n): those within `window` to either side.

    The label tokens see, and are seen by, every position: Longformer's pattern (Beltagy et al., 2020, section 3.1) with
    the two as global ones.

    Args:
        real: bool, (b, n), False at padding.
        ends: int64, (b, 2), positions of the label tokens.
        window: positions to either side; None: all.
    """
    if window is None:
        return real[:, None, None]
    positions = torch.arange(real.shape[1], device=real.device)
    at_end = (positions == ends[:, :1]) | (positions == ends[:, 1:])
    near = (positions[:, None] - positions).abs() <= window
    return ((near | at_end[:, :, None] | at_end[:, None]) & real[:, None])[:, None]


class PreNormBlock(nn.Module):
    """One Transformer block with the layer norms before the sublayers (Xiong et al., 2020)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feedforward_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        """Return the states after the block, (b, n, d).

        Args:
            x: states, (b, n, d).
            seen: bool, (b, 1, n or 1, n); see `attended`.
        """
        b, n, d = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(b, n, 3, HEADS, d // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = self.out(functional.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).reshape(b, n, d))
        x = x + functional.dropout(mixed, DROPOUT, self.training)
        hidden = self.down(functional.gelu(self.up(self.feedforward_norm(x))))
        return x + functional.dropout(hidden, DROPOUT, self.training)


class Student(nn.Module):
    """Embeddings over the classifier's vocabulary and its C classes, Transformer blocks, and a linear head.

    Args:
        vocabulary: number of the classifier's sub-tokens; ids from here on are the label tokens of the classes.
        classes: C.
        options: options of the network; it has 5 outputs a token, one for each level, or for a ranking 1, the strength.
    """

    def __init__(self, vocabulary: int, classes: int, options: L2EParams) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.window = options.window
        self.embeddings = nn.Embedding(vocabulary, options.width)
        self.labels = nn.Embedding(classes, options.width)
        self.blocks = nn.ModuleList(PreNormBlock(options.width) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.width)
        self.head = nn.Linear(options.width, 1 if options.formulation == "ranking" else len(LEVELS))
        self.apply(draw_weights)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return the outputs of every position, (b, n, outputs).

        Args:
            ids: int64, (b, n): label token, sub-tokens, label token, padding (any id).
            lengths: int64, (b,), label tokens included.
        """
        n = ids.shape[1]
        positions = torch.arange(n, device=ids.device)
        real = positions < lengths[:, None]
        is_label = real & (ids >= self.vocabulary)
        tokens = self.embeddings(torch.where(ids < self.vocabulary, ids, 0))
        labels = self.labels(torch.where(is_label, ids - self.vocabulary, 0))
        x = torch.where(is_label[..., None], labels, tokens) + position_code(n, self.head.in_features).to(tokens)
        x = functional.dropout(x, DROPOUT, self.training)
        ends = torch.stack([torch.zeros_like(lengths), lengths - 1], dim=1)
        seen = attended(real, ends, self.window)
        for block in self.blocks:
            x = block(x, seen)
        outputs: Tensor = self.head(self.norm(x))
        return outputs


def draw_weights(module: nn.Module) -> None:
    """Draw a module's own weights: normal(0, 0.02) matrices, as BERT's, and zero biases.

    Embeddings have a standard deviation of 1 / sqrt(2), the size of the position code's entries.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.5**0.5)


def principal_embeddings(table: Tensor, width: int) -> Tensor:
    """Return the first `width` principal components of an embedding table (vocabulary, d), scaled as a position code.

    A table narrower than `width` is filled up with zeros.
    """
    table = table.detach().double().cpu()
    centred = table - table.mean(0)
    _, vectors = torch.linalg.eigh(centred.T @ centred)
    components = centred @ vectors.flip(-1)[:, :width]
    scaled = components / components.std().clamp_min(1e-12) * 0.5**0.5
    return functional.pad(scaled, (0, width - scaled.shape[1])).float()


def labelling_loss(logits: Tensor, levels: Tensor, known: Tensor) -> Tensor:
    """Return the sequence-labelling loss (L2E section 3): the mean of -log Pr(h(w_i)) over tokens; the paper sums.

    Args:
        logits: (batch, tokens, 5), of LEVELS.
        levels: int64, (batch, tokens), values of LEVELS.
        known: bool, (batch, tokens), True where the teacher gives a score.
    """
    return functional.cross_entropy(logits[known], levels[known] - LEVELS[0])


def ranking_loss(values: Tensor, weights: Tensor, known: Tensor) -> Tensor:
    """Return the ranking loss: -log(e^v_k / (e^v_i + e^v_j)) of each pair of a text's tokens, where |w_k| is larger.

    The paper (L2E section 3) sums over i < j; here each text has the mean over its pairs, so that long texts weigh as
    much as short ones. Pairs of equal weight (the pieces of a word) are left out. Memory is batch x tokens^2.

    Args:
        values: v, (batch, tokens).
        weights: |w|, (batch, tokens).
        known: bool, (batch, tokens), True where the teacher gives a score.
    """
    # Entry (i, j): i outweighs j. Each ordered pair occurs once.
    ordered = (weights[:, :, None] > weights[:, None, :]) & known[:, :, None] & known[:, None, :]
    losses = functional.softplus(values[:, None, :] - values[:, :, None]) * ordered
    pairs = ordered.sum((1, 2))
    return (losses.sum((1, 2)) / pairs.clamp_min(1)).sum() / (pairs > 0).sum().clamp_min(1)


def student_ids(encoding: Encoding, target: int, vocabulary: int) -> tuple[list[int], int]:
    """Put a class's label token before and after a text's sub-tokens; separators inside a pair stay.

    Args:
        encoding: the text.
        target: index of the class.
        vocabulary: the label token of class 0.

    Returns:
        The ids, and the position in the encoding of the sub-token after the first label token.
    """
    label = vocabulary + target
    content = encoding.positions
    if not content:
        return [label, label], 0
    return [label, *encoding.input_ids[content[0] : content[-1] + 1], label], content[0]


def collate(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids, (batch, tokens), padded with 0, and lengths, (batch,); both int64."""
    lengths = torch.tensor([len(ids) for ids in texts], device=device)
    return pad_sequence([torch.tensor(ids) for ids in texts], batch_first=True).to(device), lengths


class StudentLesson(NamedTuple):
    """A text with the teacher's scores.

    Attributes:
        ids: label token, sub-tokens, label token; see `student_ids`.
        owner: word of each id, NO_WORD for label tokens, separators and pieces of no word.
        values: (words,), what is learned of each word: int8 levels, or float64 |w| for a ranking.
        weights: float64, (words,), the order that the student's scores should have.
    """

    ids: Sequence[int]
    owner: Counts
    values: NDArray[np.int8] | Array
    weights: Array


def student_lesson(
    encoding: Encoding, target: int, weights: Array, signed: bool, vocabulary: int, formulation: str
) -> StudentLesson:
    """Pair a text with its teacher's word scores, whose magnitude a ranking student learns."""
    ids, first = student_ids(encoding, target, vocabulary)
    owner = np.array([NO_WORD, *encoding.word_ids[first : first + len(ids) - 2], NO_WORD], dtype=np.int64)
    if formulation == "ranking":
        return StudentLesson(ids, owner, np.abs(weights), np.abs(weights))
    return StudentLesson(ids, owner, levels(weights, signed), weights)


def train(
    student: Student,
    lessons: Sequence[StudentLesson],
    validation: Sequence[StudentLesson],
    options: L2EParams,
    device: torch.device,
    description: str | None = None,
) -> History:
    """Train in place until the agreement on the validation texts rises no more (`train_epochs`).

    The student ends with the weights of the best epoch; where no epoch has an agreement, of the last.

    Args:
        student: the network.
        lessons: texts to learn from.
        validation: other texts, on which the agreement with the teacher is measured.
        options: options of L2E.
        device: device to train on.
        description: text of a progress bar. None: no bar.

    Returns:
        The epochs, with the `agreement` with the teacher on the validation texts, None if it is undefined: without such
        texts, or if the scores of all words of each are equal or not finite.
    """
    generator = torch.Generator().manual_seed(options.seed)
    student.to(device)
    parameters = list(student.parameters())
    kind = torch.optim.SGD if options.optimizer == "sgd" else torch.optim.AdamW
    optimizer = kind(parameters, lr=options.learning_rate, weight_decay=WEIGHT_DECAY)
    sizes = [len(lesson.ids) for lesson in lessons]
    agreements: list[dict[str, float | None]] = []

    def batch_loss(batch: list[int]) -> Tensor:
        chosen = [lessons[i] for i in batch]
        ids, lengths = collate([lesson.ids for lesson in chosen], device)
        has_word = [torch.from_numpy(lesson.owner != NO_WORD) for lesson in chosen]
        # NO_WORD = -1 reads the last word's value, which is masked by `real`.
        values = [torch.from_numpy(lesson.values[lesson.owner]) for lesson in chosen]
        real = pad_sequence(has_word, batch_first=True).to(device)
        wanted = pad_sequence(values, batch_first=True).to(device)
        outputs = student(ids, lengths)
        if options.formulation == "ranking":
            return ranking_loss(outputs[..., 0], wanted.float(), real)
        return labelling_loss(outputs, wanted.long(), real)

    def validate(_epoch: int, _losses: list[float]) -> float | None:
        agreement = agreement_with(student, validation, options.formulation, device)
        agreements.append({"agreement": agreement})
        return agreement

    # Dropout draws from the global generator.
    with seeded(options.seed, device):
        course = train_epochs(
            [student],
            optimizer,
            lambda: random_batches(sizes, BATCH_TEXTS, generator, SORTED_BATCHES),
            batch_loss,
            options.epochs,
            clipped=parameters,
            validate=validate,
            description=description,
        )
    student.cpu().requires_grad_(False)
    return course.history(agreements)


def token_scores(outputs: Tensor, real: Tensor, formulation: str) -> Tensor:
    """Return scores of all positions, (batch, tokens), float32.

    Labelling: the expected level, sum over levels l of l Pr(l), in [-2, 2]. Ranking: e^v over its sum over the text's
    sub-tokens, in (0, 1), which keeps the order.

    Args:
        outputs: (batch, tokens, 5 or 1).
        real: bool, (batch, tokens), True at sub-tokens of the text.
        formulation: `labelling` or `ranking`.
    """
    if formulation == "ranking":
        return outputs[..., 0].float().masked_fill(~real, -torch.inf).softmax(-1).nan_to_num()
    levels = torch.tensor(LEVELS, device=outputs.device, dtype=torch.float32)
    return (outputs.float().softmax(-1) * levels).sum(-1)  # no matrix product: autocast would round it


@torch.inference_mode()
def agreement_with(
    student: Student, lessons: Sequence[StudentLesson], formulation: str, device: torch.device
) -> float | None:
    """Average Spearman's rho between the student's and the teacher's word scores over texts.

    Texts in which one of the two gives all words the same score are left out; None if no text remains.
    """
    order = sorted(lessons, key=lambda lesson: len(lesson.ids))
    correlations = []
    for start in range(0, len(order), 4 * BATCH_TEXTS):
        batch = order[start : start + 4 * BATCH_TEXTS]
        ids, lengths = collate([lesson.ids for lesson in batch], device)
        scores = token_scores(student(ids, lengths), inside(lengths, ids.shape[1]), formulation).cpu().numpy()
        for lesson, row in zip(batch, scores, strict=True):
            words = aggregate(row, lesson.owner.tolist(), len(lesson.weights), "max")
            scored = ~np.isnan(words)
            if scored.any():
                correlations.append(correlation(ranks(words[scored]), ranks(lesson.weights[scored])).item())
    defined = [rho for rho in correlations if not math.isnan(rho)]
    return float(np.mean(defined)) if defined else None


def inside(lengths: Tensor, tokens: int) -> Tensor:
    """Return bool, (batch, tokens): True between the two label tokens."""
    positions = torch.arange(tokens, device=lengths.device)
    return (positions > 0) & (positions < lengths[:, None] - 1)
