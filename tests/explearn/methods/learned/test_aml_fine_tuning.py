"""fAML: fine-tuning AML on one text at a time."""

from __future__ import annotations

import copy
from typing import Any, get_args

import numpy as np
import pytest
import tiny
import torch
from aml_cases import TEXTS, examples, one_word_classifier, refiner, trained, untrained
from torch import nn
from torch.nn.utils import parametrize

from explearn.lens.passes import count_passes
from explearn.methods.aml import faml as engine
from explearn.methods.aml.faml import ADAM_EPSILON, LowRankTuning
from explearn.methods.aml.loss import loss_terms, weighted
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.target_metric import MapJudge, Metric, protocol_of
from explearn.model.classifier import Classifier

SCOPES = ("low_rank", "full")


class _LowRank(nn.Module):
    """W + (down up)^T, as torch's parametrizations take it."""

    def __init__(self, down: torch.Tensor, up: torch.Tensor) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(down.clone()), nn.Parameter(up.clone())

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + (self.down @ self.up).T


def reference(paml: PAML, of: Classifier, text: Any, steps: int, lr: float, seed: int) -> np.ndarray:
    """Attributions after some steps on one text: a copy of G whose own weights change, run as a whole."""
    assert paml.model is not None
    model = copy.deepcopy(paml.model).requires_grad_(False)
    maps = [
        linear
        for layer in model.backbone.encoder.layer[-engine.BLOCKS :]
        for linear in (
            layer.attention.self.query,
            layer.attention.self.key,
            layer.attention.self.value,
            layer.attention.output.dense,
            layer.intermediate.dense,
            layer.output.dense,
        )
    ]
    changed = [model.output.weight, model.output.bias]
    generator = torch.Generator().manual_seed(seed)
    for linear in [*maps, model.dense]:
        down = torch.randn(linear.in_features, engine.RANK, generator=generator) * linear.in_features**-0.5
        product = _LowRank(down, torch.zeros(engine.RANK, linear.out_features))
        parametrize.register_parametrization(linear, "weight", product)
        changed += [linear.bias, product.down, product.up]
    for parameter in changed:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(changed, lr=lr, weight_decay=0.0, eps=ADAM_EPSILON)
    reading = model.read(of, of.encode([text]))
    y = of.logits(reading.target).softmax(-1)
    for _ in range(steps):
        terms = loss_terms(of, reading.target, model(of, reading, y), y, paml.weights)
        optimizer.zero_grad()
        weighted(terms, paml.weights).sum().backward()
        optimizer.step()
    return model(of, reading, y).sigmoid()[0].detach().numpy()


def values(of: Classifier, attributions: Any, metric: Metric) -> np.ndarray:
    """What a metric says of some attributions, one a text."""
    judge = MapJudge(of, [metric], protocol_of("default"))
    maps = []
    for attribution in attributions:
        (encoding,) = of.encode([" ".join(attribution.words)])
        scores = np.zeros(len(encoding), dtype=np.float32)
        scores[encoding.positions] = attribution.token_scores
        maps.append((judge.text(encoding, of.label_index(attribution.target)), scores))
    return judge.measure(maps)[:, 0]


class TestTuning:
    def test_many_texts_at_once_go_the_way_of_each_alone(self) -> None:
        """Against a loop over copies of G in which the same weights are trained by torch itself."""
        of, paml = one_word_classifier(), trained()
        assert paml.model is not None
        reading = paml.model.read(of, of.encode(TEXTS))
        y = of.logits(reading.target).softmax(-1)
        with torch.enable_grad():
            tuning = LowRankTuning(paml.model, of, reading, y, seed=3)
            start = tuning.scores().sigmoid().detach().numpy()
            optimizer = torch.optim.AdamW(tuning.parameters(), lr=1e-2, weight_decay=0.0, eps=ADAM_EPSILON)
            for _ in range(4):
                terms = loss_terms(of, reading.target, tuning.scores(), y, paml.weights)
                optimizer.zero_grad()
                weighted(terms, paml.weights).sum().backward()
                optimizer.step()
            scores = tuning.scores().sigmoid().detach().numpy()
        plain = paml.model(of, reading, y).sigmoid().numpy()
        for row, text in enumerate(TEXTS):
            n = len(reading.target.encodings[row])
            np.testing.assert_allclose(start[row, :n], plain[row, :n], atol=1e-4)
            np.testing.assert_allclose(scores[row, :n], reference(paml, of, text, 4, 1e-2, 3), atol=2e-3)
            assert np.abs(scores[row, :n] - start[row, :n]).max() > 1e-2

    def test_g_itself_stays_as_it_is(self) -> None:
        of, paml = one_word_classifier(), trained()
        assert paml.model is not None
        before = {name: value.clone() for name, value in paml.model.state_dict().items()}
        for scope in SCOPES:
            list(refiner(paml, scope=scope, steps=2).explain(of, TEXTS))
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

    @pytest.mark.parametrize("scope", SCOPES)
    def test_a_text_whose_g_diverges_keeps_its_best_map(self, scope: Any) -> None:
        of = one_word_classifier()
        faml = refiner(trained(), learning_rate=1e30, scope=scope, samples=2)
        assert all(np.isfinite(a.scores).all() for a in faml.explain(of, tiny.TEXTS))
        assert faml.notes()["steps"] < faml.options.steps

    @pytest.mark.parametrize("scope", SCOPES)
    def test_it_is_never_worse_than_paml_on_its_metric_and_better_on_some_text(self, scope: Any) -> None:
        of = one_word_classifier()
        paml, texts = untrained(of), [*examples(8, seed=7), *examples(2, seed=8)]
        faml = refiner(paml, scope=scope, steps=15, learning_rate=1e-3 if scope == "full" else 2e-2)
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
