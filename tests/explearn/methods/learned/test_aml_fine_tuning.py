"""fAML: fine-tuning AML on one text at a time."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import tiny
import torch
from aml_cases import TEXTS, encoder, examples, one_word_classifier, refiner, trained, untrained, values
from explearn.predictors.transformer import TransformerPredictor
from torch import nn
from torch.nn.utils import parametrize

from explearn.lens.passes import count_passes
from explearn.methods.aml import faml as engine
from explearn.methods.aml.attribution_model import StatesModel
from explearn.methods.aml.faml import ADAM_EPSILON, LowRankTuning
from explearn.methods.aml.loss import loss_terms, weighted
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.target_metric import Metric

BACKBONES = ("states", "encoder")


def start(backbone: str, folder: Path) -> PAML:
    """A pAML of `one_word_classifier` that has not learned, with a G of either kind."""
    return untrained(one_word_classifier(), backbone="states" if backbone == "states" else encoder(folder / "encoder"))


class _LowRank(nn.Module):
    """W + (down up)^T, as torch's parametrizations take it."""

    def __init__(self, down: torch.Tensor, up: torch.Tensor) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(down.clone()), nn.Parameter(up.clone())

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + (self.down @ self.up).T


def reference(paml: PAML, of: TransformerPredictor, text: Any, steps: int, lr: float, seed: int) -> np.ndarray:
    """Attributions after some steps on one text: a copy of G whose own weights change, run as a whole."""
    assert paml.model is not None
    model = copy.deepcopy(paml.model).requires_grad_(False)
    assert isinstance(model, StatesModel)
    block = model.reader.block
    changed = [model.reader.head.weight, model.reader.head.bias]
    generator = torch.Generator().manual_seed(seed)
    for linear in (model.reader.read, block.qkv, block.out, block.up, block.down):
        down = torch.randn(linear.in_features, engine.RANK, generator=generator) * linear.in_features**-0.5
        product = _LowRank(down, torch.zeros(engine.RANK, linear.out_features))
        parametrize.register_parametrization(linear, "weight", product)
        changed += [linear.bias, product.down, product.up]
    for parameter in changed:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(changed, lr=lr, weight_decay=0.0, eps=ADAM_EPSILON)
    reading = model.read(of, of.batch(of.encode([text])))
    y = reading.logits.softmax(-1)
    for _ in range(steps):
        terms = loss_terms(of, reading.batch, model(of, reading, y), y, paml.weights)
        optimizer.zero_grad()
        weighted(terms, paml.weights).sum().backward()
        optimizer.step()
    return model(of, reading, y).sigmoid()[0].detach().numpy()


class TestTuning:
    def test_many_texts_at_once_go_the_way_of_each_alone(self) -> None:
        """Against a loop over copies of G in which the same weights are trained by torch itself."""
        of, paml = one_word_classifier(), trained()
        assert isinstance(paml.model, StatesModel)
        reading = paml.model.read(of, of.batch(of.encode(TEXTS)))
        y = reading.logits.softmax(-1)
        with torch.enable_grad():
            tuning = LowRankTuning(paml.model, of, reading, y, seed=3)
            start = tuning.scores().sigmoid().detach().numpy()
            optimizer = torch.optim.AdamW(tuning.parameters(), lr=1e-2, weight_decay=0.0, eps=ADAM_EPSILON)
            for _ in range(4):
                terms = loss_terms(of, reading.batch, tuning.scores(), y, paml.weights)
                optimizer.zero_grad()
                weighted(terms, paml.weights).sum().backward()
                optimizer.step()
            scores = tuning.scores().sigmoid().detach().numpy()
        plain = paml.model(of, reading, y).sigmoid().numpy()
        for row, text in enumerate(TEXTS):
            n = len(reading.batch.encodings[row])
            np.testing.assert_allclose(start[row, :n], plain[row, :n], atol=1e-4)
            np.testing.assert_allclose(scores[row, :n], reference(paml, of, text, 4, 1e-2, 3), atol=2e-3)
            assert np.abs(scores[row, :n] - start[row, :n]).max() > 1e-2

    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_g_itself_stays_as_it_is(self, backbone: str, tmp_path: Path) -> None:
        of, paml = one_word_classifier(), start(backbone, tmp_path)
        assert paml.model is not None
        before = {name: value.clone() for name, value in paml.model.state_dict().items()}
        list(refiner(paml, steps=2).explain(of, TEXTS))
        assert all(torch.equal(value, before[name]) for name, value in paml.model.state_dict().items())
        assert tiny.hooks(paml.model) == 0


