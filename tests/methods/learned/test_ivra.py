from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

import explearn
import tiny
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.core.records import Example, filled
from explearn.core.sections import EvaluateParams
from explearn.data.alignment import aggregate
from explearn.introspection.anatomy import dissect, trace
from explearn.introspection.gradients import content_mask
from explearn.methods.base.listed_task import ListedTask
from explearn.methods.base.training import BestWeights
from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import HeadAttention, InterpretableAttention, normalise
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.ivra.forward import Labelled, explain_batch
from explearn.methods.ivra.params import SMaTParams
from explearn.methods.ivra.simulatability import Simulatability
from explearn.methods.ivra.simulation import BagStudent, EncoderStudent, pilot, simulation_loss, trainable
from explearn.methods.ivra.training import JointTrainer
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.plausibility import ranking
from explearn.metrics.protocols import top_count
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch

EMPTY = "\u200b"
"""A word of which the tokenizer leaves no piece."""

MODULES = {"ivra": InterpretableAttention, "smat": HeadAttention}
NORMS = ("softmax", "sparsemax")


def module_of(classifier: Classifier, name: str = "ivra", norm: str = "softmax", seed: int = 0) -> Any:
    """With weights away from their first values."""
    found = MODULES[name].of(classifier.model, norm=norm)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    return found


def batch_of(classifier: Classifier, texts: Any = tiny.TEXTS) -> Batch:
    return classifier.batch(classifier.encode(list(texts)))


def sparsemax(z: np.ndarray) -> np.ndarray:
    """Projection on the simplex by its definition: the threshold at which what is above sums to 1."""
    low, high = z.min() - 1, z.max()
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if np.maximum(z - tau, 0).sum() > 1 else (low, tau)
    return np.maximum(z - low, 0)


def softmax(z: np.ndarray) -> np.ndarray:
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


def reference(name: str, module: Any, classifier: Classifier, encoding: Any) -> np.ndarray:
    """r of one text, written out from the formulas, with queries and keys from a pass taken apart."""
    norm = {"softmax": softmax, "sparsemax": sparsemax}[module.norm]
    batch = classifier.batch([encoding])
    anatomy = dissect(classifier.model)
    blocks = trace(anatomy, anatomy.embed(batch), batch.attention_mask.bool()).blocks
    weights = {key: value.numpy().astype(np.float64) for key, value in module.state_dict().items()}
    text = encoding.positions
    total = np.zeros(len(text))
    mixture = norm(weights["head_weights"].ravel()).reshape(module.layers, -1)
    for layer, block in enumerate(blocks):
        q, k = (t[0].numpy().astype(np.float64) for t in (block.query, block.key))
        logits = np.zeros(len(text))
        for h in range(module.heads):
            if name == "smat":
                logits += mixture[layer, h] * (q[h] @ k[h].T).mean(0)[text] / math.sqrt(module.head_size)
                continue
            queries = np.array([norm(weights["query_weights"][layer, h] * row) for row in q[h]])
            keys = np.array([norm(weights["key_weights"][layer, h] * row) for row in k[h]])
            psi = module.head_size * (queries @ keys.T).mean(0)
            logits += weights["head_weights"][layer, h] * psi[text]
        if name == "smat":
            total += logits
        else:
            scale = len(text) if module.norm == "softmax" else 1
            total += norm(weights["layer_weights"][layer] * scale * norm(logits)) / module.layers
    found = np.zeros(len(encoding))
    found[text] = norm(total) if name == "smat" else total
    return found


