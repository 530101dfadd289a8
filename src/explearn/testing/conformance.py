"""Checks that every method must pass; `check_explainer` runs all of them on tiny classifiers with random weights."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from explearn.core.attribution import Attribution
from explearn.core.errors import ParamsError
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.learned import LearnedExplainer, RefiningExplainer
from explearn.methods.info import MethodInfo
from explearn.predictors.encoding import Text
from explearn.predictors.transformer import TransformerPredictor
from explearn.testing import tiny
from explearn.text.alignment import NO_WORD

SIZES = (*((kind, 3) for kind in tiny.ARCHITECTURES), ("bert", 2))
"""Architectures and numbers of classes that a method is tried on."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A method on a classifier.

    Attributes:
        make: makes the method.
        name: its registry name.
        classifier: the classifier.
        where: the classifier, in words.
        texts: the texts to explain.
        tolerance: largest difference of a probability, and of a score as a share of the text's largest.
    """

    make: Callable[[], Explainer]
    name: str
    classifier: TransformerPredictor
    where: str
    texts: Sequence[Text]
    tolerance: float

    def explain(self, texts: Any, targets: Any = None) -> list[Attribution]:
        return self.make().explain(self.classifier, texts, targets)

    def expect(self, holds: bool, message: str) -> None:
        if not holds:
            raise AssertionError(f"{self.name} on {self.where}: {message}")

    def expect_same(self, attributions: Sequence[Attribution], expected: Sequence[Attribution], what: str) -> None:
        """Fail unless two explanations of the same texts are the same, up to rounding."""
        self.expect(
            len(attributions) == len(expected), f"{what}: {len(attributions)} attributions; expected {len(expected)}"
        )
        for number, (a, b) in enumerate(zip(attributions, expected, strict=True), start=1):
            for part in ("words", "tokens", "target", "predicted"):
                got = getattr(a, part)
                wanted = getattr(b, part)
                self.expect(got == wanted, f"{what}, text {number}: {part} are {got!r}; expected {wanted!r}")
            largest = max(0.1, float(np.abs(b.token_scores).max(initial=0)))
            for part in ("scores", "token_scores"):
                got = getattr(a, part)
                wanted = getattr(b, part)
                same = got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-7, atol=self.tolerance * largest)
                self.expect(same, f"{what}, text {number}: {part} are {got}; expected {wanted}")
            self.expect(
                math.isclose(a.probability, b.probability, rel_tol=0, abs_tol=self.tolerance),
                f"{what}, text {number}: the probability is {a.probability}; expected {b.probability}",
            )


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
        ParamsError: an unknown architecture, or a class that needs training.

    Example:
        >>> from explearn.methods.gradient.gradient import Gradient
        >>> from explearn.testing import check_explainer
        >>> check_explainer(Gradient, architectures=["bert"], texts=["the quick brown fox"])
    """
    make, name = _maker(method, options)
    texts = list(texts)
    chosen = set(architectures)
    if unknown := sorted(chosen - set(tiny.ARCHITECTURES)):
        raise ParamsError(f"architectures: got {unknown[0]!r}; expected some of {', '.join(tiny.ARCHITECTURES)}")
    cases = []
    if classifier is not None:
        chosen = set()
        cases.append(_Case(make, name, classifier, "the classifier given", texts, tolerance))
    for kind, classes in SIZES:
        if kind in chosen:
            where = f"{kind} with {classes} classes"
            cases.append(_Case(make, name, tiny.classifier(kind, classes), where, texts, tolerance))
    for case in cases:
        for check in (_check_attributions, _check_batches, _check_bf16, _check_targets, _check_state):
            check(case)
    _check_lost_words(cases[0])


def _maker(
    method: type[Explainer] | Explainer, options: Mapping[str, Any] | None
) -> tuple[Callable[[], Explainer], str]:
    """Return what makes the method, and the method's name."""
    cls = method
    if not isinstance(cls, type):
        cls = type(cls)
    try:
        MethodInfo.of_class(cls)
    except ParamsError as error:
        raise AssertionError(str(error)) from error
    if not isinstance(method, type):
        if options is not None:
            raise ParamsError("options: got some with an instance; they go with a class")
        return lambda: method, method.name
    if issubclass(method, LearnedExplainer | RefiningExplainer):
        raise ParamsError(f"method: got class {cls.__name__}, which is trained; expected an instance after `fit`")
    return lambda: method(**(options or {})), method.name


