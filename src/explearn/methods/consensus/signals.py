"""The signals of a text's words: scores of many methods from one forward and two backward passes.

Each is the word score of the method of its name with its default options: same formula, same function where there is
one, and the same way from sub-tokens to words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from explearn.core.errors import ParamsError, UnknownNameError, UnsupportedError
from explearn.core.records import Example
from explearn.core.storage import parquet_writer
from explearn.lens.anatomy import dissect
from explearn.lens.capture import capture_attention, head_mean, layer_count
from explearn.lens.gradients import full_precision
from explearn.lens.word_signals import (
    SCHEMA,
    SIGNALS,
    WordSignals,
    read_signals,
    read_signals_metadata,
    signals_table,
)
from explearn.methods.attention.raw_attention import AttentionMean, RawAttention
from explearn.methods.attention.rollout import Rollout, rollout_row
from explearn.methods.base.explainer import BatchExplainer, Explainer
from explearn.methods.consensus.passes import Asked, SharedPass, shared_pass
from explearn.methods.gradient.embedded import EmbeddedClassifier
from explearn.methods.gradient.gradient import Gradient
from explearn.methods.gradient.input_x_gradient import InputXGradient
from explearn.methods.relevance.attcat import CAT, AttCAT, received_attention
from explearn.methods.relevance.attn_lrp import AttnLRP
from explearn.methods.relevance.cam import CAM, GradCAM, class_activation, grad_cam_map
from explearn.methods.relevance.gae import GAE, gae_row
from explearn.model.batching import budget_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding
from explearn.model.question_answering import SpanScorer
from explearn.text.alignment import NO_WORD, aggregate

__all__ = [
    "SIGNALS",
    "WordSignals",
    "available_signals",
    "batch_signals",
    "compute_signals",
    "read_signals",
    "read_signals_metadata",
    "word_scores",
    "write_signals",
]

METHODS: dict[str, type[Explainer]] = {
    "raw_attention": RawAttention,
    "attention_mean": AttentionMean,
    "rollout": Rollout,
    "cam": CAM,
    "gae": GAE,
    "grad_cam": GradCAM,
    "attcat": AttCAT,
    "cat": CAT,
    "input_x_gradient": InputXGradient,
    "gradient": Gradient,
    "attn_lrp": AttnLRP,
}
"""Signal -> the method that it is a score of."""

ATTENTION = ("raw_attention", "attention_mean", "rollout")
"""Signals that need no more than the attention weights."""
GRADIENT = ("input_x_gradient", "gradient")
"""Signals that any encoder has."""

PASSES = 2
"""Batches are smaller than the budget by this factor: what the ways back need, the attention matrices and their
gradients among it, takes more memory than classifying. On a CPU, batches of the whole budget and of a quarter of it
took longer."""

SHARD_TEXTS = 512
"""Texts in memory at a time; one Parquet row group each."""


def available_signals(classifier: Classifier, names: Sequence[str] = SIGNALS) -> tuple[str, ...]:
    """Those of `names` that a classifier's architecture has.

    An encoder that is taken apart (`models.architectures`) has all; a model that answers questions has those of
    ATTENTION and GRADIENT; any other has those whose methods explain it, of GRADIENT at least.

    Raises UnknownNameError for a name that is no signal, ParamsError for no name, and UnsupportedError where none of
    them is left.
    """
    if not names:
        raise ParamsError(f"signals: got none; expected some of {', '.join(SIGNALS)}")
    for name in names:
        if name not in SIGNALS:
            raise UnknownNameError("signal", name, SIGNALS)
    known: tuple[str, ...]
    if _fused(classifier):
        known = SIGNALS
    elif _answers_questions(classifier):
        known = (*ATTENTION, *GRADIENT)
    else:
        known = tuple(name for name in SIGNALS if _explains(METHODS[name](), classifier))
    found = tuple(name for name in names if name in known)
    if not found:
        raise UnsupportedError(
            f"a {classifier.model.config.model_type!r} model has none of the signals {', '.join(names)}; "
            f"it has {', '.join(known) or 'none at all'}"
        )
    return found


def _fused(classifier: Classifier) -> bool:
    """Whether one pass, part by part, serves all signals: blocks whose attention is Q K^T alone, without a bias."""
    try:
        blocks = dissect(classifier.model).blocks
    except UnsupportedError:
        return False
    return all(block.bias is None and block.scale is None for block in blocks)


def _answers_questions(classifier: Classifier) -> bool:
    return isinstance(classifier.model, SpanScorer)


def _explains(method: Explainer, classifier: Classifier) -> bool:
    try:
        method.check(classifier)
    except UnsupportedError:
        return False
    return True


def batch_signals(
    classifier: Classifier, batch: Batch, targets: torch.Tensor | None, names: Sequence[str] = SIGNALS
) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """Sub-token scores of several methods from shared passes over one batch.

    Args:
        targets: classes explained, int64, (batch,); None: the predicted ones.
        names: the signals wanted; only what they need is computed.

    Returns name -> scores, (batch, tokens), NaN for a signal that the architecture lacks; logits, (batch, C); and the
    targets, int64, (batch,). Raises as `available_signals` does.
    """
    there = available_signals(classifier, names)
    if _answers_questions(classifier):
        found, logits, chosen = _whole(classifier, batch, targets, there)
    elif not _fused(classifier):
        found, logits, chosen = _one_by_one(classifier, batch, targets, there)
    else:
        wanted = frozenset(there)
        passed = shared_pass(classifier, batch, targets, _asked(wanted))
        with torch.inference_mode():
            found = {name: _FORMULAS[name](classifier, batch, passed) for name in there}
        logits, chosen = passed.logits, passed.targets
    missing = torch.full(batch.input_ids.shape, torch.nan, device=logits.device, dtype=logits.dtype)
    return {name: found.get(name, missing) for name in names}, logits, chosen


def _asked(names: frozenset[str]) -> Asked:
    return Asked(
        attention_gradients=not names.isdisjoint({"gae", "grad_cam"}),
        state_gradients=not names.isdisjoint({"attcat", "cat"}),
        word_gradients=not names.isdisjoint(GRADIENT),
        relevance="attn_lrp" in names,
        last_attention="attcat" in names,
        activated="cam" in names,
    )


# ---- formulas ----------------------------------------------------------------------------------------------------

Formula = Callable[[Classifier, Batch, SharedPass], torch.Tensor]


def _cls_rows(passed: SharedPass) -> list[torch.Tensor]:
    """Attention from [CLS], mean over heads, of each layer, (batch, tokens)."""
    return [attention[:, :, 0].mean(1) for attention in passed.attentions]


def _rollout(classifier: Classifier, batch: Batch, passed: SharedPass) -> torch.Tensor:
    return rollout_row(passed.head_means)


def _cam(classifier: Classifier, batch: Batch, passed: SharedPass) -> torch.Tensor:
    assert passed.activated is not None
    weight = full_precision(dissect(classifier.model).head.classifier.weight)
    return class_activation(passed.activated, weight[passed.targets]) * passed.attentions[-1][:, :, 0].mean(1)


def _grad_cam(classifier: Classifier, batch: Batch, passed: SharedPass) -> torch.Tensor:
    mask = batch.attention_mask.bool()
    attention, gradient = passed.attentions[-1], passed.attention_gradients[-1]
    return grad_cam_map(attention, gradient, ~mask[:, None], mask.sum(-1))[:, 0]


def _products(passed: SharedPass) -> list[torch.Tensor]:
    """Hidden state times gradient at each block's input, summed over features, (batch, tokens)."""
    return [(x * g).sum(-1) for x, g in zip(passed.states, passed.state_gradients, strict=True)]


