"""Multi-label classifiers, heads with one output, and regression."""

import json

import numpy as np
import pytest
import tiny
import torch
from rounding import tolerance

import explearn
from explearn import Example, TransformerPredictor, UnsupportedError, load_classifier
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams
from explearn.predictors.labelled import Problem

TEXT = "a warm funny sequel"
TEXTS = list(tiny.TEXTS[:3])

# One method of each way to look at a model.
METHODS = {
    "input_x_gradient": {},
    "integrated_gradients": {"output": "probability"},
    "attcat": {},
    "gae": {},
    "lrp": {},
    "decompx": {},
    "rollout": {},
    "occlusion": {},
    "kernel_shap": {"samples": 40},
    "solvex": {},
}
ODD = ("input_x_gradient", "integrated_gradients", "attcat", "decompx", "occlusion", "kernel_shap")
"""Methods whose score is linear in the explained number, so that of z and of -z, or of p and of 1 - p, the scores
differ by their sign alone."""


def classifier(kind="bert", classes=3, **config):
    return TransformerPredictor(tiny.model(kind, classes, **config), tiny.tokenizer(kind), name="given")


def outputs(model, of, texts):
    """The model's own outputs, by transformers alone."""
    return torch.cat([model(**of.batch(of.encode([text])).model_inputs()).logits for text in texts]).double().detach()


def explain(name, of, texts, targets=None, **options):
    return explearn.get_explainer(name, **(METHODS.get(name, {}) | options)).explain(of, texts, targets)


class TestMultiLabel:
    @pytest.fixture(scope="class")
    @classmethod
    def of(cls):
        return classifier(problem_type="multi_label_classification")

    def test_probabilities_are_sigmoids(self, of):
        expected = outputs(of.model, of, TEXTS).sigmoid()
        np.testing.assert_allclose(of.predict_proba(TEXTS), expected, atol=tolerance())

    @pytest.mark.parametrize("name", METHODS)
    def test_each_label_that_holds_is_explained(self, of, name):
        probabilities = of.predict_proba(TEXTS)
        attributions = iter(explain(name, of, TEXTS))
        for text, row in zip(TEXTS, probabilities, strict=True):
            held = [i for i in range(3) if row[i] >= 0.5] or [int(row.argmax())]
            for label in held:
                one = next(attributions)
                assert (" ".join(one.words), one.target) == (text, of.labels[label])
                assert one.probability == pytest.approx(row[label], abs=1e-5)
        assert next(attributions, None) is None

    def test_labels_asked_for_are_explained_each(self, of):
        attributions = explain("occlusion", of, TEXTS[:2], [["bad", "good"], 1])
        assert [(" ".join(one.words), one.target) for one in attributions] == [
            (TEXTS[0], "bad"),
            (TEXTS[0], "good"),
            (TEXTS[1], "fair"),
        ]

    def test_faithfulness_is_of_the_label_alone(self, of):
        example = Example("e", tuple(TEXT.split()), "fair", "test", "t")
        (attribution,) = explain("occlusion", of, [example], ["fair"])
        (encoding,) = of.read([example])
        result = faithfulness(of, {"e": encoding}, {"m": [attribution]}, EvaluateParams(headline_percent=25))["m"]
        best = int(attribution.scores.argmax())
        full, without, kept = of.predict_proba(
            [encoding, encoding.mask([best], of.mask_token_id), encoding.keep([best])]
        )[:, 1]
        assert result.values["confidence_full"][0] == pytest.approx(max(full, 1 - full), abs=1e-5)
        odds = np.log(full / (1 - full)) - np.log(without / (1 - without))
        assert result.values["delta_log_odds_positive"][0] == pytest.approx(
            odds if attribution.scores[best] > 0 else 0, abs=1e-4
        )
        assert result.values["prediction_agreement"][0] == ((kept >= 0.5) == (full >= 0.5))


