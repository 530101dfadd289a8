"""Adapters of peft: a folder of them is a classifier, and gives what the adapted model gives."""

import copy
import json
import shutil
import warnings

import numpy as np
import pytest
import tiny
import torch
from rounding import tolerance
from saying import complaint

import explearn
from explearn import ComputeOptions, TransformerPredictor, load_classifier

KINDS = {
    "lora": {"r": 2},
    "biases": {"r": 2, "bias": "all"},
    "dora": {"r": 2, "use_dora": True},
    "ia3": {"peft_type": "IA3", "feedforward_modules": []},
}
TARGETS = {"bert": ["query", "value"], "llama": ["q_proj", "v_proj"]}
HEADS = {"bert": ["classifier"], "llama": ["score"]}


@pytest.fixture(params=("bert", "llama"))
def encoder(request, tmp_path):
    """A model without a trained head, and its tokenizer."""
    return request.param, tiny.save_encoder(tmp_path / "base", request.param, classes=3)


@pytest.fixture(autouse=True, scope="module")
def peft():
    return pytest.importorskip("peft")


def with_adapters(model, **options):
    import peft

    return peft.get_peft_model(model, peft.get_peft_config({"peft_type": "LORA"} | options)).eval()


def adapted(kind, adapter, base, **options):
    """A classifier of three classes with adapters whose weights are random."""
    options = {"modules_to_save": HEADS[kind], "task_type": "SEQ_CLS"} | options
    base_model = copy.deepcopy(tiny.model(kind, 3))
    base_model.name_or_path = str(base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # a name of transformers' that peft still uses
        model = with_adapters(base_model, target_modules=TARGETS[kind], **KINDS[adapter], **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name or "ia3_" in name:
                weight.add_(torch.randn(weight.shape, generator=generator) * 0.3)
    return model


def scores(of, method):
    return [a.scores for a in explearn.get_explainer(method).explain(of, tiny.TEXTS, [1] * len(tiny.TEXTS))]


@pytest.mark.parametrize("adapter", KINDS)
def test_a_folder_of_adapters_is_the_adapted_classifier(adapter, encoder, tmp_path):
    kind, base = encoder
    model = adapted(kind, adapter, base)
    model.save_pretrained(tmp_path / "adapters")
    merged = load_classifier(tmp_path / "adapters", device="cpu")
    beside = TransformerPredictor(model, tiny.tokenizer(kind), ComputeOptions(device="cpu"))
    plain = TransformerPredictor(tiny.model(kind, 3), tiny.tokenizer(kind), ComputeOptions(device="cpu"))
    assert len(merged.labels) == 3
    for method in ("input_x_gradient", "occlusion", "attcat", "attn_lrp"):
        actual, expected, other = (np.concatenate(scores(of, method)) for of in (merged, beside, plain))
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(actual, expected, atol=10 * tolerance(scale), err_msg=method)
        assert np.abs(other - expected).max() > 0.01 * scale


@pytest.mark.parametrize("classes", (1, 2))
def test_a_head_of_more_classes_than_the_base_model_has(classes, tmp_path):
    tiny.save(tmp_path / "base", "bert", classes)
    model = adapted("bert", "lora", tmp_path / "base")
    model.save_pretrained(tmp_path / "adapters")
    expected = TransformerPredictor(model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"))
    loaded = load_classifier(tmp_path / "adapters", device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(tiny.TEXTS), expected.predict_proba(tiny.TEXTS), atol=1e-5)


def test_another_adapter_is_another_classifier(peft):
    model = adapted("bert", "lora", "base", modules_to_save=None, task_type=None)
    model.add_adapter("other", peft.LoraConfig(r=2, target_modules=TARGETS["bert"], init_lora_weights=False))
    of = TransformerPredictor(model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"))
    fingerprints = [of.fingerprint]
    model.set_adapter("other")
    fingerprints.append(of.fingerprint)
    with model.disable_adapter():
        fingerprints.append(of.fingerprint)
    assert len(set(fingerprints)) == 3
    model.set_adapter("default")
    assert of.fingerprint == fingerprints[0]


def test_methods_that_read_weights_take_merged_adapters_only(tmp_path):
    tiny.classifier("bert", 3).save_pretrained(tmp_path / "base")
    # peft keeps the head of a task that it knows beside the old one.
    model = adapted("bert", "lora", tmp_path / "base", modules_to_save=None, task_type=None)
    beside = TransformerPredictor(model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"))
    complaint(lambda: scores(beside, "decompx"), "merge adapters first")
    model.save_pretrained(tmp_path / "adapters")
    assert scores(load_classifier(tmp_path / "adapters", device="cpu"), "decompx")


def test_a_folder_of_adapters_with_checkpoints_beside_them_is_its_own_adapters(tmp_path):
    tiny.classifier("bert", 3).save_pretrained(tmp_path / "base")
    model = adapted("bert", "lora", tmp_path / "base")
    model.save_pretrained(tmp_path / "run")
    expected = TransformerPredictor(model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"))
    tiny.make_classifier("bert", 3, seed=5).save_pretrained(tmp_path / "run" / "checkpoint-20")
    loaded = load_classifier(tmp_path / "run", device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(tiny.TEXTS), expected.predict_proba(tiny.TEXTS), atol=1e-5)


def test_adapters_of_a_model_with_added_tokens(tmp_path):
    tiny.save(tmp_path / "base", "bert", 3)
    tokenizer = copy.deepcopy(tiny.tokenizer("bert"))
    tokenizer.add_tokens(["<name>"])
    base = load_classifier(tmp_path / "base", device="cpu").model
    base.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model = with_adapters(base, r=2, target_modules=TARGETS["bert"], task_type="SEQ_CLS")
    model.save_pretrained(tmp_path / "adapters")
    tokenizer.save_pretrained(tmp_path / "adapters")
    expected = model(**tokenizer("a <name> film", return_tensors="pt")).logits.softmax(-1).detach()
    loaded = load_classifier(tmp_path / "adapters", device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(["a <name> film"]), expected, atol=1e-5)


@pytest.mark.parametrize("layers", (tiny.LAYERS - 1, tiny.LAYERS + 1))
def test_adapters_that_do_not_fit_their_model(layers, tmp_path):
    adapted("bert", "lora", tmp_path / "base").save_pretrained(tmp_path / "adapters")
    tiny.save(tmp_path / "base", "bert", 3, num_hidden_layers=layers)
    complaint(lambda: load_classifier(tmp_path / "adapters", device="cpu"), "do not fit their base model")


@pytest.mark.parametrize("rank", (1, 4))
def test_adapters_in_memory_of_a_model_with_one_output(rank):
    options = {"target_modules": ["query"], "modules_to_save": ["classifier"], "task_type": "SEQ_CLS"}
    model = with_adapters(tiny.model("bert", 1), r=rank, **options)
    with torch.no_grad():
        model.base_model.model.classifier.modules_to_save["default"].weight.mul_(-2)
    of = TransformerPredictor(model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"))
    inputs = tiny.tokenizer("bert")(tiny.TEXTS[0], return_tensors="pt")
    expected = model(**inputs).logits.sigmoid().item()
    np.testing.assert_allclose(of.predict_proba(tiny.TEXTS[:1])[0], [1 - expected, expected], atol=1e-5)


class TestIsRefused:
    def saved(self, tmp_path):
        base = tmp_path / "base"
        tiny.classifier().save_pretrained(base)
        adapted("bert", "lora", base).save_pretrained(tmp_path / "adapters")
        return tmp_path / "adapters"

    def rewritten(self, folder, **values):
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | values), encoding="utf-8")
        return folder

    def test_without_their_model(self, tmp_path):
        folder = self.saved(tmp_path)
        self.rewritten(folder, base_model_name_or_path=None)
        complaint(lambda: load_classifier(folder, device="cpu"), "names no base_model_name_or_path")
        shutil.rmtree(tmp_path / "base")
        self.rewritten(folder, base_model_name_or_path=str(tmp_path / "base"))
        complaint(lambda: load_classifier(folder, device="cpu"), str(folder), f"belong to {tmp_path / 'base'}")

    def test_weights_in_a_pickle(self, tmp_path):
        folder = self.saved(tmp_path)
        (folder / "adapter_model.safetensors").unlink()
        torch.save({}, folder / "adapter_model.bin")
        complaint(lambda: load_classifier(folder, device="cpu"), "adapter_model.safetensors")

    def test_learned_prompts(self, tmp_path):
        options = {"peft_type": "PROMPT_TUNING", "task_type": "SEQ_CLS", "num_virtual_tokens": 2}
        model = with_adapters(copy.deepcopy(tiny.model("bert")), **options)
        complaint(lambda: TransformerPredictor(model, tiny.tokenizer("bert")), "learned prompts; expected adapters")