def _attcat(classifier: Classifier, batch: Batch, passed: SharedPass) -> torch.Tensor:
    assert passed.last_attention is not None
    real = batch.attention_mask.to(passed.states[0].dtype)
    means = (*passed.head_means[:-1], passed.last_attention.mean(1))
    weights = [received_attention(mean[:, None], real) for mean in means]
    return torch.stack([p * w for p, w in zip(_products(passed), weights, strict=True)]).sum(0)


def _word_gradients(passed: SharedPass) -> tuple[torch.Tensor, torch.Tensor]:
    assert passed.words is not None and passed.word_gradients is not None
    return passed.words, passed.word_gradients


def _input_x_gradient(classifier: Classifier, batch: Batch, passed: SharedPass) -> torch.Tensor:
    words, gradients = _word_gradients(passed)
    return (words * gradients).sum(-1)


def _attn_lrp(classifier: Classifier, batch: Batch, passed: SharedPass) -> torch.Tensor:
    assert passed.relevance is not None
    return passed.relevance


_FORMULAS: dict[str, Formula] = {
    "raw_attention": lambda classifier, batch, passed: _cls_rows(passed)[-1],
    "attention_mean": lambda classifier, batch, passed: torch.stack(_cls_rows(passed)).mean(0),
    "rollout": _rollout,
    "cam": _cam,
    "gae": lambda classifier, batch, passed: gae_row(passed.attentions, passed.attention_gradients),
    "grad_cam": _grad_cam,
    "attcat": _attcat,
    "cat": lambda classifier, batch, passed: torch.stack(_products(passed)).sum(0),
    "input_x_gradient": _input_x_gradient,
    "gradient": lambda classifier, batch, passed: _word_gradients(passed)[1].norm(dim=-1),
    "attn_lrp": _attn_lrp,
}


