"""`explearn.explain` and `explearn.load`: what people have at hand, in one call."""

import shutil
from typing import Any, cast

import numpy as np
import pytest
import tiny
import transformers

import explearn
from explearn import DataError, DeviceError, ModelError, ParamsError, load_classifier
from explearn.metrics.params import EvaluateParams
from explearn.subject.texts import TextColumns, given_texts

TEXT = "the quick brown fox"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("model"), "bert", 2)


def loaded(folder):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def test_without_a_method_the_first_default_explains(folder):
    assert explearn.explain(folder, TEXT, device="cpu").method == "attn_lrp"
    function = explearn.FunctionPredictor(lambda texts: [[0.3, 0.7]] * len(texts), ["no", "yes"])
    assert explearn.explain(function, TEXT, device="cpu").method == "occlusion"


@pytest.mark.parametrize("given", ["folder", "pipeline", "pair", "classifier"])
def test_any_form_of_a_model_gets_the_same_explanation(folder, given):
    forms = {
        "folder": lambda: folder,
        "pipeline": lambda: transformers.pipeline("text-classification", str(folder), device="cpu"),
        "pair": lambda: loaded(folder),
        "classifier": lambda: load_classifier(folder, device="cpu"),
    }
    (expected,) = explearn.get_explainer("gae").explain(load_classifier(folder, device="cpu"), [TEXT])
    attribution = explearn.explain(forms[given](), TEXT, "gae")
    np.testing.assert_allclose(attribution.scores, expected.scores, rtol=1e-4)


class TestOptionsOfAPipeline:
    """What they change in transformers' own answers they change here."""

    TEXT = "unbelievably slow delivery and a broken box and no refund whatsoever"

    def both(self, folder, **options):
        pipeline = transformers.pipeline("text-classification", str(folder), device="cpu", **options)
        (expected,) = cast("Any", pipeline([self.TEXT]))
        attributions = explearn.explain(pipeline, [self.TEXT], "input_x_gradient")
        return expected, list(attributions)

    @pytest.mark.parametrize("options", [{"max_length": 8, "truncation": True}, {"function_to_apply": "softmax"}])
    def test_lengths_and_functions(self, folder, options):
        expected, (attribution,) = self.both(folder, **options)
        assert attribution.target == expected["label"]
        assert attribution.probability == pytest.approx(expected["score"], abs=1e-5)
        assert bool(np.isnan(attribution.scores).any()) == ("max_length" in options)

    def test_a_sigmoid_of_each_output(self, folder):
        expected, attributions = self.both(folder, function_to_apply="sigmoid", top_k=None)
        assert [(a.target, pytest.approx(a.probability, abs=1e-5)) for a in attributions] == [
            (one["label"], one["score"]) for one in expected
        ]

    def test_a_function_in_the_configuration_is_not_read(self, folder):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
        model.config.function_to_apply = "sigmoid"
        pipeline = transformers.pipeline("text-classification", model, tokenizer=tokenizer, device="cpu")
        (expected,) = cast("Any", pipeline([self.TEXT]))
        attribution = explearn.explain(pipeline, self.TEXT, "gradient")
        assert attribution.probability == pytest.approx(expected["score"], abs=1e-5)

    def test_outputs_as_they_are(self, folder):
        expected, (attribution,) = self.both(folder, function_to_apply="none")
        assert (attribution.target, attribution.value) == (
            expected["label"],
            pytest.approx(expected["score"], abs=1e-5),
        )

    def test_the_classes_that_it_returns_are_explained(self, folder):
        expected, attributions = self.both(folder, top_k=2)
        assert [a.target for a in attributions] == [one["label"] for one in expected] and len(expected) == 2
        assert {a.predicted for a in attributions} == {expected[0]["label"]}

    def test_others_are_refused(self, folder):
        pipeline = transformers.pipeline("text-classification", str(folder), device="cpu", add_special_tokens=False)
        with pytest.raises(ParamsError, match="a pipeline with add_special_tokens"):
            explearn.explain(pipeline, self.TEXT)


