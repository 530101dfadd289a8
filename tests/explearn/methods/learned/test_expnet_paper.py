"""test_expnet_paper"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from expnet_paper_cases import CPU, planted, scores
from safetensors.torch import load_file, save_file
from sklearn.metrics import roc_auc_score

import explearn
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnsupportedError
from explearn.lens.features import ExampleFeatures, batch_features
from explearn.methods.expnet.paper import ExpNetPaper, TokenExamples, focal_loss
from explearn.model.classifier import Classifier

ENCODER = {"layer": 2, "layers": tiny.LAYERS, "heads": tiny.HEADS, "hidden_size": tiny.HIDDEN}


WIDTHS = {"full": 8, "task_to_token": 4, "token_to_task": 4, "hidden": 32, "hidden_and_attention": 40}
"""With four heads and hidden states of 32."""


class TestFocalLoss:
    @pytest.mark.parametrize(
        ("logit", "label", "expected"),
        [
            # p = 1/2: alpha_t (1/2)^2 ln 2
            (0.0, 1.0, 0.6 * 0.25 * math.log(2)),
            (0.0, 0.0, 0.4 * 0.25 * math.log(2)),
            # p = 3/4
            (math.log(3), 1.0, 0.6 * 0.25**2 * math.log(4 / 3)),
            (math.log(3), 0.0, 0.4 * 0.75**2 * math.log(4)),
            # sure and right: nothing; sure and wrong: -alpha_t log p, which is the logit's size
            (200.0, 1.0, 0.0),
            (-200.0, 1.0, 0.6 * 200),
        ],
    )
    def test_by_hand(self, logit: float, label: float, expected: float) -> None:
        found = focal_loss(torch.tensor([logit]), torch.tensor([label]), alpha=0.6, gamma=2)
        assert found.tolist() == pytest.approx([expected], rel=1e-5, abs=1e-9)

    def test_without_focus_and_evenly_weighted_it_is_half_the_cross_entropy(self) -> None:
        logits, labels = torch.linspace(-4, 4, 9), torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
        expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none") / 2
        torch.testing.assert_close(focal_loss(logits, labels, alpha=0.5, gamma=0), expected)

    @pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
    def test_its_gradient_is_finite_for_logits_of_any_size(self, gamma: float) -> None:
        logits = torch.tensor([-1e4, -50.0, 0.0, 50.0, 1e4], requires_grad=True)
        focal_loss(logits, torch.ones(5), alpha=0.6, gamma=gamma).sum().backward()
        assert logits.grad is not None
        assert torch.isfinite(logits.grad).all()


class TestLearning:
    @pytest.mark.parametrize("standardize", [False, True])
    def test_finds_the_column_that_marks_evidence(self, standardize: bool) -> None:
        expnet = ExpNetPaper(learning_rate=1e-2, standardize=standardize).fit_tokens(
            [planted(150, seed=1)], ENCODER, ["a"]
        )
        unseen = planted(50, seed=2)
        found = scores(expnet, unseen.features)
        assert roc_auc_score(unseen.labels, found) > 0.99
        chosen = (found >= expnet.threshold).float()
        assert (chosen == unseen.labels).float().mean() > 0.98
        assert expnet.losses[-1] < expnet.losses[0] / 4
        assert len(expnet.losses) == 50

    def test_several_tasks_are_pooled(self) -> None:
        """Half of the signal's column in each of two tasks: only both together tell the whole."""
        parts = [planted(40, seed=1), planted(40, seed=2)]
        together = TokenExamples(
            torch.cat([p.features for p in parts]), torch.cat([p.labels for p in parts]), np.arange(81) * 12
        )
        apart = ExpNetPaper(epochs=2).fit_tokens(parts, ENCODER)
        pooled = ExpNetPaper(epochs=2).fit_tokens([together], ENCODER)
        assert torch.equal(scores(apart, parts[0].features), scores(pooled, parts[0].features))

    def test_the_seed_decides(self) -> None:
        data = [planted(20, seed=1)]
        first, again, other = (ExpNetPaper(epochs=2, seed=seed).fit_tokens(data, ENCODER) for seed in (5, 5, 6))
        assert torch.equal(scores(first, data[0].features), scores(again, data[0].features))
        assert not torch.equal(scores(first, data[0].features), scores(other, data[0].features))

    def test_the_network_is_that_of_the_paper(self) -> None:
        """Linear(2H, 16) - ReLU - Linear(16, 1): 12 heads make 24 * 16 + 16 + 16 + 1 = 417 parameters."""
        data = planted(4, seed=1, width=24)
        expnet = ExpNetPaper(epochs=1).fit_tokens([data], {**ENCODER, "heads": 12})
        assert expnet.network is not None
        assert sum(p.numel() for p in expnet.network.parameters()) == 417
        assert not any(p.requires_grad for p in expnet.network.parameters())

    def test_classifiers_of_two_architectures_do_not_mix(self) -> None:
        with pytest.raises(ParamsError, match=r"widths \[8, 24\]; expected classifiers of one architecture"):
            ExpNetPaper().fit_tokens([planted(4, seed=1), planted(4, seed=1, width=24)], ENCODER)

    @pytest.mark.parametrize(
        ("option", "value"),
        [("features", "ful"), ("protocol", "out_of_domain"), ("hidden", "many"), ("epochs", -1), ("gamma", math.nan)],
    )
    def test_an_option_s_bad_value(self, option: str, value: Any) -> None:
        with pytest.raises(ParamsError, match=f"{option}: got {value!r}; expected"):
            ExpNetPaper(**{option: value})


