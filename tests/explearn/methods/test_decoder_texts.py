"""Trained explainers on decoders, for texts that end, begin or consist of what a decoder's head may take for padding.

The classifier is a GPT-2 whose tokenizer pads with its end-of-text token, which also stands for what it does not know,
and a Llama whose tokenizer pads and cuts on the left.
"""

import copy

import numpy as np
import pytest
import tiny
from learned_cases import all_trained, short_task

from explearn import ComputeOptions, DataError, TransformerPredictor
from explearn.methods.consensus.explainer import Consensus

LONG = " ".join(tiny.TEXTS) * 3
CASES = {
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


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def trained(request, tmp_path_factory):
    """Each method, with the classifier that it explains."""
    model = tiny.model(request.param)
    tokenizer = copy.deepcopy(tiny.tokenizer(request.param))
    if request.param == "gpt2":
        tokenizer.pad_token = tokenizer.unk_token = tokenizer.eos_token
        model.config.pad_token_id = tokenizer.eos_token_id
    else:
        tokenizer.padding_side = tokenizer.truncation_side = "left"
    of = TransformerPredictor(model, tokenizer, ComputeOptions(device="cpu"), request.param)
    methods = all_trained(short_task(of), tmp_path_factory.mktemp(request.param) / "paml")
    return {**methods, "consensus": (Consensus(), of)}


@pytest.mark.parametrize("name", ["marker", "consensus", "reader", "ivra", "smat", "paml", "faml"])
def test_each_text_is_explained_and_the_others_of_the_batch_change_nothing(name, trained):
    method, of = trained[name]
    texts = list(CASES.values())
    together = method.explain(of, texts)
    for case, text, actual in zip(CASES, texts, together, strict=True):
        words = " ".join(text).split() if isinstance(text, tuple) else text.split()
        assert list(actual.words) == words, case
        assert actual.read.any() and np.isfinite(actual.scores[actual.read]).all(), case
        assert actual.read.all() == ("cut" not in case), case
        (alone,) = method.explain(of, [text])
        assert (alone.target, alone.unaligned) == (actual.target, actual.unaligned), case
        assert alone.probability == pytest.approx(actual.probability, abs=1e-5), case
        np.testing.assert_allclose(alone.scores, actual.scores, atol=1e-5, err_msg=case)
    with pytest.raises(DataError, match=r"^text 2: field 'text' is empty; expected at least one word$"):
        method.explain(of, ["the fox", "   "])