def _one_by_one(
    classifier: Classifier, batch: Batch, targets: torch.Tensor | None, names: Sequence[str]
) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """Signals of an architecture without shared passes: each by its own method, at that method's own price."""
    scored = {}
    for name in names:
        method = METHODS[name]()
        assert isinstance(method, BatchExplainer)
        scored[name] = method.score_batch(classifier, batch, targets)
    first = scored[names[0]]
    return {name: full_precision(one.scores) for name, one in scored.items()}, first.logits, first.targets


def _whole(
    classifier: Classifier, batch: Batch, targets: torch.Tensor | None, names: Sequence[str]
) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """Signals of a model that cannot be taken apart: its gradient at the word embeddings, and its attention."""
    function = EmbeddedClassifier(classifier, batch.model_inputs(), targets, "logit")
    found: dict[str, torch.Tensor] = {}
    backward = not set(GRADIENT).isdisjoint(names)
    with torch.inference_mode(False), torch.set_grad_enabled(backward):
        words = function.embed().clone().requires_grad_(backward)
        if set(ATTENTION).isdisjoint(names):
            values = function(words)
        else:
            with capture_attention(classifier.model, head_mean) as captured:
                values = function(words)
            means = [captured.of(layer) for layer in range(layer_count(classifier.model))]
            found["raw_attention"] = means[-1][:, 0]
            found["attention_mean"] = torch.stack([mean[:, 0] for mean in means]).mean(0)
            found["rollout"] = rollout_row(means)
        if backward:
            (gradients,) = torch.autograd.grad(values.sum(), words)
            gradients = full_precision(gradients)
            found["input_x_gradient"] = (full_precision(words) * gradients).sum(-1)
            found["gradient"] = gradients.norm(dim=-1)
    return found, function.logits, function.targets


# ---- words -------------------------------------------------------------------------------------------------------


