"""IvRA's module: scores, top words, gates."""

import math

import numpy as np
import pytest
import tiny
import torch
from ivra_cases import MODULES, NORMS, module_of

from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import explain_batch


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