class TestSearch:
    @pytest.mark.parametrize(("patience", "samples"), [(1, 0), (2, 4)])
    def test_a_text_s_map_does_not_depend_on_the_others(
        self, patience: int, samples: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "PATIENCE", patience)
        of = tiny.classifier("bert")
        texts = [*examples(4, seed=7), *TEXTS, TEXTS[0], TEXTS[0]]
        targets = [number % 2 for number in range(len(texts))]
        faml = refiner(untrained(of), samples=samples, steps=8)
        together = list(faml.explain(of, texts, targets))
        assert len({one.steps for one in faml._refined}) > 1  # some are done before others
        for text, target, attribution in zip(texts, targets, together, strict=True):
            (alone,) = faml.explain(of, [text], [target])
            np.testing.assert_allclose(attribution.token_scores, alone.token_scores, atol=1e-3)

    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_a_text_whose_g_diverges_keeps_its_best_map(self, backbone: str, tmp_path: Path) -> None:
        of = one_word_classifier()
        faml = refiner(start(backbone, tmp_path), learning_rate=1e30, samples=2)
        assert all(np.isfinite(a.scores).all() for a in faml.explain(of, tiny.TEXTS))
        assert faml.notes()["steps"] < faml.options.steps

    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_it_is_never_worse_than_paml_on_its_metric_and_better_on_some_text(
        self, backbone: str, tmp_path: Path
    ) -> None:
        of = one_word_classifier()
        paml, texts = start(backbone, tmp_path), [*examples(8, seed=7), *examples(2, seed=8)]
        faml = refiner(paml, steps=15, learning_rate=1e-3 if backbone == "encoder" else 2e-2)
        before, after = (values(of, method.explain(of, texts), "aopc_difference") for method in (paml, faml))
        assert (after >= before - 1e-5).all()
        assert after.mean() > before.mean() + 0.1

    def test_no_step_is_paml(self) -> None:
        of, paml = one_word_classifier(), trained()
        for a, b in zip(paml.explain(of, TEXTS), refiner(paml, steps=0).explain(of, TEXTS), strict=True):
            np.testing.assert_allclose(a.scores, b.scores, atol=1e-5)


class TestNotes:
    def test_each_metric_s_best_map_is_judged_by_all_metrics(self) -> None:
        of, paml = one_word_classifier(), untrained(one_word_classifier())
        faml = refiner(paml, metric="comprehensiveness")
        attributions = list(faml.explain(of, examples(6, seed=5)))
        notes = faml.notes()
        judged = notes["judged"]
        assert notes["optimised_for"] == "comprehensiveness" and set(judged) == set(get_args(Metric))
        for name in judged:
            column = [row[name] for row in judged.values()]
            smaller = name in ("sufficiency", "log_odds", "aopc_sufficiency")
            assert judged[name][name] == pytest.approx(min(column) if smaller else max(column), abs=1e-4)
        expected = values(of, attributions, "comprehensiveness").mean()
        assert judged["comprehensiveness"]["comprehensiveness"] == pytest.approx(expected, abs=1e-5)

    def test_passes_are_counted(self) -> None:
        of = one_word_classifier()
        with count_passes(of.model) as passes:
            list(refiner(trained(), steps=3).explain(of, ["the warm fox sleeps"]))
        # The text itself twice, six masked texts, and at least one map's parts.
        assert passes.forward > 2 + 6
        assert passes.backward == 6
