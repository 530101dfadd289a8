"""fAML: fine-tuning AML on one text at a time."""

from __future__ import annotations

import copy
import threading
from typing import Any, get_args

import numpy as np
import pytest
import tiny
import torch
from aml_cases import TEXTS, examples, one_word_classifier, refiner, trained, untrained
from torch import nn
from torch.nn.utils import parametrize

from explearn.lens.passes import count_passes
from explearn.methods.aml.instance_parameters import (
    ADAM_EPSILON,
    FullTuning,
    RestrictedTuning,
    Scope,
    bytes_per_text,
    make_optimizer,
)
from explearn.methods.aml.loss import loss_terms
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.target_metric import MapJudge, MetricOptions
from explearn.methods.aml.two_tokenizers import attribution_logits, read
from explearn.model.classifier import Classifier


class _LowRank(nn.Module):
    """W + (down up)^T, as torch's parametrizations take it."""

    def __init__(self, down: torch.Tensor, up: torch.Tensor) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(down.clone()), nn.Parameter(up.clone())

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + (self.down @ self.up).T


def reference(paml: PAML, of: Classifier, text: Any, scope: str, steps: int, lr: float, seed: int) -> np.ndarray:
    """Attributions after some steps on one text: a copy of G whose own weights change, run as a whole."""
    assert paml.model is not None
    model = copy.deepcopy(paml.model).requires_grad_(False)
    layer = model.backbone.encoder.layer[-1]
    maps = [
        layer.attention.self.query,
        layer.attention.self.key,
        layer.attention.self.value,
        layer.attention.output.dense,
        layer.intermediate.dense,
        layer.output.dense,
        model.dense,
    ]
    trained_parameters = [model.output.weight, model.output.bias]
    generator = torch.Generator().manual_seed(seed)
    for linear in maps:
        trained_parameters.append(linear.bias)
        if scope == "last_block":
            trained_parameters.append(linear.weight)
        else:
            down = torch.randn(linear.in_features, 2, generator=generator) * linear.in_features**-0.5
            product = _LowRank(down, torch.zeros(2, linear.out_features))
            parametrize.register_parametrization(linear, "weight", product)
            trained_parameters += [product.down, product.up]
    for parameter in trained_parameters:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(trained_parameters, lr=lr, weight_decay=0.0, eps=ADAM_EPSILON)
    reading = read(of, None, of.encode([text]))
    y = of.logits(reading.target).softmax(-1)
    for _ in range(steps):
        scores = attribution_logits(model, of, reading, y)
        optimizer.zero_grad()
        loss_terms(of, reading.target, scores, y, paml.strategy, paml.weights).total(paml.weights).sum().backward()
        optimizer.step()
    return attribution_logits(model, of, reading, y).sigmoid()[0].detach().numpy()