class TestOneOutput:
    @pytest.fixture(scope="class", params=["bert", "roberta"])
    @classmethod
    def of(cls, request):
        model = tiny.model(request.param, 1)
        return model, TransformerPredictor(model, tiny.tokenizer(request.param), name="given")

    def test_there_are_two_classes_with_the_sigmoid_of_the_output(self, of):
        model, actual = of
        assert actual.labels == ["not rude", "rude"]
        z = outputs(model, actual, TEXTS)
        assert z.shape == (len(TEXTS), 1)  # the model given stays as it was
        expected = torch.cat([1 - z.sigmoid(), z.sigmoid()], 1)
        np.testing.assert_allclose(actual.predict_proba(TEXTS), expected, atol=tolerance())
        torch.testing.assert_close(
            outputs(actual.model, actual, TEXTS), torch.cat([-z, z], 1), atol=tolerance(10), rtol=0
        )

    @pytest.mark.parametrize("name", METHODS)
    def test_every_method_explains_both_classes(self, of, name):
        _, actual = of
        yes, no = explain(name, actual, [TEXT], [["rude", "not rude"]])
        assert yes.probability + no.probability == pytest.approx(1, abs=1e-6)
        if name in ODD:
            largest = np.abs(yes.token_scores).max()
            np.testing.assert_allclose(yes.token_scores, -no.token_scores, atol=1e-4 * largest)

    def test_gradients_are_those_of_the_output_itself(self, of):
        model, actual = of
        (one,) = explain("input_x_gradient", actual, [TEXT], ["rude"])
        model.requires_grad_(False).eval()
        batch = actual.batch(actual.encode([TEXT]))
        words = model.get_input_embeddings()(batch.input_ids).detach().requires_grad_()
        handle = model.get_input_embeddings().register_forward_hook(lambda *_: words)
        z = model(**batch.model_inputs()).logits[0, 0]
        handle.remove()
        (gradient,) = torch.autograd.grad(z, words)
        expected = (words * gradient).sum(-1)[0].detach().numpy()[batch.encodings[0].positions]
        np.testing.assert_allclose(one.token_scores, expected, atol=1e-5 * np.abs(expected).max())

    def test_it_comes_back_from_a_folder(self, of, tmp_path):
        model, actual = of
        for saved, folder in ((model, tmp_path / "given"), (actual.model, tmp_path / "both")):
            saved.save_pretrained(folder)
            actual.tokenizer.save_pretrained(folder)
            again = load_classifier(folder, device="cpu")
            assert (again.labels, again.problem) == (actual.labels, Problem.BINARY)
            np.testing.assert_allclose(
                again.predict_proba(TEXTS), actual.predict_proba(actual.encode(TEXTS)), atol=tolerance()
            )


class TestRegression:
    @pytest.fixture(scope="class")
    @classmethod
    def of(cls):
        return classifier(classes=1, problem_type="regression")

    @pytest.mark.parametrize("name", [name for name in METHODS if name not in ("integrated_gradients", "solvex")])
    def test_the_value_is_explained(self, of, name):
        (attribution,) = explain(name, of, [TEXT])
        value = outputs(of.model, of, [TEXT])[0, 0].item()
        assert (attribution.target, attribution.predicted) == ("rude", "rude")
        assert attribution.value == pytest.approx(value, abs=1e-4)
        assert np.isnan(attribution.probability)
        assert f"value = {value:.4g}" in str(attribution)

    def test_several_values_are_explained_each(self):
        attributions = explain("occlusion", classifier(problem_type="regression"), TEXTS[:2])
        assert [one.target for one in attributions] == ["bad", "fair", "good"] * 2

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("solvex", {}),
            ("gradient", {"output": "log_probability"}),
        ],
    )
    def test_what_needs_classes_refuses(self, of, name, options):
        with pytest.raises(UnsupportedError, match=r"the model gives a value and no class \(regression\); expected"):
            explain(name, of, [TEXT], **options)


IDENTITY = "torch.nn.modules.linear.Identity"
SIGMOID = "torch.nn.modules.activation.Sigmoid"


@pytest.mark.parametrize(
    ("classes", "config", "expected"),
    [
        (1, {"sentence_transformers": {"activation_fn": IDENTITY}}, Problem.REGRESSION),
        (1, {"sbert_ce_default_activation_function": IDENTITY}, Problem.REGRESSION),
        (3, {"sentence_transformers": {"activation_fn": IDENTITY}}, Problem.SINGLE_LABEL),
        (3, {"sentence_transformers": {"activation_fn": SIGMOID}}, Problem.MULTI_LABEL),
        (3, {"function_to_apply": "sigmoid"}, Problem.MULTI_LABEL),
        (3, {"function_to_apply": "none"}, Problem.REGRESSION),
        (3, {"function_to_apply": "sigmoid", "problem_type": "single_label_classification"}, Problem.SINGLE_LABEL),
        (1, {}, Problem.BINARY),
    ],
)
def test_the_configuration_says_what_an_output_is(classes, config, expected):
    assert classifier(classes=classes, **config).problem is expected


def test_a_cross_encoder_s_score_below_zero_is_explained_as_it_is(tmp_path):
    tiny.model("bert", 1).save_pretrained(tmp_path)
    tiny.tokenizer("bert").save_pretrained(tmp_path)
    # As sentence-transformers 5 and later write it; before, it stood in config.json.
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"activation_fn": IDENTITY}))
    of = load_classifier(tmp_path, device="cpu")
    (attribution,) = explain("input_x_gradient", of, TEXTS[:1])
    assert attribution.target == "rude"
    assert attribution.value == pytest.approx(outputs(of.model, of, TEXTS[:1]).item(), abs=1e-5)
