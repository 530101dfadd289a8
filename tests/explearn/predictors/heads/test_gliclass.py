"""GLiClass, whose package is no dependency: run where it is installed, on a tiny random copy that its package reads."""

import copy

import numpy as np
import pytest
import tiny
import torch
from rounding import assert_close

import explearn
from explearn import DataError, ModelError, Problem, UnsupportedError
from explearn.predictors.pretrained import as_predictor
from explearn.testing import check_predictor

gliclass = pytest.importorskip("gliclass")

MARKS = ["<<LABEL>>", "<<SEP>>", "<<EXAMPLE>>"]
LABELS = ["slow", "warm", "lazy"]
TEXTS = tiny.TEXTS


def pipeline(folder, kind="multi-label", prompt_first=True, **config):
    """A pipeline of a tiny random model, saved and read by its own package."""
    words = copy.deepcopy(tiny.tokenizer("bert"))
    words.add_special_tokens({"additional_special_tokens": MARKS})
    label, text, example = words.convert_tokens_to_ids(MARKS)
    encoder = tiny.model("bert").config.to_dict()
    settings = gliclass.GLiClassModelConfig(
        encoder_config={**encoder, "vocab_size": len(words)},
        encoder_model="tiny",
        vocab_size=len(words),
        class_token_index=label,
        text_token_index=text,
        example_token_index=example,
        prompt_first=prompt_first,
        initializer_range=0.25,
        **config,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = gliclass.GLiClassModel(settings)
        # Its own initial weights are so small that all labels have one half.
        for parameter in model.model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    model = gliclass.GLiClassModel.from_pretrained(folder)
    return gliclass.ZeroShotClassificationPipeline(
        model, words, max_length=46, classification_type=kind, device="cpu", progress_bar=False
    )


def by_library(pipe, text):
    """Return the labels' probabilities of one text, by the package alone."""
    inputs = pipe.pipe.prepare_inputs([text], LABELS, same_labels=True)
    with torch.inference_mode():
        logits = pipe.pipe.model(**inputs).logits[0, : len(LABELS)].double()
    if pipe.pipe.classification_type == "single-label":
        return logits.softmax(0).numpy()
    return logits.sigmoid().numpy()


@pytest.mark.parametrize("prompt_first", [True, False])
@pytest.mark.parametrize("kind", ["multi-label", "single-label"])
@pytest.mark.parametrize("pooling", ["first", "avg"])
def test_probabilities_are_the_package_s(kind, prompt_first, pooling, tmp_path):
    pipe = pipeline(tmp_path, kind, prompt_first, pooling_strategy=pooling)
    of = as_predictor((pipe, LABELS))
    assert of.labels == LABELS
    assert of.problem is (Problem.MULTI_LABEL if kind == "multi-label" else Problem.SINGLE_LABEL)
    expected = np.array([by_library(pipe, text) for text in TEXTS])
    assert np.ptp(expected) > 0.1
    assert_close(of.predict_proba(TEXTS), expected)
    if kind == "multi-label":
        scores = {found["label"]: found["score"] for found in pipe(TEXTS[0], LABELS, threshold=0.0)[0]}
        np.testing.assert_allclose([scores[label] for label in LABELS], expected[0], rtol=1e-5)


def test_only_the_text_s_words_are_explained(tmp_path):
    of = as_predictor((pipeline(tmp_path), LABELS))
    check_predictor(of)
    for method in ("input_x_gradient", "attn_lrp", "occlusion", "kernel_shap"):
        attribution = tiny.quick(method).explain(of, [TEXTS[1]], ["warm"])[0]
        assert attribution.words == tuple(TEXTS[1].split())
        assert np.isfinite(attribution.scores).all(), method
    with pytest.raises(UnsupportedError):
        explearn.explain(of, TEXTS[1], "lrp")


def test_long_texts_lose_their_end_and_pairs_are_refused(tmp_path):
    of = as_predictor((pipeline(tmp_path), LABELS))
    (encoding,) = of.encode(["slow " * 100])
    assert len(encoding) == 46 and encoding.input_ids[-1] == of.tokenizer.sep_token_id
    with pytest.raises(DataError, match="text 1: is a pair"):
        of.encode([("slow", "lazy")])
    with pytest.raises(UnsupportedError, match="its own package"):
        of.save_pretrained(tmp_path / "saved")
    assert of.fingerprint != as_predictor((pipeline(tmp_path, prompt_first=False), LABELS)).fingerprint
    with pytest.raises(ModelError, match="with 1 labels"):
        as_predictor((pipeline(tmp_path), LABELS[:1]))
