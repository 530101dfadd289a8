from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import explearn
from explearn.core.errors import DataError, DeviceError, ModelError, UnknownNameError
from explearn.core.records import Example
from explearn.methods.expnet.paper import ExpNetPaper, TokenExamples
from explearn.model.classifier import Classifier
from explearn.model.encoder import check_weights, embedded_encoder, file_sha256, resolve_encoder
from explearn.model.reading import max_length

TEXTS: list[Any] = [*tiny.TEXTS, *tiny.PAIRS]


def complaint(path: Path | str, error: type[Exception] = ModelError, **options: Any) -> str:
    with pytest.raises(error) as caught:
        Classifier.from_pretrained(path, device="cpu", **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestPrediction:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_probabilities_are_those_of_the_model_alone(self, kind: str) -> None:
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
        found = of.predict_proba(encodings)
        assert found.shape == (len(TEXTS), 3)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(found.sum(1), 1, atol=1e-9)

    @settings(max_examples=20)
    @given(order=st.permutations(range(len(TEXTS))), budget=st.integers(1, 400))
    def test_order_and_budget_change_nothing(self, order: list[int], budget: int) -> None:
        of = tiny.make_classifier("bert", max_tokens=budget)
        expected = tiny.classifier("bert").predict_proba(of.encode(TEXTS))
        found = of.predict_proba(of.encode([TEXTS[i] for i in order]))
        np.testing.assert_allclose(found, expected[order], atol=1e-5)

    def test_labels_of_the_most_probable_class(self) -> None:
        of = tiny.classifier("bert", 3)
        best = of.predict_proba(of.encode(TEXTS)).argmax(1)
        assert of.predict(TEXTS) == [("bad", "fair", "good")[i] for i in best]

    def test_no_texts(self) -> None:
        of = tiny.classifier("bert", 3)
        assert of.encode([]) == []
        assert of.predict_proba([]).shape == (0, 3)

    def test_bf16_stays_near_fp32(self) -> None:
        of = tiny.make_classifier("bert", 3, precision="bf16")
        assert of.dtype is torch.bfloat16
        found = of.predict_proba(of.encode(TEXTS))
        np.testing.assert_allclose(found, tiny.classifier("bert", 3).predict_proba(of.encode(TEXTS)), atol=0.05)

    def test_fp16_needs_a_gpu(self) -> None:
        with pytest.raises(DeviceError, match="fp16' needs a GPU; on a CPU use fp32, bf16 or auto"):
            tiny.make_classifier("bert", precision="fp16")


class TestTexts:
    def test_a_text_a_pair_and_an_example_may_stand_side_by_side(self) -> None:
        of = tiny.classifier("bert")
        pair = Example("p", ("slow",), "no", "test", "t", ("no", "refund"))
        single = Example("s", ("lazy", "dog"), "no", "test", "t")
        found = of.encode(["lazy dog", pair, ("slow", "no refund"), single])
        assert [e.example_id for e in found] == ["", "p", "", "s"]
        assert [e.words for e in found] == [("lazy", "dog"), ("slow", "no", "refund")] * 1 + [
            ("slow", "no", "refund"),
            ("lazy", "dog"),
        ]
        assert found[0].key == found[3].key
        assert found[1].key == found[2].key

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "text 2: field 'text' is empty; expected at least one word"),
            (" \t\n", "text 2: field 'text' is empty"),
            (("fox", ""), "text 2: field 'text' is empty"),
            ("x" * 10_000, "text 2: field 'text', word 0 has 10,000 characters; expected at most 1,000"),
            ("quick \ud800 fox", "text 2: field 'text', word 1: got '\\ud800'; expected valid Unicode"),
        ],
    )
    def test_a_text_that_cannot_be_used_is_named_by_its_number(self, text: Any, words: str) -> None:
        with pytest.raises(DataError) as caught:
            tiny.classifier("bert").encode(["lazy dog", text])
        assert words in str(caught.value)

    def test_tokens_leave_special_tokens_out(self) -> None:
        of = tiny.classifier("bert")
        (found,) = of.encode(["The QUICK fox"])
        assert of.tokens(found) == ("the", "quick", "fox")

    @pytest.mark.parametrize(("kind", "token"), [("bert", "[MASK]"), ("roberta", "<mask>")])
    def test_the_mask_token_stands_for_removed_pieces(self, kind: str, token: str) -> None:
        of = tiny.classifier(kind)
        assert of.tokenizer.convert_ids_to_tokens(of.mask_token_id) == token

    def test_without_a_mask_token_the_unknown_token_does(self) -> None:
        of = tiny.make_classifier("bert")
        of.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tiny.tokenizer("bert").backend_tokenizer, unk_token="[UNK]", pad_token="[PAD]"
        )
        assert of.tokenizer.convert_ids_to_tokens(of.mask_token_id) == "[UNK]"

    @pytest.mark.parametrize(
        ("model_type", "pad", "limit", "expected"),
        [
            ("bert", 0, 512, 512),
            ("roberta", 1, 512, 510),  # RoBERTa's positions start at the padding index + 1
            ("xlm-roberta", 1, 514, 512),
            ("camembert", 1, 514, 512),
            ("bert", 0, int(1e30), 514),  # the tokenizer names no limit
        ],
    )
    def test_the_longest_text_fits_positions_and_tokenizer(
        self, model_type: str, pad: int, limit: int, expected: int
    ) -> None:
        positions = 512 if expected == 510 else 514
        config: Any = SimpleNamespace(model_type=model_type, pad_token_id=pad, max_position_embeddings=positions)
        words: Any = SimpleNamespace(model_max_length=limit)
        assert max_length(config, words) == expected

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_the_longest_text_can_be_classified(self, kind: str) -> None:
        of = tiny.make_classifier(kind)
        of.tokenizer = tiny.tokenizer(kind, 10**6)
        (encoding,) = of.encode(["fox " * 500])
        assert len(encoding) == of.max_length
        assert of.max_length == tiny.POSITIONS - (2 if kind == "roberta" else 0)
        assert np.isfinite(of.predict_proba([encoding])).all()


