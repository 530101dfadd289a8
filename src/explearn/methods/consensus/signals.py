"""The signals of a text's words: scores of several methods from one forward and two backward passes.

Each is the word score of the method of its name with its default options: same formula, same function, and the same way
from sub-tokens to words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from explearn.core.errors import UnsupportedError
from explearn.core.examples import Example
from explearn.lens.attention import read_weights
from explearn.lens.watch import check_differentiable, full_precision, gradients_of, watch
from explearn.lens.word_signals import SIGNALS, WordSignals
from explearn.methods.attention.explainers import Rollout, rollout_row
from explearn.methods.base.explainer import Batch, BatchExplainer, Encoding, resolve_targets
from explearn.methods.base.task import TaskData
from explearn.methods.gradient.gradient import Gradient
from explearn.methods.relevance.attn_lrp import RULES, AttnLRP
from explearn.methods.relevance.backward import changed_backward
from explearn.methods.relevance.gae import GAE, gae_row
from explearn.predictors.batching import run_batches
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import aggregate

METHODS: dict[str, type[BatchExplainer]] = {"rollout": Rollout, "gae": GAE, "gradient": Gradient, "attn_lrp": AttnLRP}
"""Signal -> the method that it is a score of."""

PASSES = 2
"""Batches are smaller than the budget by this factor: what the ways back need, the attention matrices and their
gradients among it, takes more memory than classifying."""

Scored = tuple[dict[str, Tensor], Tensor, Tensor]


def available_signals(classifier: Predictor, names: Sequence[str] = SIGNALS) -> tuple[str, ...]:
    """Return those of `names` whose methods explain a classifier: `gradient`, and all where attention is captured.

    Raises:
        UnsupportedError: none of them does.
    """
    transformer = transformer_of(classifier)
    supported = [name for name in SIGNALS if _explains(METHODS[name]().check, transformer)]
    available = tuple(name for name in names if name in supported)
    if not available:
        raise UnsupportedError(
            f"a {transformer.model.config.model_type!r} model has none of the signals {', '.join(names)}; "
            f"it has {', '.join(supported) or 'none at all'}"
        )
    return available


def _explains(check: Callable[[TransformerPredictor], None], classifier: TransformerPredictor) -> bool:
    try:
        check(classifier)
    except UnsupportedError:
        return False
    return True


def batch_signals(
    classifier: TransformerPredictor, batch: Batch, targets: Tensor | None, names: Sequence[str] = SIGNALS
) -> Scored:
    """Compute sub-token scores of several methods for one batch, from shared passes if its gradients can be had.

    Args:
        classifier: the classifier.
        batch: the texts.
        targets: classes explained, int64, (batch,). None: the predicted ones.
        names: the signals wanted; only what they need is computed.

    Returns:
        name -> scores, (batch, tokens), of the signals that the architecture has; logits, (batch, C); and the targets,
        int64, (batch,).

    Raises:
        UnsupportedError: as `available_signals`.
    """
    names = available_signals(classifier, names)
    scores: dict[str, Tensor] = {}
    if not _explains(check_differentiable, classifier):
        for name in names:
            scored = METHODS[name]().score_batch(classifier, batch, targets)
            scores[name] = full_precision(scored.scores)
        return scores, scored.logits, scored.targets

    model = classifier.model
    with torch.inference_mode(False), torch.enable_grad(), classifier.autocast():
        with changed_backward(model, RULES) as backward:
            run = watch(classifier, batch)
        chosen = resolve_targets(run.logits.detach(), targets)
        if "attn_lrp" in names:
            (gradient,) = gradients_of(run.logits, chosen, [run.embedded], keep=True)
            scores["attn_lrp"] = (gradient * full_precision(run.embedded)).sum(-1)
        backward.changed = False
        wanted = list(run.attentions) if "gae" in names else []
        if "gradient" in names:
            wanted.append(run.words)
        gradients = gradients_of(run.logits, chosen, wanted) if wanted else []
    maps = [full_precision(attention) for attention in run.attentions]
    reads = read_weights(model, batch).to(maps[0])
    if "gradient" in names:
        scores["gradient"] = gradients[-1].norm(dim=-1)
    if "gae" in names:
        scores["gae"] = gae_row(maps, gradients[: len(maps)], reads)
    if "rollout" in names:
        scores["rollout"] = rollout_row([attention.mean(1) for attention in maps], reads)
    return scores, full_precision(run.logits), chosen


def text_signals(
    classifier: TransformerPredictor,
    encodings: Sequence[Encoding],
    scores: Mapping[str, Tensor],
    logits: Tensor,
    targets: Tensor,
) -> Iterator[WordSignals]:
    """Yield the word signals of a batch's texts from what `batch_signals` gives.

    NaN stands where a signal is missing or NaN, and in the row of a word without a sub-token.
    """
    tokens = {name: values.float().cpu().numpy() for name, values in scores.items()}
    probabilities = classifier.problem.probabilities(logits.double()).cpu().numpy()
    for row, (encoding, target) in enumerate(zip(encodings, targets.tolist(), strict=True)):
        words = len(encoding.words)
        by_word = np.full((words, len(SIGNALS)), np.nan, dtype=np.float32)
        for name, values in tokens.items():
            by_word[:, SIGNALS.index(name)] = aggregate(
                values[row], encoding.word_ids, words, METHODS[name].aggregation
            )
        yield WordSignals(
            example_id=encoding.example_id,
            words=encoding.words,
            predicted=classifier.labels[int(probabilities[row].argmax())],
            probability=float(probabilities[row, target]),
            scores=by_word,
            target=classifier.labels[target],
        )


def compute_signals(
    classifier: Predictor, examples: Sequence[Example], description: str | None = None
) -> list[WordSignals]:
    """Return all signals of some texts for their predicted classes.

    Args:
        classifier: the classifier.
        examples: the texts.
        description: text of a progress bar. None: no bar.

    Raises:
        UnsupportedError: as `available_signals`.
    """
    available_signals(classifier)
    transformer: TransformerPredictor = transformer_of(classifier)
    encodings = transformer.read(examples)

    def compute(chosen: list[int]) -> Iterator[WordSignals]:
        batch = transformer.batch([encodings[i] for i in chosen])
        with transformer.gathered():
            scored = batch_signals(transformer, batch, None)
        return text_signals(transformer, batch.encodings, *scored)

    return run_batches([len(encoding) for encoding in encodings], transformer, compute, PASSES, description)


def signals_of(task: TaskData, split: str) -> Iterable[WordSignals]:
    """Return all signals of a split's texts: those that the task has stored, or else computed now."""
    stored = task.signals(split)
    if stored is None:
        return compute_signals(task.classifier, task.examples(split))
    return stored
