"""The machinery of the perturbation methods, and occlusion."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn.core.errors import UnsupportedError
from explearn.methods.perturbation.method import PerturbedText
from explearn.predictors.answers import Answers

TEXTS = [*tiny.TEXTS, *tiny.PAIRS, "lazy \u200b dog " + "castle " * 60]


def perturbed(of, text):
    (encoding,) = of.encode([text])
    return PerturbedText(encoding, of.mask_token_id)


def some_sets(text, count):
    """Random sets of words, all of them and none."""
    sets = np.random.default_rng(0).random((count, len(text))) < 0.5
    sets[0], sets[-1] = True, False
    return sets


class TestPredictor:
    @pytest.mark.parametrize("kind", ["bert", "albert", "longformer", "gpt2"])
    def test_logits_are_those_of_one_text_at_a_time(self, kind):
        of = tiny.make_classifier(kind, 3, max_tokens=40)
        requests = []
        expected = []
        for text in (perturbed(of, text) for text in TEXTS):
            sets = some_sets(text, 6)
            requests += [*text.perturbed(sets, "delete"), *text.perturbed(sets, "mask")]
            gone = [text.words[~kept].tolist() for kept in sets]
            expected += [text.encoding.delete(words) for words in gone]
            expected += [text.encoding.mask(words, of.mask_token_id) for words in gone]
        with torch.inference_mode():
            logits = [of.logits(of.batch([encoding]))[0].numpy() for encoding in expected]
        np.testing.assert_allclose(Answers(of).ask(requests, "logit"), logits, atol=2e-5)


OUTPUTS = {"probability": np.array, "log_probability": np.log}


class TestOcclusion:
    @pytest.mark.parametrize("removal", ["mask", "delete"])
    @pytest.mark.parametrize("output", OUTPUTS)
    @pytest.mark.parametrize("kind", ["bert", "albert"])
    def test_is_the_drop_without_the_word(self, kind, output, removal):
        of = tiny.classifier(kind, 3)
        value = OUTPUTS[output]
        attributions = explearn.get_explainer("occlusion", output=output, removal=removal).explain(
            of, TEXTS, [1] * len(TEXTS)
        )
        for attribution, encoding in zip(attributions, of.encode(TEXTS), strict=True):
            words = sorted(set(encoding.word_ids) - {-1})
            without = [tiny.without(of, encoding, [word], removal) for word in words]
            whole, *parts = value(of.predict_proba([encoding, *without])[:, 1])
            np.testing.assert_allclose(attribution.scores[words], whole - np.array(parts), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [("occlusion", {}), ("lime", {"samples": 20}), ("kernel_shap", {}), ("shap", {"max_evals": 20}), ("solvex", {})],
)
class TestAll:
    def test_a_tokenizer_with_nothing_to_mask_with(self, name, options):
        tokenizer = copy.deepcopy(tiny.tokenizer("bert"))
        tokenizer.mask_token = tokenizer.unk_token = None
        unnamed = explearn.TransformerPredictor(tiny.model("bert"), tokenizer)
        assert unnamed.name == "the classifier"
        of = explearn.TransformerPredictor(tiny.model("bert"), tokenizer, name="maskless")
        masks = name == "shap" or explearn.get_explainer(name).options.removal == "mask"
        if masks:
            with pytest.raises(
                UnsupportedError, match="maskless: its tokenizer has neither a mask nor an unknown token"
            ):
                explearn.get_explainer(name, **options).explain(of, ["lazy dog"])
        if name != "shap":
            (attribution,) = explearn.get_explainer(name, removal="delete", **options).explain(of, ["lazy dog"])
            assert np.isfinite(attribution.scores).all()


@pytest.mark.parametrize("kind", ["gpt2", "qwen2"])
class TestNothingLeft:
    """A text without special tokens, all of whose words are deleted, is read as one padding token."""

    def test_alone_and_beside_others(self, kind):
        classifier = tiny.classifier(kind)
        (encoding,) = classifier.encode(["the quick fox"])
        nothing = encoding.delete(range(3))
        assert len(nothing) == 0
        alone, beside = classifier.predict_proba([nothing]), classifier.predict_proba([nothing, encoding])
        padding = replace(encoding.select([0]), input_ids=(classifier.pad_token_id,))
        np.testing.assert_allclose(alone[0], classifier.predict_proba([padding])[0], atol=1e-6)
        np.testing.assert_allclose(beside[0], alone[0], atol=1e-6)

    @pytest.mark.parametrize("name", ["occlusion", "kernel_shap", "lime", "shap", "solvex"])
    def test_a_text_of_one_word(self, kind, name):
        classifier = tiny.classifier(kind)
        (attribution,) = explearn.get_explainer(name).explain(classifier, ["fox"])
        assert attribution.scores.shape == (1,) and np.isfinite(attribution.scores).all()