def row(example_id: str, word_ids: list[int], predicted: str = "yes", hidden: bool = False) -> ExampleFeatures:
    tokens = len(word_ids)
    return ExampleFeatures(
        example_id=example_id,
        predicted=predicted,
        probabilities=np.array([0.2, 0.8], dtype=np.float32),
        word_ids=np.array(word_ids, dtype=np.int32),
        attention=np.arange(8 * tokens, dtype=np.float32).reshape(tokens, 8),
        hidden=-np.arange(32 * tokens, dtype=np.float32).reshape(tokens, 32) if hidden else None,
    )


class TestTrainingTokens:
    def test_every_piece_of_a_marked_word_is_evidence(self) -> None:
        found = ExpNetPaper().token_examples(
            [row("a", [0, 0, 1, -1, 2, 2, 2])], {"a": (True, False, True)}, {"a": "yes"}
        )
        assert found.labels.tolist() == [1, 1, 0, 0, 1, 1, 1]
        assert found.starts.tolist() == [0, 7]

    def test_a_marked_word_behind_truncation_is_no_loss(self) -> None:
        found = ExpNetPaper().token_examples([row("a", [0, 1])], {"a": (False, True, True, True)}, {"a": "yes"})
        assert found.labels.tolist() == [0, 1]

    def test_only_right_predictions_and_marked_texts_are_used(self) -> None:
        rows = [row("right", [0, 1]), row("wrong", [0, 1], predicted="no"), row("unmarked", [0, 1])]
        masks = {"right": (True, False), "wrong": (True, True)}
        found = ExpNetPaper().token_examples(rows, masks, dict.fromkeys(("right", "wrong", "unmarked"), "yes"))
        assert len(found) == 1
        assert found.labels.tolist() == [1, 0]
        assert found.features.tolist() == rows[0].attention.tolist()

    def test_nothing_to_learn_from(self) -> None:
        with pytest.raises(DataError, match="no text has both a rationale and a right prediction"):
            ExpNetPaper().token_examples([row("a", [0], predicted="no")], {"a": (True,)}, {"a": "yes"})

    def test_a_text_without_pieces_does_not_spoil_the_training(self) -> None:
        rows = [row("a", [0, 1]), row("vanished", [])]
        masks = {"a": (True, False), "vanished": (True,)}
        expnet = ExpNetPaper(epochs=3, batch_size=1)
        expnet.fit_tokens([expnet.token_examples(rows, masks, {"a": "yes", "vanished": "yes"})], ENCODER)
        assert np.isfinite(expnet.losses).all()

    @pytest.mark.parametrize(("features", "width"), WIDTHS.items())
    def test_each_variant_takes_its_columns(self, features: Any, width: int) -> None:
        text = row("a", [0, 1, 2], hidden=True)
        found = (
            ExpNetPaper(features=features)
            .token_examples([text], {"a": (True, False, False)}, {"a": "yes"})
            .features.numpy()
        )
        assert text.hidden is not None
        expected = {
            "full": text.attention,
            "task_to_token": text.attention[:, :4],
            "token_to_task": text.attention[:, 4:],
            "hidden": text.hidden,
            "hidden_and_attention": np.concatenate([text.hidden, text.attention], axis=1),
        }[features]
        assert found.shape == (3, width)
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("features", ["hidden", "hidden_and_attention"])
    def test_hidden_states_must_be_there(self, features: Any) -> None:
        with pytest.raises(DataError, match=r"need hidden states; run attend with attend\.hidden_states=true"):
            ExpNetPaper(features=features).token_examples([row("a", [0])], {"a": (True,)}, {"a": "yes"})


