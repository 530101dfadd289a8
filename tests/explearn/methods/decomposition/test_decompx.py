"""DecompX against the original code's scores, all three methods against loops that spell their formulas out."""

import functools
from itertools import product

import golden
import numpy as np
import pytest
import tiny
import torch
from torch.overrides import TorchFunctionMode

import explearn
from explearn import ComputeOptions, TransformerPredictor
from explearn.lens.anatomy import dissect
from explearn.methods.decomposition.decompx import DecompX


class Sizes(TorchFunctionMode):
    """Notes the number of elements of the largest tensor that any call in its scope returns."""

    largest = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.largest = max(self.largest, result.numel())
        return result


METHODS = ("alti", "globenc", "decompx")


KINDS = (*tiny.ARCHITECTURES, "deberta-v2", "mpnet")
"""Architectures whose blocks have their layer norms behind the residual sums."""

VARIANTS = {
    "decompx": {},
    "decompx__no_biases": {"bias": "none"},
    "decompx__bias_norm": {"bias": "norm"},
    "decompx__bias_equal": {"bias": "equal"},
    "decompx__gelu_la": {"activation": "linear"},
    "decompx__tanh_la": {"head_activation": "linear"},
}
"""Name in the reference -> options here."""

OPTIONS = [
    {},
    {"bias": "none"},
    {"bias": "norm", "activation": "linear", "head_activation": "linear"},
]

TEXTS = [tiny.TEXTS[0], tiny.PAIRS[2]]


@functools.cache
def double_classifier(kind):
    """In float64; its biases are not 0 and its layer norms' weights are not 1."""
    of = tiny.make_classifier(kind, 3)
    generator = torch.Generator().manual_seed(1)
    for parameter in of.model.parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.25)
    of.model.double()
    return of


# ---- the formulas, one text at a time, in loops over tokens i, j (or k) and heads ------------------------------------


class Loops:
    """A text's states and attention as the model itself gives them, and what follows from them in loops."""

    def __init__(self, of, text):
        batch = tiny.batch(of, [text])
        self.anatomy = dissect(of.model)
        self.attention = [a[0] for a in tiny.eager_attentions(of, batch)]
        with torch.inference_mode():
            output = of.model(**batch.model_inputs(), output_hidden_states=True)
        self.states = [state[0] for state in output.hidden_states]
        self.tokens = range(len(self.states[0]))
        self.wholes = []
        for layer in range(len(self.anatomy.blocks)):
            self.wholes.append([self.whole(layer, i) for i in self.tokens])

    @staticmethod
    def head_output(block, head, vector, value_bias):
        size = len(block.value.bias) // block.heads
        rows = slice(head * size, (head + 1) * size)
        value = block.value.weight[rows] @ vector
        return block.output.weight[:, rows] @ (value + block.value.bias[rows] if value_bias else value)

    @staticmethod
    def norm(norm, part, whole):
        return norm.weight * (part - part.mean()) / (whole.var(unbiased=False) + norm.eps).sqrt()

    def attended(self, layer, i, j):
        block = self.anatomy.blocks[layer]
        x = self.states[layer]
        a = self.attention[layer]
        return sum(
            (a[h, i, j] * self.head_output(block, h, x[j], True) for h in range(block.heads)), torch.zeros_like(x[i])
        )

    def whole(self, layer, i):
        """Token i before the attention's layer norm, after it, and before the feed-forward layer's."""
        block = self.anatomy.blocks[layer]
        before = sum((self.attended(layer, i, j) for j in self.tokens), self.states[layer][i] + block.output.bias)
        after = block.attention_norm(before)
        return before, after, after + block.contract(block.activation(block.expand(after)))

    def part(self, layer, i, j):
        """T_i(x_j)."""
        vector = self.attended(layer, i, j) + (self.states[layer][i] if i == j else 0)
        return self.norm(self.anatomy.blocks[layer].attention_norm, vector, self.wholes[layer][i][0])

    def alti(self, layer, i, j):
        y = self.wholes[layer][i][1]
        return max(0.0, float(y.abs().sum() - (y - self.part(layer, i, j)).abs().sum()))

    def globenc(self, layer, i, j):
        vector = self.norm(self.anatomy.blocks[layer].norm, self.part(layer, i, j), self.wholes[layer][i][2])
        return float((vector * vector).sum().sqrt())

    def rolled_out(self, contribution, shares=True):
        rolled = np.eye(len(self.tokens))
        for layer in range(len(self.anatomy.blocks)):
            actual = np.array([contribution(layer, i, j) for i, j in product(self.tokens, repeat=2)])
            actual = actual.reshape(len(self.tokens), -1)
            rolled = (actual / actual.sum(1, keepdims=True) if shares else actual) @ rolled
        return rolled[0]