class TestLabels:
    def test_by_name_and_by_index(self) -> None:
        of = tiny.classifier("bert", 3)
        assert [of.label_index(target) for target in ("fair", 1, "bad", 0)] == [1, 1, 0, 0]

    @pytest.mark.parametrize(
        ("target", "words"),
        [
            ("goood", "unknown label 'goood'; did you mean good?"),
            ("terrible-ish", "unknown label 'terrible-ish'; known: bad, fair, good."),
            (3, "unknown label index '3'; known: 0, 1, 2."),
            (-1, "unknown label index '-1'"),
        ],
    )
    def test_a_label_that_is_not_there(self, target: int | str, words: str) -> None:
        with pytest.raises(UnknownNameError) as caught:
            tiny.classifier("bert", 3).label_index(target)
        assert words in str(caught.value)


class TestFromPretrained:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_loads_what_save_pretrained_wrote(self, kind: str, tmp_path: Path) -> None:
        loaded = explearn.Classifier.from_pretrained(tiny.save(tmp_path, kind, 3), device="cpu", max_tokens=64)
        of = tiny.classifier(kind, 3)
        assert (loaded.labels, loaded.max_tokens, loaded.name) == (["bad", "fair", "good"], 64, str(tmp_path))
        assert [e.key for e in loaded.encode(TEXTS)] == [e.key for e in of.encode(TEXTS)]
        np.testing.assert_allclose(
            loaded.predict_proba(of.encode(TEXTS)), of.predict_proba(of.encode(TEXTS)), atol=1e-6
        )
        assert loaded.fingerprint == of.fingerprint

    def test_no_such_folder(self, tmp_path: Path) -> None:
        assert "no such folder; expected a classifier saved with" in complaint(tmp_path / "nothing")

    def test_a_folder_without_a_model(self, tmp_path: Path) -> None:
        assert f"{tmp_path}: cannot be loaded as a classifier" in complaint(tmp_path)

    def test_a_name_that_the_hub_does_not_give(self) -> None:
        assert "cannot be loaded as a classifier" in complaint("nobody/nothing")

    def test_an_encoder_without_a_trained_head(self, tmp_path: Path) -> None:
        tiny.model("bert").bert.save_pretrained(tmp_path)
        tiny.tokenizer("bert").save_pretrained(tmp_path)
        message = complaint(tmp_path)
        assert "weights are missing or of the wrong shape for classifier.bias, classifier.weight" in message
        assert "expected a fine-tuned sequence classifier" in message

    @pytest.mark.parametrize("keep", [0.0, 0.001, 0.5, 0.99])
    def test_weights_cut_short(self, tmp_path: Path, keep: float) -> None:
        weights = tiny.save(tmp_path) / "model.safetensors"
        content = weights.read_bytes()
        weights.write_bytes(content[: int(keep * len(content))])
        assert "cannot be loaded as a classifier" in complaint(tmp_path)

    def test_weights_of_another_shape(self, tmp_path: Path) -> None:
        weights = tiny.save(tmp_path) / "model.safetensors"
        tensors = load_file(weights)
        save_file({**tensors, "classifier.weight": torch.zeros(5, tiny.HIDDEN)}, weights, {"format": "pt"})
        message = complaint(tmp_path)
        assert str(tmp_path) in message

    def test_a_configuration_that_is_no_json(self, tmp_path: Path) -> None:
        (tiny.save(tmp_path) / "config.json").write_text("{", encoding="utf-8")
        complaint(tmp_path)

    def test_no_tokenizer(self, tmp_path: Path) -> None:
        """transformers makes up a tokenizer that knows no word; it must not be taken for the model's own."""
        tiny.model("bert").save_pretrained(tmp_path)
        assert "holds no tokenizer" in complaint(tmp_path)

    def test_the_tokenizer_of_another_model(self, tmp_path: Path) -> None:
        tiny.model("bert").save_pretrained(tmp_path)
        tiny.tokenizer("roberta").save_pretrained(tmp_path)
        words = len(tiny.tokenizer("bert"))
        assert f"its tokenizer has 400 tokens, the model knows {words}" in complaint(tmp_path)

    def test_a_tokenizer_cut_short(self, tmp_path: Path) -> None:
        path = tiny.save(tmp_path) / "tokenizer.json"
        path.write_bytes(path.read_bytes()[:500])
        complaint(tmp_path)

    def test_a_tokenizer_without_padding(self) -> None:
        words = transformers.PreTrainedTokenizerFast(tokenizer_object=tiny.tokenizer("bert").backend_tokenizer)
        with pytest.raises(ModelError, match="its tokenizer has no padding token; batches need one"):
            Classifier(tiny.model("bert"), words)

    def test_a_tokenizer_that_is_not_fast(self) -> None:
        words: Any = SimpleNamespace(is_fast=False)
        with pytest.raises(ModelError, match="its tokenizer is not a fast one; word alignment needs one"):
            Classifier(tiny.model("bert"), words)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    def test_a_gpu_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(DeviceError, match="device 'cuda' asked for, but this machine has 0 usable CUDA devices"):
            Classifier.from_pretrained(tmp_path, device="cuda")