class TestModule:
    @pytest.mark.parametrize("name", MODULES)
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_is_what_its_formulas_say(self, kind: str, name: str, norm: str) -> None:
        classifier = tiny.classifier(kind, 3)
        module = module_of(classifier, name, norm).requires_grad_(False)
        for texts in (tiny.TEXTS, tiny.PAIRS):
            encodings = classifier.encode(list(texts))
            batch = classifier.batch(encodings)
            found = explain_batch(classifier, module, batch)
            torch.testing.assert_close(found.logits, classifier.logits(batch))
            for row, encoding in enumerate(encodings):
                expected = reference(name, module, classifier, encoding)
                np.testing.assert_allclose(found.r[row, : len(encoding)].numpy(), expected, atol=2e-5)
        assert tiny.hooks(classifier.model) == 0

    @pytest.mark.parametrize("name", MODULES)
    @pytest.mark.parametrize("norm", NORMS)
    def test_an_explanation_is_on_the_simplex_over_the_text_s_own_tokens(self, name: str, norm: str) -> None:
        classifier = tiny.classifier("roberta")
        batch = batch_of(classifier)
        r = explain_batch(classifier, module_of(classifier, name, norm), batch).r.detach()
        content = content_mask(batch)
        torch.testing.assert_close(r.sum(1), torch.ones(len(r)))
        assert (r >= 0).all()
        assert (r[~content] == 0).all()
        assert norm == "sparsemax" or (r[content] > 0).all()

    def test_sparsemax_leaves_tokens_out(self) -> None:
        classifier = tiny.classifier()
        batch = batch_of(classifier, tiny.TEXTS[3:4])
        r = explain_batch(classifier, module_of(classifier, "smat", "sparsemax"), batch).r
        assert (r[content_mask(batch)] == 0).any()

    @pytest.mark.parametrize("level", ["feature", "head", "layer"])
    def test_a_level_that_is_off_is_not_learned(self, level: str) -> None:
        module = InterpretableAttention(2, 3, 4, levels=[level])
        learned = {name.removesuffix("_weights") for name, p in module.named_parameters() if p.requires_grad}
        assert learned == {"feature": {"query", "key"}, "head": {"head"}, "layer": {"layer"}}[level]

    def test_half_precision_keeps_the_simplex(self) -> None:
        classifier = tiny.make_classifier(precision="bf16")
        r = explain_batch(classifier, module_of(classifier), batch_of(classifier)).r
        assert r.dtype == torch.float32
        torch.testing.assert_close(r.sum(1), torch.ones(len(r)))

    def test_states_are_those_of_the_metric(self) -> None:
        from explearn.introspection.representations import aggregate_states

        classifier = tiny.classifier()
        encodings = classifier.encode(list(tiny.TEXTS))
        states = explain_batch(classifier, module_of(classifier), classifier.batch(encodings), states=True).states
        assert states is not None
        np.testing.assert_allclose(states.numpy(), aggregate_states(classifier, encodings), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
    def test_sparsemax_is_the_same_with_and_without_a_gradient(self, scale: float) -> None:
        logits = scale * torch.randn(5, 7, 32, generator=torch.Generator().manual_seed(2))
        logits[0, :, 3:9] = float("-inf")
        logits[1] = logits[1, :, :1]
        found = normalise(logits, "sparsemax")
        expected = normalise(logits.clone().requires_grad_(), "sparsemax").detach()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize(
        "row",
        [
            [0.8577470779418945, 2.6931474208831787, 3.1029787063598633, 2.504890203475952, 3.138871192932129,
             3.1993513107299805, 2.4410085678100586, 4.068042755126953, 3.149219036102295, -7.153243064880371],
            [0.14246203005313873, 0.8020213842391968, 0.0011279770405963063, -0.2086496204137802, 0.37682822346687317,
             0.10336829721927643, 0.2485363632440567, -0.02287004142999649],
        ],
    )  # fmt: skip
    def test_sparsemax_comes_to_an_end(self, monkeypatch: pytest.MonkeyPatch, row: list[float]) -> None:
        """Newton's steps, each rounded to float32, went round in a circle: on the one row as it is, on the other with
        its maximum taken off."""
        steps = []
        counting = torch.count_nonzero

        def counted(*arguments: Any) -> torch.Tensor:
            steps.append(1)
            assert len(steps) <= 20
            return counting(*arguments)

        monkeypatch.setattr(torch, "count_nonzero", counted)
        found = normalise(torch.tensor([row]), "sparsemax")
        np.testing.assert_allclose(found[0].numpy(), sparsemax(np.array(row)), atol=1e-6)

    def test_sparsemax_is_on_the_simplex_where_numbers_are_large(self) -> None:
        found = normalise(1e8 + torch.randn(5, 7, generator=torch.Generator().manual_seed(2)), "sparsemax")
        torch.testing.assert_close(found.sum(-1), torch.ones(5))

    @pytest.mark.parametrize("name", MODULES)
    @pytest.mark.parametrize("norm", NORMS)
    def test_a_text_without_tokens_has_nothing_and_spoils_nothing(self, name: str, norm: str) -> None:
        classifier = tiny.make_classifier()
        classifier.model.requires_grad_(True)
        module = module_of(classifier, name, norm)
        batch = batch_of(classifier, [EMPTY, tiny.TEXTS[0]])
        assert not content_mask(batch)[0].any()
        r = explain_batch(classifier, module, batch).r
        assert r[0].tolist() == [0.0] * batch.input_ids.shape[1]
        (r**2).sum().backward()
        for parameter in (*module.parameters(), *classifier.model.parameters()):
            assert parameter.grad is None or parameter.grad.isfinite().all()
        (found,) = explain_batch(classifier, module, batch_of(classifier, [tiny.TEXTS[0]])).r.detach()
        torch.testing.assert_close(r[1].detach(), found)

    def test_sparsemax_of_nan_is_nan(self) -> None:
        logits = torch.tensor([[math.nan, 1.0], [2.0, 1.0]])
        for found in (normalise(logits, "sparsemax"), normalise(logits.requires_grad_(), "sparsemax")):
            assert found[0].isnan().all() and found[1].tolist() == [1.0, 0.0]


class TestTopWords:
    @pytest.mark.parametrize("what", ["whole", "cut", "answers"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_takes_the_words_that_the_metric_takes(self, what: str, sparse: bool) -> None:
        """Of texts that were cut, and with answers that stay, too: words without tokens count as words, the last."""
        classifier: Classifier = tiny.make_answerer()
        if what != "answers":
            tokenizer = tiny.tokenizer("bert", 8) if what == "cut" else tiny.tokenizer("bert")
            classifier = Classifier(tiny.model("bert"), tokenizer)
        encodings = classifier.encode(list(tiny.PAIRS if what == "answers" else tiny.TEXTS))
        batch = classifier.batch(encodings)
        assert what == "whole" or any(set(range(len(e.words))) - set(e.word_ids) for e in encodings)
        r = torch.rand(batch.input_ids.shape, generator=torch.Generator().manual_seed(1)) * content_mask(batch)
        r = (r - 0.5).relu() if sparse else r
        for percent in (1, 20, 50):
            top = objectives.top_words(r, objectives.Words.of(batch), [percent] * len(encodings))
            for row, encoding in enumerate(encodings):
                pooled, _ = aggregate(r[row].numpy(), encoding.word_ids, len(encoding.words), "sum")
                words = set(ranking(filled(pooled))[: top_count(len(pooled), percent)].tolist())
                expected = [float(word in words) for word in encoding.word_ids]
                assert top[row, : len(encoding)].tolist() == expected

    def test_the_first_of_equals_come_first(self) -> None:
        classifier = tiny.classifier()
        batch = batch_of(classifier, ["the quick brown fox"])
        top = objectives.top_words(content_mask(batch).float(), objectives.Words.of(batch), [50])
        assert top.tolist() == [[0, 1, 1, 0, 0, 0]]

    def test_each_text_has_its_own_share(self) -> None:
        classifier = tiny.classifier()
        batch = batch_of(classifier, ["the quick brown fox"] * 2)
        top = objectives.top_words(content_mask(batch).float(), objectives.Words.of(batch), [25, 100])
        assert top.tolist() == [[0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 0]]

    def test_the_choice_is_drawn_to_the_words_that_speak_for_the_class(self) -> None:
        classifier = tiny.classifier()
        batch = batch_of(classifier, ["the quick brown fox"] * 2)
        words = objectives.Words.of(batch)
        slope = torch.tensor([[9.0, 3.0, -2.0, 1.0, 0.0, 9.0], [9.0, -1.0, -1.0, -1.0, -1.0, 9.0]])
        logits = torch.zeros(2, 4, requires_grad=True)
        r = torch.nn.functional.pad(logits.softmax(1), (1, 1))
        loss = objectives.choice_loss(r, slope, words)
        assert loss.tolist() == pytest.approx([np.log(4), 0.0])
        loss.sum().backward()
        assert logits.grad is not None
        assert torch.allclose(logits.grad, torch.tensor([[-0.5, 0.25, 0.0, 0.25], [0.0] * 4]))


class TestGates:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_a_closed_gate_is_a_deletion(self, kind: str) -> None:
        classifier = tiny.classifier(kind)
        for texts in (tiny.TEXTS, tiny.PAIRS):
            encodings = classifier.encode(list(texts))
            batch = classifier.batch(encodings)
            words = objectives.Words.of(batch)
            first = (words.owner == 0).float()
            for gate, shortened in (
                (1 - first, [e.delete([0]) for e in encodings]),
                (first, [e.keep([0]) for e in encodings]),
            ):
                with torch.inference_mode():
                    found = classifier.model(**objectives.gated_inputs(classifier.model, batch, gate)).logits
                torch.testing.assert_close(found, classifier.logits(classifier.batch(shortened)), atol=1e-4, rtol=1e-4)

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_a_gate_s_slope_is_that_of_the_output(self, kind: str) -> None:
        """Also half open, and where layers share their weights."""
        classifier = tiny.classifier(kind)
        batch = batch_of(classifier, ["the quick brown fox sleeps"])
        content = content_mask(batch)
        start = torch.linspace(0.2, 1.0, content.shape[1], dtype=torch.float64)[None]

        def output(at: torch.Tensor) -> torch.Tensor:
            inputs = objectives.gated_inputs(classifier.model, batch, at, recount=False)
            return classifier.model.double()(**inputs).logits[0, 0]

        try:
            gate = start.clone().requires_grad_()
            (slope,) = torch.autograd.grad(output(gate), gate)
            assert (slope[~content] == 0).all()
            for position in content[0].nonzero()[:, 0].tolist():
                step = torch.zeros_like(start)
                step[0, position] = 1e-6
                with torch.no_grad():
                    expected = (output(start + step) - output(start - step)) / 2e-6
                assert float(slope[0, position]) == pytest.approx(float(expected), rel=1e-4, abs=1e-9)
        finally:
            classifier.model.float()

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_open_gates_are_the_whole_text(self, kind: str) -> None:
        classifier = tiny.classifier(kind)
        batch = batch_of(classifier, list(tiny.TEXTS))
        gate = torch.ones(batch.input_ids.shape)
        for recount in (True, False):
            with torch.inference_mode():
                found = classifier.model(**objectives.gated_inputs(classifier.model, batch, gate, recount)).logits
            torch.testing.assert_close(found, classifier.logits(batch), atol=1e-4, rtol=1e-4)

    def test_log_odds(self) -> None:
        logits = torch.tensor([[1.0, 3.0, 2.0], [40.0, 0.0, 0.0]])
        classes = torch.tensor([1, 0])
        p = logits.double().softmax(1).gather(1, classes[:, None])[:, 0]
        expected = [float(p[0].log() - (1 - p[0]).log()), 40 - np.log(2)]
        assert objectives.log_odds(logits, classes).tolist() == pytest.approx(expected, rel=1e-5)


class TestLosses:
    @pytest.mark.parametrize(
        ("shortened", "whole", "expected"), [(0.5, 0.5, 1.0), (1.0, 0.5, 0.5), (9.0, 0.5, 0.0), (0.0, 0.5, 1.5)]
    )
    def test_comprehensiveness_rewards_loss_without_the_words(
        self, shortened: float, whole: float, expected: float
    ) -> None:
        found = objectives.comprehensiveness_loss(torch.tensor([shortened]), torch.tensor([whole]), 1.0)
        assert found.tolist() == pytest.approx([expected])

    @pytest.mark.parametrize(
        ("variant", "odds", "expected"),
        [
            # The text has p = 3/4, the words alone 1/2, 3/4 and 9/10.
            ("margin", 1.0, 0.1 + math.log(2 / 1) - math.log(4 / 3)),
            ("margin", 3.0, 0.1),
            ("margin", 9.0, 0.0),
            ("mae", 1.0, math.log(2) - math.log(4 / 3)),
            ("mae", 9.0, math.log(4 / 3) - math.log(10 / 9)),
            ("kl", 3.0, 0.0),
            ("kl", 1.0, 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)),
        ],
    )
    def test_sufficiency_penalises_loss_with_the_words_alone(self, variant: Any, odds: float, expected: float) -> None:
        whole = torch.tensor([[0.0, math.log(3)]])
        found = objectives.sufficiency_loss(
            torch.tensor([[0.0, math.log(odds)]]), whole, torch.tensor([1]), 0.1, variant
        )
        assert found.tolist() == pytest.approx([expected], abs=1e-6)

    def test_consistency_is_the_divergence_over_the_distance(self) -> None:
        r = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])
        states = torch.tensor([[0.0, 3.0], [4.0, 0.0]])
        there = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
        back = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
        found = objectives.consistency_loss(r, states, 0.1)
        assert float(found) == pytest.approx((there + back) / 2 / 5.1, rel=1e-5)

    def test_consistency_has_a_gradient_for_texts_that_are_alike(self) -> None:
        r = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], requires_grad=True)
        states = torch.ones(3, 4, requires_grad=True)
        objectives.consistency_loss(r, states, 0.1).backward()
        assert r.grad is not None and states.grad is not None
        assert torch.isfinite(r.grad).all() and torch.isfinite(states.grad).all()

    def test_correlation_is_that_of_distances(self) -> None:
        generator = torch.Generator().manual_seed(0)
        r, states = torch.rand(6, 4, generator=generator), torch.rand(6, 5, generator=generator)
        expected = 1 - pearsonr(pdist(r.numpy()), pdist(states.numpy())).statistic
        assert float(objectives.correlation_loss(r, states)) == pytest.approx(expected, abs=1e-4)
        alike = torch.ones(3, 4, requires_grad=True)
        objectives.correlation_loss(alike, states[:3]).backward()
        assert alike.grad is not None and alike.grad.isfinite().all()

    def test_rank_correlation_is_nearer_to_spearman_than_to_pearson(self) -> None:
        generator = torch.Generator().manual_seed(0)
        states = torch.rand(12, 5, generator=generator)
        # Two far groups: their distance decides Pearson's correlation, the order within them most of the ranks.
        r = torch.rand(12, 4, generator=generator) + 5.0 * (torch.arange(12) < 6)[:, None]
        states = states + 5.0 * (torch.arange(12) < 6)[:, None]
        spearman = spearmanr(pdist(r.numpy()), pdist(states.numpy())).statistic
        pearson = pearsonr(pdist(r.numpy()), pdist(states.numpy())).statistic
        assert abs(spearman - pearson) > 0.1
        found = 1 - float(objectives.rank_correlation_loss(r, states))
        assert abs(found - spearman) < abs(found - pearson)
        assert float(objectives.rank_correlation_loss(states, states)) == pytest.approx(0.0, abs=1e-5)
        assert float(objectives.rank_correlation_loss(torch.ones(3, 4), states[:3])) == pytest.approx(1.0, abs=1e-5)

    def test_rank_correlation_has_a_gradient_for_texts_that_are_alike(self) -> None:
        alike = torch.ones(3, 4, requires_grad=True)
        states = torch.rand(3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
        objectives.rank_correlation_loss(alike, states).backward()
        assert alike.grad is not None and alike.grad.isfinite().all()
        assert states.grad is not None and states.grad.isfinite().all()

    def test_clustering_draws_a_class_together_and_others_apart(self) -> None:
        r = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        # Squared distances: 2 between the first and each other, else 0.
        assert float(objectives.clustering_loss(r, torch.tensor([0, 1, 1]))) == pytest.approx(-2.0)
        assert float(objectives.clustering_loss(r, torch.tensor([0, 0, 1]))) == pytest.approx((0.0 + 2.0 - 1.0) / 3)
        assert float(objectives.clustering_loss(r, torch.tensor([0, 0, 0]))) == pytest.approx((2 + 1 + 1) / 3)

    def test_a_loss_that_is_not_finite_names_step_term_and_texts(self) -> None:
        texts = {"task": ["a1", "a2"], "comp": ["b1", "b2"]}
        with pytest.raises(ModelError, match=r"step 7: the loss 'comp' is nan; .*: b1, b2$"):
            objectives.check_finite({"task": torch.tensor(1.0), "comp": torch.tensor(math.nan)}, 7, texts)


class TestPilotUpdate:
    @pytest.mark.parametrize("kind", ["bag", "encoder"])
    @pytest.mark.parametrize("steps", [1, 3])
    def test_its_gradient_is_that_of_finite_differences(self, kind: str, steps: int) -> None:
        """Of the student's loss after its steps, with respect to the explanations that it was shown."""
        classifier = tiny.make_classifier(initial := "bert")
        classifier.model.double()
        shown, asked = batch_of(classifier, tiny.TEXTS[:2]), batch_of(classifier, tiny.TEXTS[2:4])
        if kind == "bag":
            table = classifier.model.get_input_embeddings().weight.detach()
            student: Any = BagStudent(table, shown.input_ids.flatten(), 2, 6, seed=0).double()
        else:
            student = EncoderStudent(tiny.model(initial, seed=5), module_of(classifier)).double()
        generator = torch.Generator().manual_seed(3)
        learned = {
            name: (p + 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)).detach().requires_grad_()
            for name, p in trainable(student).items()
        }
        content = content_mask(shown)
        free = torch.randn(content.shape, generator=generator, dtype=torch.float64, requires_grad=True)
        other = content_mask(asked).double() / content_mask(asked).sum(1, keepdim=True)
        classes = torch.tensor([0, 1])

        def explanation(logits: torch.Tensor) -> torch.Tensor:
            return logits.masked_fill(~content, -math.inf).softmax(-1)

        def after(logits: torch.Tensor) -> torch.Tensor:
            ahead = pilot(
                lambda p: simulation_loss(student, p, shown, classes, explanation(logits), 1.0), learned, 0.3, steps
            )
            return simulation_loss(student, ahead, asked, classes.flip(0), other, 1.0)

        (gradient,) = torch.autograd.grad(after(free), free)
        for row, position in ((0, 1), (1, 3)):
            step = torch.zeros_like(free)
            step[row, position] = 1e-4
            slope = (after(free.detach() + step) - after(free.detach() - step)) / 2e-4
            assert float(gradient[row, position]) == pytest.approx(float(slope.detach()), rel=1e-3, abs=1e-9)
            assert float(gradient[row, position]) != 0


