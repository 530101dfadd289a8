"""A classifier spread over several devices, or with weights on disk, gives what it gives on one device."""

import copy
import functools
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from learned_cases import all_trained, short_task
from pretend_devices import FIRST, SECOND, pretend_devices
from rounding import assert_close, tolerance
from saying import complaint
from spread_cases import halves

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
READ_WEIGHTS = (
    *("consensus", "lrp", "full_lrp", "transformer_attribution", "cam"),
    *("attn_lrp", "gim", "libragrad", "deep_shap", "alti", "globenc", "decompx"),
)
UNTRAINED = [*tiny.UNTRAINED, *(info.name for info in known_infos() if info.ready)]


def spread_over(of):
    """A copy of a classifier, halves of which lie on two devices."""
    model = copy.deepcopy(of.model)
    accelerate.dispatch_model(model, halves(model, FIRST, SECOND), main_device=torch.device(FIRST))
    return TransformerPredictor(model, of.tokenizer, ComputeOptions(max_tokens=1024))


def loaded_with(kind, **options):
    """A copy of a classifier, divided as the options say."""
    of = tiny.classifier(kind)
    return TransformerPredictor(copy.deepcopy(of.model), of.tokenizer, ComputeOptions(**options))


def partly_on_disk(kind):
    return loaded_with(kind, device_map=halves(tiny.classifier(kind).model, "cpu", "disk"))


def scores(name, of):
    return [actual.scores for actual in tiny.quick(name).explain(of, TEXTS)]


@functools.cache
def scores_on_one(name, kind):
    """None where the method refuses the model."""
    try:
        return scores(name, tiny.classifier(kind))
    except UnsupportedError:
        return None


def check_same(name, kind, spread, devices):
    expected = scores_on_one(name, kind)
    with devices():
        if expected is None:
            with pytest.raises(UnsupportedError):
                scores(name, spread)
            return
        check_close(scores(name, spread), expected)


def check_close(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        # Scores are differences of values that are rounded at a scale of 1 and more; relevance divides by small sums.
        np.testing.assert_allclose(one, other, rtol=0, atol=10 * tolerance(max(1.0, float(np.abs(other).max()))))


class TestOverTwoDevices:
    @pytest.fixture(scope="class")
    @classmethod
    def spread(cls):
        with pretend_devices():
            return {kind: spread_over(tiny.classifier(kind)) for kind in (*KINDS, "albert", "deberta-v2")}

    @pytest.mark.parametrize(("name", "kind"), [(name, KINDS[n % 2]) for n, name in enumerate(UNTRAINED)])
    def test_every_method_gives_the_scores_of_one(self, spread, kind, name):
        check_same(name, kind, spread[kind], pretend_devices)

    @pytest.mark.parametrize("kind", ["albert", "deberta-v2"])
    @pytest.mark.parametrize("name", ["rollout", "gae", "attn_lrp", "alti", "lrp"])
    def test_shared_blocks_and_position_terms_do_too(self, spread, kind, name):
        check_same(name, kind, spread[kind], pretend_devices)

    @pytest.mark.parametrize("kind", KINDS)
    def test_predictions_features_and_states_are_those_of_one(self, spread, kind):
        actual = spread[kind]
        one = tiny.classifier(kind)
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

    @pytest.mark.parametrize("kind", KINDS)
    def test_trained_explainers_give_the_scores_of_one(self, kind, tmp_path):
        task = short_task(tiny.classifier(kind))
        for method, of in all_trained(task, tmp_path).values():
            expected = [actual.scores for actual in method.explain(of, TEXTS)]
            with pretend_devices():
                check_close([actual.scores for actual in method.explain(spread_over(of), TEXTS)], expected)

    def test_what_takes_one_device_refuses_it(self, spread):
        complaint(lambda: spread["bert"].check_plain("training ivra"), "training ivra needs a model on one device")
        tiny.classifier().check_plain("training ivra")

    def test_its_fingerprint_is_that_of_one(self, spread):
        with pretend_devices():
            assert spread["bert"].fingerprint == tiny.classifier().fingerprint


class TestWithWeightsOnDisk:
    @pytest.fixture(scope="class")
    @classmethod
    def spread(cls):
        return {kind: partly_on_disk(kind) for kind in KINDS}

    @pytest.mark.parametrize(
        ("name", "kind"),
        list(zip(("raw_attention", "gae", "attcat", "integrated_gradients", "lime"), KINDS * 3, strict=False)),
    )
    def test_methods_that_run_the_model_give_the_same(self, spread, kind, name):
        check_same(name, kind, spread[kind], nullcontext)

    @pytest.mark.parametrize("name", READ_WEIGHTS)
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
        assert actual.fingerprint == tiny.classifier().fingerprint
        actual.spread.folder.cleanup()
        assert not folder.exists()

    def test_embeddings_on_disk_cannot_be_read(self):
        of = loaded_with("bert", device_map={"": "disk"})
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
        model = loaded_with(kind, device_map="sequential", max_memory={"cpu": "60KB"}).model
        blocks = [path for path, module in model.named_modules() if module in blocks_in_order(model.base_model)]
        inside = tuple(f"{block}." for block in blocks)
        split = [place for place in model.hf_device_map if place.startswith(inside)]
        assert "disk" in model.hf_device_map.values() and not split


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"device_map": {"bert.encoder": "cpu"}}, ParamsError, "does not fit.*bert.embeddings"),
        ({"device_map": {"": "cuda:97"}}, DeviceError, "'cuda:97'"),
        ({"device_map": {"bert": 97, "classifier": "cpu"}}, DeviceError, "'cuda:97'.*usable CUDA devices"),
        ({"device_map": {"": "tpu"}}, DeviceError, "'tpu'"),
        ({"device_map": "auto", "max_memory": {"cpu": "much"}}, ParamsError, "device-map: does not fit"),
    ],
    ids=str,
)
def test_a_bad_map(tiny_folder, options, error, words):
    with pytest.raises(error, match=words):
        load_classifier(tiny_folder, **options)


def test_from_python_a_map_may_be_given_as_it_is(tiny_folder):
    of = load_classifier(tiny_folder, device_map={"": "cpu"})
    assert of.spread is None and of.device == torch.device("cpu")
