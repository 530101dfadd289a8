"""What loads as a classifier, from a folder or from memory; what does not ends in one sentence."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import saying
import tiny
import torch
import transformers
from rounding import assert_close
from safetensors.torch import load_file, save_file

import explearn
from explearn import ModelError, Problem, TransformerPredictor, UnsupportedError, load_classifier
from explearn.predictors.heads.question_answering import QuestionPredictor
from explearn.predictors.pretrained import as_predictor

TEXTS = [*tiny.TEXTS, *tiny.PAIRS]


def complaint(path, *words):
    return saying.complaint(lambda: load_classifier(path, device="cpu"), *words)


def reconfigured(folder, **values):
    """A saved classifier, in this folder, with changes in config.json."""
    config = tiny.save(folder, classes=3) / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | values))
    return folder


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_loads_what_save_pretrained_wrote(kind, tmp_path):
    loaded = load_classifier(tiny.save(tmp_path, kind, 3), device="cpu", max_tokens=64)
    of = tiny.classifier(kind, 3)
    assert (loaded.labels, loaded.max_tokens, loaded.name) == (["bad", "fair", "good"], 64, str(tmp_path))
    assert loaded.encode(TEXTS) == of.encode(TEXTS)
    assert_close(loaded.predict_proba(of.encode(TEXTS)), of.predict_proba(TEXTS))
    assert loaded.fingerprint == of.fingerprint


def test_loaded_in_inference_mode_it_has_gradients_all_the_same(tmp_path):
    folder = tiny.save(tmp_path)
    with torch.inference_mode():
        of = load_classifier(folder, device="cpu")
    attribution = explearn.explain(of, "the quick fox", "input_x_gradient")
    assert_close(attribution.scores, explearn.explain(tiny.classifier(), "the quick fox", "input_x_gradient").scores)


@pytest.mark.parametrize("kind", ("bert", "llama"))
def test_bf16_weights_stay_as_saved_and_scores_are_near_those_of_float32(kind, tmp_path):
    tiny.model(kind).to(torch.bfloat16).save_pretrained(tmp_path)
    tiny.tokenizer(kind).save_pretrained(tmp_path)
    kept = load_classifier(tmp_path, device="cpu", precision="saved")
    widened = load_classifier(tmp_path, device="cpu")
    assert {p.dtype for p in kept.model.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in widened.model.parameters()} == {torch.float32}
    with torch.inference_mode():
        assert kept.logits(kept.batch(kept.encode(tiny.TEXTS))).dtype == torch.float32
    np.testing.assert_allclose(kept.predict_proba(tiny.TEXTS), widened.predict_proba(tiny.TEXTS), atol=0.05)
    for name in tiny.UNTRAINED:
        method = tiny.quick(name)
        try:
            expected = method.explain(widened, tiny.TEXTS[:2], [1, 0])
        except UnsupportedError:
            continue
        if name in ("alti", "globenc", "decompx"):
            with pytest.raises(UnsupportedError, match=rf"{name}: .* parts of a rounded state do not add up"):
                method.explain(kept, tiny.TEXTS[:2])
            continue
        for a, b in zip(method.explain(kept, tiny.TEXTS[:2], [1, 0]), expected, strict=True):
            assert a.scores.dtype == np.float32 and np.isfinite(a.scores).all(), name
            largest = max(0.05, float(np.abs(b.scores).max()))
            assert np.abs(a.scores - b.scores).max() < 0.5 * largest, name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{}/nothing", "no such folder; expected a folder as save_pretrained"),
        ("{}/file", "is a file; expected a folder as save_pretrained"),
        ("{}", "cannot be loaded as a classifier"),
        ("nobody/nothing", "nobody/nothing: no such folder, and not to be had from the hub"),
        *((name, "") for name in ("", "./none", "a/b/c", "\x1b[2J", "x" * 300)),
    ],
    ids=lambda name: ascii(name)[:20],
)
def test_what_is_not_there(name, words, tmp_path):
    (tmp_path / "file").touch()
    complaint(name.format(tmp_path), words)


def test_an_encoder_without_a_trained_head_and_weights_of_another_shape(tmp_path):
    missing = "weights are missing or of the wrong shape for classifier.bias, classifier.weight"
    complaint(tiny.save_encoder(tmp_path / "encoder"), missing)
    weights = tiny.save(tmp_path / "other") / "model.safetensors"
    tensors = load_file(weights)
    save_file({**tensors, "classifier.weight": torch.zeros(5, tiny.HIDDEN)}, weights, {"format": "pt"})
    complaint(tmp_path / "other", str(tmp_path / "other"))


def test_no_tokenizer_and_that_of_another_model(tmp_path):
    """transformers makes up a tokenizer that knows no word; it must not be taken for the model's own."""
    tiny.model("bert").save_pretrained(tmp_path)
    complaint(tmp_path, "holds no tokenizer")
    tiny.tokenizer("roberta").save_pretrained(tmp_path)
    words = len(tiny.tokenizer("bert"))
    complaint(tmp_path, f"its tokenizer has token ids up to 399, the model knows {words}")