@functools.cache
def loops_of(kind, text):
    return Loops(double_classifier(kind), text)


@pytest.mark.parametrize("kind", KINDS)
class TestFormulas:
    @pytest.mark.parametrize("name", ["alti", "globenc"])
    def test_mixing_equals_the_formula_in_loops(self, kind, name):
        of = double_classifier(kind)
        for text in TEXTS:
            loops = loops_of(kind, text)
            expected = loops.rolled_out(getattr(loops, name))
            scores = tiny.score(name, of, [text], [0]).scores[0]
            np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)

    def test_globenc_s_original_rollout_keeps_the_sizes_of_rows(self, kind):
        of = double_classifier(kind)
        loops = loops_of(kind, TEXTS[0])
        scores = tiny.score("globenc", of, TEXTS[:1], rows="original").scores[0]
        np.testing.assert_allclose(scores, loops.rolled_out(loops.globenc, shares=False), rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_decompx_adds_up_to_the_logit(self, kind, options):
        of = double_classifier(kind)
        batch = tiny.batch(of)
        scores = tiny.score("decompx", of, tiny.TEXTS, [1] * 5, **options)
        missed = (scores.scores.sum(1) - scores.logits[:, 1]).abs()
        assert (scores.scores[batch.attention_mask == 0] == 0).all()
        if options.get("bias") == "none":
            assert scores.completeness_error is None and missed.max() > 1e-2
        else:
            assert scores.completeness_error is not None and scores.completeness_error.tolist() == missed.tolist()
            assert 0 < missed.max() < 1e-9


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
@pytest.mark.parametrize("file", [golden.PREDICTED, golden.OTHER_CLASS])
@pytest.mark.parametrize("name", VARIANTS)
def test_decompx_gives_the_original_code_s_scores(name, file, together):
    method = DecompX(**VARIANTS[name])
    golden.assert_reproduces(method, name, 1e-9, "float64", file, together, special=True)
    if together:
        golden.assert_reproduces(method, name, 2e-5, "float32", file, together, special=True)


class TestMemory:
    WIDE = 48
    """Width of the feed-forward layers of tiny models; HIDDEN is that of the states."""

    @pytest.mark.parametrize(("name", "options"), [("alti", {}), ("globenc", {}), ("decompx", OPTIONS[-1])])
    def test_slices_and_padding_change_no_score(self, name, options):
        """Texts alone and in one piece, against a batch whose parts are made for 1, 2 or 5 tokens at a time."""
        method = explearn.get_explainer(name, **options)
        of = double_classifier("bert")
        alone = [method.score_batch(of, tiny.batch(of, [text]), None).scores[0] for text in tiny.TEXTS]
        for tokens in (1, 2, 5):
            most = 5 * max(map(len, alone)) * tokens
            sliced = TransformerPredictor(of.model, of.tokenizer, ComputeOptions(device="cpu", max_tokens=most))
            scores = method.score_batch(sliced, tiny.batch(sliced), None)
            for row, expected in zip(scores.scores, alone, strict=True):
                torch.testing.assert_close(row[: len(expected)], expected, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("name", METHODS)
    def test_a_text_beyond_the_budget_holds_no_more_than_it_must(self, name):
        """DecompX its parts, but nothing wider; the others no more than the attention matrices of all heads."""
        of = tiny.long_classifier("bert")
        text = "fox " * 60
        expected = explearn.explain(of, text, name)
        of = TransformerPredictor(of.model, of.tokenizer, ComputeOptions(device="cpu", max_tokens=256))
        with Sizes() as seen:
            attribution = explearn.explain(of, text, name)
        tokens = len(expected.tokens) + 2
        assert seen.largest == tokens**2 * (tiny.HIDDEN if name == "decompx" else tiny.HEADS)
        np.testing.assert_allclose(attribution.token_scores, expected.token_scores, rtol=1e-4, atol=1e-6)
