"""`transformers.pipeline("text-classification-with-rationale")`: labels, scores and words as the library gives them."""

import math

import numpy as np
import pytest
import tiny
import transformers
from saying import complaint

import explearn
import explearn_apps

explearn_apps.register_pipeline()
TASK = "text-classification-with-rationale"
TEXTS = [*tiny.TEXTS, "lazy dog " * 40]


def pipe(model, **options):
    return transformers.pipeline(TASK, model=str(model), device="cpu", **options)


def expected(model, name, texts, targets=None, **options):
    of = explearn.load_classifier(model, device="cpu")
    return explearn.get_explainer(name, **options).explain(of, texts, targets)


def same(actual, wanted):
    for row, attribution in zip(actual, wanted, strict=True):
        assert (row["label"], row["predicted"]) == (attribution.target, attribution.predicted)
        assert row["words"] == list(attribution.words) and row["method"] == attribution.method
        got = np.array([math.nan if score is None else score for score in row["scores"]])
        np.testing.assert_allclose(got, attribution.scores, atol=1e-5)


@pytest.mark.parametrize("method", ["attcat", "lime"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_many_texts_in_batches(model, method, batch_size):
    actual = pipe(model, explainer=method, batch_size=batch_size)(TEXTS)
    same(actual, expected(model, method, TEXTS))


def test_label_and_score_are_those_of_the_pipeline_of_transformers(model):
    plain = transformers.pipeline("text-classification", model=str(model), device="cpu")
    for row, other in zip(pipe(model)(list(tiny.TEXTS)), plain(list(tiny.TEXTS)), strict=True):
        assert row["label"] == row["predicted"] == other["label"]
        assert row["score"] == pytest.approx(other["score"], abs=1e-6)


def test_a_word_that_was_not_read_has_no_score(model):
    row = pipe(model)(TEXTS[-1])
    assert row["scores"][0] is not None and row["scores"][-1] is None
    assert None not in pipe(model, windows=10)(TEXTS[-1])["scores"]
    assert None not in pipe(model)(TEXTS[-1], windows=10)["scores"]
    assert len(pipe(model)("Lazy dog. The fox slept.", unit="sentence")["words"]) == 2


def test_pairs_dictionaries_and_streams(model):
    run = pipe(model, batch_size=2)
    pair = tiny.PAIRS[0]
    wanted = expected(model, "attn_lrp", [pair])
    given = {"text": pair[0], "text_pair": pair[1]}
    for row in (run(given), run(pair), run([given])[0]):
        same([row], wanted)
        assert row["pair_start"] == len(pair[0].split())
    same([run({"text": TEXTS[0]})], expected(model, "attn_lrp", TEXTS[:1]))
    same(list(run(text for text in TEXTS)), expected(model, "attn_lrp", TEXTS))
    assert run([]) == []


def test_options_go_to_the_method_and_targets_to_a_call(model):
    texts = list(tiny.TEXTS)
    run = pipe(model, explainer="integrated_gradients", steps=3)
    same(run(texts), expected(model, "integrated_gradients", texts, steps=3))
    same(run(texts, target="no"), expected(model, "integrated_gradients", texts, ["no"] * len(texts), steps=3))
    same(pipe(model, target=1)(texts), expected(model, "attn_lrp", texts, [1] * len(texts)))
    both = run(texts[0], target=["no", "yes"])
    assert [row["label"] for row in both] == ["no", "yes"] and both[0]["predicted"] == both[1]["predicted"]


def test_several_labels_and_values(tmp_path):
    many = tiny.save(tmp_path / "many", problem_type="multi_label_classification")
    rows = pipe(many, batch_size=2)(list(tiny.TEXTS))
    of = explearn.load_classifier(many, device="cpu")
    for actual, wanted in zip(rows, explearn.get_explainer("attn_lrp").iter_explain(of, tiny.TEXTS), strict=True):
        same(actual, wanted)
    value = tiny.save(tmp_path / "value", classes=1, problem_type="regression")
    row = pipe(value)(TEXTS[0])
    (attribution,) = expected(value, "attn_lrp", TEXTS[:1])
    assert row["score"] == pytest.approx(attribution.value)


def test_a_trained_explainer_by_its_folder_its_bundle_or_itself(model, trained, tmp_path):
    explearn.export(tmp_path / "b", explainer=trained["reader"])
    explainer = explearn.load(trained["reader"])
    of = explearn.load_classifier(model, device="cpu")
    wanted = list(explainer.explain(of, TEXTS))
    for given in (trained["reader"], tmp_path / "b", explainer):
        same(pipe(model, explainer=given, batch_size=3)(TEXTS), wanted)


def test_bad_input_is_one_sentence(model, trained, tmp_path):
    other = tiny.save(tmp_path / "other", seed=5)
    explearn.export(tmp_path / "b", method="rollout", classifier=model)
    explearn.export(tmp_path / "reader", explainer=trained["reader"])
    complaint(lambda: pipe(model, explainer="atcat"), "unknown method 'atcat'; did you mean")
    complaint(lambda: pipe(model, explainer="gae", stepz=3), "gae: stepz: no such parameter")
    complaint(lambda: pipe(model, steps=3), "options: got steps; expected the name of their method, too")
    complaint(lambda: pipe(other, explainer=trained["reader"]), "other")
    for name in ("b", "reader"):
        complaint(lambda name=name: pipe(other, explainer=tmp_path / name), "made for the classifier")
        complaint(lambda name=name: pipe(model, explainer=tmp_path / name, seed=1), "fixes these options")
    run = pipe(model)
    complaint(lambda: run("a text", target="maybe"), "unknown class 'maybe'")
    complaint(lambda: run(3), "got int; expected a text")
    complaint(lambda: run({"txt": "a"}), "got a text with the fields txt; expected text and text_pair")
    complaint(lambda: run(""), "text")
    complaint(lambda: run.save_pretrained(tmp_path / "s"), "save the model itself")
    assert not (tmp_path / "s").exists()
