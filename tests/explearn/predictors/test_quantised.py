"""Weights in 4 and 8 bits: what is quantised, that gradients pass, and that methods explain what is computed."""

import copy
import json
import logging

import numpy as np
import pytest
import tiny
import torch
import transformers
from rounding import tolerance
from saying import complaint

import explearn
from explearn import ComputeOptions, TransformerPredictor, UnsupportedError, load_classifier
from explearn.lens.perturb import randomised
from explearn.predictors.quantised import dequantised, is_quantised

pytest.importorskip("bitsandbytes")
pytest.importorskip("accelerate")

BITS = {"nf4": "Linear4bit", "int8": "Linear8bitLt"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("plain")
    tiny.classifier("distilbert").save_pretrained(made)
    return made


def load(folder, **options):
    return load_classifier(folder, device="cpu", **options)


def plain_copy(of):
    """The same classifier with the weights that the quantised ones stand for."""
    return of.with_model(dequantised(copy.deepcopy(of.model)))


def scores(of, name):
    method = tiny.quick(name)
    return [a.scores for a in method.explain(of, [*tiny.TEXTS[:2]], [1, 0])]


@pytest.mark.parametrize("precision", BITS)
class TestWhileLoading:
    def test_the_encoders_linear_maps_are_quantised_and_the_head_is_not(self, folder, precision):
        of = load(folder, precision=precision)
        kinds = {path: type(m).__name__ for path, m in of.model.named_modules() if isinstance(m, torch.nn.Linear)}
        head = {"pre_classifier", "classifier"}
        assert {kinds[path] for path in head} == {"Linear"}
        assert {kind for path, kind in kinds.items() if path not in head} == {BITS[precision]}

    def test_what_was_saved_loads_as_such(self, folder, precision, tmp_path):
        of = load(folder, precision=precision)
        of.save_pretrained(tmp_path)
        again = load(tmp_path)
        assert any(map(is_quantised, again.model.modules()))
        assert again.fingerprint == of.fingerprint
        for one in (of, again):
            assert np.array_equal(one.predict_proba(tiny.TEXTS), of.predict_proba(of.encode(tiny.TEXTS)))

    def test_gradients_are_the_same_before_and_after_a_prediction(self, folder, precision):
        of = load(folder, precision=precision)
        before = scores(of, "input_x_gradient")
        of.predict(tiny.TEXTS)
        after = scores(of, "input_x_gradient")
        assert all(map(np.array_equal, before, after))
        assert all(np.abs(one).max() > 0 for one in after)

    @pytest.mark.parametrize("name", ["paml_states", "ivra_frozen"])
    def test_what_leaves_the_classifier_as_it_is_trains_on_it(self, folder, precision, name):
        of = load(folder, precision=precision)
        before = of.predict_proba(tiny.TEXTS)
        labels = [of.labels[i % 2] for i in range(len(tiny.TEXTS))]
        options = {"epochs": 1, "validation_texts": 4}
        trained = explearn.get_explainer(name, **(options if name == "paml_states" else {"schedule": options}))
        trained.fit(of, tiny.TEXTS, validation=tiny.TEXTS, labels=labels, validation_labels=labels)
        assert all(np.isfinite(a.scores).all() for a in trained.explain(of, tiny.TEXTS))
        assert np.array_equal(of.predict_proba(tiny.TEXTS), before)


def test_every_method_gives_on_4_bits_the_scores_of_the_dequantised_weights(folder):
    of = load(folder, precision="nf4")
    plain = plain_copy(of)
    for name in tiny.UNTRAINED:
        for actual, expected in zip(scores(of, name), scores(plain, name), strict=True):
            largest = float(np.abs(expected).max())
            np.testing.assert_allclose(actual, expected, atol=100 * tolerance(largest), err_msg=name)


def test_every_method_explains_8_bits_or_says_why_not(folder):
    of = load(folder, precision="int8")
    for name in tiny.UNTRAINED:
        if name in ("alti", "globenc", "decompx"):
            with pytest.raises(UnsupportedError, match=rf"{name}: .* parts of a rounded state do not add up"):
                scores(of, name)
        else:
            assert all(np.isfinite(one).all() for one in scores(of, name)), name


def test_occlusion_and_gradients_of_8_bits_are_near_those_of_the_dequantised_weights(folder):
    of = load(folder, precision="int8")
    for name in ("occlusion", "input_x_gradient"):
        for actual, expected in zip(scores(of, name), scores(plain_copy(of), name), strict=True):
            # A product's inputs are rounded to 127 steps.
            np.testing.assert_allclose(actual, expected, atol=0.2 * np.abs(expected).max(), err_msg=name)


def test_random_weights_take_the_place_of_quantised_ones(folder):
    of = load(folder, precision="nf4")
    drawn = randomised(of, 1)
    assert not any(map(is_quantised, drawn.model.modules()))
    probabilities = drawn.predict_proba(of.encode(tiny.TEXTS))
    assert np.isfinite(probabilities).all() and not np.allclose(probabilities, of.predict_proba(tiny.TEXTS))


def test_a_quantised_head_is_told(folder, tmp_path, caplog):
    config = transformers.BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["none"])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, quantization_config=config)
    with caplog.at_level(logging.WARNING):
        TransformerPredictor(model, tiny.tokenizer("distilbert"), ComputeOptions(device="cpu"))
    assert "its head is quantised (pre_classifier, classifier)" in caplog.text


class TestIsRefused:
    def test_what_something_else_quantised(self, folder, tmp_path):
        tiny.classifier("distilbert").save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        complaint(lambda: load(tmp_path), "quantised by 'gptq'; expected bitsandbytes")

    def test_to_quantise_a_model_in_memory(self):
        complaint(lambda: tiny.make_classifier(precision="nf4"), "for a model in memory")

    def test_to_divide_and_to_train(self, folder):
        call = lambda: load_classifier(folder, precision="nf4", device_map="auto")  # noqa: E731
        complaint(call, "device-map", "quantised weights, which are not divided here")
        complaint(lambda: load(folder, precision="nf4").check_plain("training ivra"), "training ivra", "not quantised")


@pytest.mark.parametrize("bits", (4, 8))
def test_plain_weights_that_are_called_quantised(bits, tmp_path):
    tiny.classifier().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", f"load_in_{bits}bit": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    complaint(lambda: load(tmp_path), str(tmp_path), "remove quantization_config")
