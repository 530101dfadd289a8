"""Weights by their hub name, from a cache laid out as the hub's client lays it out."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from explearn import ModelError
from explearn.predictors.finetune import load_encoder

REVISION = "0123456789abcdef0123456789abcdef01234567"
NAME = "google-bert/bert-base-uncased"
CODE = """
import json, sys
from explearn.core.errors import ExplearnError
from explearn.predictors.finetune import load_encoder

for name, revision in json.loads(sys.argv[1]):
    try:
        model, tokenizer = load_encoder(name, ["normal", "toxic"], 32, revision)
        print(json.dumps([model.config.id2label[1], tokenizer.model_max_length, model.config.num_labels]))
    except ExplearnError as error:
        print(json.dumps(str(error)))
"""


def test_an_encoder_by_its_hub_name_and_one_that_the_hub_does_not_have(tiny_folder, tmp_path):
    repository = tmp_path / f"models--{NAME.replace('/', '--')}"
    shutil.copytree(tiny_folder, repository / "snapshots" / REVISION)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    huge = shutil.copytree(repository, tmp_path / "models--someone--huge") / "snapshots" / REVISION / "config.json"
    huge.write_text(json.dumps({**json.loads(huge.read_text()), "num_hidden_layers": 10**7}))
    # The hub's client reads its settings when it is imported, so this takes an interpreter of its own.
    environment = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    environment["PYTHONPATH"] = ":".join(sys.path)
    others = [["google-bert/bert-base-uncaste", None], ["someone/huge", None]]
    wanted = json.dumps([[NAME, None], [NAME, REVISION], *others])
    done = subprocess.run([sys.executable, "-c", CODE, wanted], capture_output=True, text=True, env=environment)
    main, revision, other, refused = (json.loads(line) for line in done.stdout.splitlines())
    assert main == revision == ["toxic", 32, 2], done.stderr
    assert other.startswith("google-bert/bert-base-uncaste: no such folder, and not to be had from the hub (")
    assert "\n" not in other
    assert refused.startswith("someone/huge: config.json, num_hidden_layers: got 10000000; its weights")


def test_an_encoder_without_all_its_layers_is_refused(tiny_folder, tmp_path):
    incomplete = Path(shutil.copytree(tiny_folder, tmp_path / "incomplete"))
    tensors = load_file(incomplete / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if "layer.1." not in name}
    save_file(kept, incomplete / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"weights are missing .* for bert\.encoder\.layer\.1\."):
        load_encoder(str(incomplete), ["normal", "toxic"], 32)
