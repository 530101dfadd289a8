"""The attribution of a text from the scores of its sub-tokens."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from saying import complaint

import explearn
from explearn import FunctionPredictor
from explearn.methods import registry
from explearn.methods.base.attributions import TextScores, answer_fields, attribution_of, check_scores
from explearn.predictors.labelled import Problem
from explearn.predictors.windows import cut

OF = tiny.classifier("bert", 3)


def scores_of(tokens, row=0):
    """Scores drawn at random, also for special tokens and padding."""
    draw = np.random.default_rng(row)
    logits = draw.normal(size=3) * 9
    return TextScores(draw.normal(size=tokens + 3), logits, row % 3, seconds=row, completeness_error=0.5, unread=row)


def make(text, scores):
    return attribution_of(OF, text, scores, "occlusion", "max", signed=True)


def test_windows_are_joined():
    (encoding,) = OF.encode(["castle dog " * 40], whole=True)
    text = cut(encoding, OF.max_length, 20)
    rows = [replace(scores_of(len(window), row), target=1) for row, window in enumerate(text.windows)]
    attribution = make(text, rows)
    assert (attribution.windows, attribution.seconds) == (len(rows), sum(range(len(rows))))
    assert (attribution.completeness_error, attribution.unaligned) == (None, 0)
    softmax = [np.exp(one.logits) / np.exp(one.logits).sum() for one in rows]
    assert attribution.probability == pytest.approx(np.mean(softmax, axis=0)[1])
    joined = np.float32(text.join([one.scores for one in rows]))
    np.testing.assert_array_equal(attribution.token_scores, joined[encoding.positions])


def test_answers_of_other_problems():
    """Multi-label: every label that holds is predicted. Regression: a value in the place of a probability."""
    of = FunctionPredictor(lambda texts: np.ones((len(texts), 2)), ["a", "b"])
    logits = np.array([[1.0, 3.0]])
    of.problem = Problem.MULTI_LABEL
    assert answer_fields(of, logits, "a") == {"probability": pytest.approx(1 / (1 + np.exp(-1))), "predicted": "a"}
    assert answer_fields(of, -logits, "b")["predicted"] == "a"
    of.problem = Problem.REGRESSION
    assert answer_fields(of, logits, "b")["value"] == 3.0


def fails(_ones):
    raise IndexError("no such row")


def plugged_in(change):
    """A method of somebody else, whose scores `change` spoils."""

    class Mine(explearn.BatchExplainer):
        """Ones."""

        about = explearn.About(name="mine", family="chance", cost="one forward pass")

        def score_batch(self, classifier, batch, targets):
            logits = classifier.logits(batch)
            chosen = logits.argmax(-1) if targets is None else targets
            return explearn.BatchScores(change(batch.attention_mask.float()), logits, chosen)

    return Mine()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda ones: ones.to(torch.complex64), "complex scores; expected real numbers"),
        (lambda ones: ones[:, :-1], "gave scores of shape (2, 5); expected (2, 6)"),
        (lambda ones: ones.double() * 1e39, "gave a score that is not finite"),
        (fails, "failed (IndexError"),
    ],
)
def test_a_method_of_somebody_else_that_is_wrong_is_named(change, said):
    texts = ["the quick brown fox", "lazy"]
    complaint(
        lambda: plugged_in(change).explain(tiny.classifier(), texts),
        f"mine, of {__name__.partition('.')[0]!r},",
        said,
    )


@pytest.mark.parametrize(("change", "said"), [(fails, "IndexError"), (lambda ones: ones * torch.nan, "not finite")])
def test_a_comparison_goes_on_without_a_method_that_fails(monkeypatch, change, said):
    failing = plugged_in(change)
    monkeypatch.setattr(registry, "_registered", {"mine": type(failing)})
    result = explearn.compare(tiny.classifier(), list(tiny.TEXTS), [failing, "random"], out=None)
    assert list(result.methods) == ["random"] and said in result.left_out["mine"]


def test_masked_scores_of_a_method_are_refused():
    scores = np.ma.array([0.1, 0.2], mask=[True, False])
    complaint(lambda: check_scores("scores", scores, (2,)), "gave masked scores; expected a number for each")
