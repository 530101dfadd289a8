"""Ways to train a classifier further so that it no longer leans on some elements."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from explearn.auditing.guard import Editor
from explearn.core.compute import check_weights
from explearn.core.errors import UnsupportedError
from explearn.methods.base.training import limited, seeded, train_epochs
from explearn.predictors.batching import random_batches
from explearn.predictors.encoding import Encoding
from explearn.predictors.finetune import class_weights, with_adapters
from explearn.predictors.params import TrainingParams
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.encoding import PlainText, plain_text
from explearn.text.scored import ScoredText

CONSISTENCY = 2.0
"""Weight of the loss that wants the same answer with and without the elements."""

SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together, so that little is padding."""


@dataclass(frozen=True, slots=True)
class Row:
    """A text to train on.

    Attributes:
        versions: its versions, of which one is drawn each time.
        label: index of its class; None if that is not known.
        weight: its weight in the loss.
        other: the version whose answer should be the same; None if there is none.
    """

    versions: Sequence[PlainText]
    label: int | None
    weight: float = 1.0
    other: PlainText | None = None


def plain_rows(texts: Sequence[ScoredText], labels: Sequence[int | None]) -> list[Row]:
    """Return a row for each labelled text."""
    rows = []
    for text, label in zip(texts, labels, strict=True):
        if label is not None:
            rows.append(Row([plain_text(text.example.segments)], label))
    return rows


def changed_texts(texts: Sequence[ScoredText], editor: Editor) -> list[PlainText | None]:
    """Return each text without the elements; one that has none with one of them in turn; None if that cannot be."""
    changed: list[PlainText | None] = []
    for number, text in enumerate(texts):
        if editor.found(text):
            changed.append(editor.without(text))
        else:
            element = editor.elements[number % len(editor.elements)]
            changed.append(editor.having(text, element, number))
    return changed


def token_rows(texts: Sequence[ScoredText], labels: Sequence[int | None], editor: Editor) -> list[Row]:
    """Leave the elements out of half of the texts that have them, drawn anew in each epoch."""
    rows = []
    for text, label in zip(texts, labels, strict=True):
        versions = [plain_text(text.example.segments), editor.without(text)]
        if label is not None:
            rows.append(Row([version for version in versions if version is not None], label))
    return rows


def data_rows(texts: Sequence[ScoredText], labels: Sequence[int | None], editor: Editor) -> list[Row]:
    """Add to each text its other version, with or without the elements, under the same label."""
    rows = plain_rows(texts, labels)
    for label, version in zip(labels, changed_texts(texts, editor), strict=True):
        if label is not None and version is not None:
            rows.append(Row([version], label))
    return rows


def weighted_rows(texts: Sequence[ScoredText], labels: Sequence[int | None], editor: Editor) -> list[Row]:
    """Weigh texts by P(e) P(y) / P(e, y), so that elements e and label y are independent (Kamiran and Calders 2012).

    Raises:
        UnsupportedError: a class has no text with, or none without, some of the elements.
    """
    found = []
    for text, label in zip(texts, labels, strict=True):
        if label is not None:
            found.append((tuple(map(str, editor.found(text))), label))
    both = Counter(found)
    of_elements = Counter(elements for elements, _ in found)
    of_labels = Counter(label for _, label in found)
    if len(both) < len(of_elements) * len(of_labels):
        raise UnsupportedError("a class never, or always, has an element, which no weight makes up for")
    rows = []
    for row, pair in zip(plain_rows(texts, labels), found, strict=True):
        elements, label = pair
        weight = of_elements[elements] * of_labels[label] / (both[pair] * len(found))
        rows.append(replace(row, weight=weight))
    return rows


def paired_rows(texts: Sequence[ScoredText], labels: Sequence[int | None], editor: Editor) -> list[Row]:
    """Want the same answer to each text with and without the elements, also of texts without a label."""
    rows = []
    for text, label, other in zip(texts, labels, changed_texts(texts, editor), strict=True):
        if label is not None or other is not None:
            rows.append(Row([plain_text(text.example.segments)], label, other=other))
    return rows


WAYS: Mapping[str, Callable[[Sequence[ScoredText], Sequence[int | None], Editor], list[Row]]] = {
    "tokens": token_rows,
    "data": data_rows,
    "reweight": weighted_rows,
    "consistency": paired_rows,
}
"""Name of a way -> its rows from texts, labels and elements."""


