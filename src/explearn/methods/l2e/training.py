"""Training a student on a teacher's lessons, with early stopping on how well it agrees with the teacher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.judge.stability import levels
from explearn.methods.base.training import BestWeights, descend, epoch_bar, seeded
from explearn.methods.l2e.losses import labelling_loss, ranking_loss
from explearn.methods.l2e.params import L2EParams
from explearn.methods.l2e.student import Student
from explearn.model.batching import random_batches
from explearn.model.encoding import Encoding
from explearn.text.alignment import NO_WORD

SORTED_BATCHES = 16
"""Batches' worth of texts that are sorted by length together: less padding, and the order stays random."""


@dataclass(frozen=True, slots=True)
class StudentText:
    """A text as the student reads it.

    ids: label token, the encoding's sub-tokens without the special tokens around them, label token. first: position in
    the encoding of the sub-token behind the first label token.
    """

    ids: tuple[int, ...]
    first: int


def student_text(encoding: Encoding, target: int, vocabulary: int) -> StudentText:
    """Put a class's label token before and after a text's sub-tokens; separators inside a pair stay."""
    content = encoding.positions
    first, last = (content[0], content[-1]) if content else (0, -1)
    label = vocabulary + target
    return StudentText((label, *encoding.input_ids[first : last + 1], label), first)


