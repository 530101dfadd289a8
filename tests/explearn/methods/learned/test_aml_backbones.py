"""AML on other architectures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import transformers
from aml_cases import (
    LEARNING,
    QUICK,
    TEXTS,
    examples,
    loss,
    one_word_classifier,
    refiner,
    untrained,
)

from explearn.core.errors import ModelError, UnsupportedError
from explearn.methods.aml.paml import PAML
from explearn.methods.listed_task import ListedTask


@pytest.mark.parametrize(("kind", "classes"), [*((kind, 3) for kind in tiny.ARCHITECTURES), ("bert", 2)])
class TestEveryArchitecture:
    @pytest.mark.parametrize("name", ["paml", "faml"])
    def test_scores_do_not_depend_on_the_batch(self, name: str, kind: str, classes: int) -> None:
        of = tiny.classifier(kind, classes)
        paml = untrained(of)
        method: Any = paml if name == "paml" else refiner(paml, steps=3)
        probabilities = of.predict_proba(of.encode(TEXTS))
        together = list(method.explain(of, TEXTS))
        for index, (found, text) in enumerate(zip(together, TEXTS, strict=True)):
            (alone,) = method.explain(of, [text])
            np.testing.assert_allclose(found.scores, alone.scores, atol=2e-4)
            assert found.probability == pytest.approx(probabilities[index].max(), abs=1e-5)
            assert found.predicted == found.target
        for found, expected in zip(method.explain(of, TEXTS[::-1]), together[::-1], strict=True):
            np.testing.assert_allclose(found.scores, expected.scores, atol=2e-4)

    def test_bf16_and_a_small_budget(self, kind: str, classes: int) -> None:
        of = tiny.make_classifier(kind, classes, precision="bf16", max_tokens=30)
        paml = untrained(of)
        for method in (paml, refiner(paml, steps=2), refiner(paml, steps=2, scope="full")):
            for found in method.explain(of, TEXTS):
                assert np.isfinite(found.scores).all()

    def test_the_target_plays_a_part(self, kind: str, classes: int) -> None:
        of = tiny.classifier(kind, classes)
        paml = untrained(of)
        first, last = (list(paml.explain(of, tiny.TEXTS, [t] * 5)) for t in (0, classes - 1))
        assert {a.target for a in last} == {of.labels[-1]}
        assert any(not np.array_equal(a.scores, b.scores) for a, b in zip(first, last, strict=True))


class TestOtherBackbones:
    @pytest.mark.parametrize("kind", ["roberta", "albert"])
    @pytest.mark.parametrize("merge", ["max", "mean"])
    def test_another_tokenizer_learns_too(self, tmp_path: Path, kind: str, merge: Any) -> None:
        of = one_word_classifier()
        other = tiny.model(kind)
        for parameter in other.parameters():
            if parameter.dim() == 2:
                parameter.data.mul_(0.2)
        getattr(other, other.base_model_prefix).save_pretrained(tmp_path / "backbone")
        tiny.tokenizer(kind).save_pretrained(tmp_path / "backbone")
        paml = PAML(backbone=str(tmp_path / "backbone"), merge=merge, **LEARNING, epochs=3)
        paml.fit(ListedTask(of, examples(40, seed=1), examples(4, seed=2)))
        assert paml.bridge is not None
        first, last = (loss(epoch, paml.weights) for epoch in (paml.history[1], paml.history[-1]))
        assert last < first - 0.05
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        for method, again in ((paml, loaded), (refiner(paml), refiner(loaded))):
            for a, b in zip(method.explain(of, TEXTS), again.explain(of, TEXTS), strict=True):
                np.testing.assert_allclose(a.scores, b.scores, atol=1e-6)

    @staticmethod
    def saved(folder: Path, kind: str, tokenizer: str = "bert", **config: Any) -> str:
        other = tiny.model(kind, **config)
        getattr(other, other.base_model_prefix).save_pretrained(folder)
        tiny.tokenizer(tokenizer).save_pretrained(folder)
        return str(folder)

    @pytest.mark.parametrize(
        ("kind", "config"), [("distilbert", {}), ("bert", {"type_vocab_size": 1}), ("electra", {})]
    )
    def test_another_encoder_of_the_same_vocabulary(self, tmp_path: Path, kind: str, config: dict[str, Any]) -> None:
        """Encoders that do not tell segments apart among them."""
        of = one_word_classifier()
        paml = PAML(backbone=self.saved(tmp_path, kind, **config), **QUICK).fit(
            ListedTask(of, examples(8, seed=1), examples(4, seed=2))
        )
        assert paml.bridge is None
        for scope in ("low_rank", "full"):
            found = list(refiner(paml, scope=scope, steps=1, samples=2).explain(of, TEXTS))
            assert all(np.isfinite(a.token_scores).all() for a in found)

    @pytest.mark.parametrize(
        ("name", "layers", "words"),
        [
            ("MPNet", None, "a 'mpnet' model comes to other states"),
            ("T5", None, "a 't5' model cannot be called with embeddings and positions"),
            ("GPTNeoX", 1, "layers: got 1, but a 'gpt_neox' backbone cannot be cut"),
        ],
    )
    def test_a_backbone_that_g_cannot_read_with(
        self, tmp_path: Path, name: str, layers: int | None, words: str
    ) -> None:
        of = tiny.classifier("bert")
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
        if name == "T5":
            sizes = {"d_model": 16, "num_layers": 2, "num_heads": 2, "d_ff": 16, "d_kv": 8}
        else:
            sizes["max_position_embeddings"] = 60
        settings = getattr(transformers, f"{name}Config")(
            vocab_size=len(of.tokenizer), pad_token_id=of.tokenizer.pad_token_id, **sizes
        )
        transformers.AutoModel.from_config(settings).save_pretrained(tmp_path)
        of.tokenizer.save_pretrained(tmp_path)
        with pytest.raises(ModelError, match=words):
            PAML(backbone=str(tmp_path), layers=layers).fit(ListedTask(of, examples(2, seed=1), examples(2, seed=2)))

    def test_a_backbone_that_batches_cannot_be_made_for_is_fine_tuned_in_full(self, tmp_path: Path) -> None:
        of = tiny.classifier("bert")
        settings = transformers.DebertaV2Config(
            vocab_size=len(of.tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=60,
        )
        transformers.AutoModel.from_config(settings).save_pretrained(tmp_path)
        of.tokenizer.save_pretrained(tmp_path)
        paml = PAML(backbone=str(tmp_path), **QUICK).fit(ListedTask(of, examples(4, seed=1), examples(2, seed=2)))
        with pytest.raises(UnsupportedError, match=r"takes G's backbone apart.*use scope 'full'"):
            list(refiner(paml).explain(of, tiny.TEXTS))
        assert len(list(refiner(paml, scope="full", steps=1).explain(of, tiny.TEXTS))) == len(tiny.TEXTS)

    def test_a_backbone_without_its_tokenizer(self, tmp_path: Path) -> None:
        tiny.model("bert").bert.save_pretrained(tmp_path)
        with pytest.raises(ModelError, match="holds no tokenizer"):
            PAML(backbone=str(tmp_path)).fit(
                ListedTask(tiny.classifier("bert"), examples(2, seed=1), examples(2, seed=2))
            )

    def test_a_backbone_that_reads_less_than_the_classifier(self, tmp_path: Path) -> None:
        of = tiny.classifier("bert")
        short = self.saved(tmp_path / "short", "bert", max_position_embeddings=12)
        with pytest.raises(ModelError, match="reads 12 sub-tokens a text, the classifier 46"):
            PAML(backbone=short).fit(ListedTask(of, examples(2, seed=1), examples(2, seed=2)))
        # With a tokenizer of its own it may, and what it does not read is counted.
        short = self.saved(tmp_path / "other", "roberta", "roberta", max_position_embeddings=12)
        paml = PAML(backbone=short, **QUICK).fit(ListedTask(of, examples(4, seed=1), examples(2, seed=2)))
        for method in (paml, refiner(paml, steps=1)):
            long, brief = method.explain(of, [" ".join(tiny.TEXTS[:2]), "fox"])
            assert long.unaligned > 0 and brief.unaligned == 0
            assert len(set(long.scores[-long.unaligned :].tolist())) == 1

    def test_fewer_layers(self, tmp_path: Path) -> None:
        of = one_word_classifier()
        paml = PAML(**QUICK, layers=1).fit(ListedTask(of, examples(8, seed=1), examples(4, seed=2)))
        assert paml.model is not None and paml.model.config.num_hidden_layers == 1
        paml.save_pretrained(tmp_path / "it")
        for a, b in zip(paml.explain(of, TEXTS), PAML.from_pretrained(tmp_path / "it").explain(of, TEXTS), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
        assert of.model.config.num_hidden_layers == tiny.LAYERS

    def test_an_encoder_of_another_vocabulary_reads_its_own_sub_tokens(self, tmp_path: Path) -> None:
        tiny.tokenizer("roberta").save_pretrained(tmp_path / "roberta")
        tiny.model("roberta").save_pretrained(tmp_path / "roberta")
        paml = PAML(**QUICK, backbone="encoder")
        paml.fit(
            ListedTask(
                tiny.classifier("bert"), examples(8, seed=1), examples(4, seed=2), encoder=str(tmp_path / "roberta")
            )
        )
        assert paml.bridge is not None
        assert paml.bridge.tokenizer.get_vocab() == tiny.tokenizer("roberta").get_vocab()

    def test_the_pretrained_encoder(self, tmp_path: Path) -> None:
        of = one_word_classifier()
        tiny.model("bert", seed=4).bert.save_pretrained(tmp_path / "encoder")
        of.tokenizer.save_pretrained(tmp_path / "encoder")
        paml = PAML(backbone="encoder")
        paml._start(of, str(tmp_path / "encoder"), None)
        assert paml.model is not None and paml.bridge is None
        own, pretrained = paml.model.backbone.get_input_embeddings().weight, tiny.model("bert", seed=4).bert
        assert torch.equal(own, pretrained.get_input_embeddings().weight)