def trained(of: Classifier, features: Any = "full", **options: Any) -> ExpNetPaper:
    """Trained on the classifier's own features, to mark every third token."""
    expnet = ExpNetPaper(**{"features": features, "epochs": 2, **options})
    batch = of.batch(of.encode([tiny.TEXTS[3]]))
    found = batch_features(of, batch, [2], hidden=True)
    assert found.hidden is not None
    x = expnet._select(found.attention[0], found.hidden[0])
    data = TokenExamples(x, (torch.arange(len(x)) % 3 == 0).float(), np.array([0, len(x)]))
    return expnet.fit_tokens([data], ENCODER, ["made up"])


class TestExplaining:
    @pytest.mark.parametrize("features", WIDTHS)
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_scores_are_the_network_s_output_on_the_features(self, kind: str, features: Any) -> None:
        of = tiny.classifier(kind)
        expnet = trained(of, features, standardize=True)
        assert expnet.network is not None and expnet.offset is not None and expnet.scale is not None
        for found, text in zip(expnet.explain(of, [*tiny.TEXTS, *tiny.PAIRS]), [*tiny.TEXTS, *tiny.PAIRS], strict=True):
            (encoding,) = of.encode([text])
            alone = batch_features(of, of.batch([encoding]), [2], hidden=True)
            assert alone.hidden is not None
            x = expnet._select(alone.attention[0], alone.hidden[0])[encoding.positions]
            expected = expnet.network((x - expnet.offset) / expnet.scale).squeeze(-1).sigmoid()
            np.testing.assert_allclose(found.token_scores, expected, atol=1e-5)
            owners = np.array([encoding.word_ids[i] for i in encoding.positions])
            for word, score in enumerate(found.scores):
                assert score == found.token_scores[owners == word].max()

    def test_the_class_plays_no_part(self) -> None:
        of = tiny.classifier("bert", 3)
        expnet = trained(of)
        one, other = (list(expnet.explain(of, tiny.TEXTS, [target] * len(tiny.TEXTS))) for target in ("bad", "good"))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert (a.target, b.target) == ("bad", "good")

    def test_it_explains_classifiers_it_has_never_seen(self) -> None:
        expnet = trained(tiny.classifier("bert", 2))
        unseen = tiny.make_classifier("bert", 3, seed=7)
        for found in expnet.explain(unseen, tiny.TEXTS):
            assert found.target in ("bad", "fair", "good")
            assert ((found.scores > 0) & (found.scores < 1)).all()

    @pytest.mark.parametrize(
        ("config", "features", "words"),
        [
            ({"num_attention_heads": 2}, "full", "with 4 heads, the classifier has 2"),
            ({"num_hidden_layers": 2}, "full", "with 3 layers, the classifier has 2"),
            ({"hidden_size": 16}, "hidden", "with 32 hidden_size, the classifier has 16"),
        ],
    )
    def test_a_classifier_of_another_architecture(self, config: dict[str, int], features: Any, words: str) -> None:
        expnet = trained(tiny.classifier("bert"), features)
        other = Classifier(tiny.model("bert", **config), tiny.tokenizer("bert"), CPU)
        with pytest.raises(UnsupportedError, match=words):
            list(expnet.explain(other, tiny.TEXTS))

    def test_attention_variants_do_not_care_for_the_hidden_size(self) -> None:
        other = Classifier(tiny.model("bert", hidden_size=16), tiny.tokenizer("bert"), CPU)
        assert len(list(trained(tiny.classifier("bert")).explain(other, tiny.TEXTS))) == len(tiny.TEXTS)

    def test_untrained(self) -> None:
        with pytest.raises(ModelError, match="this ExpNetPaper is not trained"):
            list(explearn.get_explainer("expnet_paper").explain(tiny.classifier("bert"), tiny.TEXTS))