def change_nothing(of: Classifier) -> None:
    of.model.eval()


def change_one_weight(of: Classifier) -> None:
    of.model.classifier.weight.data[0, 0] += 1e-3


def change_a_layer_norm(of: Classifier) -> None:
    of.model.bert.embeddings.LayerNorm.bias.data[3] = 7


def change_a_label(of: Classifier) -> None:
    of.labels[0] = "other"


class TestFingerprint:
    @pytest.mark.parametrize(
        ("change", "same"),
        [(change_nothing, True), (change_one_weight, False), (change_a_layer_norm, False), (change_a_label, False)],
    )
    def test_is_that_of_weights_and_labels(self, change: Callable[[Classifier], None], same: bool) -> None:
        of = tiny.make_classifier("bert")
        change(of)
        assert (of.fingerprint == tiny.classifier("bert").fingerprint) is same

    def test_takes_buffers_of_any_shape(self) -> None:
        of = tiny.make_classifier("bert")
        of.model.register_buffer("steps", torch.tensor(3))
        assert of.fingerprint != tiny.classifier("bert").fingerprint


class TestFreezing:
    """Explaining leaves weights, gradients, training mode and hooks as they were."""

    @staticmethod
    def state(of: Classifier) -> dict[str, Any]:
        fresh = Classifier.__new__(Classifier)  # the fingerprint is kept once computed
        fresh.model, fresh.labels = of.model, of.labels
        return {
            "fingerprint": fresh.fingerprint,
            "requires_grad": {name: p.requires_grad for name, p in of.model.named_parameters()},
            "grad": [name for name, p in of.model.named_parameters() if p.grad is not None],
            "training": [name for name, module in of.model.named_modules() if module.training],
            "hooks": tiny.hooks(of.model),
            "attention": of.model.config._attn_implementation,
        }

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_a_classifier_is_frozen_from_the_start(self, kind: str) -> None:
        model = tiny.model(kind).train()
        found = self.state(Classifier(model, tiny.tokenizer(kind), explearn.model.classifier.ComputeOptions("cpu")))
        assert not any(found["requires_grad"].values())
        assert found["training"] == []
        assert found["hooks"] == 0

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    @pytest.mark.parametrize("name", [n for n in explearn.list_explainers() if not explearn.get_info(n).learned])
    def test_explaining_changes_nothing(self, kind: str, name: str) -> None:
        of = tiny.make_classifier(kind, 3)
        before = self.state(of)
        for attribution in explearn.get_explainer(name).explain(of, TEXTS, [0] * len(TEXTS)):
            assert attribution.target == "bad"
        assert self.state(of) == before

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_training_and_explaining_with_expnet_changes_nothing(self, kind: str) -> None:
        from explearn.lens.features import batch_features

        of = tiny.make_classifier(kind, 3)
        before = self.state(of)
        batch = of.batch(of.encode(tiny.TEXTS[:1]))
        features = batch_features(of, batch, [-1]).attention[0]
        marks = torch.arange(len(features)).remainder(2).float()
        encoder = {"layer": 2, "layers": 3, "heads": tiny.HEADS, "hidden_size": tiny.HIDDEN}
        expnet = ExpNetPaper(epochs=2).fit_tokens(
            [TokenExamples(features, marks, np.array([0, len(features)]))], encoder
        )
        assert len(list(expnet.explain(of, TEXTS))) == len(TEXTS)
        assert self.state(of) == before

    def test_an_exception_on_the_way_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.make_classifier("bert")
        before = self.state(of)

        def fail(*_args: object, **_kwargs: object) -> None:
            raise RuntimeError("out of memory")

        for name in ("rollout", "input_x_gradient"):
            with monkeypatch.context() as patch:
                patch.setattr(of.model.classifier, "forward", fail)
                with pytest.raises(RuntimeError, match="out of memory"):
                    list(explearn.get_explainer(name).explain(of, TEXTS))
            assert self.state(of) == before


