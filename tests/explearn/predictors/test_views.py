"""What is explained: a class rather than another, probabilities, and functions of the outputs."""

import numpy as np
import pytest
import tiny
import torch
from cli_cases import run
from rounding import assert_close
from saying import complaint

import explearn
from explearn import UnsupportedError


def scores(of, name, target, **options):
    method = explearn.get_explainer(name, **{**tiny.QUICK.get(name, {}), **options})
    return np.concatenate([a.scores for a in method.explain(of, tiny.TEXTS, [target] * len(tiny.TEXTS))])


@pytest.mark.parametrize("kind", ("bert", "distilbert", "roberta", "llama", "modernbert"))
def test_a_versus_b_is_the_difference_of_their_explanations(kind):
    of = tiny.classifier(kind, 3)
    contrast = explearn.versus(of, "fair")
    assert contrast.labels == ["bad versus fair", "good versus fair"]
    assert not hasattr(contrast.model, "outputs_changed")  # The head itself has the difference.
    for name in ("input_x_gradient", "attn_lrp"):
        assert_close(scores(contrast, name, "good"), scores(of, name, "good") - scores(of, name, "fair"))
    logits = of.logits(of.batch(of.encode(tiny.TEXTS))).detach()
    assert_close(contrast.logits(contrast.batch(contrast.encode(tiny.TEXTS))), logits[:, [0, 2]] - logits[:, [1]])


def test_every_method_explains_a_versus_b_or_says_why_not():
    contrast = explearn.versus(tiny.classifier("bert", 3), "fair")
    refusing = set()
    for name in tiny.UNTRAINED:
        try:
            (attribution,) = tiny.quick(name).explain(contrast, [tiny.TEXTS[1]])
        except UnsupportedError as error:
            refusing.add(name)
            assert str(error).startswith(f"{name}: ")
            continue
        assert attribution.target in contrast.labels and np.isfinite(attribution.scores).all(), name
    assert refusing <= {"cam", "solvex"}


def test_the_explained_class_is_the_predicted_one_or_the_next_best():
    of = tiny.classifier("bert", 3)
    for text in tiny.TEXTS:
        order = of.predict_proba([text])[0].argsort()[::-1]
        first, second = (of.labels[i] for i in order[:2])
        attribution = explearn.explain(explearn.versus(of, first), text, "attcat")
        assert attribution.target == f"{second} versus {first}" and attribution.value is not None
        assert attribution.value < 0


def test_of_one_output_it_is_the_log_odds():
    of = tiny.make_classifier("bert", 1)
    contrast = explearn.versus(of, "not rude")
    p = of.predict_proba(tiny.TEXTS)[:, 1]
    values = contrast.logits(contrast.batch(contrast.encode(tiny.TEXTS))).detach()[:, 0]
    np.testing.assert_allclose(values, np.log(p / (1 - p)), atol=1e-4)


def test_a_function_of_texts_has_it_too():
    of = explearn.FunctionPredictor(lambda texts: [[0.2, 0.8] if "fox" in t else [0.5, 0.5] for t in texts], ["a", "b"])
    attribution = explearn.explain(explearn.versus(of, "a"), "the fox", "occlusion")
    assert attribution.target == "b versus a"
    np.testing.assert_allclose(attribution.scores, [0, np.log(4)], atol=1e-6)


def test_the_command_and_its_page_say_what_was_explained(tmp_path):
    tiny.classifier("bert", 3).save_pretrained(tmp_path / "c")
    page = tmp_path / "page.html"
    arguments = ["--classifier", str(tmp_path / "c"), "--versus", "fair", "--target", "good", "--out", str(page)]
    assert run("explain", *arguments, "the quick fox").exit_code == 0
    assert "good versus fair (value = " in page.read_text(encoding="utf-8")


class TestOtherOutputs:
    def test_probabilities_reach_methods_without_the_option(self):
        of = tiny.classifier("bert", 3)
        view = explearn.explaining(of, "probability")
        for name in ("input_x_gradient", "occlusion"):
            assert_close(scores(view, name, "good"), scores(of, name, "good", output="probability"))
        attribution = explearn.explain(view, "a warm sequel", "gae", "good")
        assert attribution.target == "probability of good" and 0 < (attribution.value or 0) < 1

    def test_an_own_function_is_explained_by_its_name(self):
        def margin(logits):
            return logits[:, 2] - logits[:, 1]

        of = tiny.classifier("bert", 3)
        view = explearn.explaining(of, margin)
        assert view.labels == ["margin"]
        for name in ("input_x_gradient", "attcat", "attn_lrp", "gae", "occlusion", "integrated_gradients"):
            assert_close(scores(view, name, 0), scores(explearn.versus(of, "fair"), name, "good"))

    def test_methods_that_take_the_head_apart_refuse(self):
        view = explearn.explaining(tiny.classifier("bert", 3), "probability")
        for name in ("lrp", "decompx", "transformer_attribution"):
            complaint(lambda name=name: scores(view, name, 0), f"{name}: this method takes the head apart")

    def test_what_cannot_be_explained(self):
        of = tiny.classifier("bert", 3)
        complaint(lambda: explearn.explaining(of, "logits"), "output: got 'logits'")
        complaint(lambda: explearn.versus(of, "nice"), "'nice'")
        view = explearn.explaining(of, lambda logits: logits[:1, 0], "first")
        complaint(
            lambda: view.logits(view.batch(view.encode(tiny.TEXTS))), "gave shape (1,); expected one value a text"
        )


@pytest.mark.parametrize("in_place", (False, True))
def test_a_compiled_model_is_explained_as_the_model_is(in_place):
    model = tiny.model("bert")
    if in_place:
        model.compile(backend="eager")
    else:
        model = torch.compile(model, backend="eager")
    for name in ("attn_lrp", "gae"):
        actual = explearn.explain((model, tiny.tokenizer("bert")), tiny.TEXTS[0], name)
        assert_close(actual.scores, explearn.explain(tiny.classifier("bert"), tiny.TEXTS[0], name).scores)


def test_weights_that_torch_has_quantised_pass_no_gradients():
    quantised = torch.ao.nn.quantized.dynamic.Linear
    model = tiny.model("bert")
    model.classifier = quantised(tiny.HIDDEN, 2)
    complaint(lambda: explearn.explain((model, tiny.tokenizer("bert")), "a film"), "torch has quantised its weights")