class TestFiles:
    @pytest.mark.parametrize("features", WIDTHS)
    def test_what_is_loaded_scores_the_same(self, tmp_path: Path, features: Any) -> None:
        of = tiny.classifier("bert")
        expnet = trained(of, features, standardize=True, hidden=5, threshold=0.4, protocol="in_domain", seed=2)
        expnet.save_pretrained(tmp_path / "it")
        loaded = explearn.get_explainer("expnet_paper", path=str(tmp_path / "it"))
        assert isinstance(loaded, ExpNetPaper)
        for a, b in zip(expnet.explain(of, tiny.TEXTS), loaded.explain(of, tiny.TEXTS), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert b.method == "expnet_paper"
        assert loaded.options.model_dump() == expnet.options.model_dump()
        assert (loaded.encoder, loaded.trained_on, loaded.losses) == (ENCODER, ["made up"], expnet.losses)

    def test_every_option_is_kept(self) -> None:
        assert list(ExpNetPaper().options.model_dump()) == [
            name for name in explearn.methods.registry.accepted_options("expnet_paper")
        ]

    def test_weights_lie_in_safetensors_and_the_rest_in_json(self, tmp_path: Path) -> None:
        trained(tiny.classifier("bert")).save_pretrained(tmp_path / "it")
        assert sorted(p.name for p in (tmp_path / "it").iterdir()) == ["config.json", "expnet.safetensors"]

    def test_an_untrained_one_cannot_be_saved(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="not trained; call fit"):
            ExpNetPaper().save_pretrained(tmp_path / "it")
        assert list(tmp_path.iterdir()) == []

    @staticmethod
    def refused(folder: Path) -> str:
        with pytest.raises(ExplearnError) as caught:
            ExpNetPaper.from_pretrained(folder)
        assert str(folder) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, ModelError)
        return str(caught.value)

    def test_no_folder(self, tmp_path: Path) -> None:
        assert "not a trained expnet_paper" in self.refused(tmp_path / "nothing")

    @pytest.mark.parametrize("name", ["config.json", "expnet.safetensors"])
    @pytest.mark.parametrize("keep", [None, 0.0, 0.5])
    def test_a_file_that_is_missing_empty_or_cut_short(self, tmp_path: Path, name: str, keep: float | None) -> None:
        trained(tiny.classifier("bert")).save_pretrained(tmp_path / "it")
        file = tmp_path / "it" / name
        content = file.read_bytes()
        file.unlink()
        if keep is not None:
            file.write_bytes(content[: int(keep * len(content))])
        self.refused(tmp_path / "it")

    @pytest.mark.parametrize(
        "change",
        [
            {"options": {"features": "ful"}},
            {"options": {"hiden": 3}},
            {"options": {"hidden": 7}},
            {"options": None},
            {"encoder": {"layer": "last"}},
            {"encoder": {"layer": 2}},
            {"encoder": None},
            {"trained_on": None},
        ],
        ids=str,
    )
    def test_a_configuration_that_does_not_fit(self, tmp_path: Path, change: dict[str, Any]) -> None:
        trained(tiny.classifier("bert")).save_pretrained(tmp_path / "it")
        path = tmp_path / "it" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        self.refused(tmp_path / "it")

    @pytest.mark.parametrize("config", ["[]", "3", '"ExpNetPaper"'])
    def test_a_configuration_of_another_kind(self, tmp_path: Path, config: str) -> None:
        trained(tiny.classifier("bert")).save_pretrained(tmp_path / "it")
        (tmp_path / "it" / "config.json").write_text(config)
        self.refused(tmp_path / "it")

    def test_a_tensor_that_is_missing(self, tmp_path: Path) -> None:
        trained(tiny.classifier("bert")).save_pretrained(tmp_path / "it")
        weights = tmp_path / "it" / "expnet.safetensors"
        tensors = load_file(weights)
        del tensors["2.bias"]
        save_file(tensors, weights)
        self.refused(tmp_path / "it")
