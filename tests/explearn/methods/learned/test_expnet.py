"""ExpNet: what it reads of a word, what it learns from, and whom it explains. The paper's is in test_expnet_paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from expnet_cases import SOURCE, WIDTH, features, task
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import explearn
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnsupportedError
from explearn.lens.features import (
    batch_features,
    read_feature_metadata,
    read_features,
    write_features,
)
from explearn.methods.expnet.explainer import ExpNet, columns_of
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.student import Words, train_student, with_context
from explearn.methods.expnet.targets import Curriculum, Lesson, soft_targets
from explearn.methods.expnet.words import (
    Input,
    Pooled,
    inputs_of,
    log_attention,
    pool_words,
    wanted_inputs,
)
from explearn.model.classifier import Classifier

CPU = ComputeOptions(device="cpu")


def trained(of: Classifier | None = None, **options: Any) -> ExpNet:
    return ExpNet(**{"protocol": "in_domain", "epochs": 2, **options}).fit(task(of=of))


class TestWords:
    def test_a_word_has_the_largest_value_of_its_pieces(self) -> None:
        values = torch.tensor([[1.0, 5.0], [3.0, 2.0], [9.0, 9.0], [0.0, 7.0], [4.0, 4.0]])
        found = pool_words(values, np.array([0, 0, -1, 2, 0]))
        assert found.values.tolist() == [[4, 5], [0, 7]]
        assert found.owners.tolist() == [0, 2]
        assert found.of.tolist() == [0, 0, -1, 1, 0]

    @given(st.lists(st.integers(-1, 6), max_size=12))
    def test_each_position_finds_its_word(self, owners: list[int]) -> None:
        values = torch.arange(2.0 * len(owners)).view(-1, 2).sin()
        found = pool_words(values, np.asarray(owners, dtype=np.int64))
        assert found.owners.tolist() == sorted(set(owners) - {-1})
        for position, owner in enumerate(owners):
            row = found.of[position]
            assert (row == -1) if owner == -1 else (found.owners[row] == owner)
        for owner, row in zip(found.owners, found.values, strict=True):
            assert torch.equal(row, values[np.asarray(owners) == owner].amax(0))

    def test_no_position_and_no_word(self) -> None:
        for owners in ([], [-1, -1]):
            found: Pooled = pool_words(torch.ones(len(owners), 3), np.asarray(owners, dtype=np.int64))
            assert found.values.shape == (0, 3) and found.of.tolist() == owners

    def test_logarithms_have_a_floor(self) -> None:
        found = log_attention(torch.tensor([0.0, 1e-5, 1.0]))
        np.testing.assert_allclose(found, np.log([1e-5, 2e-5, 1.00001]), rtol=1e-6, atol=1e-7)

    def test_the_inputs_stand_as_in_the_features(self) -> None:
        assert inputs_of([3, 1], 2) == [
            Input(3, "row", 0),
            Input(3, "row", 1),
            Input(3, "column", 0),
            Input(3, "column", 1),
            Input(1, "row", 0),
            Input(1, "row", 1),
            Input(1, "column", 0),
            Input(1, "column", 1),
        ]
        assert columns_of([Input(1, "column", 0), Input(3, "row", 1)], [3, 1], 2) == [6, 1]

    def test_options_choose_layers_and_rows_or_columns(self) -> None:
        assert len(wanted_inputs(SOURCE, "all", "row_and_column")) == WIDTH
        rows = wanted_inputs(SOURCE, [-1, 0], "row")
        assert rows == [*(Input(0, "row", head) for head in range(4)), *(Input(2, "row", head) for head in range(4))]
        assert {one.kind for one in wanted_inputs(SOURCE, "all", "column")} == {"column"}

    @pytest.mark.parametrize("layer", [3, -4])
    def test_a_layer_that_the_encoder_lacks(self, layer: int) -> None:
        with pytest.raises(ParamsError, match=rf"layers: got {layer}; expected 0 to 2, or -3 to -1"):
            wanted_inputs(SOURCE, [layer], "row")

    def test_a_layer_that_the_features_lack(self) -> None:
        with pytest.raises(DataError, match="no attention of layers 0, 1; expected it; run the stage attend with"):
            wanted_inputs({**SOURCE, "attended": [2]}, "all", "row")


class TestTargets:
    def test_by_hand(self) -> None:
        np.testing.assert_allclose(soft_targets(np.array([0.0, np.log(3.0), -np.log(4.0)])), [0.5, 0.75, 0.2])


class TestContext:
    def test_words_around_in_the_same_text(self) -> None:
        x, texts = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([0, 0, 0, 7])
        assert with_context(x, texts, 1).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 0], [0, 4, 0]]

    def test_without_any(self) -> None:
        x = torch.randn(3, 2)
        assert with_context(x, torch.zeros(3), 0) is x

    def test_a_word_is_told_by_the_one_before_it(self) -> None:
        x = torch.randn(1000, 2, generator=torch.Generator().manual_seed(1))
        y = torch.cat([torch.zeros(1), (x[:-1, 0] > 0).float()])
        options = {"epochs": 40, "dropout": 0.0, "input_dropout": 0.0}
        words = Words(x, torch.zeros(1000, dtype=torch.long), y, torch.ones(1000))
        for context, least, most in ((0, 0.3, 0.7), (1, 0.9, 1.0)):
            student, _ = train_student(words, ExpNetParams(context=context, **options), 13, torch.device("cpu"))
            with torch.inference_mode():
                right = ((student(x, words.texts) > 0) == y.bool()).float().mean()
            assert least <= right <= most
            assert student.importance.shape == (2,)


class TestExplaining:
    @pytest.mark.parametrize(
        "options", [{}, {"select": 5}, {"context": 0}, {"layers": [1], "attention": "column"}], ids=str
    )
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_scores_are_the_network_s_output_on_the_word(self, kind: str, options: dict[str, Any]) -> None:
        of = tiny.classifier(kind)
        expnet = trained(of, **options)
        assert expnet.student is not None
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        for found, text in zip(expnet.explain(of, texts), texts, strict=True):
            (encoding,) = of.encode([text])
            attention = batch_features(of, of.batch([encoding])).attention[0]
            attention = attention[:, columns_of(expnet.inputs, range(tiny.LAYERS), tiny.HEADS)]
            owners = np.array(encoding.word_ids)
            words = sorted(set(owners[owners >= 0].tolist()))
            x = torch.stack([(attention[owners == word].amax(0) + 1e-5).log() for word in words])
            expected = expnet.student(x, torch.zeros(len(x))).sigmoid()
            np.testing.assert_allclose(found.scores[words], expected, atol=1e-5)
            shown = owners[encoding.positions]
            for word in set(shown[shown >= 0].tolist()):
                np.testing.assert_array_equal(found.token_scores[shown == word], found.scores[word])

    @pytest.mark.parametrize("options", [{}, {"select": 5}, {"context": 0}, {"layers": [1]}], ids=str)
    def test_stored_features_give_the_scores_of_explain(self, options: dict[str, Any], tmp_path: Path) -> None:
        of = tiny.classifier("bert")
        expnet = trained(of, **options)
        expnet.calibration = (0.7, -0.4)
        examples = task(of=of).examples("train")
        write_features(tmp_path / "them.parquet", of, examples)
        source = read_feature_metadata(tmp_path / "them.parquet")
        for row, told in zip(read_features(tmp_path / "them.parquet"), expnet.explain(of, examples), strict=True):
            found = expnet.score_features(row, source, len(told.words))
            # The file holds attention in float16.
            np.testing.assert_allclose(found, told.scores, atol=1e-3)

    def test_words_that_were_not_read_have_no_score(self) -> None:
        found = trained().score_features(features("cut", [0, 2]), SOURCE, 4)
        assert np.isnan(found).tolist() == [False, True, False, True]

    def test_a_training_that_fails_leaves_an_explainer_as_it_was(self) -> None:
        of = tiny.classifier("bert")
        expnet = trained(of)
        before = [found.scores for found in expnet.explain(of, tiny.TEXTS)]
        one_class = Curriculum({"cut": Lesson(np.zeros(4))}, ["other"], calibration=(5.0, 3.0))
        with pytest.raises(DataError, match="no word is evidence"):
            expnet.fit_curriculum(one_class, [features("cut", [0, 2])], SOURCE)
        for scores, found in zip(before, expnet.explain(of, tiny.TEXTS), strict=True):
            np.testing.assert_array_equal(scores, found.scores)

    def test_the_class_plays_no_part(self) -> None:
        of = tiny.classifier("bert", 3)
        expnet = trained(of)
        one, other = (list(expnet.explain(of, tiny.TEXTS, [target] * len(tiny.TEXTS))) for target in ("bad", "good"))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert (a.target, b.target) == ("bad", "good")

    def test_another_classifier_is_refused_but_for_checks(self) -> None:
        expnet, other = trained(), tiny.make_classifier("bert", seed=7)
        with pytest.raises(
            UnsupportedError, match="another classifier's attention; train one for the classifier given"
        ):
            list(expnet.explain(other, tiny.TEXTS))
        expnet.any_classifier = True
        assert len(list(expnet.explain(other, tiny.TEXTS))) == len(tiny.TEXTS)

    @pytest.mark.parametrize(
        ("config", "words"),
        [
            ({"num_attention_heads": 2}, "with 4 heads, the classifier has 2"),
            ({"num_hidden_layers": 2}, "with 3 layers"),
        ],
    )
    def test_a_classifier_of_another_architecture(self, config: dict[str, int], words: str) -> None:
        expnet = trained()
        expnet.any_classifier = True
        other = Classifier(tiny.model("bert", **config), tiny.tokenizer("bert"), CPU)
        with pytest.raises(UnsupportedError, match=words):
            list(expnet.explain(other, tiny.TEXTS))

    def test_untrained(self) -> None:
        with pytest.raises(ModelError, match="this ExpNet is not trained"):
            list(explearn.get_explainer("expnet").explain(tiny.classifier("bert"), tiny.TEXTS))


class TestFiles:
    def test_what_is_loaded_scores_the_same(self, tmp_path: Path) -> None:
        of = tiny.classifier("bert")
        expnet = trained(select=7, hidden=5, context=2, seed=2)
        expnet.save_pretrained(tmp_path / "it")
        loaded = explearn.get_explainer("expnet_in_domain", path=str(tmp_path / "it"))
        assert isinstance(loaded, ExpNet)
        for a, b in zip(expnet.explain(of, tiny.TEXTS), loaded.explain(of, tiny.TEXTS), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert b.method == "expnet_in_domain"
        assert loaded.options.model_dump() == expnet.options.model_dump()
        assert (loaded.inputs, loaded.trained_on, loaded.losses) == (expnet.inputs, expnet.trained_on, expnet.losses)
        assert loaded.classifier == of.fingerprint and loaded.calibration == expnet.calibration

    def test_an_untrained_one_cannot_be_saved(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="not trained; call fit"):
            ExpNet().save_pretrained(tmp_path / "it")
        assert list(tmp_path.iterdir()) == []

    @staticmethod
    def refused(folder: Path) -> str:
        with pytest.raises(ExplearnError) as caught:
            ExpNet.from_pretrained(folder)
        assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
        assert isinstance(caught.value, ModelError)
        return str(caught.value)

    def test_no_folder_and_that_of_the_paper_s(self, tmp_path: Path) -> None:
        assert "not a trained expnet" in self.refused(tmp_path / "nothing")
        trained().save_pretrained(tmp_path / "it")
        config = json.loads((tmp_path / "it" / "config.json").read_text())
        (tmp_path / "it" / "config.json").write_text(json.dumps({**config, "explainer": "ExpNetPaper"}))
        assert "holds a ExpNetPaper" in self.refused(tmp_path / "it")

    @pytest.mark.parametrize(
        "change",
        [
            {"options": {"protocol": "other"}},
            {"options": {"hidden": 7}},
            {"options": None},
            {"encoder": {"layers": 3}},
            {"encoder": None},
            {"inputs": [[0, "row", 1]]},
            {"inputs": [[5, "row", 1]] * WIDTH},
            {"inputs": None},
            {"classifier": None, "trained_on": None},
        ],
        ids=str,
    )
    def test_a_configuration_that_does_not_fit(self, tmp_path: Path, change: dict[str, Any]) -> None:
        trained().save_pretrained(tmp_path / "it")
        path = tmp_path / "it" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        self.refused(tmp_path / "it")

    @pytest.mark.parametrize("name", ["offset", "network.1.weight"])
    def test_a_tensor_that_is_missing_or_not_finite(self, tmp_path: Path, name: str) -> None:
        trained().save_pretrained(tmp_path / "it")
        file = tmp_path / "it" / "expnet.safetensors"
        tensors = load_file(file)
        save_file({**tensors, name: torch.full_like(tensors[name], torch.nan)}, file)
        assert "not finite" in self.refused(tmp_path / "it")
        save_file({key: value for key, value in tensors.items() if key != name}, file)
        self.refused(tmp_path / "it")


def test_with_people_s_marks_alone_there_is_no_consensus_to_aim() -> None:
    with pytest.raises(ParamsError, match="in_domain learns from people's marks alone; expected 0"):
        ExpNet(protocol="in_domain", aim=0.5)
