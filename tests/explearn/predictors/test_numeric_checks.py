"""Weights and logits that are not finite end in one sentence, and never replace what was there."""

import pytest
import tiny
import torch
from trained_cases import keep

from explearn import ModelError, get_explainer, load_classifier
from explearn.core.compute import check_weights


def spoiled(value=float("nan"), last=False):
    """A classifier with one bad weight; `last`: in its head alone, so that attention stays finite."""
    of = tiny.make_classifier()
    parameter = of.model.classifier.weight if last else of.model.bert.embeddings.LayerNorm.weight
    parameter.data[0] = value
    return of


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_a_saved_classifier_with_such_weights_is_not_loaded(tmp_path, value):
    spoiled(value).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"damaged.*: 1 of the .* values of .*LayerNorm\.weight are NaN or infinite"):
        load_classifier(tmp_path, device="cpu")


def test_nothing_is_predicted_or_explained_from_logits_that_are_not_finite():
    for method in ("attention_flow", "rollout", "random", "input_x_gradient"):
        with pytest.raises(ModelError, match="gave a logit that is not finite"):
            get_explainer(method).explain(spoiled(last=True), ["the quick fox"])
    with pytest.raises(ModelError, match="gave a logit that is not finite"):
        spoiled(last=True).predict(["the quick fox"])


def test_an_explainer_that_diverged_does_not_replace_a_good_one(tmp_path):
    def write(weight):
        keep(tmp_path / "e", {"w": torch.tensor([1.0, weight])})

    write(1.0)
    before = {path.name: path.read_bytes() for path in (tmp_path / "e").iterdir()}
    with pytest.raises(ModelError, match=r"e: kept diverged in training: 1 of the 2 values of w are NaN or infinite"):
        write(float("nan"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "e").iterdir()} == before


def test_large_weights_are_finite_though_their_sum_is_not():
    large = torch.full((4,), 3e38)
    assert not large.sum().isfinite()
    check_weights([("large", large)], "it", "hint")
    with pytest.raises(ModelError, match=r"^it: 1 of the 5 values of large are NaN or infinite"):
        check_weights([("large", torch.cat([large, torch.tensor([float("-inf")])]))], "it", "hint")