def word_scores(encoding: Encoding, tokens: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Signals of one text's words, float32, (words, len(SIGNALS)).

    Args:
        tokens: signal -> scores of the text's positions, (tokens,), or longer by padding.

    NaN stands where a signal is missing or NaN, and in the row of a word without a sub-token. Raises ExplearnError
    where a score is infinite.
    """
    scores = np.full((len(encoding.words), len(SIGNALS)), np.nan, dtype=np.float32)
    read = sorted(set(encoding.word_ids) - {NO_WORD})
    if not read:
        return scores
    for column, name in enumerate(SIGNALS):
        if name not in tokens or np.isnan(tokens[name][: len(encoding)]).all():
            continue
        found, _ = aggregate(tokens[name], encoding.word_ids, len(encoding.words), METHODS[name].aggregation)
        scores[read, column] = found[read]
    return scores


def compute_signals(
    classifier: Classifier,
    examples: Sequence[Example],
    targets: Sequence[int | str] | None = None,
    names: Sequence[str] = SIGNALS,
    progress: Callable[[int], object] | None = None,
) -> list[WordSignals]:
    """Signals of some texts, in their order.

    Args:
        targets: class to explain for each text, by name or index (default: the predicted one).
        names: the signals wanted; the columns of the others are NaN.
        progress: called with the number of texts done.

    Raises UnknownNameError, ParamsError and UnsupportedError as `available_signals` does, and for targets that are no
    classes, or not one for each text.
    """
    available_signals(classifier, names)
    if targets is not None and len(targets) != len(examples):
        raise ParamsError(f"targets: got {len(targets)}; expected one for each of {len(examples)} texts")
    indices = None if targets is None else [classifier.label_index(target) for target in targets]
    encodings = classifier.encode(examples)
    rows: dict[int, WordSignals] = {}
    budget = max(1, classifier.max_tokens // PASSES)
    for chosen in budget_batches([len(e) for e in encodings], budget, classifier.same_length):
        batch = classifier.batch([encodings[i] for i in chosen])
        wanted = None if indices is None else torch.tensor([indices[i] for i in chosen], device=classifier.device)
        with classifier.gathered():
            scores, logits, explained = batch_signals(classifier, batch, wanted, names)
        tokens = {name: values.float().cpu().numpy() for name, values in scores.items()}
        probabilities = classifier.probabilities(logits.double()).cpu().numpy()
        for row, (index, target) in enumerate(zip(chosen, explained.tolist(), strict=True)):
            rows[index] = WordSignals(
                example_id=examples[index].id,
                words=encodings[index].words,
                predicted=classifier.labels[int(probabilities[row].argmax())],
                probability=float(probabilities[row, target]),
                scores=word_scores(encodings[index], {name: values[row] for name, values in tokens.items()}),
                target=classifier.labels[target],
            )
        if progress is not None:
            progress(len(chosen))
    return [rows[i] for i in range(len(examples))]


def stream_signals(
    classifier: Classifier, examples: Sequence[Example], names: Sequence[str], description: str | None = None
) -> Iterator[list[WordSignals]]:
    """Signals of some texts, SHARD_TEXTS at a time, under a progress bar (description None: without)."""
    remaining = iter(examples)
    with tqdm(total=len(examples), desc=description, unit="text", disable=None if description else True) as bar:
        while shard := list(islice(remaining, SHARD_TEXTS)):
            yield compute_signals(classifier, shard, names=names, progress=bar.update)


def write_signals(
    target: str | os.PathLike[str],
    classifier: Classifier,
    examples: Sequence[Example],
    names: Sequence[str] = SIGNALS,
    description: str | None = None,
) -> None:
    """Compute the signals of `examples` and write them shard by shard; memory does not grow with their number.

    The file's metadata name the classifier by its fingerprint. Raises as `compute_signals` does.
    """
    there = available_signals(classifier, names)
    metadata = {
        "classifier": classifier.fingerprint,
        "signals": list(SIGNALS),
        "asked": list(there),
        "texts": len(examples),
    }
    with parquet_writer(target, SCHEMA, metadata) as writer:
        for rows in stream_signals(classifier, examples, names, description):
            writer.write_table(signals_table(rows))
