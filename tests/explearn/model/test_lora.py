"""Fine-tuning by low-rank adapters: what is trained, and what is saved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError
from explearn.core.extras import MissingExtraError
from explearn.core.records import Example
from explearn.model.classifier import Classifier
from explearn.model.finetune import finetune, load_encoder
from explearn.model.lora import merged, with_adapters
from explearn.model.params import FinetuneParams, LoraParams

LABELS = ["no", "yes"]
EXAMPLES = [
    Example(f"{split}-{i}", tuple(text.split()), LABELS["no" in text], split, "t")
    for split in ("train", "validation")
    for i, text in enumerate([*tiny.CORPUS[:5], *tiny.TEXTS])
]
RANK = 2


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Kind -> the folder of an encoder and that of the classifier fine-tuned from it by adapters."""
    found: dict[str, tuple[Path, Path]] = {}

    def of(kind: str) -> tuple[Path, Path]:
        if kind not in found:
            folder = tmp_path_factory.mktemp(kind)
            tiny.save(folder / "encoder", kind)
            params = FinetuneParams(epochs=2, learning_rate=1e-2, lora=LoraParams(rank=RANK, alpha=4))
            encoder, compute = str(folder / "encoder"), ComputeOptions(device="cpu")
            finetune(folder / "classifier", EXAMPLES, LABELS, encoder, params, compute, seed=1)
            found[kind] = folder / "encoder", folder / "classifier"
        return found[kind]

    return of


@pytest.mark.parametrize("kind", ("bert", "gpt2"))
def test_only_adapters_and_the_head_are_trained(kind: str, trained: Any) -> None:
    encoder, classifier = trained(kind)
    before = Classifier.from_pretrained(encoder, device="cpu").model.base_model.state_dict()
    after = Classifier.from_pretrained(classifier, device="cpu").model.base_model.state_dict()
    assert before.keys() == after.keys()
    changed = 0
    for name, weight in before.items():
        difference = (after[name] - weight).double()
        if "pooler" in name:
            continue
        if weight.ndim == 2 and "embeddings" not in name and not name.startswith(("wte", "wpe")):
            # B A of rank r: no larger singular value than the first r.
            values = torch.linalg.svdvals(difference)
            assert values[0] > 1e-4 and values[RANK] < 1e-5 * values[0] + 1e-6, name
            changed += 1
        else:
            assert not difference.any(), name
    assert changed >= 4 * tiny.LAYERS


@pytest.mark.parametrize("kind", ("bert", "deberta-v2", "gpt2", "llama"))
def test_merged_weights_give_the_logits_of_the_adapters(kind: str, tmp_path: Path) -> None:
    model, tokenizer = load_encoder(str(tiny.save(tmp_path, kind)), LABELS, 40)
    of = Classifier(model, tokenizer, ComputeOptions(device="cpu"))
    batch = of.batch(of.encode(tiny.TEXTS))
    adapted = with_adapters(of.model, LoraParams(rank=RANK))
    names = [name for name, value in adapted.named_parameters() if value.requires_grad]
    assert any("lora_" in name for name in names)
    assert all("lora_" in name or "modules_to_save" in name for name in names)
    with torch.no_grad():
        for name, value in adapted.named_parameters():
            if "lora_B" in name:
                value.normal_(std=0.2)
        expected = adapted.eval()(**batch.model_inputs()).logits
        plain = merged(adapted).eval()
        assert type(plain) is type(model) and not any("lora" in name for name, _ in plain.named_parameters())
        torch.testing.assert_close(plain(**batch.model_inputs()).logits, expected, atol=1e-4, rtol=1e-4)


def test_the_classifier_loads_without_peft(trained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = trained("bert")
    assert not list(folder.glob("adapter*"))
    monkeypatch.setitem(sys.modules, "peft", None)
    assert Classifier.from_pretrained(folder, device="cpu").predict(["slow"])[0] in LABELS


def test_named_maps_alone_are_adapted_and_nothing_is_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    adapted = with_adapters(tiny.make_classifier("bert").model, LoraParams(targets=["query"]))
    adapters = [name for name, _ in adapted.named_parameters() if "lora_A" in name]
    assert len(adapters) == tiny.LAYERS and all(".query." in name for name in adapters)
    assert not [str(found.message) for found in recwarn if found.category is FutureWarning]


def test_a_target_that_there_is_not_and_a_missing_peft_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.make_classifier("bert").model
    with pytest.raises(ParamsError, match=r"finetune\.lora\.targets: got 'q_proj'; expected .*'query'"):
        with_adapters(model, LoraParams(targets=["q_proj"]))
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"needs the package peft, .* pip install 'explearn\[lora\]'"):
        with_adapters(model, LoraParams())
