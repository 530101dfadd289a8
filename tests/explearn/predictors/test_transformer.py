"""A classifier predicts as its model does, says what it cannot load, and is left as it was by whatever explains it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import saying
import tiny
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import assert_close
from safetensors.torch import load_file, save_file

import explearn
from explearn import (
    ComputeOptions,
    DeviceError,
    Example,
    ModelError,
    TransformerPredictor,
    UnknownNameError,
    load_classifier,
)
from explearn.predictors.architectures import max_length
from explearn.predictors.loading import embedded_encoder, resolve_encoder
from explearn.predictors.problems import label_maps

TEXTS = [*tiny.TEXTS, *tiny.PAIRS]


def complaint(path):
    return saying.complaint(lambda: load_classifier(path, device="cpu"))


class TestPrediction:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_probabilities_are_those_of_the_model_alone(self, kind):
        """Each text by itself, without padding, against batches of a budget, in any order."""
        of = tiny.classifier(kind, 3)
        encodings = of.encode(TEXTS)
        expected = []
        for encoding in encodings:
            inputs = {"input_ids": torch.tensor([encoding.input_ids])}
            if encoding.token_type_ids:
                inputs["token_type_ids"] = torch.tensor([encoding.token_type_ids])
            with torch.inference_mode():
                expected.append(of.model(**inputs).logits.softmax(-1)[0].numpy())
        probabilities = of.predict_proba(encodings)
        assert_close(probabilities, expected)
        np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-9)
        assert of.predict(TEXTS) == [("bad", "fair", "good")[i] for i in probabilities.argmax(1)]

    @settings(max_examples=10)
    @given(order=st.permutations(range(len(TEXTS))), budget=st.integers(1, 400))
    def test_order_and_budget_change_nothing(self, order, budget):
        of = tiny.make_classifier(max_tokens=budget)
        expected = tiny.classifier().predict_proba(of.encode(TEXTS))
        assert_close(of.predict_proba([TEXTS[i] for i in order]), expected[order])

    def test_bf16_stays_near_fp32_and_fp16_needs_a_gpu(self):
        of = tiny.classifier("bert", 3)
        encodings = tiny.classifier("bert", 3).encode(TEXTS)
        half = tiny.make_classifier("bert", 3, precision="bf16")
        assert half.dtype is torch.bfloat16
        assert_close(half.predict_proba(encodings), of.predict_proba(encodings), torch.bfloat16, roundings=8)
        with pytest.raises(DeviceError, match="fp16' needs a GPU; on a CPU use fp32, bf16 or auto"):
            tiny.make_classifier(precision="fp16")


class TestTexts:
    def test_a_text_a_pair_and_an_example_may_come_in_any_order(self):
        of = tiny.classifier()
        pair = Example("p", ("slow",), "no", "test", "t", ("no", "refund"))
        single = Example("s", ("lazy", "dog"), "no", "test", "t")
        encodings = of.read(["lazy dog", pair, ("slow", "no refund"), single])
        assert [e.example_id for e in encodings] == ["", "p", "", "s"]
        assert [e.words for e in encodings[:2]] == [("lazy", "dog"), ("slow", "no", "refund")]
        assert encodings[0].key == encodings[3].key and encodings[1].key == encodings[2].key

    def test_the_mask_token_or_else_the_unknown_token_stands_for_removed_pieces(self):
        of = tiny.make_classifier()
        assert of.tokenizer.convert_ids_to_tokens(of.mask_token_id) == "[MASK]"
        of.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tiny.tokenizer("bert").backend_tokenizer, unk_token="[UNK]", pad_token="[PAD]"
        )
        assert of.tokenizer.convert_ids_to_tokens(of.mask_token_id) == "[UNK]"

    @pytest.mark.parametrize(
        ("model_type", "positions", "limit", "expected"),
        [
            ("bert", 514, 512, 512),
            ("roberta", 512, 512, 510),  # RoBERTa's positions start at the padding index + 1
            ("bert", 514, int(1e30), 514),  # the tokenizer names no limit
            ("bert", 514, "many", 514),
            ("deberta-v2", -1, int(1e30), 512),  # nor does the model
        ],
    )
    def test_the_longest_text_fits_positions_and_tokenizer(self, model_type, positions, limit, expected):
        config = SimpleNamespace(model_type=model_type, pad_token_id=1, max_position_embeddings=positions)
        assert max_length(config, SimpleNamespace(model_max_length=limit)) == expected


def test_labels_by_name_and_by_index():
    of = tiny.classifier("bert", 3)
    assert [of.label_index(target) for target in ("fair", 1, "bad", 0)] == [1, 1, 0, 0]
    for target, words in (("goood", "'goood'; did you mean good?"), (3, "'3'; known: 0, 1, 2."), (-1, "index '-1'")):
        with pytest.raises(UnknownNameError, match=f"unknown class.*{words}"):
            of.label_index(target)


class TestFromPretrained:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_loads_what_save_pretrained_wrote(self, kind, tmp_path):
        loaded = explearn.load_classifier(tiny.save(tmp_path, kind, 3), device="cpu", max_tokens=64)
        of = tiny.classifier(kind, 3)
        assert (loaded.labels, loaded.max_tokens, loaded.name) == (["bad", "fair", "good"], 64, str(tmp_path))
        assert loaded.encode(TEXTS) == of.encode(TEXTS)
        assert_close(loaded.predict_proba(of.encode(TEXTS)), of.predict_proba(TEXTS))
        assert loaded.fingerprint == of.fingerprint
        config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        assert config["id2label"] == {"0": "bad", "1": "fair", "2": "good"}

    def test_what_is_not_there(self, tmp_path):
        assert "no such folder; expected a folder as save_pretrained" in complaint(tmp_path / "nothing")
        (tmp_path / "a.bin").touch()
        assert "is a file; expected a folder as save_pretrained" in complaint(tmp_path / "a.bin")
        assert f"{tmp_path}: cannot be loaded as a classifier" in complaint(tmp_path)
        assert "nobody/nothing: no such folder, and not to be had from the hub (" in complaint("nobody/nothing")

    def test_an_encoder_without_a_trained_head_and_weights_of_another_shape(self, tmp_path):
        message = complaint(tiny.save_encoder(tmp_path / "encoder"))
        assert "weights are missing or of the wrong shape for classifier.bias, classifier.weight" in message
        weights = tiny.save(tmp_path / "other") / "model.safetensors"
        tensors = load_file(weights)
        save_file({**tensors, "classifier.weight": torch.zeros(5, tiny.HIDDEN)}, weights, {"format": "pt"})
        assert str(tmp_path / "other") in complaint(tmp_path / "other")

    def test_no_tokenizer_and_that_of_another_model(self, tmp_path):
        """transformers makes up a tokenizer that knows no word; it must not be taken for the model's own."""
        tiny.model("bert").save_pretrained(tmp_path)
        assert "holds no tokenizer" in complaint(tmp_path)
        tiny.tokenizer("roberta").save_pretrained(tmp_path)
        words = len(tiny.tokenizer("bert"))
        assert f"its tokenizer has token ids up to 399, the model knows {words}" in complaint(tmp_path)

    def test_a_configuration_that_asks_for_more_than_its_weights(self, tmp_path):
        """Before a model of that size is built."""
        config = tiny.save(tmp_path) / "config.json"
        values = json.loads(config.read_text())
        for field in ("num_hidden_layers", "num_attention_heads", "vocab_size", "num_labels"):
            config.write_text(json.dumps({**values, field: 10**9}))
            assert f"config.json, {field}: got 1000000000; its weights" in complaint(tmp_path)
        weights = tmp_path / "model.safetensors"
        torch.save(load_file(weights), tmp_path / "pytorch_model.bin")
        weights.unlink()
        assert "config.json, num_labels: got 1000000000; its weights" in complaint(tmp_path)

    def test_a_tokenizer_without_padding_or_that_is_not_fast(self):
        words = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny.tokenizer("bert").backend_tokenizer)
        with pytest.raises(ModelError, match="its tokenizer has no padding token; batches need one"):
            TransformerPredictor(tiny.model("bert"), words)
        with pytest.raises(ModelError, match="its tokenizer is not a fast one; word alignment needs one"):
            TransformerPredictor(tiny.model("bert"), SimpleNamespace(is_fast=False))

    def test_loaded_in_inference_mode_it_has_gradients_all_the_same(self, tmp_path):
        folder = tiny.save(tmp_path)
        with torch.inference_mode():
            of = load_classifier(folder, device="cpu")
        attribution = explearn.explain(of, "the quick fox", "input_x_gradient")
        expected = explearn.explain(tiny.classifier(), "the quick fox", "input_x_gradient")
        assert_close(attribution.scores, expected.scores)


