"""Checks that every method must pass; `check_explainer` runs all of them on tiny classifiers with random weights."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from explearn.core.arrays import Mask
from explearn.core.attribution import Attribution
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.methods.info import MethodInfo
from explearn.predictors.encoding import Text
from explearn.predictors.transformer import TransformerPredictor
from explearn.testing import tiny
from explearn.testing.expect import about, expect, expect_close, expect_equal

AUTOCAST = torch.bfloat16

LOST_WORDS = ["lazy \u200b dog " + "castle " * 60, "\u200b \u200d"]
"""Texts with words that are not read: without sub-tokens, or where a text is cut; of the second that is every word."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A method on a classifier.

    Attributes:
        method: the method, or its class, of which every explanation makes an instance.
        options: constructor arguments of the class.
        classifier: the classifier.
        texts: the texts to explain.
        tolerance: largest difference of a probability, and of a score as a share of the text's largest.
    """

    method: Any
    options: Mapping[str, Any]
    classifier: TransformerPredictor
    texts: Sequence[Text]
    tolerance: float

    def explain(self, texts: Any, targets: Any = None) -> list[Attribution]:
        method = self.method
        if isinstance(method, type):
            method = method(**self.options)
        attributions: list[Attribution] = method.explain(self.classifier, texts, targets)
        return attributions

    def changed(self, **attributes: Any) -> _Case:
        """Return the case with a classifier in another precision or with other batches."""
        classifier = copy.copy(self.classifier)
        for name, value in attributes.items():
            setattr(classifier, name, value)
        return replace(self, classifier=classifier)

    def expect_same(self, attributions: Sequence[Attribution], expected: Sequence[Attribution], what: str) -> None:
        """Fail unless two explanations of the same texts are the same, up to rounding."""
        expect_equal(len(attributions), len(expected), f"{what}, the number of attributions")
        for number, (a, b) in enumerate(zip(attributions, expected, strict=True), start=1):
            where = f"{what}, text {number}: "
            for part in ("words", "tokens", "target", "predicted"):
                expect_equal(getattr(a, part), getattr(b, part), f"{where}{part}")
            largest = max(0.1, float(np.abs(b.token_scores).max(initial=0)))
            for part, scale in {"probability": 1.0, "scores": largest, "token_scores": largest}.items():
                expect_close(getattr(a, part), getattr(b, part), self.tolerance * scale, f"{where}the value of {part}")


def check_explainer(
    method: type[Explainer] | Explainer,
    *,
    options: Mapping[str, Any] | None = None,
    architectures: Iterable[str] = tiny.ARCHITECTURES,
    classifier: TransformerPredictor | None = None,
    texts: Sequence[Text] = (*tiny.TEXTS, *tiny.PAIRS),
    tolerance: float = 1e-5,
) -> None:
    """Check what Explearn expects of every method.

    The method declares itself (`about`); gives every word and sub-token of every text, single or pair, a finite float32
    score; takes targets by name and by index; gives a text the same scores with any other texts, at any position, with
    any batch size, and each time; runs in bf16; gives words that are not read no score; and leaves the model, torch and
    the random generators unchanged.

    Args:
        method: a class, of which each check makes an instance, or an instance. A method that is trained is an instance
            after `fit`, with the `classifier` that it explains.
        options: constructor arguments for a class, such as fewer samples.
        architectures: those that the method can explain, of bert, distilbert, roberta, albert and electra.
        classifier: classifier to explain. None: tiny classifiers of these architectures.
        texts: texts to explain.
        tolerance: largest difference between two scores taken as equal, as a share of the text's largest score.

    Raises:
        AssertionError: a check failed; the message names the classifier, the text, what was found and what was
            expected.
        ParamsError: the class does not declare itself.
        ModelError: a class that needs training.

    Example:
        >>> from explearn.methods.gradient.gradient import Gradient
        >>> from explearn.testing import check_explainer
        >>> check_explainer(Gradient, architectures=["bert"], texts=["the quick brown fox"])
    """
    MethodInfo.of_class(method if isinstance(method, type) else type(method))
    tried = {"the classifier given": classifier}
    if classifier is None:
        tried = {f"{kind} with 3 classes": tiny.classifier(kind, 3) for kind in architectures}
        if "bert with 3 classes" in tried:
            tried["bert with 2 classes"] = tiny.classifier("bert", 2)
    for where, model in tried.items():
        assert model is not None
        case = _Case(method, options or {}, model, list(texts), tolerance)
        with about(f"{method.name} on {where}"):
            for check in (_check_attributions, _check_batches, _check_bf16, _check_targets, _check_state):
                check(case)
            with unread_words_known():
                _check_attributions(replace(case, texts=LOST_WORDS))


def _check_attributions(case: _Case) -> None:
    """Every word and every sub-token has a score, and a word's score is made of those of its pieces.

    A word without sub-tokens, or behind the point where a text is cut, has none.
    """
    encodings = case.classifier.read(case.texts)
    probabilities = case.classifier.predict_proba(encodings)
    attributions = case.explain(case.texts)
    expect_equal(len(attributions), len(case.texts), "the number of attributions")
    for result, encoding, p in zip(attributions, encodings, probabilities, strict=True):
        with about(f"text {' '.join(encoding.words)[:60]!a}"):
            owners = np.array([encoding.word_ids[i] for i in encoding.positions])
            read = np.isin(np.arange(len(encoding.words)), owners)
            predicted = case.classifier.labels[int(p.argmax())]
            facts = {"words": encoding.words, "predicted": predicted, "target": predicted, "method": case.method.name}
            for part, wanted in {**facts, "unaligned": int((~read).sum())}.items():
                expect_equal(getattr(result, part), wanted, part)
            _expect_scores(result.scores, read)
            _expect_scores(result.token_scores, np.ones(len(owners), dtype=bool))
            expect_close(result.probability, p.max(), case.tolerance, "the probability, which no explanation changes,")
            expect(result.seconds > 0, f"took {result.seconds} seconds; expected more than 0")
            below = (result.token_scores < 0).any()
            expect(result.signed or not below, "a score is below zero, but `signed` is False")
            combine = np.max if result.aggregation == "max" else np.sum
            pieces = [combine(result.token_scores[owners == word]) for word in np.flatnonzero(read)]
            atol = 1e-5 * float(np.abs(pieces).max(initial=0.1))
            expect_close(result.scores[read], pieces, atol, f"the {result.aggregation} of each word's pieces")


def _expect_scores(scores: Any, read: Mask) -> None:
    """Fail unless the scores are float32, finite for what was read, and NaN for what was not."""
    expect_equal((scores.shape, scores.dtype), (read.shape, np.float32), "the shape and type of the scores")
    expect(np.isfinite(scores[read]).all(), "a score is not finite")
    expect(np.isnan(scores[~read]).all(), "a word that was not read has a score")


def _check_batches(case: _Case) -> None:
    """Padding, order and the token budget change no score; each text is explained by itself first."""
    alone = [case.explain([text])[0] for text in case.texts]
    case.expect_same(case.explain(case.texts), alone, "all texts together")
    case.expect_same(case.explain(case.texts[::-1]), alone[::-1], "all texts in reverse order")
    for budget in (1, 40):
        explained = case.changed(max_tokens=budget).explain(case.texts)
        case.expect_same(explained, alone, f"batches of {budget} sub-tokens")


def _check_bf16(case: _Case) -> None:
    for attribution in case.changed(dtype=AUTOCAST).explain(case.texts):
        with about("precision bf16"):
            _expect_scores(attribution.scores, attribution.read)


def _check_targets(case: _Case) -> None:
    labels = case.classifier.labels
    indices = [i % len(labels) for i in range(len(case.texts))]
    names = [labels[i] for i in indices]
    named = case.explain(case.texts, names)
    expect_equal([a.target for a in named], names, "the explained targets by name")
    case.expect_same(case.explain(case.texts, indices), named, "targets by index instead of by name")
    expected = case.classifier.predict_proba(case.classifier.read(case.texts))[range(len(case.texts)), indices]
    expect_close([a.probability for a in named], expected, case.tolerance, "targets by name: the list of probabilities")


def _check_state(case: _Case) -> None:
    """The model, torch and the random generators are as they were, and a second time gives the same."""
    texts = case.texts[:2]
    # With bf16, a method enters autocast, which it must leave.
    for this in (case, case.changed(dtype=AUTOCAST)):
        model = this.classifier.model
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        before = _model_state(model)
        draws = _random_state()
        first = this.explain(texts)
        expect(_model_state(model) == before, "hooks, modes or settings are left on the model")
        same = all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
        expect(same, "the model's weights have changed")
        expect(_random_state() == draws, "the global random generators were used and not put back")
        expect(not torch.is_autocast_enabled(this.classifier.device.type), "autocast is left on")
        expect(torch.is_grad_enabled(), "gradients are left off")
        expect(not torch.is_inference_mode_enabled(), "inference mode is left on")
        this.expect_same(this.explain(texts), first, "the same texts a second time")


def _model_state(model: torch.nn.Module) -> list[Any]:
    """Return each part's mode and number of hooks, which parameters have gradients, and the kind of attention."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    parts = []
    for part in model.modules():
        parts.append([part.training, *(len(getattr(part, kind)) for kind in kinds)])
    gradients = [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()]
    return [parts, gradients, getattr(getattr(model, "config", None), "_attn_implementation", None)]


def _random_state() -> list[Any]:
    name, keys, *rest = np.random.get_state()
    return [torch.random.get_rng_state().tolist(), random.getstate(), name, np.asarray(keys).tolist(), *rest]
