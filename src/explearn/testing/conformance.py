"""Checks that every method must pass; `check_explainer` runs all of them on tiny classifiers with random weights."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from explearn.core.attribution import Attribution
from explearn.methods.base.explainer import Explainer
from explearn.methods.info import MethodInfo
from explearn.predictors.encoding import Text
from explearn.predictors.transformer import TransformerPredictor
from explearn.testing import tiny

AUTOCAST = torch.bfloat16


def expect(holds: bool, message: str) -> None:
    """Raise AssertionError unless something holds."""
    if not holds:
        raise AssertionError(message)


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
        expect(len(attributions) == len(expected), f"{what}: {len(attributions)} attributions, not {len(expected)}")
        for number, (a, b) in enumerate(zip(attributions, expected, strict=True), start=1):
            largest = max(0.1, float(np.abs(b.token_scores).max(initial=0)))
            for part in ("words", "tokens", "target", "predicted", "scores", "token_scores", "probability"):
                got = getattr(a, part)
                wanted = getattr(b, part)
                if part == "probability":
                    same = abs(got - wanted) <= self.tolerance
                elif part.endswith("scores"):
                    atol = self.tolerance * largest
                    same = got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-7, atol=atol)
                else:
                    same = got == wanted
                expect(same, f"{what}, text {number}: {part} are {got}; expected {wanted}")


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
    checks = [_check_attributions, _check_batches, _check_bf16, _check_targets, _check_state, _check_lost_words]
    for where, model in tried.items():
        assert model is not None
        case = _Case(method, options or {}, model, list(texts), tolerance)
        for check in checks:
            try:
                check(case)
            except AssertionError as error:
                raise AssertionError(f"{method.name} on {where}: {error}") from error
        # How words are lost does not depend on the architecture.
        checks = checks[:5]


def _check_attributions(case: _Case) -> None:
    """Every word and every sub-token has a score, and a word's score is made of those of its pieces."""
    encodings = case.classifier.read(case.texts)
    probabilities = case.classifier.predict_proba(encodings)
    attributions = case.explain(case.texts)
    expect(len(attributions) == len(case.texts), "expected one attribution for each text")
    for result, encoding, p in zip(attributions, encodings, probabilities, strict=True):
        where = f"text {' '.join(encoding.words)!r}: "
        predicted = case.classifier.labels[int(p.argmax())]
        facts = {"words": encoding.words, "predicted": predicted, "target": predicted, "method": case.method.name}
        for part, wanted in {**facts, "unaligned": 0}.items():
            got = getattr(result, part)
            expect(got == wanted, f"{where}{part} is {got!r}; expected {wanted!r}")
        for scores, size in ((result.scores, len(result.words)), (result.token_scores, len(result.tokens))):
            expect(scores.shape == (size,), f"{where}scores of shape {scores.shape}; expected ({size},)")
            expect(scores.dtype == np.float32, f"{where}scores are {scores.dtype}; expected float32")
            expect(bool(np.isfinite(scores).all()), f"{where}a score is not finite")
        expect(
            abs(result.probability - p.max()) <= case.tolerance,
            f"{where}the probability is {result.probability}; expected {p.max()}, as without an explanation",
        )
        expect(result.seconds > 0, f"{where}took {result.seconds} seconds; expected more than 0")
        below = bool((result.token_scores < 0).any())
        expect(result.signed or not below, f"{where}a score is below zero, but `signed` is False")
        owners = np.array([encoding.word_ids[i] for i in encoding.positions])
        combine = np.max if result.aggregation == "max" else np.sum
        for word, score in enumerate(result.scores):
            pieces = float(combine(result.token_scores[owners == word]))
            expect(
                math.isclose(score, pieces, rel_tol=1e-5, abs_tol=1e-6),
                f"{where}word {word} has the score {score}; expected the {result.aggregation} of its pieces, {pieces}",
            )


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
        expect(bool(np.isfinite(attribution.scores).all()), "precision bf16: a score is not finite")
        expect(attribution.scores.dtype == np.float32, "precision bf16: scores are not float32")


def _check_targets(case: _Case) -> None:
    labels = case.classifier.labels
    indices = [i % len(labels) for i in range(len(case.texts))]
    named = case.explain(case.texts, [labels[i] for i in indices])
    expect([a.target for a in named] == [labels[i] for i in indices], "targets by name: others were explained")
    case.expect_same(case.explain(case.texts, indices), named, "targets by index instead of by name")
    expected = case.classifier.predict_proba(case.classifier.read(case.texts))[range(len(case.texts)), indices]
    same = np.allclose([a.probability for a in named], expected, rtol=0, atol=case.tolerance)
    expect(same, "targets by name: the probabilities are not those of the targets")


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


def _check_lost_words(case: _Case) -> None:
    """A word without sub-tokens, or behind the point where a text is cut, has no score; of one text that may be all."""
    texts = ["lazy \u200b dog " + "castle " * 60, "\u200b \u200d"]
    for text, encoding, result in zip(texts, case.classifier.read(texts), case.explain(texts), strict=True):
        read = np.isin(np.arange(len(encoding.words)), [encoding.word_ids[i] for i in encoding.positions])
        where = f"text {text[:10]!a}"
        expect(len(result.tokens) == len(encoding.positions), f"{where}: not one token for each sub-token")
        lost = int((~read).sum())
        expect(result.unaligned == lost, f"{where}: {lost} words were not read, but {result.unaligned} were counted")
        expect(bool(np.isnan(result.scores[~read]).all()), f"{where}: a word that was not read has a score")
        expect(bool(np.isfinite(result.scores[read]).all()), f"{where}: a word that was read has no score")


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