def train_further(
    classifier: TransformerPredictor,
    rows: Sequence[Row],
    validation: Sequence[Row],
    params: TrainingParams,
    seed: int,
    description: str | None = None,
) -> TransformerPredictor:
    """Train a copy of a classifier from its own weights, and return it as it was in its best epoch.

    The best epoch has the highest accuracy on the validation texts, of equal ones the lowest loss. The loss is the
    weighted cross-entropy, and for rows with another version CONSISTENCY times the symmetric Kullback-Leibler
    divergence of both answers (Liang et al. 2021, R-Drop).

    Args:
        classifier: the classifier.
        rows: what it learns.
        validation: labelled texts that choose the epoch.
        params: settings of the training.
        seed: seed of order, versions and dropout.
        description: text of a progress bar. None: no bar.

    Raises:
        UnsupportedError: its weights are quantised, or on several devices.
        ModelError: training diverged.
    """
    import transformers

    classifier.check_plain("training a classifier further")
    device = classifier.device
    versions = [classifier.read(row.versions) for row in rows]
    others = {}
    for number, row in enumerate(rows):
        if row.other is not None:
            (others[number],) = classifier.read([row.other])
    checked = classifier.read([row.versions[0] for row in validation])
    truth = np.array([row.label for row in validation])
    labels = [row.label for row in rows if row.label is not None]
    by_class = torch.ones(len(classifier.labels), device=device)
    if params.class_weights == "balanced":
        by_class = torch.tensor(class_weights(labels, len(classifier.labels)), device=device)
    draw = Random(seed)
    order = torch.Generator().manual_seed(seed)
    lengths = [len(encodings[0]) for encodings in versions]

    def batches() -> Iterator[list[int]]:
        return random_batches(lengths, params.batch_size, order, SORTED_BATCHES)

    with seeded(seed, device), torch.inference_mode(False), torch.enable_grad():
        model = copy.deepcopy(classifier.model)
        tuned = classifier.with_model(model)
        model.requires_grad_(True)
        if params.lora is not None:
            tuned.model = with_adapters(model, params.lora)

        def batch_loss(numbers: list[int]) -> Tensor:
            encodings: list[Encoding] = [draw.choice(versions[number]) for number in numbers]
            paired = [place for place, number in enumerate(numbers) if number in others]
            encodings += [others[numbers[place]] for place in paired]
            logits = tuned.problem.softmax_logits(tuned.logits(tuned.batch(encodings)))
            log_p = logits.log_softmax(-1)
            loss = log_p.sum() * 0.0
            labelled = [place for place, number in enumerate(numbers) if rows[number].label is not None]
            if labelled:
                targets = torch.tensor([rows[numbers[place]].label for place in labelled], device=device)
                weights = torch.tensor([rows[numbers[place]].weight for place in labelled], device=device)
                weights = weights * by_class[targets]
                loss = loss - (weights * log_p[labelled, targets]).sum() / weights.sum()
            if paired:
                here = log_p[paired]
                there = log_p[len(numbers) :]
                divergence = ((here.exp() - there.exp()) * (here - there)).sum(-1).mean() / 2
                loss = loss + CONSISTENCY * divergence
            return loss

        def validate(epoch: int, losses: list[float]) -> tuple[float, float]:
            probabilities = tuned.predict_proba(checked)
            right = probabilities[np.arange(len(truth)), truth]
            return float((probabilities.argmax(-1) == truth).mean()), float(np.log(np.maximum(right, 1e-12)).mean())

        parameters = [parameter for parameter in tuned.model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=params.learning_rate, weight_decay=params.weight_decay)
        steps = params.epochs * -(-len(rows) // params.batch_size)
        schedule: Any = transformers.get_linear_schedule_with_warmup(optimizer, round(params.warmup * steps), steps)
        with limited(params.patience):
            train_epochs(
                [tuned.model],
                optimizer,
                batches,
                batch_loss,
                params.epochs,
                clipped=parameters,
                schedule=schedule,
                validate=validate,
                description=description,
            )
        if params.lora is not None:
            model = tuned.model.merge_and_unload()
    hint = f"try a learning rate below {params.learning_rate:g}"
    check_weights(model.named_parameters(), f"{classifier.name}: training diverged", hint)
    return classifier.with_model(model)
