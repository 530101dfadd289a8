"""A classifier spread over several devices, or with weights on disk, gives what it gives on one device."""

import copy
import functools
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from pretend_devices import FIRST, SECOND, pretend_devices
from rounding import assert_close, tolerance
from saying import complaint
from spread_cases import halves

import explearn
from explearn import (
    ComputeOptions,
    DeviceError,
    ParamsError,
    TransformerPredictor,
    UnsupportedError,
    get_explainer,
    load_classifier,
)
from explearn.lens.features import batch_features
from explearn.lens.perturb import noisy_embeddings, randomised
from explearn.lens.representations import aggregate_states, word_embeddings
from explearn.methods.registry import known_infos
from explearn.predictors.architectures import blocks_in_order

accelerate = pytest.importorskip("accelerate")

TEXTS = ["a warm funny sequel", "the quick brown fox"]
KINDS = ["bert", "gpt2"]
READ_WEIGHTS = {"consensus", "lrp", "full_lrp", "transformer_attribution", "cam", "attn_lrp", "deep_shap"} | {
    "alti",
    "globenc",
    "decompx",
}
UNTRAINED = [*tiny.UNTRAINED, *(info.name for info in known_infos() if info.ready)]


@functools.cache
def plain(kind):
    return tiny.classifier(kind)


def over_two(kind):
    model = copy.deepcopy(plain(kind).model)
    accelerate.dispatch_model(model, halves(model, FIRST, SECOND), main_device=torch.device(FIRST))
    return TransformerPredictor(model, plain(kind).tokenizer, ComputeOptions(max_tokens=1024), kind)


def partly_on_disk(kind):
    model = copy.deepcopy(plain(kind).model)
    places = halves(model, "cpu", "disk")
    return TransformerPredictor(model, plain(kind).tokenizer, ComputeOptions(device_map=places), kind)


def scores(name, of):
    return [actual.scores for actual in tiny.quick(name).explain(of, TEXTS)]


@functools.cache
def scores_on_one(name, kind):
    """None where the method refuses the model."""
    try:
        return scores(name, plain(kind))
    except UnsupportedError:
        return None


def check_same(name, kind, spread, devices):
    expected = scores_on_one(name, kind)
    with devices():
        if expected is None:
            with pytest.raises(UnsupportedError):
                scores(name, spread)
            return
        actual = scores(name, spread)
    for one, other in zip(expected, actual, strict=True):
        # Scores are differences of values that are rounded at a scale of 1 and more; relevance divides by small sums.
        np.testing.assert_allclose(other, one, rtol=0, atol=10 * tolerance(max(1.0, float(np.abs(one).max()))))


class TestOverTwoDevices:
    @pytest.fixture(scope="class")
    @classmethod
    def spread(cls):
        with pretend_devices():
            return {kind: over_two(kind) for kind in ("bert", "gpt2", "albert", "deberta-v2")}

    @pytest.mark.parametrize(("name", "kind"), [(name, KINDS[n % 2]) for n, name in enumerate(UNTRAINED)])
    def test_every_method_gives_the_scores_of_one(self, spread, kind, name):
        check_same(name, kind, spread[kind], pretend_devices)

    @pytest.mark.parametrize("kind", ["albert", "deberta-v2"])
    @pytest.mark.parametrize("name", ["rollout", "gae", "attn_lrp", "alti", "lrp"])
    def test_shared_blocks_and_position_terms_do_too(self, spread, kind, name):
        check_same(name, kind, spread[kind], pretend_devices)

    @pytest.mark.parametrize("kind", ["bert", "gpt2"])
    def test_predictions_features_and_states_are_those_of_one(self, spread, kind):
        actual = spread[kind]
        one = plain(kind)
        encodings = one.encode(TEXTS)
        features = batch_features(one, one.batch(encodings), hidden=True)
        expected = [one.predict_proba(encodings), aggregate_states(one, encodings), features.attention, features.hidden]
        assert actual.spread is not None and not actual.spread.offloaded and str(actual.device) == FIRST
        assert [str(device) for device in actual.spread.devices] == [FIRST, SECOND]
        with pretend_devices():
            given = [actual.predict_proba(encodings), aggregate_states(actual, encodings)]
            features = batch_features(actual, actual.batch(encodings), hidden=True)
            given += [features.attention.cpu().numpy(), features.hidden.cpu().numpy()]
        for value, wanted in zip(given, expected, strict=True):
            assert_close(value, wanted)

    def test_what_takes_one_device_refuses_it(self, spread):
        complaint(lambda: spread["bert"].check_plain("training ivra"), "training ivra needs a model on one device")
        plain("bert").check_plain("training ivra")

    def test_its_fingerprint_is_that_of_one(self, spread):
        with pretend_devices():
            assert spread["bert"].fingerprint == plain("bert").fingerprint


