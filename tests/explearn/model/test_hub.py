"""Weights by their hub name, from a cache laid out as the hub's client lays it out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from explearn.core.errors import ModelError
from explearn.model.finetune import load_encoder

REVISION = "0123456789abcdef0123456789abcdef01234567"
NAME = "google-bert/bert-base-uncased"


def cached(folder: Path, cache: Path) -> None:
    """Put a saved model where the hub's client looks for NAME."""
    repository = cache / f"models--{NAME.replace('/', '--')}"
    shutil.copytree(folder, repository / "snapshots" / REVISION)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)


def load(cache: Path, revision: str | None = None, name: str = NAME) -> subprocess.CompletedProcess[str]:
    code = f"""
import json, sys
from explearn.core.errors import ExplearnError  # noqa: E402
from explearn.model.finetune import load_encoder
try:
    model, tokenizer = load_encoder({name!r}, ["normal", "toxic"], 32, {revision!r})
except ExplearnError as error:
    sys.exit(str(error))
print(json.dumps([model.config.id2label["1" if "1" in model.config.id2label else 1], tokenizer.model_max_length,
                  tokenizer.is_fast, model.config.num_labels]))
"""
    # The hub's client reads its settings when it is imported, so this takes an interpreter of its own.
    environment = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "HF_HOME": str(cache / "home")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


def test_an_encoder_by_its_hub_name(tiny_folder: Path, tmp_path: Path) -> None:
    cached(tiny_folder, tmp_path)
    for revision in (None, REVISION):
        done = load(tmp_path, revision)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["toxic", 32, True, 2]


def test_an_encoder_that_the_hub_does_not_have_is_one_sentence(tiny_folder: Path, tmp_path: Path) -> None:
    cached(tiny_folder, tmp_path)
    done = load(tmp_path, name="google-bert/bert-base-uncaste")
    assert done.returncode == 1
    assert done.stderr.startswith("encoder 'google-bert/bert-base-uncaste' cannot be loaded (")
    assert done.stderr.count("\n") == 1


def test_an_encoder_without_all_its_layers_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    incomplete = tmp_path / "incomplete"
    shutil.copytree(tiny_folder, incomplete)
    tensors = load_file(incomplete / "model.safetensors")
    save_file(
        {k: v for k, v in tensors.items() if "layer.1." not in k}, incomplete / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(ModelError, match=r"weights are missing .* for bert\.encoder\.layer\.1\."):
        load_encoder(str(incomplete), ["normal", "toxic"], 32)