def examples(split: Any, count: int, seed: int = 0) -> list[Example]:
    """The word 'beautiful' or 'lazy', somewhere among others, decides."""
    rng = np.random.default_rng(seed + len(split))
    others = ["the", "fox", "dog", "sea", "guide", "castle", "and", "while", "morning", "tide"]
    rows = []
    for number in range(count):
        words = [str(w) for w in rng.choice(others, size=6)]
        words[int(rng.integers(6))] = ("lazy", "beautiful")[number % 2]
        label = ("no", "yes")[number % 2]
        rows.append(Example(id=f"{split}{number}", words=tuple(words), label=label, split=split, task="toy"))
    return rows


QUICK = {"epochs": 6, "batch_size": 8, "learning_rate": 1e-3, "module_learning_rate": 3e-2, "accuracy_tolerance": 1.0}


@pytest.fixture(scope="module")
def learned() -> IvRA:
    return IvRA(criteria=["comp", "suff"], schedule=QUICK).fit(
        ListedTask(tiny.classifier(), examples("train", 48), examples("validation", 16))
    )


def trainer_of(settings: SMaTParams, train: Labelled, pool: Labelled, classifier: Classifier) -> JointTrainer:
    """Of a classifier and a module whose weights all learn, with validation that says nothing."""
    classifier.model.requires_grad_(True)
    module = module_of(classifier)
    return JointTrainer(classifier, module, train, pool, None, settings, None, lambda: (0.0, {"a": 0.0}), seed=0)