class TestEmbeddedEncoder:
    def test_its_weights_are_checked(self) -> None:
        folder = embedded_encoder()
        assert (folder / "config.json").is_file()
        assert resolve_encoder("embedded") == str(folder)

    def test_other_weights_are_refused(self) -> None:
        with pytest.raises(ModelError, match=r"SHA-256 is 53aa51.*; expected 000000.*; the weights are not loaded"):
            embedded_encoder("0" * 64)

    def test_a_copy_with_one_bit_changed_is_refused(self, tmp_path: Path) -> None:
        original = tiny.save(tmp_path / "model") / "model.safetensors"
        expected = file_sha256(original)
        check_weights(original, expected)
        copy = tmp_path / "copy.safetensors"
        shutil.copy(original, copy)
        content = bytearray(copy.read_bytes())
        content[-1] ^= 1
        copy.write_bytes(content)
        with pytest.raises(ModelError, match=r"copy\.safetensors: SHA-256 is"):
            check_weights(copy, expected)

    def test_no_weights(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="no such file; expected the encoder's weights"):
            check_weights(tmp_path / "model.safetensors", "0" * 64)

    def test_another_name_is_left_as_it_is(self) -> None:
        assert resolve_encoder("google-bert/bert-base-uncased") == "google-bert/bert-base-uncased"


def test_the_saved_configuration_names_the_labels(tmp_path: Path) -> None:
    config = json.loads((tiny.save(tmp_path, "bert", 3) / "config.json").read_text(encoding="utf-8"))
    assert config["id2label"] == {"0": "bad", "1": "fair", "2": "good"}