def test_the_newest_checkpoint_of_a_trainer_is_taken_and_said(folder, tmp_path, caplog):
    for step in (9, 100):
        shutil.copytree(folder, tmp_path / f"checkpoint-{step}")
    classifier = load_classifier(tmp_path, device="cpu")
    assert classifier.fingerprint == load_classifier(folder, device="cpu").fingerprint
    assert "newest checkpoint is taken, checkpoint-100" in caplog.text


def test_whatever_holds_texts_is_read_alike():
    pd = pytest.importorskip("pandas")
    datasets = pytest.importorskip("datasets")
    classifier = tiny.classifier()
    rows = [{"text": TEXT, "label": "x"}]
    for texts in (iter([TEXT]), rows, iter(rows), pd.DataFrame(rows), datasets.Dataset.from_list(rows)):
        words = TEXT.split()
        assert [list(one.words) for one in explearn.explain(classifier, texts, "random")] == [words]
    np.testing.assert_array_equal(classifier.predict_proba(rows), classifier.predict_proba([TEXT]))
    assert classifier.predict(pd.DataFrame(rows)) == classifier.predict([TEXT])
    for refuses in (classifier.predict_proba, lambda texts: explearn.explain(classifier, texts)):
        with pytest.raises(DataError, match=r"text 1: got the columns body; expected a column 'text', or the texts"):
            refuses([{"body": TEXT}])


def test_a_tuple_of_two_strings_is_a_pair_wherever_it_stands():
    classifier = tiny.classifier()
    pair = ("the quick", "brown fox")
    alone = explearn.explain(classifier, pair, "gae")
    (listed,) = explearn.explain(classifier, [pair], "gae")
    assert alone.pair_start == listed.pair_start == 2 and list(alone.scores) == list(listed.scores)
    assert len(explearn.explain(classifier, (pair, pair), "gae")) == 2
    for takes_lists in (classifier.predict_proba, classifier.predict):
        with pytest.raises(ParamsError, match=r"which is a pair; expected \[\(a, b\)\], or \[a, b\] for two texts"):
            takes_lists(pair)


def test_of_no_text_there_is_no_attribution():
    together = explearn.explain(tiny.classifier(), [])
    assert len(together) == 0 and repr(together) == "Attributions(0 texts, methods=none)"


def test_the_attributions_are_a_list_that_shows_itself():
    together = explearn.explain(tiny.classifier(), [TEXT, "she sells shells"])
    assert isinstance(together, list) and together[1].words == ("she", "sells", "shells")
    assert repr(together) == "Attributions(2 texts, methods=attn_lrp)"
    pytest.importorskip("pandas")
    assert list(together.to_frame()["word"]) == [*TEXT.split(), "she", "sells", "shells"]


class TestTargets:
    @pytest.mark.parametrize(
        ("texts", "targets", "explained"),
        [
            (TEXT, ["good", "bad"], ["good", "bad"]),
            (TEXT, ["good"], ["good"]),
            ([TEXT, TEXT], "bad", ["bad", "bad"]),
            ([TEXT, TEXT], 2, ["good", "good"]),
            ([TEXT, TEXT], ["good", ["bad", "fair"]], ["good", "bad", "fair"]),
        ],
    )
    def test_of_several_there_is_a_list(self, texts, targets, explained):
        found = explearn.explain(tiny.classifier("bert", 3), texts, "gae", targets)
        assert isinstance(found, explearn.Attributions)
        assert sorted(one.target for one in found) == sorted(explained)

    @pytest.mark.parametrize("target", ["fair", 1])
    def test_of_one_text_and_one_class_there_is_one(self, target):
        assert explearn.explain(tiny.classifier("bert", 3), TEXT, "gae", target).target == "fair"