def _check_attributions(case: _Case) -> None:
    """Every word and every sub-token has a score, and a word's score is made of those of its pieces."""
    encodings = case.classifier.encode(case.texts)
    probabilities = case.classifier.predict_proba(encodings)
    attributions = case.explain(case.texts)
    case.expect(len(attributions) == len(case.texts), "expected one attribution for each text")
    for result, encoding, p in zip(attributions, encodings, probabilities, strict=True):
        where = f"text {' '.join(encoding.words)!r}: "
        predicted = case.classifier.labels[int(p.argmax())]
        case.expect(result.words == encoding.words, f"{where}words are {result.words}; expected {encoding.words}")
        for part, scores, size in (
            ("word", result.scores, len(result.words)),
            ("sub-token", result.token_scores, len(result.tokens)),
        ):
            case.expect(scores.shape == (size,), f"{where}{part} scores of shape {scores.shape}; expected ({size},)")
            case.expect(scores.dtype == np.float32, f"{where}{part} scores are {scores.dtype}; expected float32")
            case.expect(bool(np.isfinite(scores).all()), f"{where}a {part} score is not finite")
        for part in ("predicted", "target"):
            label = getattr(result, part)
            case.expect(label == predicted, f"{where}{part} is {label!r}; expected the predicted class, {predicted!r}")
        case.expect(
            math.isclose(result.probability, p.max(), rel_tol=0, abs_tol=case.tolerance),
            f"{where}the probability is {result.probability}; expected {p.max()}, as without an explanation",
        )
        case.expect(
            result.method == case.name,
            f"{where}the method is called {result.method!r}; expected {case.name!r}",
        )
        case.expect(result.unaligned == 0, f"{where}{result.unaligned} words without a score; expected none")
        case.expect(result.seconds > 0, f"{where}took {result.seconds} seconds; expected more than 0")
        if not result.signed:
            case.expect(bool((result.token_scores >= 0).all()), f"{where}a score is below zero, but `signed` is False")
        owners = np.array([encoding.word_ids[i] for i in encoding.positions])
        combine: Callable[[Any], float] = np.sum
        if result.aggregation == "max":
            combine = np.max
        for word, score in enumerate(result.scores):
            pieces = float(combine(result.token_scores[owners == word]))
            case.expect(
                math.isclose(score, pieces, rel_tol=1e-5, abs_tol=1e-6),
                f"{where}word {word} has the score {score}; expected the {result.aggregation} of its pieces, {pieces}",
            )


def _check_batches(case: _Case) -> None:
    """Padding, order and the token budget change no score; each text is explained by itself first."""
    alone = [case.explain([text])[0] for text in case.texts]
    case.expect_same(case.explain(case.texts), alone, "all texts together")
    case.expect_same(case.explain(case.texts[::-1]), alone[::-1], "all texts in reverse order")
    for budget in (1, 40):
        small = replace(case, classifier=_changed(case.classifier, max_tokens=budget))
        case.expect_same(small.explain(case.texts), alone, f"batches of {budget} sub-tokens")


def _check_bf16(case: _Case) -> None:
    for attribution in replace(case, classifier=_changed(case.classifier, dtype=torch.bfloat16)).explain(case.texts):
        case.expect(bool(np.isfinite(attribution.scores).all()), "precision bf16: a score is not finite")
        case.expect(attribution.scores.dtype == np.float32, "precision bf16: scores are not float32")


def _check_targets(case: _Case) -> None:
    labels = case.classifier.labels
    indices = [i % len(labels) for i in range(len(case.texts))]
    named = case.explain(case.texts, [labels[i] for i in indices])
    case.expect([a.target for a in named] == [labels[i] for i in indices], "targets by name: others were explained")
    case.expect_same(case.explain(case.texts, indices), named, "targets by index instead of by name")
    expected = case.classifier.predict_proba(case.classifier.encode(case.texts))[range(len(case.texts)), indices]
    case.expect(
        np.allclose([a.probability for a in named], expected, rtol=0, atol=case.tolerance),
        "targets by name: the probabilities are not those of the targets",
    )


def _check_state(case: _Case) -> None:
    """The model, torch and the random generators are as they were, and a second time gives the same."""
    texts = list(case.texts[:2])
    # With bf16, a method enters autocast, which it must leave.
    for classifier in (case.classifier, _changed(case.classifier, dtype=torch.bfloat16)):
        model = classifier.model
        this = replace(case, classifier=classifier)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        before = _model_state(model)
        draws = _random_state()
        first = this.explain(texts)
        case.expect(_model_state(model) == before, "hooks, modes or settings are left on the model")
        same = all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
        case.expect(same, "the model's weights have changed")
        case.expect(_random_state() == draws, "the global random generators were used and not put back")
        case.expect(not torch.is_autocast_enabled(classifier.device.type), "autocast is left on")
        case.expect(torch.is_grad_enabled(), "gradients are left off")
        case.expect(not torch.is_inference_mode_enabled(), "inference mode is left on")
        this.expect_same(this.explain(texts), first, "the same texts a second time")


def _check_lost_words(case: _Case) -> None:
    """A word without sub-tokens, or behind the point where a text is cut, has no score; of one text that may be all."""
    texts = ["lazy \u200b dog " + "castle " * 60, "\u200b \u200d"]
    for text, encoding, result in zip(texts, case.classifier.encode(texts), case.explain(texts), strict=True):
        kept = sorted({encoding.word_ids[i] for i in encoding.positions} - {NO_WORD})
        lost = sorted(set(range(len(encoding.words))) - set(kept))
        where = f"text {text[:10]!a}"
        case.expect(len(result.tokens) == len(encoding.positions), f"{where}: not one token for each sub-token")
        case.expect(
            result.unaligned == len(lost),
            f"{where}: {len(lost)} words were not read, but {result.unaligned} were counted",
        )
        case.expect(bool(np.isnan(result.scores[lost]).all()), f"{where}: a word that was not read has a score")
        case.expect(bool(np.isfinite(result.scores[kept]).all()), f"{where}: a word that was read has no score")


def _changed(classifier: TransformerPredictor, **attributes: Any) -> TransformerPredictor:
    """Return the classifier in another precision or with other batches."""
    other = copy.copy(classifier)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other


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