def test_a_fingerprint_is_that_of_weights_buffers_and_labels():
    expected = tiny.classifier().fingerprint
    changes = [
        lambda of: of.model.classifier.weight.data[0, 0].add_(1e-3),
        lambda of: of.model.bert.embeddings.LayerNorm.bias.data[3].fill_(7),
        lambda of: of.model.register_buffer("steps", torch.tensor(3)),
        lambda of: of.model.config.update(label_maps(of.labels[::-1])),
    ]
    assert tiny.make_classifier().fingerprint == expected
    for change in changes:
        of = tiny.make_classifier()
        change(of)
        assert of.fingerprint != expected


class TestFreezing:
    def test_a_classifier_is_frozen_from_the_start(self):
        of = TransformerPredictor(tiny.model("bert").train(), tiny.tokenizer("bert"), ComputeOptions("cpu"))
        assert not any(p.requires_grad or p.grad is not None for p in of.model.parameters())
        assert not any(module.training for module in of.model.modules()) and tiny.hooks(of.model) == 0


def test_the_embedded_encoder_is_there_and_other_weights_are_refused(monkeypatch):
    folder = embedded_encoder()
    assert (folder / "config.json").is_file() and resolve_encoder("embedded") == str(folder)
    monkeypatch.setattr("explearn.predictors.loading.EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=r"SHA-256 is 53aa51.*; expected 000000.*; the weights are not loaded"):
        embedded_encoder()


@pytest.mark.parametrize("charsmap", ("AAAA", "!!"))
def test_a_tokenizer_whose_library_panics(charsmap, tmp_path):
    tiny.classifier().save_pretrained(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    assert "cannot be loaded as a classifier (Precompiled" in complaint(tmp_path)
