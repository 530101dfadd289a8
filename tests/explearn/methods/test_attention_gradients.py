"""Methods on attention and hidden states with their gradients: gae, mgae, cam, grad_cam, cat, attcat.

The gradients themselves are tested in tests/explearn/lens/test_watch.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import golden
import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn.core.errors import ParamsError
from explearn.lens.watch import LayerGradients, differentiate
from explearn.methods.relevance.gae import gae_row, specialised

TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]
TARGETS = [i % 3 for i in range(len(TEXTS))]


def double(kind: str, classes: int = 3, **config: Any) -> explearn.Classifier:
    """In float64, so that rounding hides nothing."""
    of = tiny.make_classifier(kind, classes)
    if config:
        of.model = tiny.model(kind, classes, **config).requires_grad_(False)
    of.model.double()
    return of


def scores(name: str, of: explearn.Classifier, texts: Any, targets: Any = None, **options: Any) -> list[torch.Tensor]:
    """Scores of each text's sub-tokens, special ones included, all texts in one padded batch."""
    encodings = of.encode(texts)
    wanted = None if targets is None else torch.tensor(targets)
    actual = explearn.get_explainer(name, **options).score_batch(of, of.batch(encodings), wanted)
    return [row[: len(e)] for row, e in zip(actual.scores, encodings, strict=True)]


def gradients(of: explearn.Classifier, text: Any, target: int | None = None) -> LayerGradients:
    """Of one text alone, without padding."""
    wanted = None if target is None else torch.tensor([target])
    return differentiate(of, of.batch(of.encode([text])), wanted, attentions=True, inputs=True)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
