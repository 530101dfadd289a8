"""The attribution of a text from the scores of its sub-tokens."""

import numpy as np
import pytest
import tiny
import torch
from saying import complaint

import explearn
from explearn.methods import registry
from explearn.methods.base.attributions import check_scores


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
    result = explearn.compare(tiny.classifier(), list(tiny.TEXTS), [failing, "random", "occlusion"], out=None)
    assert list(result.figures) == ["random", "occlusion"] and said in result.left_out["mine"]


def test_masked_scores_of_a_method_are_refused():
    scores = np.ma.array([0.1, 0.2], mask=[True, False])
    complaint(lambda: check_scores("scores", scores, (2,)), "gave masked scores; expected a number for each")