def collate(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """ids, (batch, tokens), padded with 0, and lengths, (batch,); both int64."""
    lengths = [len(ids) for ids in texts]
    padded = np.zeros((len(texts), max(lengths)), dtype=np.int64)
    for row, ids in enumerate(texts):
        padded[row, : len(ids)] = ids
    return torch.from_numpy(padded).to(device), torch.tensor(lengths, device=device)


@dataclass(frozen=True, slots=True, eq=False)
class StudentLesson:
    """A text with what the teacher says of it, sub-token by sub-token.

    ids: as of StudentText. owner: word of each id, NO_WORD for label tokens, separators and pieces of no word.
    weights: float64, (words,), what the teacher gives each word, in the order that the student is to learn.
    levels: int8, (words,).
    """

    ids: tuple[int, ...]
    owner: NDArray[np.int64]
    weights: NDArray[np.float64]
    levels: NDArray[np.int8]


def student_lesson(
    encoding: Encoding, target: int, weights: NDArray[np.float64], signed: bool, magnitude: bool, vocabulary: int
) -> StudentLesson:
    """Pair a text with its teacher's word scores; magnitude: the student is to learn the order of |w|."""
    text = student_text(encoding, target, vocabulary)
    inside = encoding.word_ids[text.first : text.first + len(text.ids) - 2]
    return StudentLesson(
        ids=text.ids,
        owner=np.array([NO_WORD, *inside, NO_WORD], dtype=np.int64),
        weights=np.abs(weights) if magnitude else weights,
        levels=levels(weights, signed),
    )


@dataclass(frozen=True, slots=True)
class StudentEpoch:
    """Mean loss of an epoch's batches, and `agreement` with the teacher on the validation texts.

    None without such texts, and of a student that scores all words of each alike or gives no numbers any more.
    """

    loss: float
    agreement: float | None


def train(
    student: Student,
    lessons: Sequence[StudentLesson],
    validation: Sequence[StudentLesson],
    options: L2EParams,
    seed: int,
    device: torch.device,
    description: str | None = None,
) -> list[StudentEpoch]:
    """Train in place until the agreement on the validation texts has not risen for `options.patience` epochs.

    The student ends with the weights of the best epoch; where no epoch has an agreement, of the last.
    """
    generator = torch.Generator().manual_seed(seed)
    student.to(device).train()
    parameters = [p for p in student.parameters() if p.requires_grad]
    kind = torch.optim.SGD if options.optimizer == "sgd" else torch.optim.AdamW
    optimizer = kind(parameters, lr=options.learning_rate, weight_decay=options.weight_decay)
    lengths = [len(lesson.ids) for lesson in lessons]
    history: list[StudentEpoch] = []
    best, highest, weights = 0, -math.inf, BestWeights(student)
    epochs = epoch_bar(options.epochs, description)
    for epoch, _ in enumerate(epochs):
        student.train()
        total, batches = 0.0, 0
        # Dropout draws from the global generator.
        with seeded(seed * 100_003 + epoch, device):
            for indices in random_batches(lengths, options.batch_size, generator, SORTED_BATCHES):
                loss = _loss(student, [lessons[i] for i in indices], options.formulation, device)
                descend(loss, optimizer, parameters)
                total, batches = total + float(loss.detach()), batches + 1
        student.eval()
        agreement = agreement_with(student, validation, options.formulation, options.batch_size, device)
        history.append(StudentEpoch(total / max(1, batches), agreement))
        epochs.set_postfix(loss=f"{history[-1].loss:.4f}", agreement="-" if agreement is None else f"{agreement:.3f}")
        if agreement is None:
            better = highest == -math.inf  # no epoch so far has an agreement
        else:
            better = agreement > highest
            highest = max(highest, agreement)
        if better:
            best = epoch
            weights.keep()
        elif epoch - best >= options.patience:
            break
    epochs.close()
    weights.restore()
    student.cpu().eval().requires_grad_(False)
    return history


def _loss(student: Student, lessons: Sequence[StudentLesson], formulation: str, device: torch.device) -> torch.Tensor:
    ids, lengths = collate([lesson.ids for lesson in lessons], device)
    owner = np.full(ids.shape, NO_WORD, dtype=np.int64)
    given = np.zeros(ids.shape, dtype=np.float32 if formulation == "ranking" else np.int64)
    for row, lesson in enumerate(lessons):
        owner[row, : len(lesson.owner)] = lesson.owner
        values = lesson.weights if formulation == "ranking" else lesson.levels
        given[row, : len(lesson.owner)] = values[lesson.owner]  # NO_WORD reads the last word's, and is not known
    known = torch.from_numpy(owner != NO_WORD).to(device)
    found = student(ids, lengths)
    if formulation == "ranking":
        return ranking_loss(found[..., 0], torch.from_numpy(given).to(device), known)
    return labelling_loss(found, torch.from_numpy(given).to(device), known)


def token_scores(outputs: torch.Tensor, real: torch.Tensor, formulation: str) -> torch.Tensor:
    """Scores of all positions, (batch, tokens), float32.

    Labelling: the expected level, sum over levels l of l Pr(l), in [-2, 2]. Ranking: e^v over its sum over the text's
    sub-tokens, in (0, 1), which keeps the order.

    Args:
        outputs: (batch, tokens, 5 or 1). real: bool, (batch, tokens), True at sub-tokens of the text.
    """
    if formulation == "ranking":
        return outputs[..., 0].float().masked_fill(~real, -torch.inf).softmax(-1).nan_to_num()
    of_level = torch.arange(-2, 3, device=outputs.device, dtype=torch.float32)
    return (outputs.float().softmax(-1) * of_level).sum(-1)  # no matrix product: autocast would round it


@torch.inference_mode()
def agreement_with(
    student: Student, lessons: Sequence[StudentLesson], formulation: str, batch_size: int, device: torch.device
) -> float | None:
    """Mean over texts of Spearman's rho between the student's and the teacher's word scores; None without any text.

    Texts of which one of the two scores all words alike are left out.
    """
    order = sorted(range(len(lessons)), key=lambda i: len(lessons[i].ids))
    found = []
    for start in range(0, len(order), 4 * batch_size):
        rows = [lessons[i] for i in order[start : start + 4 * batch_size]]
        ids, lengths = collate([row.ids for row in rows], device)
        scores = token_scores(student(ids, lengths), inside(lengths, ids.shape[1]), formulation).cpu().numpy()
        for row, of_tokens in zip(rows, scores, strict=True):
            known = row.owner != NO_WORD
            words = np.full(len(row.weights), -np.inf)
            np.maximum.at(words, row.owner[known], of_tokens[: len(row.owner)][known])
            scored = np.isfinite(words)
            rho = _spearman(words[scored], row.weights[scored])
            if rho is not None:
                found.append(rho)
    return float(np.mean(found)) if found else None


def inside(lengths: torch.Tensor, tokens: int) -> torch.Tensor:
    """bool, (batch, tokens): True between the two label tokens."""
    positions = torch.arange(tokens, device=lengths.device)
    return (positions > 0) & (positions < lengths[:, None] - 1)


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    from scipy.stats import rankdata  # takes half a second to import

    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (first, second))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm > 0 else None