def undecided(texts: list[Example], kind: str = "bert", classes: int = 2) -> Classifier:
    """A classifier that gives these texts more than one class: its logits are 0 in the mean over them."""
    found = tiny.make_classifier(kind, classes)
    (*_, head) = (m for m in found.model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == classes)
    with torch.no_grad():
        head.bias -= found.logits(batch_of(found, texts)).mean(0)
    assert len(set(found.predict(texts))) > 1
    return found


def labelled(classifier: Classifier, rows: list[Example]) -> Labelled:
    return Labelled(*classifier.encode_labelled(rows), rows)


class TestStudent:
    def run(self, monkeypatch: pytest.MonkeyPatch, count: int) -> list[list[tuple[set[str], set[str]]]]:
        """Texts that the student was shown and asked about, by epoch and step."""
        calls: list[list[str]] = []
        epochs: list[list[tuple[set[str], set[str]]]] = []
        explained, renewed = Simulatability.explained, Simulatability.new_student

        def noting(sim: Simulatability, data: Labelled) -> Any:
            calls.append([e.example_id for e in data.encodings])
            if len(calls) % 2 == 0:
                epochs[-1].append((set(calls[-2]), set(calls[-1])))
            return explained(sim, data)

        def starting(sim: Simulatability) -> None:
            epochs.append([])
            renewed(sim)

        monkeypatch.setattr(Simulatability, "explained", noting)
        monkeypatch.setattr(Simulatability, "new_student", starting)
        classifier = tiny.make_classifier()
        settings = SMaTParams(
            criteria=["sim"], schedule={**QUICK, "epochs": 2, "batch_size": 4}, student={"batch_size": 4}
        )
        rows = labelled(classifier, examples("train", 40))
        trainer_of(settings, rows, labelled(classifier, examples("validation", count)), classifier).run()
        return epochs

    @pytest.mark.parametrize("count", [2, 13])
    def test_it_never_sees_the_explanations_it_is_tested_on(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        epochs = self.run(monkeypatch, count)
        assert [len(steps) for steps in epochs] == [10, 10]
        halves = []
        for steps in epochs:
            shown, asked = (set[str]().union(*texts) for texts in zip(*steps, strict=True))
            assert not shown & asked and shown | asked == {f"validation{n}" for n in range(count)}
            # Halves of 7 and 6 texts: of at most 4 each, and none with a text or two.
            assert count == 2 or all({len(shown), len(asked)} <= {3, 4} for shown, asked in steps)
            halves.append(shown)
        assert count == 2 or halves[0] != halves[1]

    def test_what_it_answers_depends_on_text_and_parameters_alone(self) -> None:
        """The explanations of the texts that it is asked about have no gradient of its answers."""
        classifier = tiny.make_classifier()
        pool = labelled(classifier, examples("validation", 8))
        settings = SMaTParams(criteria=["sim"], student={"asked_weight": 0.0})
        sim = trainer_of(settings, pool, pool, classifier).simulatability
        assert sim is not None
        found: list[torch.Tensor] = []
        explained = sim.explained

        def noting(data: Labelled) -> Any:
            batch, predicted, r = explained(data)
            found.append(r.detach().requires_grad_())
            return batch, predicted, found[-1]

        sim.explained = noting  # type: ignore[method-assign]
        sim.new_student()
        shown, asked = torch.autograd.grad(sim.loss(), found, allow_unused=True, materialize_grads=True)
        assert shown.abs().sum() > 0 and not asked.any()

    @pytest.mark.parametrize("restart", ["step", "epoch"])
    def test_it_learns_on_within_an_epoch_or_starts_anew(self, restart: str) -> None:
        classifier = tiny.make_classifier()
        pool = labelled(classifier, examples("validation", 8))
        settings = SMaTParams(criteria=["sim"], student={"restart": restart})
        sim = trainer_of(settings, pool, pool, classifier).simulatability
        assert sim is not None
        sim.new_student()
        first = sim.learned["query"]
        assert not sim.learned["weight"].any()
        sim.loss()
        assert sim.learned["weight"].any() == (restart == "epoch")
        assert not torch.equal(sim.learned["query"], first)
        assert all(p.is_leaf and p.requires_grad for p in sim.learned.values())

    @pytest.mark.parametrize("texts", [0, 1])
    def test_too_few_texts_are_said_before_training(self, texts: int) -> None:
        """A text without pieces is none to learn from."""
        classifier = tiny.make_classifier()
        empty = replace(examples("validation", 1)[0], words=(EMPTY,))
        pool = labelled(classifier, [*examples("validation", texts), empty, empty])
        with pytest.raises(DataError, match=rf"criterion 'sim': .* from {texts} texts; .* student.share"):
            trainer_of(SMaTParams(criteria=["sim"]), pool, pool, classifier)


class TestTraining:
    @pytest.mark.parametrize("cls", [IvRA, SMaT])
    @pytest.mark.parametrize("criterion", ["sim", "comp", "suff", "cons"])
    def test_each_criterion_s_gradient_lowers_its_loss(self, cls: Any, criterion: str) -> None:
        classifier = tiny.make_classifier()
        classifier.model.requires_grad_(True)
        rows = examples("train", 8)
        data = Labelled(classifier.encode(rows), [classifier.label_index(e.label) for e in rows])
        explainer = cls(criteria=[criterion], faithfulness={"each_step": None, "choice_weight": 0.6})
        module = explainer._module(classifier)
        trainer = JointTrainer(classifier, module, data, data, None, explainer.options, None, lambda: (0.0, {}), seed=0)
        optimiser = torch.optim.AdamW([*classifier.model.parameters(), *module.parameters()], lr=2e-3)
        if trainer.simulatability is not None:
            trainer.simulatability.new_student()
        if criterion in ("sim", "suff"):
            # A classifier that knows nothing gives one class, and is as sure of a few words as of the text: there is
            # nothing to predict, or to lower.
            learning = torch.optim.AdamW(classifier.model.parameters(), lr=2e-3)
            for _ in range(30):
                learning.zero_grad()
                trainer.losses(data)["task"].backward()
                learning.step()
            loss = trainer.losses(data)[criterion]
            assert criterion == "sim" or loss > 2 * explainer.options.faithfulness.suff_margin
        curve = []
        for _ in range(30):
            if trainer.simulatability is not None:
                # The same student and the same texts to learn from in every step.
                trainer.generator.manual_seed(0)
                trainer.simulatability.new_student()
            term = trainer.losses(data)[criterion]
            optimiser.zero_grad()
            term.backward()
            optimiser.step()
            curve.append(float(term.detach()))
        assert curve[-1] < (0.98 if criterion == "comp" else 0.9) * curve[0]

    def test_the_best_epoch_is_kept(self, learned: IvRA) -> None:
        """What is kept has the figures that the history says, on the validation texts, as the metrics give them."""
        (best,) = [entry for entry in learned.history if entry["best"]]
        classifier, validation = learned.classifier, examples("validation", 16)
        assert classifier is not None
        found = list(learned.explain(classifier, validation))
        encodings = {e.example_id: e for e in classifier.encode(validation)}
        means = faithfulness(classifier, encodings, {"ivra": found}, EvaluateParams())["ivra"].means()
        assert best["criteria"]["comp"] == pytest.approx(means["aopc_comprehensiveness"], abs=1e-6)
        assert best["criteria"]["suff"] == pytest.approx(-means["aopc_sufficiency"], abs=1e-6)
        assert learned.history[0]["losses"] == {}
        assert set(learned.history[1]["losses"]) == {"task", "comp", "suff"}
        score = sum(best["criteria"].values())
        assert all(score >= sum(entry["criteria"].values()) - 1e-9 for entry in learned.history)

    def test_accuracy_comes_before_the_criteria(self) -> None:
        trainer: Any = object.__new__(JointTrainer)
        trainer.model, trainer.module = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
        trainer.params, trainer.history = SMaTParams(schedule={"accuracy_tolerance": 0.1}), []
        measured = iter([(0.9, {"comp": 0.1}), (0.7, {"comp": 0.9}), (0.85, {"comp": 0.3}), (0.9, {"comp": 0.2})])
        trainer.measure = lambda: next(measured)
        trainer.best, trainer.best_score = BestWeights(trainer.model, trainer.module), None
        for _ in range(4):
            trainer._end_epoch({})
        assert [entry["best"] for entry in trainer.history] == [False, False, True, False]

    def test_the_classifier_it_starts_from_stays_as_it_is(self) -> None:
        classifier = tiny.make_classifier()
        before = classifier.fingerprint
        states = torch.get_rng_state()
        explainer = IvRA(schedule={**QUICK, "epochs": 1})
        explainer.fit(ListedTask(classifier, examples("train", 8), examples("validation", 4)))
        assert torch.equal(states, torch.get_rng_state())
        assert explainer.classifier is not None
        del classifier.__dict__["fingerprint"]
        assert classifier.fingerprint == before
        assert explainer.classifier.model is not classifier.model
        for model in (classifier.model, explainer.classifier.model):
            assert not model.training and tiny.hooks(model) == 0
            assert not any(p.requires_grad for p in model.parameters())

    def test_the_seed_decides(self) -> None:
        train, validation = examples("train", 16), examples("validation", 8)
        found = [
            IvRA(criteria=["sim", "comp"], schedule={**QUICK, "epochs": 1}, seed=seed).fit(
                ListedTask(undecided(validation), train, validation)
            )
            for seed in (1, 1, 2)
        ]
        assert found[0].history == found[1].history != found[2].history
        assert found[0].trained_classifier == found[1].trained_classifier

    def test_a_classifier_may_be_left_as_it_is(self) -> None:
        explainer = IvRA(criteria=["sim"], schedule={**QUICK, "learning_rate": 0.0})
        classifier = undecided(validation := examples("validation", 16))
        explainer.fit(ListedTask(classifier, examples("train", 16), validation))
        assert explainer.trained_classifier == classifier.fingerprint
        assert len({entry["accuracy"] for entry in explainer.history}) == 1

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_every_architecture_trains_for_all_criteria(self, kind: str) -> None:
        """Three classes, pairs, students with an encoder of their own."""
        rows = {
            split: [
                replace(e, pair=("a", "dog"), label=tiny.LABELS[3][i % 3]) for i, e in enumerate(examples(split, 6))
            ]
            for split in ("train", "validation")
        }
        explainer = IvRA(
            criteria=["sim", "comp", "suff", "cons"],
            norm="sparsemax",
            schedule={**QUICK, "epochs": 1, "batch_size": 3},
            student={"kind": "encoder", "learning_rate": 0.01},
        )
        explainer.fit(
            ListedTask(
                undecided(rows["validation"], kind, 3),
                rows["train"],
                rows["validation"],
                untrained_encoder=lambda: tiny.model(kind, 3, 9),
            )
        )
        assert set(explainer.history[1]["losses"]) == {"task", "sim", "comp", "suff", "cons"}
        assert explainer.classifier is not None
        (found,) = explainer.explain(explainer.classifier, [("the fox sleeps", "a dog")])
        assert found.scores.shape == (5,)

    def test_all_shares_may_be_taken_at_once(self) -> None:
        settings = SMaTParams(criteria=["comp", "suff"], faithfulness={"each_step": None, "percents": [10, 50]})
        classifier = tiny.make_classifier()
        data = Labelled(classifier.encode(examples("train", 4)), [0, 1, 0, 1])
        trainer = JointTrainer(
            classifier, module_of(classifier), data, data, None, settings, None, lambda: (0.0, {}), seed=0
        )
        calls = []
        handle = classifier.model.register_forward_hook(lambda *_: calls.append(1))
        assert set(trainer.losses(data)) == {"task", "comp", "suff"}
        handle.remove()
        # The whole text, two shares of two criteria, and the slopes of each criterion.
        assert len(calls) == 1 + 2 * 2 + 2

    @pytest.mark.parametrize("each_step", [1, 2, 5])
    def test_the_choice_s_weight_is_that_of_the_parameter(
        self, monkeypatch: pytest.MonkeyPatch, each_step: int
    ) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(criteria=["comp"], faithfulness={"each_step": each_step, "choice_weight": 3.0})
        trainer = trainer_of(settings, data, data, classifier)
        weight = torch.zeros((), requires_grad=True)
        monkeypatch.setattr(objectives, "choice_loss", lambda *_: weight.expand(len(data)))
        (slope,) = torch.autograd.grad(trainer.losses(data)["comp"], weight)
        assert float(slope) == pytest.approx(3.0)

    @pytest.mark.parametrize(
        "options",
        [
            {"criteria": ["suff"], "faithfulness": {"suff_loss": "mae"}},
            {"criteria": ["suff"], "faithfulness": {"suff_loss": "kl"}},
            *({"criteria": ["cons"], "consistency": {"loss": loss}} for loss in ("kl", "clustering", "correlation")),
        ],
        ids=["suff mae", "suff kl", "cons kl", "cons clustering", "cons correlation"],
    )
    def test_each_variant_of_a_loss_trains(self, options: dict[str, Any]) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(schedule={**QUICK, "epochs": 2}, **options)
        trainer = trainer_of(settings, data, data, classifier)
        before = {name: p.detach().clone() for name, p in trainer.module.named_parameters()}
        measured = iter([(1.0, {"a": 0.0}), (1.0, {"a": 1.0}), (1.0, {"a": 2.0})])
        trainer.measure = lambda: next(measured)
        history = trainer.run()
        (criterion,) = options["criteria"]
        assert all(math.isfinite(entry["losses"][criterion]) for entry in history[1:])
        assert any(not torch.equal(p, before[name]) for name, p in trainer.module.named_parameters())

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("criterion", ["sim", "comp", "suff", "cons"])
    def test_a_text_without_pieces_may_be_among_them(self, criterion: str, norm: str) -> None:
        empty = {split: replace(examples(split, 1)[0], words=(EMPTY,)) for split in ("train", "validation")}
        explainer = IvRA(criteria=[criterion], norm=norm, schedule={**QUICK, "epochs": 2})
        validation = [*examples("validation", 15), empty["validation"]]
        explainer.fit(ListedTask(undecided(validation), [*examples("train", 15), empty["train"]], validation))
        assert all(math.isfinite(entry["losses"][criterion]) for entry in explainer.history[1:])

    @pytest.mark.parametrize("loss", ["rank", "correlation", "kl", "clustering"])
    @pytest.mark.parametrize("count", [9, 10])
    def test_texts_left_over_are_compared_with_those_of_the_batch_before(self, loss: str, count: int) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", count))
        settings = SMaTParams(
            criteria=["cons"], schedule={"batch_size": 4, "learning_rate": 0.0, "epochs": 1}, consistency={"loss": loss}
        )
        trainer = trainer_of(settings, data, data, classifier)
        batches = list(trainer._training_batches())
        assert sorted(row for rows in batches for row in rows) == list(range(count))
        assert min(map(len, batches)) >= settings.consistency.least_texts
        assert len(batches) == (3 if count % 4 >= settings.consistency.least_texts else 2)
        measured = iter([(1.0, {"cons": 0.0}), (1.0, {"cons": 1.0})])
        trainer.measure = lambda: next(measured)
        assert math.isfinite(trainer.run()[1]["losses"]["cons"])

    @pytest.mark.parametrize(("right", "kept"), [(59, 1), (58, 0)])
    def test_an_epoch_may_lose_just_the_tolerance(self, right: int, kept: int) -> None:
        """62 - 59 = 3 texts of 120 are 0.025, which floats make a little more."""
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(criteria=["comp"], schedule={**QUICK, "epochs": 1, "accuracy_tolerance": 0.025})
        trainer = trainer_of(settings, data, data, classifier)
        measured = iter([(62 / 120, {"comp": 0.0}), (right / 120, {"comp": 1.0})])
        trainer.measure = lambda: next(measured)
        assert [entry["best"] for entry in trainer.run()].index(True) == kept

    def test_an_epoch_that_leaves_a_metric_undefined_is_not_the_best(self) -> None:
        classifier = tiny.make_classifier()
        data = labelled(classifier, examples("train", 8))
        settings = SMaTParams(criteria=["sim"], schedule={**QUICK, "epochs": 2})
        trainer = trainer_of(settings, data, data, classifier)
        measured = iter([(1.0, {"sim": -0.5}), (1.0, {"sim": None}), (1.0, {"sim": -0.4})])
        trainer.measure = lambda: next(measured)
        history = trainer.run()
        assert [entry["best"] for entry in history] == [False, False, True]
        assert history[1]["criteria"] == {"sim": None}

    def test_that_nothing_was_learned_is_said(self, caplog: pytest.LogCaptureFixture) -> None:
        explainer = IvRA(criteria=["comp"], schedule={**QUICK, "epochs": 2, "accuracy_tolerance": 0.0})
        classifier = tiny.make_classifier()
        # What it is taught to call "yes", it had always rightly called something else.
        right = [replace(e, label=classifier.predict([e])[0]) for e in examples("validation", 8)]
        other = {"yes": "no", "no": "yes"}
        wrong = [replace(e, label=other[classifier.predict([e])[0]]) for e in examples("train", 24)]
        explainer.fit(ListedTask(classifier, wrong, right), description="toy: train ivra")
        assert explainer.best_epoch == 0 and explainer.trained_classifier == classifier.fingerprint
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage().startswith("toy: train ivra: none of 2 epochs was better than the start")

    @pytest.mark.parametrize(("criteria", "alike"), [(["comp"], True), (["comp", "cons"], False)])
    def test_texts_of_all_lengths_meet_where_a_batch_s_texts_are_compared(
        self, criteria: list[str], alike: bool
    ) -> None:
        classifier = tiny.make_classifier()
        texts = [Example(f"t{n}", ("sea",) * (1 + n % 8), "no", "train", "toy") for n in range(64)]
        data = Labelled(classifier.encode(texts), [0] * len(texts))
        settings = SMaTParams(criteria=criteria, schedule={"batch_size": 8})
        trainer = JointTrainer(
            classifier, module_of(classifier), data, data, None, settings, None, lambda: (0.0, {}), seed=0
        )
        batches = list(trainer._training_batches())
        assert sorted(row for rows in batches for row in rows) == list(range(64))
        assert all((len({len(data.encodings[row]) for row in rows}) == 1) == alike for rows in batches)


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"criteria": ["simm"]}, r"criteria.0: got 'simm'; expected"),
            ({"criteria": []}, r"criteria: got \[\]; expected"),
            ({"criteria": ["comp", "comp"]}, "repeat a name"),
            ({"norm": "entmax"}, "norm: got 'entmax'; expected"),
            ({"levels": ["word"]}, "levels.0: got 'word'; expected"),
            (
                {"criteria": ["cons"], "schedule": {"batch_size": 2}},
                "'rank' takes 3; .* schedule.batch_size of 3 or more",
            ),
            ({"criteria": ["cons"], "schedule": {"max_texts": 2}}, "'cons' .* schedule.max_texts of 3 or more"),
            (
                {"criteria": ["cons"], "schedule": {"batch_size": 1}, "consistency": {"loss": "kl"}},
                "'kl' takes 2; .* schedule.batch_size of 2 or more",
            ),
            (
                {"criteria": ["comp"], "schedule": {"learning_rate": 0}, "faithfulness": {"choice_weight": 0}},
                "the explanations have no gradient; expected one of them above 0",
            ),
            ({"schedule": {"epoch": 3}}, r"schedule.epoch: no such parameter; did you mean epochs\?"),
            ({"weights": {"compr": 3}}, r"weights.compr: no such parameter; did you mean comp\?"),
            ({"criteria": ["sim"], "schedule": {"validation_texts": 1}}, "'sim' .* schedule.validation_texts of 2 or"),
            ({"criteria": ["cons"], "schedule": {"validation_texts": 2}}, "'cons' .* schedule.validation_texts of 3"),
            ({"student": {"share": 1.5}}, "student.share: got 1.5; expected"),
        ],
    )
    def test_an_option_s_bad_value(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ParamsError, match=message):
            IvRA(**options)

    @pytest.mark.parametrize(
        ("options", "counts", "error", "message"),
        [
            (
                {"criteria": ["sim"]},
                (8, 3),
                DataError,
                "criterion 'sim': of 3 validation texts .* at least 2 each .student.share",
            ),
            ({"criteria": ["cons"]}, (2, 4), DataError, "criterion 'cons' compares texts .* 'rank' takes 3 or more"),
            ({"criteria": ["cons"]}, (8, 2), DataError, "criterion 'cons': 2 validation texts"),
            ({}, (0, 4), DataError, "split 'train' has no text"),
            ({}, (8, 0), DataError, "split 'validation' has no text"),
            ({"criteria": ["sim"], "student": {"kind": "encoder"}}, (8, 8), ParamsError, "before fine-tuning"),
        ],
    )
    def test_what_the_task_lacks_is_said_before_training(
        self, options: Any, counts: tuple[int, int], error: Any, message: str
    ) -> None:
        explainer = IvRA(**options)
        with pytest.raises(error, match=message):
            explainer.fit(
                ListedTask(tiny.classifier(), examples("train", counts[0]), examples("validation", counts[1]))
            )
        assert explainer.history == []
        assert explainer.classifier is None

    @pytest.mark.parametrize(
        ("criterion", "word", "message"),
        [("cons", "fox", "'cons' is undefined .* do not differ"), ("sim", None, "'sim' is undefined .* one class")],
    )
    def test_a_metric_that_is_undefined_on_the_validation_texts(
        self, criterion: str, word: str | None, message: str
    ) -> None:
        classifier = tiny.make_classifier()
        with torch.no_grad():
            classifier.model.classifier.bias[0] += 100.0
        texts = [e if word is None else replace(e, words=(word,)) for e in examples("validation", 8)]
        explainer = IvRA(criteria=[criterion], schedule=QUICK)
        with pytest.raises(DataError, match=message):
            explainer.fit(ListedTask(classifier, examples("train", 8), texts))
        assert explainer.history == [] and explainer.classifier is None

    def test_a_label_the_classifier_has_not(self) -> None:
        rows = [replace(e, label="maybe") for e in examples("train", 4)]
        with pytest.raises(UnknownNameError, match="unknown label 'maybe'"):
            IvRA().fit(ListedTask(tiny.classifier(), rows, examples("validation", 4)))

    @pytest.mark.parametrize("norm", NORMS)
    def test_training_that_runs_away_stops_with_step_term_and_texts(self, norm: str) -> None:
        classifier = tiny.make_classifier()
        explainer = IvRA(norm=norm, schedule={**QUICK, "learning_rate": 1e30})
        with pytest.raises(ModelError, match=r"step \d+: the loss '\w+' is (nan|inf); .*: train\d+"):
            explainer.fit(ListedTask(classifier, examples("train", 32), examples("validation", 4)))
        assert explainer.classifier is None
        assert tiny.hooks(classifier.model) == 0

    def test_also_at_the_last_step(self) -> None:
        explainer = IvRA(criteria=["comp"], schedule={**QUICK, "epochs": 1, "learning_rate": 1e30})
        with pytest.raises(
            ModelError, match=r"step 1, losses task, comp: .* cannot be measured .*not finite.*: train\d"
        ):
            explainer.fit(ListedTask(tiny.make_classifier(), examples("train", 8), examples("validation", 4)))

    def test_also_in_the_module_s_gradient(self) -> None:
        schedule = {**QUICK, "epochs": 1, "learning_rate": 0.0, "module_learning_rate": 1e30}
        with pytest.raises(ModelError, match=r"step 2, losses task, comp: the gradient is not finite; .*: train\d+"):
            IvRA(criteria=["comp"], schedule=schedule).fit(
                ListedTask(tiny.make_classifier(), examples("train", 32), examples("validation", 4))
            )

    def test_a_student_that_runs_away_names_its_own_texts(self) -> None:
        explainer = IvRA(criteria=["sim"], schedule=QUICK, student={"learning_rate": 1e38})
        with pytest.raises(ModelError, match=r"the loss 'sim' is (nan|inf); .*: validation\d+(, validation\d+)*$"):
            explainer.fit(
                ListedTask(undecided(validation := examples("validation", 16)), examples("train", 32), validation)
            )

    def test_an_untrained_one_explains_nothing(self) -> None:
        with pytest.raises(ModelError, match="this IvRA is not trained"):
            list(IvRA().explain(tiny.classifier(), ["the fox"]))
        with pytest.raises(ModelError, match="nothing to save"):
            IvRA().save_pretrained("nowhere")
        with pytest.raises(ModelError, match="this IvRA is not trained"):
            print(IvRA().best_epoch)

    def test_another_classifier_is_refused(self, learned: IvRA) -> None:
        with pytest.raises(UnsupportedError, match="explains the classifier that was trained with it"):
            list(learned.explain(Classifier(tiny.model("bert", 2, 9), tiny.tokenizer("bert")), ["the fox"]))
        with pytest.raises(UnsupportedError, match="3 layers, the classifier has 2"):
            other = Classifier(tiny.model("bert", num_hidden_layers=2), tiny.tokenizer("bert"))
            list(learned.explain(other, ["the fox"]))


