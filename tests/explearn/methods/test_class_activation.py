"""CAM, Grad-CAM and CAT."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from attention_gradient_cases import double, gradients, scores

import explearn
from explearn.core.errors import ParamsError


class TestCAM:
    @staticmethod
    def as_if_first(of: explearn.Classifier, states: torch.Tensor, token: int) -> torch.Tensor:
        """Logits of the model's own head on a sequence that begins with this token."""
        model: Any = of.model
        kind, rest = model.config.model_type, states[:, token:]
        if kind == "bert":
            return model.classifier(model.bert.pooler(rest))
        if kind == "albert":
            return model.classifier(torch.tanh(model.albert.pooler(rest[:, 0])))
        if kind == "distilbert":
            return model.classifier(torch.relu(model.pre_classifier(rest[:, 0])))
        return model.classifier(rest)

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_is_the_logit_that_a_token_would_give_at_the_first_place(self, kind: str) -> None:
        of = double(kind)
        last: Any = getattr(of.model.classifier, "out_proj", of.model.classifier)
        torch.nn.init.normal_(last.bias)
        for found, plain, centred, text in zip(
            scores("cam", of, tiny.TEXTS, [1] * 5),
            scores("cam", of, tiny.TEXTS, [1] * 5, attention=False),
            scores("cam", of, tiny.TEXTS, [1] * 5, attention=False, centred=True),
            tiny.TEXTS,
            strict=True,
        ):
            batch = of.batch(of.encode([text]))
            with torch.inference_mode():
                output = of.model(**batch.model_inputs(), output_hidden_states=True)
                states = output.hidden_states[-1]
                logits = torch.cat([self.as_if_first(of, states, t) - last.bias for t in range(states.shape[1])])
            attention = tiny.eager_attentions(of, batch)[-1][0].mean(0)[0]
            torch.testing.assert_close(plain, logits[:, 1])
            torch.testing.assert_close(found, logits[:, 1] * attention)
            torch.testing.assert_close(centred, logits[:, 1] - logits.mean(-1))
            torch.testing.assert_close(plain[0], output.logits[0, 1] - last.bias[1])


class TestGradCAM:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_heads_are_weighted_by_their_mean_gradient_and_clamped_together(self, kind: str) -> None:
        of = double(kind)
        targets = [i % 3 for i in range(len(tiny.TEXTS))]
        some = False
        for found, text, target in zip(scores("grad_cam", of, tiny.TEXTS, targets), tiny.TEXTS, targets, strict=True):
            last = gradients(of, text, target)
            weights = last.attention_gradients[-1][0].mean((-1, -2))
            expected = sum(w * a for w, a in zip(weights, last.attentions[-1][0], strict=True)) / tiny.HEADS
            torch.testing.assert_close(found, expected.relu()[0], rtol=1e-9, atol=1e-14)
            some |= bool(found.any())
        assert some

    def test_the_matrix_wide_rescale_keeps_the_order(self) -> None:
        of = double("bert")
        spreads = []
        for target in range(3):
            targets = [target] * len(tiny.TEXTS)
            for plain, rescaled in zip(
                scores("grad_cam", of, tiny.TEXTS, targets),
                scores("grad_cam", of, tiny.TEXTS, targets, normalisation="matrix"),
                strict=True,
            ):
                assert (rescaled >= 0).all() and (rescaled <= 1).all()
                spread, before = (values.max() - values.min() for values in (rescaled, plain))
                spreads.append(float(spread))
                torch.testing.assert_close((rescaled - rescaled.min()) * before, (plain - plain.min()) * spread)
        # A row may be all 0.
        assert sum(spread > 0 for spread in spreads) >= 5

    @pytest.mark.parametrize("normalisation", ["none", "matrix"])
    def test_a_map_of_zeros_stays_zero(self, normalisation: str) -> None:
        """One head, and two classes of opposite weights: for one of them its mean gradient is below 0."""
        of = double("bert", 2, num_attention_heads=1)
        weight: Any = of.model.classifier.weight
        weight[1] = -weight[0]
        first, second = (
            scores("grad_cam", of, ["the quick brown fox"], [target], normalisation=normalisation)[0]
            for target in (0, 1)
        )
        assert sorted([bool(first.any()), bool(second.any())]) == [False, True]
        assert first.isfinite().all() and second.isfinite().all()

    def test_layers_below_the_last_build_no_graph(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.make_classifier("bert")
        inside: list[bool] = []
        for block in of.model.bert.encoder.layer:
            block.attention.self.query.register_forward_hook(lambda _m, _i, o: inside.append(o.requires_grad))
        scores("grad_cam", of, ["lazy dog"])
        assert inside == [False, False, True]

    def test_an_unknown_normalisation(self) -> None:
        with pytest.raises(ParamsError, match="normalisation: got 'row'; expected one of none, matrix"):
            explearn.get_explainer("grad_cam", normalisation="row")


class TestCAT:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_states_times_gradients_added_up_with_and_without_attention(self, kind: str) -> None:
        of = double(kind)
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        targets = [i % 3 for i in range(len(texts))]
        for cat, attcat, text, target in zip(
            scores("cat", of, texts, targets), scores("attcat", of, texts, targets), texts, targets, strict=True
        ):
            found = gradients(of, text, target)
            products = [(x * g)[0].sum(-1) for x, g in zip(found.inputs, found.input_gradients, strict=True)]
            received = [a[0].mean((0, 1)) for a in found.attentions]
            torch.testing.assert_close(cat, sum(products))
            torch.testing.assert_close(attcat, sum(a * p for a, p in zip(received, products, strict=True)))

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_masked_special_tokens_get_no_attention(self, kind: str) -> None:
        of = double(kind)
        for found, encoding in zip(
            scores("attcat", of, tiny.PAIRS, mask_special=True), of.encode(tiny.PAIRS), strict=True
        ):
            assert [bool(score) for score in found] == [not special for special in encoding.special]

    @pytest.mark.parametrize("name", ["cat", "attcat"])
    def test_masking_changes_neither_the_class_explained_nor_its_probability(self, name: str) -> None:
        of = tiny.make_classifier("electra", 2)
        (encoding,) = of.encode(tiny.TEXTS[:1])
        batch = of.batch([encoding])
        hidden = replace(batch, attention_mask=torch.tensor([[int(not special) for special in encoding.special]]))
        margins = [float(logits[0, 0] - logits[0, 1]) for logits in (of.logits(batch), of.logits(hidden))]
        # A bias half-way between them: the plain pass predicts one class, the masked pass the other.
        head: Any = of.model.classifier
        head.out_proj.bias[1] += sum(margins) / 2
        assert of.logits(batch).argmax() != of.logits(hidden).argmax()
        (plain,) = explearn.get_explainer(name).explain(of, tiny.TEXTS[:1])
        (masked,) = explearn.get_explainer(name, mask_special=True).explain(of, tiny.TEXTS[:1])
        assert masked.target == masked.predicted == plain.predicted
        assert masked.probability == pytest.approx(plain.probability, abs=1e-5)
        assert not np.allclose(plain.scores, masked.scores, rtol=1e-2)
