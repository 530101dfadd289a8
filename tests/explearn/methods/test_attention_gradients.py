"""Methods on attention and its gradient: gae, mgae, cam, grad_cam, cat, attcat.

The gradients themselves are tested in tests/models/test_gradients.py.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import golden
import pytest
import tiny
import torch
from attention_gradient_cases import double, gradients, scores

import explearn
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.lens.gradients import LayerGradients
from explearn.methods.relevance.gae import specialised

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("gae", {}),
    ("mgae", {}),
    ("mgae", {"heads": "gradient"}),
    ("mgae", {"heads": {0: [1, 3], 2: [0]}}),
    ("cam", {}),
    ("cam", {"attention": False, "centred": True}),
    ("grad_cam", {}),
    ("grad_cam", {"normalisation": "matrix"}),
    ("cat", {}),
    ("cat", {"mask_special": True}),
    ("attcat", {}),
    ("attcat", {"mask_special": True}),
]


def variant_id(value: Any) -> str:
    return "-".join(map(str, value)) or "default" if isinstance(value, dict) else str(value)


class TestAgainstTheOriginalCode:
    @pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
    @pytest.mark.parametrize("file", [golden.PREDICTED, golden.OTHER_CLASS], ids=["predicted", "other_class"])
    @pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-9), ("float32", 1e-4)])
    @pytest.mark.parametrize("name", ["cat", "attcat", "cat__special_masked", "attcat__special_masked"])
    def test_cat_and_attcat(self, name: str, precision: str, tolerance: float, file: str, together: bool) -> None:
        method, _, mode = name.partition("__")
        explainer: Any = explearn.get_explainer(method, mask_special=mode == "special_masked")
        golden.assert_reproduces(explainer, name, tolerance, precision, file, together, special=True)

    @pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
    @pytest.mark.parametrize("file", [golden.PREDICTED, golden.OTHER_CLASS], ids=["predicted", "other_class"])
    @pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-9), ("float32", 2e-4)])
    def test_grad_cam(self, precision: str, tolerance: float, file: str, together: bool) -> None:
        """The original's scores in a padded batch would be others, since its minimum, maximum and means are taken over
        padding too; ours are those of the text alone. In float32 they are off by 6e-5 alone and by 1.0e-4 in a batch.
        """
        explainer: Any = explearn.get_explainer("grad_cam", normalisation="matrix")
        golden.assert_reproduces(explainer, "attention_gradcam", tolerance, precision, file, together)


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=variant_id)
class TestEveryVariant:
    def test_padding_changes_nothing(self, name: str, options: dict[str, Any], kind: str) -> None:
        """Relative to each text's own largest score, however small that is."""
        of = double(kind)
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        for found, text in zip(scores(name, of, texts, **options), texts, strict=True):
            (alone,) = scores(name, of, [text], **options)
            assert found.dtype == torch.float64
            torch.testing.assert_close(found, alone, rtol=0, atol=1e-10 * float(alone.abs().max()))

    def test_low_precision_gives_finite_float32(self, name: str, options: dict[str, Any], kind: str) -> None:
        of = tiny.make_classifier(kind, precision="bf16")
        batch = of.batch(of.encode(tiny.TEXTS))
        found = explearn.get_explainer(name, **options).score_batch(of, batch, None)  # type: ignore[attr-defined]
        assert found.scores.dtype == found.logits.dtype == torch.float32
        assert found.scores.isfinite().all()

    def test_a_text_of_special_tokens_alone_gives_finite_scores(
        self, name: str, options: dict[str, Any], kind: str
    ) -> None:
        of = tiny.classifier(kind)
        (encoding,) = of.encode(["lazy"])
        batch = of.batch([encoding.delete([0]), *of.encode(tiny.TEXTS)])
        found = explearn.get_explainer(name, **options).score_batch(of, batch, None)  # type: ignore[attr-defined]
        assert found.scores.isfinite().all()
        assert found.logits.isfinite().all()

    def test_nothing_is_left_on_the_model_also_after_an_exception(
        self, name: str, options: dict[str, Any], kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        of = tiny.make_classifier(kind)
        method = explearn.get_explainer(name, **options)
        list(method.explain(of, tiny.TEXTS))

        def fail(*_: object) -> None:
            raise RuntimeError("no memory")

        head: Any = of.model.classifier
        monkeypatch.setattr(getattr(head, "dense", head), "forward", fail)
        before = of.model.config._attn_implementation
        with pytest.raises(RuntimeError, match="no memory"):
            list(method.explain(of, tiny.TEXTS))
        assert tiny.hooks(of.model) == 0
        assert of.model.config._attn_implementation == before
        assert not of.model.config.output_hidden_states
        assert not any(p.requires_grad for p in of.model.parameters())
        assert torch.is_grad_enabled()

    def test_other_architectures_are_refused_before_any_work(
        self, name: str, options: dict[str, Any], kind: str
    ) -> None:
        of = tiny.make_classifier(kind)
        of.model.config.model_type = "longformer"
        with pytest.raises(UnsupportedError, match="attention of a 'longformer' model cannot be captured"):
            list(explearn.get_explainer(name, **options).explain(of, []))


def gae_by_matrices(found: LayerGradients, kept: dict[int, list[int]] | None = None) -> torch.Tensor:
    """R <- R + E_h((A * dA)^+) R from R = I, first layer first; row CLS."""
    relevance = torch.eye(found.attentions[0].shape[-1], dtype=found.logits.dtype)
    for layer, (a, g) in enumerate(zip(found.attentions, found.attention_gradients, strict=True)):
        heads = (a[0] * g[0]).relu()
        if kept is not None:
            heads = heads * torch.tensor([float(h in kept.get(layer, [])) for h in range(len(heads))])[:, None, None]
        relevance = relevance + heads.mean(0) @ relevance
    return relevance[0]


class TestGAE:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_is_the_first_row_of_the_product_of_matrices(self, kind: str) -> None:
        of = double(kind)
        targets = [i % 3 for i in range(len(tiny.TEXTS))]
        for found, text, target in zip(scores("gae", of, tiny.TEXTS, targets), tiny.TEXTS, targets, strict=True):
            torch.testing.assert_close(found, gae_by_matrices(gradients(of, text, target)), rtol=1e-10, atol=1e-12)

    def test_two_layers_by_hand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two tokens, two heads; A * dA with its negative entries clamped, before the mean over heads:

        E_1 = mean((0 2; 0 0), (0 0; 4 0)) = (0 1; 2 0), E_2 = mean((0 2; 0 0), 0) = (0 1; 0 0)
        row 0 of (I + E_2)(I + E_1) = (1 1)(1 1; 2 1) = (3, 2)
        """
        attention = torch.full((1, 2, 2, 2), 0.5)
        first = torch.tensor([[[[0.0, 4.0], [-2.0, 0.0]], [[0.0, -8.0], [8.0, 0.0]]]])
        second = torch.tensor([[[[0.0, 4.0], [0.0, 0.0]], [[0.0, -8.0], [0.0, -4.0]]]])
        logits, targets = torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64)
        made = LayerGradients(logits, targets, (attention, attention), (first, second), (), ())
        method: Any = explearn.get_explainer("gae")
        monkeypatch.setattr("explearn.methods.relevance.gae.differentiate", lambda *_, **__: made)
        anything: Any = None
        assert method.score_batch(anything, anything, None).scores.tolist() == [[3.0, 2.0]]


class TestMaskedGAE:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_maps_of_heads_not_named_are_zero(self, kind: str) -> None:
        of = double(kind)
        kept = {0: [1, 3], 2: [0]}
        for found, text in zip(scores("mgae", of, tiny.TEXTS, heads=kept), tiny.TEXTS, strict=True):
            torch.testing.assert_close(found, gae_by_matrices(gradients(of, text), kept), rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize(
        "options",
        [
            {"heads": dict.fromkeys(range(tiny.LAYERS), range(tiny.HEADS))},
            {"heads": "gradient", "fraction": 0},
            {"share": 1},
        ],
    )
    def test_with_all_heads_it_is_gae(self, options: dict[str, Any]) -> None:
        of = double("bert")
        for found, full in zip(scores("mgae", of, tiny.TEXTS, **options), scores("gae", of, tiny.TEXTS), strict=True):
            torch.testing.assert_close(found, full, rtol=0, atol=0)

    def test_without_heads_nothing_leaves_the_first_token(self) -> None:
        for found in scores("mgae", double("bert"), tiny.TEXTS, heads={}):
            assert found.tolist() == [1.0] + [0.0] * (len(found) - 1)

    def test_the_best_heads_are_those_of_most_relevance_in_their_layer(self) -> None:
        of = double("electra")
        for fraction, text in itertools.product((0.25, 0.6, 1.0), tiny.TEXTS):
            layers = gradients(of, text)
            kept = {}
            for layer, (a, g) in enumerate(zip(layers.attentions, layers.attention_gradients, strict=True)):
                relevance = [float(head.clamp(min=0).mean()) for head in (a * g)[0]]
                kept[layer] = [h for h, value in enumerate(relevance) if value >= fraction * max(relevance)]
            (found,) = scores("mgae", of, [text], heads="gradient", fraction=fraction)
            torch.testing.assert_close(found, gae_by_matrices(layers, kept), rtol=1e-10, atol=1e-12)

    def test_roles_of_heads_made_for_them(self) -> None:
        """Ten tokens, [CLS] first, [SEP] last. Even attention puts 1/10 on the next token and 2/10 on special ones, so
        half of the rest is reached at 0.55 and 0.6.
        """
        tokens = 10
        even = torch.full((tokens, tokens), 1 / tokens)
        eye = torch.eye(tokens)
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
        batch: Any = SimpleNamespace(
            input_ids=torch.zeros(2, tokens, dtype=torch.int64),
            attention_mask=torch.tensor([[1] * 10, [1] * 8 + [0] * 2]),
            encodings=[special_at_the_ends(10), special_at_the_ends(8)],
        )
        shorter[:, :8, 8:] = 0
        found = specialised(torch.stack([heads, shorter]), batch, 0.5)
        assert found[0].tolist() == [masked for _, masked in expected]
        assert not found[1].any()

    def test_even_attention_is_no_role_in_a_short_text(self) -> None:
        """Two thirds of it are on special tokens."""
        batch: Any = SimpleNamespace(
            input_ids=torch.zeros(1, 3, dtype=torch.int64),
            attention_mask=torch.ones(1, 3, dtype=torch.int64),
            encodings=[special_at_the_ends(3)],
        )
        assert not specialised(torch.full((1, 1, 3, 3), 1 / 3), batch, 0.5).any()

    @pytest.mark.parametrize("options", [{"share": 0.1}, {"heads": "gradient", "fraction": 0.9}])
    def test_leaving_heads_out_raises_no_score(self, options: dict[str, Any]) -> None:
        of = double("roberta")
        lower = 0
        for found, full in zip(scores("mgae", of, tiny.TEXTS, **options), scores("gae", of, tiny.TEXTS), strict=True):
            assert (found <= full + 1e-12).all()
            lower += bool((found < full - 1e-6).any())
        assert lower > 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"heads": "syntactic"}, "heads: got 'syntactic'; expected one of specialised, gradient, or"),
            ({"heads": {"1": [0]}}, r"heads: got '1': \[0\]; expected a layer's number and a list of heads"),
            ({"heads": {1: "0"}}, "heads: got 1: '0'; expected"),
            ({"heads": {1: 0}}, "heads: got 1: 0; expected"),
            ({"share": 1.5}, "share: got 1.5; expected a number between 0 and 1"),
            ({"fraction": float("nan")}, "fraction: got nan; expected"),
            ({"fraction": "half"}, "fraction: got 'half'; expected"),
        ],
    )
    def test_options_that_cannot_be(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ParamsError, match=message):
            explearn.get_explainer("mgae", **options)

    @pytest.mark.parametrize(
        ("heads", "message"),
        [
            ({3: [0]}, "heads: layer 3 does not exist: the model has 3, from 0"),
            ({-1: [0]}, "heads: layer -1 does not exist"),
            ({2: [1, 4]}, "heads: head 4 of layer 2 does not exist: it has 4, from 0"),
        ],
    )
    def test_heads_that_the_classifier_does_not_have(self, heads: dict[int, list[int]], message: str) -> None:
        with pytest.raises(ParamsError, match=message):
            list(explearn.get_explainer("mgae", heads=heads).explain(tiny.classifier("bert"), tiny.TEXTS))


def special_at_the_ends(tokens: int) -> Any:
    class Ends(SimpleNamespace):
        def __len__(self) -> int:
            return tokens

    return Ends(special=(True, *([False] * (tokens - 2)), True))