class TestFiles:
    def test_what_is_saved_explains_as_before(self, learned: IvRA, tmp_path: Path) -> None:
        assert learned.classifier is not None
        learned.save_pretrained(tmp_path / "ivra")
        loaded = explearn.get_explainer("ivra", path=str(tmp_path / "ivra"))
        classifier = Classifier.from_pretrained(tmp_path / "ivra" / "classifier", device="cpu")
        assert classifier.fingerprint == learned.classifier.fingerprint
        for before, after in zip(
            learned.explain(learned.classifier, tiny.TEXTS), loaded.explain(classifier, tiny.TEXTS), strict=True
        ):
            np.testing.assert_allclose(after.scores, before.scores, atol=1e-6)
            assert after.method == "ivra"
        config = json.loads((tmp_path / "ivra" / "config.json").read_text(encoding="utf-8"))
        assert config["history"] == learned.history
        assert config["history"][config["best_epoch"]]["best"]
        assert IvRA(**config["options"]).options == learned.options

    def test_damaged_files(self, learned: IvRA, tmp_path: Path) -> None:
        learned.save_pretrained(tmp_path / "ivra")
        with pytest.raises(ModelError, match=r"not a trained SMaT \(holds a IvRA\)"):
            SMaT.from_pretrained(tmp_path / "ivra")
        with pytest.raises(ModelError, match="not a trained IvRA"):
            IvRA.from_pretrained(tmp_path)
        weights = load_file(tmp_path / "ivra" / "attention.safetensors")
        save_file(
            weights | {"head_weights": weights["head_weights"] * math.nan}, tmp_path / "ivra/attention.safetensors"
        )
        with pytest.raises(ModelError, match=r"attention\.safetensors: head_weights holds a value that is not finite"):
            IvRA.from_pretrained(tmp_path / "ivra")
        del weights["layer_weights"]
        save_file(weights, tmp_path / "ivra" / "attention.safetensors")
        with pytest.raises(ModelError, match="not a trained IvRA"):
            IvRA.from_pretrained(tmp_path / "ivra")
