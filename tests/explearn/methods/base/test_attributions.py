"""The attribution of a text from the scores of its sub-tokens."""

import sys

import numpy as np
import pytest
import tiny
import torch
from saying import complaint

import explearn
from explearn.methods import registry
from explearn.methods.base.attributions import TextScores, check_scores


def fails(_ones):
    raise IndexError("no such row")


def ends(_ones):
    sys.exit("enough")


def gives_up(_ones):
    raise BaseException


def plugged_in(change, explained=None):
    """A method of somebody else, whose scores `change` spoils; it explains the class `explained`, if there is one."""

    class Mine(explearn.BatchExplainer):
        """Ones."""

        about = explearn.About(name="mine", family="chance", cost="one forward pass")

        def score_batch(self, classifier, batch, targets):
            logits = classifier.logits(batch)
            chosen = logits.argmax(-1) if targets is None else targets
            if explained is not None:
                chosen = torch.full_like(chosen, explained)
            return explearn.BatchScores(change(batch.attention_mask.float()), logits, chosen)

    return Mine()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda ones: ones.to(torch.complex64), "complex scores; expected real numbers"),
        (lambda ones: ones[:, :-1], "gave scores of shape (2, 5); expected (2, 6)"),
        (lambda ones: ones.repeat(1, 2), "gave scores of shape (2, 12); expected (2, 6)"),
        (lambda ones: ones.double() * 1e39, "gave a score that is not finite"),
        (fails, "failed (IndexError: no such row)"),
        (ends, "failed (SystemExit: enough)"),
        (gives_up, "failed (BaseException)"),
    ],
)
def test_a_method_of_somebody_else_that_is_wrong_is_named(change, said):
    texts = ["the quick brown fox", "lazy"]
    complaint(
        lambda: plugged_in(change).explain(tiny.classifier(), texts),
        f"mine, of {__name__.partition('.')[0]!r},",
        said,
    )


@pytest.mark.parametrize("explained", [-1, 2, 0])
def test_a_class_that_is_none_or_not_the_one_asked_for(explained):
    method = plugged_in(lambda ones: ones, explained)
    complaint(lambda: method.explain(tiny.classifier(), ["lazy fox"], [1]), "mine, of", f"explained class {explained};")


def test_scores_of_each_sub_token_and_no_more():
    """Also where the method scores texts itself, and so no padding is cut."""

    class Longer(explearn.Explainer):
        """Ones."""

        about = explearn.About(name="longer", family="chance", cost="one forward pass")

        def score_texts(self, classifier, encodings, targets):
            rows = classifier.predict_logits(encodings)
            return [TextScores(np.ones(len(e) + 1), row, 0, 0.0) for e, row in zip(encodings, rows, strict=True)]

    complaint(lambda: Longer().explain(tiny.classifier(), "lazy fox"), "longer, of", "shape (5,); expected (4,)")


@pytest.mark.parametrize(("change", "said"), [(fails, "IndexError"), (lambda ones: ones * torch.nan, "not finite")])
def test_a_comparison_goes_on_without_a_method_that_fails(monkeypatch, change, said):
    failing = plugged_in(change)
    monkeypatch.setattr(registry, "_registered", {"mine": type(failing)})
    result = explearn.compare(tiny.classifier(), list(tiny.TEXTS), [failing, "random", "occlusion"], out=None)
    assert list(result.figures) == ["random", "occlusion"] and said in result.left_out["mine"]


def test_masked_scores_of_a_method_are_refused():
    scores = np.ma.array([0.1, 0.2], mask=[True, False])
    complaint(lambda: check_scores("scores", scores, (2,)), "gave masked scores; expected a number for each")