@pytest.mark.parametrize("file", [golden.PREDICTED, golden.OTHER_CLASS], ids=["predicted", "other_class"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_scores_equal_the_original_code_s(precision: str, file: str, together: bool) -> None:
    """In a padded batch the original's Grad-CAM would be another, since its extremes and means count padding, too."""
    for name in ("cat", "attcat", "cat__special_masked", "attcat__special_masked"):
        method, _, mode = name.partition("__")
        explainer: Any = explearn.get_explainer(method, mask_special=mode == "special_masked")
        tolerance = 1e-9 if precision == "float64" else 1e-4
        golden.assert_reproduces(explainer, name, tolerance, precision, file, together, special=True)
    explainer = explearn.get_explainer("grad_cam", normalisation="matrix")
    tolerance = 1e-9 if precision == "float64" else 2e-4
    golden.assert_reproduces(explainer, "attention_gradcam", tolerance, precision, file, together)


def gae_by_matrices(actual: LayerGradients, kept: dict[int, list[int]] | None = None) -> torch.Tensor:
    """R <- R + E_h((A * dA)^+) R from R = I, first layer first; row CLS."""
    relevance = torch.eye(actual.attentions[0].shape[-1], dtype=actual.logits.dtype)
    for layer, (a, g) in enumerate(zip(actual.attentions, actual.attention_gradients, strict=True)):
        heads = (a[0] * g[0]).relu()
        if kept is not None:
            heads = heads * torch.tensor([float(h in kept.get(layer, [])) for h in range(len(heads))])[:, None, None]
        relevance = relevance + heads.mean(0) @ relevance
    return relevance[0]


class TestGAE:
    def test_two_layers_by_hand(self) -> None:
        """Two tokens, two heads; A * dA with its negative entries clamped, before the mean over heads:

        E_1 = mean((0 2; 0 0), (0 0; 4 0)) = (0 1; 2 0), E_2 = mean((0 2; 0 0), 0) = (0 1; 0 0)
        row 0 of (I + E_2)(I + E_1) = (1 1)(1 1; 2 1) = (3, 2)
        """
        attention = torch.full((1, 2, 2, 2), 0.5)
        first = torch.tensor([[[[0.0, 4.0], [-2.0, 0.0]], [[0.0, -8.0], [8.0, 0.0]]]])
        second = torch.tensor([[[[0.0, 4.0], [0.0, 0.0]], [[0.0, -8.0], [0.0, -4.0]]]])
        row = gae_row([attention] * 2, [first, second], torch.tensor([[1.0, 0.0]]))
        assert row.tolist() == [[3.0, 2.0]]


class TestMaskedGAE:
    def test_with_all_heads_it_is_gae_and_without_any_nothing_leaves_the_first_token(self) -> None:
        of = double("bert")
        whole = scores("gae", of, tiny.TEXTS)
        every = dict.fromkeys(range(tiny.LAYERS), range(tiny.HEADS))
        for options in ({"heads": every}, {"heads": "gradient", "fraction": 0}, {"share": 1}):
            for actual, full in zip(scores("mgae", of, tiny.TEXTS, **options), whole, strict=True):
                torch.testing.assert_close(actual, full, rtol=0, atol=0)
        for actual in scores("mgae", of, tiny.TEXTS, heads={}):
            assert actual.tolist() == [1.0] + [0.0] * (len(actual) - 1)

    @pytest.mark.parametrize("fraction", [0.25, 0.6, 1.0])
    def test_the_best_heads_are_those_of_most_relevance_in_their_layer(self, fraction: float) -> None:
        of = double("electra")
        for text in tiny.TEXTS:
            layers = gradients(of, text)
            kept = {}
            for layer, (a, g) in enumerate(zip(layers.attentions, layers.attention_gradients, strict=True)):
                relevance = [float(head.clamp(min=0).mean()) for head in (a * g)[0]]
                kept[layer] = [h for h, value in enumerate(relevance) if value >= fraction * max(relevance)]
            (score,) = scores("mgae", of, [text], heads="gradient", fraction=fraction)
            torch.testing.assert_close(score, gae_by_matrices(layers, kept), rtol=1e-10, atol=1e-12)

    def test_roles_of_heads_made_for_them(self) -> None:
        """Ten tokens, [CLS] first, [SEP] last. Even attention puts 1/10 on the next token and 2/10 on special ones, so
        half of the rest is reached at 0.55 and 0.6.
        """
        tokens = 10
        even, eye = torch.full((tokens, tokens), 1 / tokens), torch.eye(tokens)
        following, before = eye.roll(1, dims=1), eye.roll(-1, dims=1)
        last = torch.zeros(tokens, tokens)
        last[:, -1] = 1
        special = last.clone()
        special[:, 0] = special[:, -1] = 0.5

        def part(weight: float, role: torch.Tensor) -> torch.Tensor:
            """`weight` of a role, the rest on the token itself."""
            return weight * role + (1 - weight) * eye

        expected = [
            (following, True),
            (before, True),
            (part(0.56, following), True),
            (part(0.54, following), False),
            (part(0.56, before), True),
            (part(0.54, before), False),
            (0.5 * following + 0.5 * before, False),
            (last, True),
            (part(0.61, special), True),
            (part(0.59, last), False),
            (even, False),
            (eye, False),
        ]
        heads = torch.stack([head for head, _ in expected])
        # Special tokens are no queries: they attend to themselves here, which is neither a neighbour nor the text.
        heads[:, [0, -1]] = eye[[0, -1]]
        # The second text is shorter: what stands behind its eight tokens must not count.
        shorter = torch.rand(heads.shape)
        shorter[:, :8, :8] = 1 / 8
        shorter[:, :8, 8:] = 0
        actual = specialised(torch.stack([heads, shorter]), batch_of_lengths(10, 8), 0.5)
        assert actual[0].tolist() == [masked for _, masked in expected]
        assert not actual[1].any()
        # In a text of one word two thirds of even attention are on special tokens, and it is no role.
        assert not specialised(torch.full((1, 1, 3, 3), 1 / 3), batch_of_lengths(3), 0.5).any()

    @pytest.mark.parametrize(
        ("heads", "message"),
        [
            ({3: [0]}, "heads: layer 3 does not exist: the model has 3, from 0"),
            ({2: [1, 4]}, "heads: head 4 of layer 2 does not exist: it has 4, from 0"),
        ],
    )
    def test_heads_that_cannot_be(self, heads: Any, message: str) -> None:
        with pytest.raises(ParamsError, match=message):
            list(explearn.get_explainer("mgae", heads=heads).explain(tiny.classifier("bert"), tiny.TEXTS))


def batch_of_lengths(*lengths: int) -> Any:
    """Texts of so many tokens, a special one at either end of each."""

    class Ends(SimpleNamespace):
        def __len__(self) -> int:
            return len(self.special)

    longest = max(lengths)
    return SimpleNamespace(
        input_ids=torch.zeros(len(lengths), longest, dtype=torch.int64),
        attention_mask=(torch.arange(longest) < torch.tensor(lengths)[:, None]).long(),
        encodings=[Ends(special=(True, *([False] * (n - 2)), True)) for n in lengths],
    )


class TestCAT:
    @pytest.mark.parametrize("name", ["cat", "attcat"])
    def test_masking_changes_neither_the_class_explained_nor_its_probability(self, name: str) -> None:
        of = tiny.make_classifier("electra", 2)
        (plain,) = explearn.get_explainer(name).explain(of, tiny.TEXTS[:1])
        (masked,) = explearn.get_explainer(name, mask_special=True).explain(of, tiny.TEXTS[:1])
        assert masked.target == masked.predicted == plain.predicted
        assert masked.probability == pytest.approx(plain.probability, abs=1e-5)
        assert not np.allclose(plain.scores, masked.scores, rtol=1e-2)
