"""Trained explainers on decoders, for texts that end, begin or consist of what a decoder's head may take for padding.

The classifier is a GPT-2 whose tokenizer pads with its end-of-text token, which also stands for what it does not know,
and a Llama whose tokenizer pads and cuts on the left.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.paml import PAML
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.l2e.explainer import L2E
from explearn.methods.listed_task import ListedTask
from explearn.predictors.transformer import TransformerPredictor

SOME = [*tiny.TEXTS, *tiny.CORPUS[:5]]
LONG = " ".join(tiny.TEXTS) * 3
CASES: dict[str, Any] = {
    "one word": "fox",
    "no letters": "Ω≈ç√",
    "cut": LONG,
    "the padding token": "<pad>",
    "the unknown token": "<unk>",
    "ends with the end-of-text token": "the fox </s>",
    "the padding token inside": "the <pad> fox",
    "nothing that shows": "\u200b",
    "pair": ("the fox", "sleeps"),
    "pair that is cut": ("the fox", LONG),
}
METHODS = ("expnet", "consensus", "l2e", "ivra", "smat", "paml", "faml")


def make_decoder(kind: str) -> TransformerPredictor:
    model: Any = tiny.model(kind)
    tokenizer = copy.deepcopy(tiny.tokenizer(kind))
    if kind == "gpt2":
        tokenizer.pad_token = tokenizer.unk_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.eos_token_id
    else:
        tokenizer.padding_side = tokenizer.truncation_side = "left"
    return TransformerPredictor(model, tokenizer, ComputeOptions(device="cpu"), kind)


Trained = dict[str, tuple[Any, TransformerPredictor]]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Each method, trained as briefly as can be, with the classifier that it explains."""
    of = make_decoder(request.param)
    data: Any = list(zip(SOME, of.predict(SOME), strict=True))
    gold = {f"train-{i}": [j % 2 == 0 for j in range(len(t.split()))] for i, t in enumerate(SOME, start=1)}
    task = ListedTask(of, data, data[:6], gold=gold, teachers={"occlusion": {}})
    paml = PAML(epochs=1, batch_size=4).learn(task)
    folder: Path = tmp_path_factory.mktemp(request.param) / "paml"
    paml.save_pretrained(folder)
    ivra, smat = (
        made(criteria=["cons"], schedule={"epochs": 1, "learning_rate": 1e-4}).learn(task) for made in (IvRA, SMaT)
    )
    return {
        "expnet": (ExpNet(protocol="in_domain", epochs=1).learn(task), of),
        # With the weights that it comes with.
        "consensus": (Consensus(), of),
        "l2e": (L2E(epochs=1, samples=4, width=16).learn(task), of),
        "ivra": (ivra, ivra.classifier),
        "smat": (smat, smat.classifier),
        "paml": (paml, of),
        "faml": (FAML.from_pretrained(folder, steps=1, samples=2), of),
    }


@pytest.mark.parametrize("name", METHODS)
def test_each_text_is_explained_and_the_others_of_the_batch_change_nothing(name: str, trained: Trained) -> None:
    method, of = trained[name]
    texts = list(CASES.values())
    together = list(method.explain(of, texts))
    for case, text, actual in zip(CASES, texts, together, strict=True):
        words = " ".join(text).split() if isinstance(text, tuple) else text.split()
        assert list(actual.words) == words, case
        assert actual.read.any() and np.isfinite(actual.scores[actual.read]).all(), case
        assert actual.read.all() == ("cut" not in case), case
        (alone,) = method.explain(of, [text])
        assert (alone.target, alone.unaligned) == (actual.target, actual.unaligned), case
        assert alone.probability == pytest.approx(actual.probability, abs=1e-5), case
        np.testing.assert_allclose(alone.scores, actual.scores, atol=1e-5, err_msg=case)


@pytest.mark.parametrize("name", METHODS)
def test_a_text_without_a_word_is_refused_by_its_number(name: str, trained: Trained) -> None:
    method, of = trained[name]
    with pytest.raises(DataError, match=r"^text 2: field 'text' is empty; expected at least one word$"):
        list(method.explain(of, ["the fox", "   "]))
