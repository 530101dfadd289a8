"""IvRA's module: scores, top words, gates."""

import math

import numpy as np
import pytest
import tiny
import torch
from ivra_cases import MODULES, NORMS, module_of

from explearn.core.attribution import filled
from explearn.lens.representations import aggregate_states
from explearn.lens.watch import content_mask
from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import InterpretableAttention, explain_batch
from explearn.metrics.plausibility import ranking
from explearn.metrics.protocols import top_count
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import aggregate


def sparsemax(z):
    """Projection on the simplex by its definition: the threshold at which what is above sums to 1."""
    low = z.min() - 1
    high = z.max()
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if np.maximum(z - tau, 0).sum() > 1 else (low, tau)
    return np.maximum(z - low, 0)


def softmax(z):
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


def reference(name, module, classifier, encoding):
    """r of one text, written out from the formulas, with queries and keys from a pass taken apart."""
    norm = {"softmax": softmax, "sparsemax": sparsemax}[module.norm]
    batch = classifier.batch([encoding])
    blocks, _ = tiny.trace(classifier.model, batch)
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
    actual = np.zeros(len(encoding))
    actual[text] = norm(total) if name == "smat" else total
    return actual


class TestModule:
    @pytest.mark.parametrize("name", MODULES)
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("kind", ["bert", "albert"])
    def test_is_what_its_formulas_say(self, kind, name, norm):
        classifier = tiny.classifier(kind, 3)
        module = module_of(classifier, name, norm).requires_grad_(False)
        for texts in (tiny.TEXTS[:3], tiny.PAIRS[:2]):
            encodings = classifier.encode(list(texts))
            batch = classifier.batch(encodings)
            actual = explain_batch(classifier, module, batch)
            torch.testing.assert_close(actual.logits, classifier.logits(batch))
            for row, encoding in enumerate(encodings):
                expected = reference(name, module, classifier, encoding)
                np.testing.assert_allclose(actual.r[row, : len(encoding)].numpy(), expected, atol=2e-5)
        assert tiny.hooks(classifier.model) == 0

    @pytest.mark.parametrize("level", ["feature", "head", "layer"])
    def test_a_level_that_is_off_is_not_learned(self, level):
        module = InterpretableAttention(2, 3, 4, levels=[level])
        learned = {name.removesuffix("_weights") for name, p in module.named_parameters() if p.requires_grad}
        assert learned == {"feature": {"query", "key"}, "head": {"head"}, "layer": {"layer"}}[level]

    def test_states_are_those_of_the_metric(self):
        classifier = tiny.classifier()
        encodings = classifier.encode(list(tiny.TEXTS))
        states = explain_batch(classifier, module_of(classifier), classifier.batch(encodings), states=True).states
        np.testing.assert_allclose(states.numpy(), aggregate_states(classifier, encodings), rtol=1e-4, atol=1e-5)


class TestTopWords:
    @pytest.mark.parametrize("what", ["whole", "cut", "answers"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_takes_the_words_that_the_metric_takes(self, what, sparse):
        """Of texts that were cut, and with answers that stay, too: words without tokens count as words, the last."""
        classifier = tiny.make_answerer()
        if what != "answers":
            tokenizer = tiny.tokenizer("bert", 8) if what == "cut" else tiny.tokenizer("bert")
            classifier = TransformerPredictor(tiny.model("bert"), tokenizer)
        encodings = classifier.encode(list(tiny.PAIRS if what == "answers" else tiny.TEXTS))
        batch = classifier.batch(encodings)
        assert what == "whole" or any(set(range(len(e.words))) - set(e.word_ids) for e in encodings)
        r = torch.rand(batch.input_ids.shape, generator=torch.Generator().manual_seed(1)) * content_mask(batch)
        r = (r - 0.5).relu() if sparse else r
        for percent in (1, 20, 50):
            top = objectives.top_words(r, objectives.WordIndex.of(batch), [percent] * len(encodings))
            for row, encoding in enumerate(encodings):
                pooled = aggregate(r[row].numpy(), encoding.word_ids, len(encoding.words), "sum")
                words = set(ranking(filled(pooled))[: top_count(len(pooled), percent)].tolist())
                expected = [float(word in words) for word in encoding.word_ids]
                assert top[row, : len(encoding)].tolist() == expected

    def test_the_choice_is_drawn_to_the_words_that_speak_for_the_class(self):
        classifier = tiny.classifier()
        batch = tiny.batch(classifier, ["the quick brown fox"] * 2)
        words = objectives.WordIndex.of(batch)
        slope = torch.tensor([[9.0, 3.0, -2.0, 1.0, 0.0, 9.0], [9.0, -1.0, -1.0, -1.0, -1.0, 9.0]])
        logits = torch.zeros(2, 4, requires_grad=True)
        r = torch.nn.functional.pad(logits.softmax(1), (1, 1))
        loss = objectives.choice_loss(r, slope, words)
        assert loss.tolist() == pytest.approx([np.log(4), 0.0])
        loss.sum().backward()
        assert logits.grad is not None
        assert torch.allclose(logits.grad, torch.tensor([[-0.5, 0.25, 0.0, 0.25], [0.0] * 4]))


class TestGates:
    @pytest.mark.parametrize("kind", ["bert", "albert"])
    def test_a_closed_gate_is_a_deletion(self, kind):
        classifier = tiny.classifier(kind)
        for texts in (tiny.TEXTS, tiny.PAIRS):
            encodings = classifier.encode(list(texts))
            batch = classifier.batch(encodings)
            words = objectives.WordIndex.of(batch)
            first = (words.owner == 0).float()
            for gate, shortened in (
                (1 - first, [e.delete([0]) for e in encodings]),
                (first, [e.keep([0]) for e in encodings]),
                (torch.ones_like(first), encodings),
            ):
                with torch.inference_mode():
                    actual = classifier.model(**objectives.gated_inputs(classifier.model, batch, gate)).logits
                torch.testing.assert_close(actual, classifier.logits(classifier.batch(shortened)), atol=1e-4, rtol=1e-4)

    @pytest.mark.parametrize("kind", ["bert", "albert"])
    def test_a_gate_s_slope_is_that_of_the_output(self, kind):
        """Also half open, and where layers share their weights."""
        classifier = tiny.double(kind)
        batch = tiny.batch(classifier, ["the quick brown fox sleeps"])
        gate = torch.linspace(0.2, 1.0, batch.input_ids.shape[1], dtype=torch.float64)[None].requires_grad_()

        def output(gate):
            return classifier.model(**objectives.gated_inputs(classifier.model, batch, gate, recount=False)).logits

        assert torch.autograd.gradcheck(output, gate)

    def test_log_odds(self):
        logits = torch.tensor([[1.0, 3.0, 2.0], [40.0, 0.0, 0.0]])
        classes = torch.tensor([1, 0])
        p = logits.double().softmax(1).gather(1, classes[:, None])[:, 0]
        expected = [float(p[0].log() - (1 - p[0]).log()), 40 - np.log(2)]
        assert objectives.log_odds(logits, classes).tolist() == pytest.approx(expected, rel=1e-5)
