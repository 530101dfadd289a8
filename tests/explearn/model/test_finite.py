"""Weights and logits that are not finite end in one sentence, and never replace what was there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from trained_cases import keep

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ModelError, ParamsError
from explearn.core.finite import check_weights
from explearn.core.records import Example
from explearn.lens.features import compute_features
from explearn.methods.registry import get_explainer
from explearn.model.classifier import Classifier
from explearn.model.finetune import finetune
from explearn.model.params import FinetuneParams

EXAMPLES = [
    Example(f"{split}{n}", ("the", "quick", "fox"), ("yes", "no")[n % 2], split, "t")  # type: ignore[arg-type]
    for split in ("train", "validation")
    for n in range(4)
]


def spoiled(value: float = float("nan"), last: bool = False) -> Classifier:
    """A classifier with one bad weight; `last`: in its head alone, so that attention stays finite."""
    found = tiny.make_classifier("bert")
    parameter = found.model.classifier.weight if last else found.model.bert.embeddings.LayerNorm.weight
    parameter.data[0] = value
    return found


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_saved_classifier_with_such_weights_is_not_loaded(tmp_path: Path, value: float) -> None:
    bad = spoiled(value)
    bad.model.save_pretrained(tmp_path)
    bad.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"damaged.*: 1 of the .* values of .*LayerNorm\.weight are NaN or infinite"):
        Classifier.from_pretrained(tmp_path, device="cpu")


@pytest.mark.parametrize("method", ["attention_flow", "rollout", "random", "input_x_gradient"])
def test_no_method_explains_logits_that_are_not_finite(method: str) -> None:
    with pytest.raises(ModelError, match="gave a logit that is not finite"):
        list(get_explainer(method).explain(spoiled(last=True), ["the quick fox"]))


def test_nor_are_they_judged_or_made_features_of() -> None:
    bad = spoiled(last=True)
    with pytest.raises(ModelError, match="gave a logit that is not finite"):
        bad.predict(["the quick fox"])
    with pytest.raises(ModelError, match="gave a logit that is not finite"):
        compute_features(bad, EXAMPLES[:1])


def test_an_explainer_that_diverged_does_not_replace_a_good_one(tmp_path: Path) -> None:
    def write(weight: float) -> None:
        keep(tmp_path / "e", {"w": torch.tensor([1.0, weight])})

    write(1.0)
    before = {path.name: path.read_bytes() for path in (tmp_path / "e").iterdir()}
    with pytest.raises(ModelError, match=r"e: kept diverged in training: 1 of the 2 values of w are NaN or infinite"):
        write(float("nan"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "e").iterdir()} == before


def test_fine_tuning_replaces_no_folder_of_other_things(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(ParamsError, match=r"holds 'thesis.txt' and no classifier; expected a new or an empty folder"):
        finetune(tmp_path, EXAMPLES, ["no", "yes"], "nowhere", FinetuneParams(), ComputeOptions(device="cpu"), 1)
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_fine_tuning_that_diverges_keeps_the_earlier_classifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    encoder = tmp_path / "encoder"
    tiny.model("bert").bert.save_pretrained(encoder)
    tiny.tokenizer("bert").save_pretrained(encoder)

    def run() -> None:
        params = FinetuneParams(epochs=1, batch_size=4)
        finetune(tmp_path / "c", EXAMPLES, ["no", "yes"], str(encoder), params, ComputeOptions(device="cpu"), 1)

    run()
    before = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    assert "checkpoints" not in before
    train = transformers.Trainer.train

    def diverging(self: Any) -> Any:
        done = train(self)
        self.model.classifier.weight.data.fill_(float("nan"))
        return done

    monkeypatch.setattr(transformers.Trainer, "train", diverging)
    with pytest.raises(ModelError, match=r"c: fine-tuning diverged: .* of classifier\.weight .*learning rate below"):
        run()
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "encoder"]


def test_large_weights_are_finite_though_their_sum_is_not() -> None:
    large = torch.full((4,), 3e38)
    assert not large.sum().isfinite()
    check_weights([("large", large), ("opposite", torch.tensor([3e38, 3e38, -3e38, -3e38]))], "it", "hint")
    with pytest.raises(ModelError, match=r"^it: 1 of the 5 values of large are NaN or infinite"):
        check_weights([("large", torch.cat([large, torch.tensor([float("-inf")])]))], "it", "hint")