class TestWithWeightsOnDisk:
    @pytest.fixture(scope="class")
    @classmethod
    def spread(cls):
        return {kind: partly_on_disk(kind) for kind in ("bert", "gpt2")}

    @pytest.mark.parametrize(
        ("name", "kind"),
        list(zip(("raw_attention", "gae", "attcat", "integrated_gradients", "lime"), KINDS * 3, strict=False)),
    )
    def test_methods_that_run_the_model_give_the_same(self, spread, kind, name):
        check_same(name, kind, spread[kind], nullcontext)

    @pytest.mark.parametrize("name", sorted(READ_WEIGHTS))
    def test_methods_that_read_weights_refuse_by_name(self, spread, name):
        said = complaint(lambda: get_explainer(name).explain(spread["bert"], TEXTS), f"{name}: reads weights")
        assert "offloaded" in said

    def test_a_method_that_did_not_say_so_is_stopped_all_the_same(self, spread):
        of = spread["bert"]
        with of.gathered(), pytest.raises(UnsupportedError, match="this method reads weights by themselves"):
            torch.ones(1, 32) @ of.model.bert.encoder.layer[2].output.dense.weight.T

    def test_weights_are_on_disk_only_as_long_as_it_lives(self):
        actual = partly_on_disk("bert")
        assert actual.spread is not None and actual.spread.offloaded and actual.spread.folder is not None
        folder = Path(actual.spread.folder.name)
        assert list(folder.iterdir())
        assert actual.fingerprint == plain("bert").fingerprint
        actual.spread.folder.cleanup()
        assert not folder.exists()

    def test_embeddings_on_disk_cannot_be_read(self):
        model = copy.deepcopy(plain("bert").model)
        of = TransformerPredictor(model, plain("bert").tokenizer, ComputeOptions(device_map={"": "disk"}), "bert")
        with pytest.raises(UnsupportedError, match="table of embeddings is offloaded"):
            word_embeddings(of, of.encode(TEXTS))

    def test_copies_with_other_weights_are_refused(self, spread):
        for change in (lambda of: randomised(of, 1), lambda of: noisy_embeddings(of, 0.1, 1)):
            with pytest.raises(UnsupportedError, match="offloaded"):
                change(spread["bert"])


class TestRules:
    @pytest.mark.parametrize("rule", ["auto", "balanced", "balanced_low_0", "sequential"])
    def test_take_the_cpu_where_there_is_no_gpu(self, tiny_folder, rule):
        of = load_classifier(tiny_folder, device_map=rule)
        assert of.device.type == ("cuda" if torch.cuda.is_available() else "cpu")

    def test_little_memory_sends_the_rest_to_disk(self, tiny_folder):
        if torch.cuda.is_available():
            pytest.skip("weights would lie on a GPU")
        of = load_classifier(tiny_folder, device_map="sequential", max_memory={"cpu": "60KB"})
        assert of.spread is not None and of.spread.offloaded
        one = load_classifier(tiny_folder, device="cpu")
        encodings = one.encode(TEXTS)
        np.testing.assert_allclose(of.predict_proba(encodings), one.predict_proba(encodings), atol=tolerance())

    @pytest.mark.parametrize("kind", ["distilbert", "electra", "mpnet"])
    def test_blocks_stay_whole_where_transformers_does_not_say_so(self, kind):
        model = copy.deepcopy(plain(kind).model)
        options = ComputeOptions(device_map="sequential", max_memory={"cpu": "60KB"})
        TransformerPredictor(model, plain(kind).tokenizer, options, kind)
        blocks = [path for path, module in model.named_modules() if module in blocks_in_order(model.base_model)]
        inside = tuple(f"{block}." for block in blocks)
        split = [place for place in model.hf_device_map if place.startswith(inside)]
        assert "disk" in model.hf_device_map.values() and not split


@pytest.mark.parametrize(
    ("places", "error", "words"),
    [
        ({"bert.encoder": "cpu"}, ParamsError, "does not fit.*bert.embeddings"),
        ({"bert": 97, "classifier": "cpu"}, DeviceError, "'cuda:97'.*usable CUDA devices"),
    ],
    ids=str,
)
def test_a_bad_map(tiny_folder, places, error, words):
    with pytest.raises(error, match=words):
        explearn.load_classifier(tiny_folder, device_map=places)


def test_from_python_a_map_may_be_given_as_it_is(tiny_folder):
    of = explearn.load_classifier(tiny_folder, device_map={"": "cpu"})
    assert of.spread is None and of.device == torch.device("cpu")
    with pytest.raises(DeviceError):
        explearn.load_classifier(tiny_folder, device_map={"": "cuda:97"})
    with pytest.raises(DeviceError, match="'tpu'"):
        explearn.load_classifier(tiny_folder, device_map={"": "tpu"})
    with pytest.raises(ParamsError, match="device-map: does not fit"):
        explearn.load_classifier(tiny_folder, device_map="auto", max_memory={"cpu": "much"})
