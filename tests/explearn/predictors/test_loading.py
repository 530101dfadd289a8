"""Weights by their hub name, from a cache laid out as the hub's client lays it out."""

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from saying import complaint

from explearn import ModelError
from explearn.predictors.finetune import load_encoder
from explearn.predictors.loading import check_place, embedded_encoder, resolve_encoder

REVISION = "0123456789abcdef0123456789abcdef01234567"
NAME = "google-bert/bert-base-uncased"
LABELS = ["normal", "toxic"]


def test_an_encoder_by_its_hub_name_and_one_that_the_hub_does_not_have(tiny_folder, tmp_path, monkeypatch):
    repository = tmp_path / f"models--{NAME.replace('/', '--')}"
    shutil.copytree(tiny_folder, repository / "snapshots" / REVISION)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    huge = shutil.copytree(repository, tmp_path / "models--someone--huge") / "snapshots" / REVISION / "config.json"
    huge.write_text(json.dumps({**json.loads(huge.read_text()), "num_hidden_layers": 10**7}))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for revision in (None, REVISION):
        model, tokenizer = load_encoder(NAME, LABELS, 32, revision)
        assert (model.config.id2label, tokenizer.model_max_length) == ({0: "normal", 1: "toxic"}, 32)
    missing = "google-bert/bert-base-uncaste"
    complaint(lambda: load_encoder(missing, LABELS, 32), f"{missing}: no such folder, and not to be had from the hub")
    said = complaint(lambda: load_encoder("someone/huge", LABELS, 32))
    assert said.startswith("someone/huge: config.json, num_hidden_layers: got 10000000; its weights")


def test_a_hub_out_of_reach_is_asked_once_and_then_only_its_cache(tmp_path, monkeypatch):
    def asked(*_, **__):
        raise ConnectionError("[Errno -2] Name or service not known")

    (tmp_path / "models--someone--cached").mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "model_info", asked)
    said = complaint(lambda: check_place("someone/other"))
    assert said.startswith("someone/other: ") and "no network" in said and "Errno" not in said
    check_place("someone/cached")
    assert constants.HF_HUB_OFFLINE


def test_an_encoder_without_all_its_layers_is_refused(tiny_folder, tmp_path):
    incomplete = Path(shutil.copytree(tiny_folder, tmp_path / "incomplete"))
    tensors = load_file(incomplete / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if "layer.1." not in name}
    save_file(kept, incomplete / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"weights are missing .* for bert\.encoder\.layer\.1\."):
        load_encoder(str(incomplete), LABELS, 32)


def test_the_embedded_encoder_is_there_and_other_weights_are_refused(monkeypatch):
    folder = embedded_encoder()
    assert (folder / "config.json").is_file() and resolve_encoder("embedded") == str(folder)
    monkeypatch.setattr("explearn.predictors.loading.EMBEDDED_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=r"SHA-256 is 53aa51.*; expected 000000.*; the weights are not loaded"):
        embedded_encoder()