def test_a_configuration_that_asks_for_more_than_its_weights(tmp_path):
    """Before a model of that size is built."""
    for field in ("num_hidden_layers", "num_attention_heads", "vocab_size", "num_labels"):
        complaint(reconfigured(tmp_path, **{field: 10**9}), f"config.json, {field}: got 1000000000; its weights")
    weights = tmp_path / "model.safetensors"
    torch.save(load_file(weights), tmp_path / "pytorch_model.bin")
    weights.unlink()
    complaint(tmp_path, "config.json, num_labels: got 1000000000; its weights")


CONFIGS = {
    "one class": {"id2label": {"0": "only"}},
    "classes that read the same": {"id2label": {"0": "caf\u00e9", "1": "cafe\u0301", "2": "good"}},
    "a class too many": {"id2label": {"0": "bad", "1": "fair", "2": "good", "3": "best"}},
    "layers in words": {"num_hidden_layers": "three"},
    "another type": {"model_type": "nobody"},
    "code of its own": {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations(tmp_path, name):
    complaint(reconfigured(tmp_path, **CONFIGS[name]), str(tmp_path))


@pytest.mark.parametrize(
    ("file", "content"),
    [("config.json", ""), ("config.json", "[]"), ("model.safetensors", "weights"), ("tokenizer.json", "[]")],
)
def test_files_of_a_classifier(tmp_path, file, content):
    (tiny.save(tmp_path) / file).write_text(content)
    complaint(tmp_path, str(tmp_path))


@pytest.mark.parametrize("charsmap", ("AAAA", "!!"))
def test_a_tokenizer_whose_library_panics(charsmap, tmp_path):
    path = tiny.save(tmp_path) / "tokenizer.json"
    normalizer = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"normalizer": normalizer}))
    complaint(tmp_path, "cannot be loaded as a classifier (Precompiled")


@pytest.mark.parametrize("value", [float("nan"), -float("inf")])
def test_weights_that_are_not_finite(tmp_path, value):
    of = tiny.make_classifier()
    of.model.bert.embeddings.LayerNorm.weight.data[0] = value
    of.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"damaged.*: 1 of the .* values of .*LayerNorm\.weight are NaN or infinite"):
        load_classifier(tmp_path, device="cpu")


# ---- in memory -------------------------------------------------------------------------------------------------------


def test_a_model_of_questions_with_its_tokenizer_answers_them():
    answerer = tiny.make_answerer()
    taken = as_predictor((answerer.model.model, answerer.tokenizer))
    question = ("who sleeps ?", "the lazy dog jumps and the quick fox sleeps all afternoon")
    assert isinstance(taken, QuestionPredictor) and taken.answer(question) == answerer.answer(question)


@pytest.mark.parametrize(
    ("activation", "problem"), [(torch.nn.Identity(), Problem.REGRESSION), (torch.nn.Sigmoid(), Problem.BINARY)]
)
def test_a_cross_encoder_gives_what_its_activation_gives(activation, problem):
    parts = {"model": tiny.model("bert", 1), "tokenizer": tiny.tokenizer("bert"), "activation_fn": activation}
    assert as_predictor(SimpleNamespace(**parts)).problem is problem


def no_classifier(kind):
    """A loaded model that does not classify texts, with its tokenizer."""
    model = tiny.model("bert", 3)
    if kind == "without a head":
        model = model.bert
    elif kind == "of words":
        model = transformers.BertForMaskedLM(model.config)
    elif kind == "of more classes":
        model.config.id2label = {0: "no", 1: "yes"}
    else:
        inside = model
        model = torch.nn.Module()
        model.config = inside.config
    return model, tiny.tokenizer("bert")


@pytest.mark.parametrize("method", ["occlusion", "gradient", "attn_lrp", "gae"])
@pytest.mark.parametrize("kind", ["without a head", "of words", "of more classes", "a module around a model"])
def test_models_that_do_not_classify_texts(kind, method):
    saying.complaint(lambda: explearn.explain(no_classifier(kind), "a film", method))


@pytest.mark.parametrize("classifier", [None, "/no/folder", len], ids=str)
def test_what_is_no_classifier(classifier):
    saying.complaint(lambda: explearn.get_explainer("attcat").explain(classifier, ["a film"]), "expected")


def test_classes_numbered_by_strings_are_shown_as_strings():
    model = tiny.model("bert")
    model.config.id2label = {"0": "no", "1": "yes"}
    words = "classes are numbered '0', '1'; expected"
    saying.complaint(lambda: TransformerPredictor(model, tiny.tokenizer("bert")), words)
