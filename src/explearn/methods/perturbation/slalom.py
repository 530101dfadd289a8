"""SLALOM: a value and a weight for each word, linked by softmax."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.optimize import least_squares
from scipy.special import logsumexp, softmax

from explearn.core.arrays import Array, Mask
from explearn.core.validation import MOST_ROUNDS, Seeded
from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, PerturbationExplainer, Scored
from explearn.predictors.labelled import Problem
from explearn.text.encoding import Removal

SHORT = 3
"""Most words that short sets keep; the authors' default."""

DELETED = 5
"""Most words that are left out with `deletion`; the authors' default."""

STEPS = 100
"""Most steps of the fit. Our own limit, for long texts."""

TOLERANCE = 1e-12
"""Relative change at which the fit ends: rounding of the answers must not show in the scores."""


class Slalom(PerturbationExplainer):
    """A model with a value and a weight for each word, whose softmax says how much of the value counts.

    SLALOM (Leemann et al., 2025): the log odds of the class, given the words of a set S alone, are modelled by

        F(S) = sum_(i in S) a_i v_i,   a_i = exp(s_i) / sum_(j in S) exp(s_j)

    v_i: value, the log odds of word i alone; s_i: weight (the paper's importance), how much of it counts beside others.
    A transformer can be such a model, but no linear one. Both are fitted by least squares to what the classifier says
    of random sets of the text's words. Weights are shifted to a mean of 0.

    `score: linear` is exp(s_i) v_i, here divided by the sum of exp(s): scores add up to F of the whole text. Signed;
    all sub-tokens of a word get its score.

    Not as in the paper: words in place of sub-tokens, each occurrence with its own two numbers; sets keep the text's
    order, without repetitions, and with `short` each word is asked about alone, too; the fit is a trust-region method
    with a ridge penalty on the weights, in place of some epochs of SGD (SLALOM-eff) or alternating regressions
    (SLALOM-fidel).
    """

    about = About(
        name="slalom",
        family="perturbation",
        cost="one forward pass a sample (500 samples), duplicates once",
        costly=True,
    )
    signed = True

    class Options(Seeded):
        samples: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] = 500
        """Sets of words (duplicates are evaluated once)."""
        sets: Literal["short", "deletion"] = "short"
        """One to three words of the text (`short`, SLALOM-eff), or all but five at most (`deletion`, SLALOM-fidel)."""
        score: Literal["linear", "value", "weight", "removal"] = "linear"
        """What is given of a word: exp(s) v as above, v, s, or F(text) - F(text without it)."""
        ridge: Annotated[float, Field(ge=0)] = 0.001
        """Penalty of a squared weight, as a share of the variance of the log odds; 0: none."""
        removal: Removal = "delete"
        """A missing word's sub-tokens are deleted (`delete`) or each replaced by the mask token (`mask`)."""

    def score_text(self, asked: AskedText) -> Scored:
        options = self.options
        kept = draw_sets(len(asked.text), options.samples, options.sets, np.random.default_rng(options.seed))
        values, weights = fit_slalom(kept, log_odds(asked, kept), options.ridge)
        shares = softmax(weights)
        scores = {"linear": shares * values, "value": values, "weight": weights}
        if options.score == "removal":
            scores["removal"] = shares * (values - shares @ values) / np.maximum(1 - shares, np.finfo(float).tiny)
        return Scored(asked.text.on_pieces(scores[options.score]))


def draw_sets(words: int, samples: int, kind: str, rng: np.random.Generator) -> Mask:
    """Draw sets of words, none of them empty, bool, (samples, words)."""
    if kind == "short":
        sizes = rng.integers(1, min(SHORT, words), samples, endpoint=True)
    else:
        sizes = words - rng.integers(0, min(DELETED, words - 1), samples, endpoint=True)
    kept = np.asarray(rng.random((samples, words)).argsort(1) < sizes[:, None])
    if kind == "short":
        kept[:words] = np.eye(words, dtype=bool)[:samples]
    return kept


def log_odds(asked: AskedText, kept: Mask) -> Array:
    """Return the target's log odds, (n,), of a text with each set of its words, (n, w); of a regression, its value."""
    predictor = asked.answers.predictor
    logits = asked.answers.ask(asked.text.perturbed(kept, asked.removal), "logit")
    values = logits[:, asked.target]
    if predictor.problem is Problem.SINGLE_LABEL:
        values = values - logsumexp(np.delete(logits, asked.target, 1), axis=1)
    return np.asarray(values)


def fit_slalom(kept: Mask, wanted: Array, ridge: float) -> tuple[Array, Array]:
    """Fit values and weights, (w,) each: the mean of (F(S) - wanted)^2, and ridge var(wanted) sum_i s_i^2, are least.

    Args:
        kept: sets of words, bool, (n, w), none of them empty.
        wanted: F of each set, (n,).
        ridge: penalty of a squared weight.
    """
    sets, words = kept.shape
    penalty = np.sqrt(ridge * wanted.var() * sets) * np.eye(words, 2 * words, words)

    def shares_of(weights: Array) -> Array:
        return np.asarray(softmax(np.where(kept, weights, -np.inf), axis=1))

    def residuals(parameters: Array) -> Array:
        fitted = shares_of(parameters[words:]) @ parameters[:words]
        return np.append(fitted - wanted, penalty @ parameters)

    def jacobian(parameters: Array) -> Array:
        values = parameters[:words]
        shares = shares_of(parameters[words:])
        slopes = shares * (values - (shares @ values)[:, None])
        return np.vstack([np.hstack([shares, slopes]), penalty])

    start = np.zeros(2 * words)
    start[:words] = np.linalg.lstsq(shares_of(start[words:]), wanted)[0]
    ends = dict.fromkeys(("ftol", "xtol", "gtol"), TOLERANCE)
    fitted = least_squares(residuals, start, jacobian, max_nfev=STEPS, **ends).x
    return fitted[:words], fitted[words:] - fitted[words:].mean()
