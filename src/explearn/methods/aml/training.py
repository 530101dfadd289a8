"""Training G on many texts: the first phase of AML (section 3.1), the metric of interest watched on other texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.errors import ModelError
from explearn.methods.aml.attribution_model import AttributionModel
from explearn.methods.aml.loss import Weights, loss_terms
from explearn.methods.aml.masks import Masking
from explearn.methods.aml.params import PAMLParams
from explearn.methods.aml.remixed import remixed
from explearn.methods.aml.target_metric import MapJudge
from explearn.methods.aml.tokenizer_bridge import Bridge
from explearn.methods.aml.two_tokenizers import attribution_logits, read
from explearn.methods.base.training import BestWeights, descend, epoch_bar, seeded
from explearn.model.batching import budget_batches, random_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding

SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together: less padding, and the order stays random."""


class DivergedError(ModelError):
    """G gives no finite numbers any more."""


@dataclass(frozen=True, slots=True)
class TrainingTexts:
    """Texts with the classifier's predictions: float64, (texts, C)."""

    encodings: Sequence[Encoding]
    predictions: NDArray[np.float64]

    @classmethod
    def of(cls, classifier: Classifier, encodings: Sequence[Encoding]) -> TrainingTexts:
        return cls(encodings, classifier.predict_proba(encodings))


@dataclass(frozen=True, slots=True)
class Epoch:
    """Means over an epoch's texts of the loss's terms, and the metric of interest on the validation texts after it.

    Epoch 0 is before training; it has no terms.
    """

    epoch: int
    prediction: float | None
    size: float | None
    inverse: float | None
    metric: float


def validate(
    model: AttributionModel, classifier: Classifier, bridge: Bridge | None, texts: TrainingTexts, judge: MapJudge
) -> float:
    """Mean over the texts of the judge's first metric, for maps of the predicted classes.

    Raises DivergedError for a map that is not finite.
    """
    scores: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(texts.encodings)
    with torch.inference_mode():
        for indices in budget_batches([len(e) for e in texts.encodings], classifier.max_tokens, classifier.same_length):
            reading = read(classifier, bridge, [texts.encodings[i] for i in indices])
            found = attribution_logits(model, classifier, reading, _rows(classifier, texts, indices))
            for index, row in zip(indices, found.sigmoid().cpu().numpy(), strict=True):
                if not np.isfinite(row[: len(texts.encodings[index])]).all():
                    name = texts.encodings[index].example_id
                    raise DivergedError(f"the map of validation text {name!r} is not finite")
                scores[index] = row
    return float(judge.values(texts.encodings, scores, texts.predictions.argmax(-1).tolist())[:, 0].mean())


def train(
    model: AttributionModel,
    classifier: Classifier,
    bridge: Bridge | None,
    texts: TrainingTexts,
    validation: TrainingTexts,
    judge: MapJudge,
    masking: Masking,
    weights: Weights,
    options: PAMLParams,
    seed: int,
    description: str | None = None,
    after_epoch: Callable[[Epoch], None] | None = None,
) -> list[Epoch]:
    """Minimise the mean loss over the texts with AdamW; leave the weights in `model` that were best on the metric.

    The learning rate rises over the fraction `options.warmup` of all steps, then falls linearly to 0.

    Args:
        texts: to train on. validation: other texts, on which the metric is watched.
        seed: of the order of texts, dropout, random masks and exchanged words.
        after_epoch: called after each epoch; what it raises ends the training.

    Returns the history. The classifier stays as it is. Raises DivergedError, naming the epoch, where the loss or a map
    is not finite, ModelError where a map is not before training.
    """
    generator = torch.Generator().manual_seed(seed)
    parameters = list(model.parameters())
    groups = [
        {"params": list(model.backbone.parameters()), "lr": options.learning_rate},
        {"params": model.new_parameters(), "lr": options.head_learning_rate},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=options.weight_decay, fused=True)
    schedule = _schedule(optimizer, options.epochs * -(-len(texts.encodings) // options.batch_size), options.warmup)
    history: list[Epoch] = []
    best = BestWeights(model)

    def note(epoch: int, means: tuple[float, float, float] | None) -> None:
        model.eval()
        try:
            metric = validate(model, classifier, bridge, validation, judge)
        except DivergedError as error:
            raise _diverged(epoch, str(error)) from error
        sign = 1 if judge.larger_is_better else -1
        if not history or sign * metric > max(sign * earlier.metric for earlier in history):
            best.keep()
        prediction, size, inverse = means or (None, None, None)
        history.append(Epoch(epoch, prediction, size, inverse, metric))

    note(0, None)
    # Dropout draws from the global generator.
    with seeded(seed, classifier.device), epoch_bar(options.epochs, description) as bar:
        for epoch in bar:
            model.train()
            sums = np.zeros(3)
            seen = texts if options.remix is None else _remixed(classifier, texts, options.remix, seed + epoch)
            lengths = [len(encoding) for encoding in seen.encodings]
            for indices in random_batches(lengths, options.batch_size, generator, SORTED_BATCHES):
                totals = []
                for part in _read_together(classifier, lengths, indices):
                    reading = read(classifier, bridge, [seen.encodings[i] for i in part])
                    y = _rows(classifier, seen, part)
                    scores = attribution_logits(model, classifier, reading, y)
                    terms = loss_terms(classifier, reading.target, scores, y, masking, weights, draw=seed + epoch)
                    totals.append(terms.total(weights))
                    sums += [term.detach().sum().item() for term in (terms.prediction, terms.size, terms.inverse)]
                loss = torch.cat(totals).mean()
                if not loss.isfinite():
                    raise _diverged(epoch, "the loss is not finite")
                descend(loss, optimizer, parameters)
                schedule.step()
            note(epoch, tuple(float(value) for value in sums / len(texts.encodings)))  # type: ignore[arg-type]
            bar.set_postfix({judge.metrics[0]: f"{history[-1].metric:.4f}"})
            if after_epoch is not None:
                after_epoch(history[-1])
    best.restore()
    model.eval()
    return history


def _schedule(optimizer: torch.optim.Optimizer, steps: int, warmup: float) -> torch.optim.lr_scheduler.LambdaLR:
    """Learning rates that rise over the share `warmup` of all steps, then fall linearly to 0."""
    rising = max(1, round(warmup * steps))
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / rising, (steps - step) / max(1, steps - rising))
    )


def _read_together(classifier: Classifier, lengths: Sequence[int], indices: list[int]) -> list[list[int]]:
    """The texts of a step, in one batch; where padding shows in the classifier's answers, in one for each length."""
    if not classifier.same_length:
        return [indices]
    return [[i for i in indices if lengths[i] == length] for length in sorted({lengths[i] for i in indices})]


def _remixed(classifier: Classifier, texts: TrainingTexts, least: float, seed: int) -> TrainingTexts:
    return TrainingTexts.of(classifier, remixed(classifier, texts.encodings, least, np.random.default_rng(seed)))


def _diverged(epoch: int, why: str) -> ModelError:
    """The error of a training; before its first epoch, of the backbone, whatever the weights of the loss."""
    if not epoch:
        return ModelError(f"pAML before training: {why}; expected a backbone with finite weights")
    return DivergedError(
        f"pAML: training diverged in epoch {epoch}: {why}; a smaller learning_rate or head_learning_rate may help"
    )


def _rows(classifier: Classifier, texts: TrainingTexts, indices: Sequence[int]) -> torch.Tensor:
    return torch.tensor(texts.predictions[list(indices)], dtype=torch.float32, device=classifier.device)