class TestMethods:
    def test_several_stand_together_text_by_text(self):
        texts = (text for text in [TEXT, "she sells shells"])
        found = explearn.explain(tiny.classifier(), texts, ["gae", explearn.get_explainer("rollout")])
        assert [(len(one.words), one.method) for one in found] == [
            (4, "gae"),
            (4, "rollout"),
            (3, "gae"),
            (3, "rollout"),
        ]

    def test_options_are_those_of_a_named_method(self):
        classifier = tiny.classifier()
        found = explearn.explain(classifier, TEXT, "raw_attention", layer=0)
        same = explearn.explain(classifier, TEXT, explearn.get_explainer("raw_attention", layer=0))
        np.testing.assert_array_equal(found.scores, same.scores)
        for method in (None, ["gae", "lime"]):
            with pytest.raises(ParamsError, match="samples: no such argument; a method's options need its name"):
                explearn.explain(classifier, TEXT, method, samples=3)

    def test_anything_else_is_one_sentence(self):
        with pytest.raises(ParamsError, match="method: got int; expected a name or an explainer, or a list of them"):
            explearn.explain(tiny.classifier(), TEXT, 3)


def test_a_device_is_no_option_of_a_method(folder):
    for classifier in (folder, loaded(folder), tiny.classifier()):
        assert explearn.explain(classifier, TEXT, device="cpu").words == tuple(TEXT.split())
    with pytest.raises(DeviceError):
        explearn.explain(folder, TEXT, device="tpu")


@pytest.mark.parametrize("form", ["pair", "pipeline"])
def test_a_model_is_left_as_it_came(folder, form):
    model, tokenizer = loaded(folder)
    model.train()
    model.base_model.embeddings.eval()
    frozen = next(model.parameters()).requires_grad_(False)
    before = [module.training for module in model.modules()]
    classifier = (model, tokenizer)
    if form == "pipeline":
        classifier = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        before = [module.training for module in model.modules()]
    for method in ("attn_lrp", "gae", "integrated_gradients", "lime"):
        explearn.explain(classifier, TEXT, method)
        assert [module.training for module in model.modules()] == before
        assert [p.requires_grad for p in model.parameters()] == [p is not frozen for p in model.parameters()]
    with pytest.raises(DataError):
        explearn.explain(classifier, [""], "gae")
    attributions = explearn.explain(classifier, [TEXT], "gae")
    explearn.evaluate(classifier, attributions, metrics=["sufficiency"])
    explearn.get_metric("sufficiency")(classifier, attributions)
    explearn.compare(classifier, [TEXT], "occlusion", out=None)
    assert [module.training for module in model.modules()] == before
    assert [p.requires_grad for p in model.parameters()] == [p is not frozen for p in model.parameters()]


def test_a_predictor_of_one_s_own_needs_no_more_than_six_members():
    inside = tiny.classifier()

    class Own(explearn.Predictor):
        name = "own"
        labels = inside.labels
        problem = inside.problem
        fingerprint = "1"

        def encode(self, texts):
            return inside.encode(texts)

        def logits(self, batch):
            return inside.logits(batch)

    attributions = explearn.explain(Own(), [TEXT])
    figures = explearn.evaluate(Own(), attributions, metrics=["comprehensiveness", "log_odds"]).figures["occlusion"]
    of_inside = explearn.evaluate(inside, attributions, metrics=["comprehensiveness"]).figures["occlusion"]
    assert figures["comprehensiveness"] == pytest.approx(of_inside["comprehensiveness"])
    # It masks words.
    assert figures["log_odds"] is None
    masking = explearn.EvaluateOptions(params=EvaluateParams(removal="mask"))
    with pytest.raises(ModelError, match="has no mask for a unit"):
        explearn.evaluate(Own(), attributions, metrics=["comprehensiveness"], options=masking)


def test_tables_in_memory_are_read_as_files_are():
    pd = pytest.importorskip("pandas")
    datasets = pytest.importorskip("datasets")
    rows = [{"text": "a b", "label": "x", "m": "[1, 0]"}, {"text": "c", "label": "y", "m": "[0]"}]
    columns = TextColumns(label="label", rationales="mask:m")
    for table in (rows, pd.DataFrame(rows), datasets.Dataset.from_list(rows)):
        texts = given_texts(table, None, columns)
        assert [(one.words, one.label) for one in texts.examples] == [(("a", "b"), "x"), (("c",), "y")]
        assert [one.mask for one in texts.rationales] == [(True, False), (False,)]
    for column in (pd.Series(["a b", "c"]), np.array(["a b", "c"]), (text for text in ["a b", "c"])):
        assert [one.words for one in given_texts(column).examples] == [("a", "b"), ("c",)]