class TestFineTuning:
    @pytest.mark.parametrize("scope", ["last_block", "low_rank"])
    def test_many_texts_at_once_go_the_way_of_each_alone(self, scope: Any) -> None:
        """Against a loop over copies of G in which the same weights are trained by torch itself."""
        of, paml = one_word_classifier(), trained()
        assert paml.model is not None
        reading = read(of, None, of.encode(TEXTS))
        y = of.logits(reading.target).softmax(-1)
        with torch.enable_grad():
            tuning = RestrictedTuning(paml.model, of, reading, y, scope, rank=2, blocks=1, seed=3)
            optimizer = make_optimizer(tuning.parameters(), 1e-2)
            for _ in range(4):
                terms = loss_terms(of, reading.target, tuning.scores(), y, paml.strategy, paml.weights)
                optimizer.zero_grad()
                terms.total(paml.weights).sum().backward()
                optimizer.step()
            found = tuning.scores().sigmoid().detach().numpy()
        start = paml.attribute(of, of.encode(TEXTS), y).sigmoid().numpy()
        for row, text in enumerate(TEXTS):
            n = len(reading.target.encodings[row])
            expected = reference(paml, of, text, scope, steps=4, lr=1e-2, seed=3)
            np.testing.assert_allclose(found[row, :n], expected, atol=1e-3)
            assert np.abs(found[row, :n] - start[row, :n]).max() > 1e-2

    @pytest.mark.parametrize("scope", ["low_rank", "last_block"])
    @pytest.mark.parametrize(("patience", "samples"), [(1, 0), (2, 4), (10, 4)])
    def test_a_text_s_map_does_not_depend_on_the_others(self, scope: Any, patience: int, samples: int) -> None:
        of = tiny.classifier("bert")
        texts = [*examples(6, seed=7), *TEXTS, TEXTS[0], TEXTS[0]]
        targets = [number % 2 for number in range(len(texts))]
        faml = refiner(untrained(of), scope=scope, patience=patience, samples=samples, steps=8)
        together = list(faml.explain(of, texts, targets))
        steps = {found.steps for found in faml._seen}
        assert len(steps) > 1 or patience == 10  # some leave the batch before others do
        for text, target, found in zip(texts, targets, together, strict=True):
            (alone,) = faml.explain(of, [text], [target])
            np.testing.assert_allclose(found.token_scores, alone.token_scores, atol=1e-3)

    def test_a_text_s_map_does_not_depend_on_another_target_of_it(self) -> None:
        of = tiny.make_classifier("bert", seed=3)
        faml = refiner(untrained(of), samples=6, steps=10)
        for text in tiny.TEXTS:
            together = list(faml.explain(of, [text, text], [0, 1]))
            for target, found in enumerate(together):
                (alone,) = faml.explain(of, [text], [target])
                np.testing.assert_allclose(found.token_scores, alone.token_scores, atol=1e-3)

    @pytest.mark.parametrize("scope", ["low_rank", "full"])
    @pytest.mark.parametrize(
        "texts",
        [
            ["warm! the dog sleeps", "warm ! the dog sleeps", "warm !the dog sleeps"],
            # Words alike would be scored alike, and ranked by rounding.
            ["the lazy warm fox sleeps and quick dog jumps over afternoon " * n + "fox " * 40 for n in (5, 9)],
            ["the warm fox sleeps", "the warm fox sleeps"],
        ],
        ids=["other words", "cut alike", "the same"],
    )
    def test_nor_on_one_that_has_the_same_sub_tokens(self, texts: list[str], scope: Any) -> None:
        of, faml = one_word_classifier(), refiner(trained(), samples=4, scope=scope, steps=4)
        assert len({encoding.key for encoding in of.encode(texts)}) == 1
        together = [a.scores for a in faml.explain(of, texts)]
        for text, found in zip(texts, together, strict=True):
            (alone,) = faml.explain(of, [text])
            np.testing.assert_allclose(found, alone.scores, atol=1e-5)

    @pytest.mark.parametrize("scope", get_args(Scope))
    def test_a_text_whose_g_diverges_keeps_its_best_map(self, scope: Any) -> None:
        of = one_word_classifier()
        faml = refiner(trained(), learning_rate=1e30, scope=scope, samples=2)
        found = list(faml.explain(of, tiny.TEXTS))
        assert all(np.isfinite(a.scores).all() for a in found)
        assert faml.notes()["steps"] < faml.options.steps

    @pytest.mark.parametrize("scope", ["low_rank", "last_block"])
    def test_and_leaves_the_others_alone(self, scope: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        of, faml = one_word_classifier(), refiner(trained(), scope=scope, samples=2, patience=20)
        clean = [a.scores for a in faml.explain(of, tiny.TEXTS)]
        calls, scores = [], RestrictedTuning.scores

        def broken(tuning: RestrictedTuning) -> torch.Tensor:
            calls.append(1)
            found = scores(tuning)
            return torch.cat([found[:1] * torch.nan, found[1:]]) if len(calls) == 3 else found

        monkeypatch.setattr(RestrictedTuning, "scores", broken)
        found = [a.scores for a in faml.explain(of, tiny.TEXTS)]
        assert all(np.isfinite(one).all() for one in found)
        alike = [np.allclose(one, other, atol=1e-5) for one, other in zip(found, clean, strict=True)]
        assert sorted(alike) == [False, True, True, True, True]
        assert sorted(refined.steps for refined in faml._seen) == [1, *[faml.options.steps] * 4]

    def test_batches_are_bounded_by_the_memory_of_their_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of, paml = one_word_classifier(), trained()
        assert paml.model is not None
        faml = refiner(paml, scope="last_block", steps=2)
        expected = list(faml.explain(of, TEXTS))
        sizes: list[int] = []
        started = RestrictedTuning.__init__

        def start(self: RestrictedTuning, model: Any, classifier: Any, reading: Any, *rest: Any) -> None:
            started(self, model, classifier, reading, *rest)
            sizes.append(len(reading.target))
            held = 16 * sum(parameter.numel() for parameter in self.parameters())
            assert held == sizes[-1] * bytes_per_text(model, "last_block", 8, 2)

        monkeypatch.setattr(RestrictedTuning, "__init__", start)
        monkeypatch.setattr(
            "explearn.methods.aml.instance_training.CHANGES_BYTES",
            3 * bytes_per_text(paml.model, "last_block", 8, 2) + 1,
        )
        for a, b in zip(faml.explain(of, TEXTS), expected, strict=True):
            np.testing.assert_allclose(a.scores, b.scores, atol=1e-4)
        assert max(sizes) == 3 and sum(sizes) == len(TEXTS)

    def test_a_copy_of_g_changes_all_but_the_prediction_s_embeddings(self) -> None:
        of, paml = one_word_classifier(), trained()
        assert paml.model is not None
        reading = read(of, None, of.encode(TEXTS[:1]))
        tuning = FullTuning(paml.model, of, reading, torch.tensor([[0.5, 0.5]]))
        names = {id(parameter): name for name, parameter in tuning._model.named_parameters()}
        changing = {names[id(parameter)] for parameter in tuning.parameters()}
        assert set(names.values()) - changing == {"prediction"}

    def test_tops_of_all_maps_are_joined(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.classifier("bert")
        texts = [" ".join(tiny.TEXTS[i : i + 2]) for i in range(len(tiny.TEXTS) - 1)]
        found = []
        for chain in (MapJudge.chain, lambda *_: []):
            monkeypatch.setattr(MapJudge, "chain", chain)
            faml = refiner(untrained(of), samples=3, steps=3, cross_metrics=False)
            list(faml.explain(of, texts))
            found.append(faml.notes()["judged"]["aopc_difference"]["aopc_difference"])
        assert found[0] > found[1]

    @pytest.mark.parametrize("protocol", ["default", "aml"])
    def test_a_text_without_sub_tokens_has_its_row(self, protocol: Any) -> None:
        of, paml = one_word_classifier(), trained()
        faml = refiner(paml, protocol=protocol, samples=3, steps=2)
        lost, _ = faml.explain(of, ["\u200d", "the warm fox"])
        assert np.isnan(lost.scores).tolist() == [True] and lost.unaligned == 1

    @pytest.mark.parametrize("scope", ["full", "low_rank", "last_block"])
    def test_it_is_never_worse_than_paml_on_its_metric_and_better_on_some_text(self, scope: Any) -> None:
        of = one_word_classifier()
        paml = untrained(of)
        texts = [*examples(10, seed=7), *examples(2, seed=8)]
        encodings = of.encode(texts)
        options = MetricOptions("default", "delete", (1, 5, 10, 20, 50), 20)
        judge = MapJudge(of, ["aopc_difference"], options)
        values = []
        for method in (paml, refiner(paml, scope=scope, steps=15, learning_rate=1e-3 if scope == "full" else 2e-2)):
            found = list(method.explain(of, texts))
            scores = []
            for attribution, encoding in zip(found, encodings, strict=True):
                row = np.zeros(len(encoding), dtype=np.float32)
                row[encoding.positions] = attribution.token_scores
                scores.append(row)
            targets = [of.label_index(a.target) for a in found]
            values.append(judge.values(encodings, scores, targets)[:, 0])
        assert (values[1] >= values[0] - 1e-5).all()
        assert values[1].mean() > values[0].mean() + 0.1

    def test_maps_beside_the_best_one_only_better_it(self) -> None:
        of = one_word_classifier()
        paml, texts = untrained(of), examples(8, seed=7)
        found = []
        for samples in (0, 6):
            faml = refiner(paml, samples=samples, steps=6, patience=6, cross_metrics=False)
            first, again = (list(faml.explain(of, texts)) for _ in range(2))
            for a, b in zip(first, again, strict=True):
                np.testing.assert_array_equal(a.scores, b.scores)
            found.append(faml.notes()["judged"]["aopc_difference"]["aopc_difference"])
        assert found[1] > found[0] + 0.02

    def test_no_step_is_paml(self) -> None:
        of, paml = one_word_classifier(), trained()
        for a, b in zip(paml.explain(of, TEXTS), refiner(paml, steps=0).explain(of, TEXTS), strict=True):
            np.testing.assert_allclose(a.scores, b.scores, atol=1e-5)

    def test_g_itself_stays_as_it_is(self) -> None:
        of, paml = one_word_classifier(), trained()
        assert paml.model is not None
        before = {name: value.clone() for name, value in paml.model.state_dict().items()}
        for scope in ("full", "low_rank", "last_block"):
            list(refiner(paml, scope=scope, steps=2).explain(of, TEXTS))
        assert all(torch.equal(value, before[name]) for name, value in paml.model.state_dict().items())
        assert tiny.hooks(paml.model) == 0

    def test_a_text_is_done_when_its_map_no_longer_betters(self) -> None:
        of, paml = one_word_classifier(), trained()
        faml = refiner(paml, steps=30, patience=2)
        list(faml.explain(of, examples(8, seed=4)))
        assert faml.notes()["steps"] < 20
        assert faml.notes()["best_step"] <= faml.notes()["steps"] - 1

    def test_notes_judge_each_metric_s_best_map_by_all_metrics(self) -> None:
        of, paml = one_word_classifier(), untrained(one_word_classifier())
        faml = refiner(paml, metric="comprehensiveness")
        texts = examples(6, seed=5)
        found = list(faml.explain(of, texts))
        notes = faml.notes()
        assert notes["optimised_for"] == "comprehensiveness"
        judged = notes["judged"]
        assert len(judged) == 7 and all(len(row) == 7 for row in judged.values())
        for name in judged:
            column = [row[name] for row in judged.values()]
            smaller = name in ("sufficiency", "log_odds", "aopc_sufficiency")
            assert judged[name][name] == pytest.approx(min(column) if smaller else max(column), abs=1e-4)
        encodings = of.encode(texts)
        judge = MapJudge(of, ["comprehensiveness"], MetricOptions("default", "delete", (1, 5, 10, 20, 50), 20))
        scores = []
        for attribution, encoding in zip(found, encodings, strict=True):
            row = np.zeros(len(encoding), dtype=np.float32)
            row[encoding.positions] = attribution.token_scores
            scores.append(row)
        values = judge.values(encodings, scores, [of.label_index(a.target) for a in found])
        assert judged["comprehensiveness"]["comprehensiveness"] == pytest.approx(values.mean(), abs=1e-5)

    @pytest.mark.parametrize("ask", ["explain", "explain_each"])
    def test_notes_are_of_the_texts_of_the_last_call(self, ask: str) -> None:
        of = one_word_classifier()
        faml = refiner(untrained(of), steps=1, cross_metrics=False)
        list(faml.explain(of, examples(4, seed=5)))
        list(getattr(faml, ask)(of, examples(2, seed=6)))
        notes = faml.notes()
        list(faml.explain(of, examples(2, seed=6)))
        assert notes == faml.notes()

    def test_fine_tuning_in_one_thread_leaves_g_alone_in_another(self) -> None:
        of, paml = one_word_classifier(), untrained(one_word_classifier())
        assert paml.model is not None
        encodings = of.encode(examples(2, seed=5))
        reading, y = read(of, None, encodings), torch.full((2, 2), 0.5)
        tuning = RestrictedTuning(paml.model, of, reading, y, "low_rank", rank=2, blocks=1, seed=0)
        for parameter in tuning.parameters():
            nn.init.ones_(parameter)
        expected = attribution_logits(paml.model, of, reading, y)
        found: list[torch.Tensor] = []
        inside = []

        def elsewhere(*_: object) -> None:
            if not inside:
                inside.append(True)
                thread = threading.Thread(target=lambda: found.append(attribution_logits(paml.model, of, reading, y)))
                thread.start()
                thread.join()

        handle = paml.model.dense.register_forward_pre_hook(elsewhere)
        tuning.scores()
        handle.remove()
        torch.testing.assert_close(found, [expected])

    def test_passes_are_counted(self) -> None:
        of, paml = one_word_classifier(), trained()
        faml = refiner(paml, steps=3, patience=3, cross_metrics=False, metric="comprehensiveness")
        with count_passes(of.model) as passes:
            list(faml.explain(of, ["the warm fox sleeps"]))
        # The text itself twice, six masked texts, and at most four maps without their best word.
        assert 2 + 6 + 1 <= passes.forward <= 2 + 6 + 4
        assert passes.backward == 6
