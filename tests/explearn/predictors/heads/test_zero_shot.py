"""Zero-shot classification: labels given at call time to a model of natural-language inference or a generative one."""

import json

import numpy as np
import pytest
import tiny
import transformers
from cli_cases import run
from rounding import assert_close
from saying import complaint

import explearn
from explearn import ComputeOptions, DataError, Example, ExplearnError, UnsupportedError, load_classifier
from explearn.methods.base.task import ListedTask
from explearn.methods.marker.explainer import Marker
from explearn_apps.onnx import export_onnx
from explearn_apps.serve.engine import Engine
from explearn_apps.serve.limits import Limits
from explearn_study.importing import import_classifier
from explearn_study.sections import ClassifierParams

NLI = ("contradiction", "neutral", "entailment")
LABELS = ["slow delivery", "dog", "castle"]
HYPOTHESIS = "our guide was {}!"
SHORT = [text for text in tiny.TEXTS if len(text) < 30]
SAME_AS_OF_A_PAIR = ("raw_attention", "rollout", "gradient", "input_x_gradient", "attn_lrp", "gae", "attcat", "alti")
"""Methods that compare with no input without the text's words, of which the hypothesis is none."""
GIVEN = {"labels": LABELS, "hypothesis": HYPOTHESIS, "device": "cpu"}


def save(folder, kind="bert", classes=NLI):
    """Save a tiny model whose classes have these names; returns the folder."""
    model = tiny.model(kind, len(classes))
    model.config.id2label = dict(enumerate(classes))
    model.config.label2id = {label: index for index, label in enumerate(classes)}
    model.save_pretrained(folder)
    tiny.tokenizer(kind).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    return save(tmp_path_factory.mktemp("nli"))


@pytest.fixture(scope="module")
def classifier(nli):
    return load_classifier(nli, **GIVEN)


@pytest.mark.parametrize("multi_label", (False, True))
@pytest.mark.parametrize("kind", ("bert", "roberta", "deberta-v2", "gpt2"))
def test_probabilities_are_those_of_transformers_pipeline(kind, multi_label, tmp_path):
    folder = save(tmp_path, kind)
    of_labels = load_classifier(folder, multi_label=multi_label, **GIVEN)
    pipeline = transformers.pipeline("zero-shot-classification", model=folder, device="cpu")
    for text, row in zip(SHORT, of_labels.predict_proba(SHORT), strict=True):
        answer = pipeline(text, LABELS, hypothesis_template=HYPOTHESIS, multi_label=multi_label)
        expected = dict(zip(answer["labels"], answer["scores"], strict=True))
        assert_close(row, [expected[label] for label in LABELS])


def test_entailment_stands_against_what_is_called_contradiction(tmp_path):
    # transformers takes the last class where entailment is the first one.
    folder = save(tmp_path, classes=("entailment", "contradiction", "neutral"))
    of_labels = load_classifier(folder, multi_label=True, **GIVEN)
    pairs = [("lazy", HYPOTHESIS.replace("{}", label)) for label in LABELS]
    p = load_classifier(folder, device="cpu").predict_proba(pairs)
    assert_close(of_labels.predict_proba(["lazy"])[0], p[:, 0] / (p[:, 0] + p[:, 1]))


def test_every_kind_of_method_explains_the_words_of_the_text(nli, classifier):
    pairs = load_classifier(nli, device="cpu")
    text = "a warm funny sequel"
    label = "dog"
    pair = (text, HYPOTHESIS.replace("{}", label))
    for name in (*SAME_AS_OF_A_PAIR, "integrated_gradients", "consensus", "lime", "solvex", "random"):
        method = tiny.quick(name)
        (attribution,) = method.explain(classifier, [text], [label])
        assert (attribution.words, attribution.target) == (tuple(text.split()), label), name
        assert np.isfinite(attribution.scores).all(), name
        assert_close(attribution.probability, classifier.predict_proba([text])[0, 1])
        if name in SAME_AS_OF_A_PAIR:
            (of_pair,) = method.explain(pairs, [pair], ["entailment"])
            np.testing.assert_allclose(attribution.scores, of_pair.scores[:4], rtol=1e-4, atol=1e-6, err_msg=name)


def test_occlusion_is_the_loss_of_probability_among_the_labels(classifier):
    (encoding,) = classifier.encode(["a warm funny sequel"])
    attribution = explearn.explain(classifier, "a warm funny sequel", "occlusion", "castle", output="probability")
    masked = [encoding.mask([word], classifier.mask_token_id) for word in range(4)]
    p = classifier.predict_proba([encoding, *masked])[:, 2]
    assert_close(attribution.scores, p[0] - p[1:])


def test_long_texts_leave_room_for_the_longest_hypothesis(classifier):
    text = " ".join(tiny.CORPUS[:5])
    (encoding,) = classifier.encode([text])
    assert max(len(classifier.pairs([encoding], [label])[0]) for label in range(3)) == classifier.transformer.max_length
    for name in ("occlusion", "gradient"):
        attribution = explearn.explain(classifier, text, name, windows=10)
        assert attribution.windows > 1 and attribution.read.all(), name


def test_saved_and_loaded_it_is_the_same_classifier(nli, tmp_path):
    of_labels = load_classifier(nli, multi_label=True, **GIVEN)
    of_labels.save_pretrained(tmp_path / "c")
    again = load_classifier(tmp_path / "c", device="cpu")
    assert (again.labels, again.problem, again.fingerprint) == (LABELS, of_labels.problem, of_labels.fingerprint)
    np.testing.assert_array_equal(again.predict_proba(SHORT), of_labels.predict_proba(SHORT))
    others = load_classifier(tmp_path / "c", device="cpu", labels=["fox", "dog"])
    assert others.labels == ["fox", "dog"] and others.fingerprint != again.fingerprint
    engine = Engine(again, [explearn.get_explainer("gradient")], Limits())
    assert engine.classifier.transformer.name == "c"  # not where the folder is
    explearn.export(tmp_path / "bundle", method="lime", classifier=tmp_path / "c", with_classifier=True)
    assert load_classifier(tmp_path / "bundle").labels == LABELS
    assert explearn.load(tmp_path / "bundle").made_for.fingerprint == again.fingerprint


def test_a_generative_model_takes_labels_in_the_same_way(tmp_path):
    tiny.language_model(max_position_embeddings=160).save_pretrained(tmp_path)
    tiny.tokenizer("gpt2", 160).save_pretrained(tmp_path)
    labels = {"labels": ["slow", "quick"], "hypothesis": "it was {}!"}
    by_labels = load_classifier(tmp_path, device="cpu", **labels)
    prompt = {"template": "{text}\nit was", "label_words": {"slow": " slow", "quick": " quick"}}
    prompted = load_classifier(tmp_path, device="cpu", completion=prompt)
    np.testing.assert_array_equal(by_labels.predict_proba(SHORT), prompted.predict_proba(SHORT))
    with pytest.raises(ExplearnError, match="completes a text with one label"):
        load_classifier(tmp_path, device="cpu", multi_label=True, **labels)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"labels": ["dog", "dog"]}, "'dog' twice"),
        ({"hypothesis": "a dog"}, "expected a sentence that has {} once"),
        ({"hypothesis": "{} " + "dog " * 60}, "expected a shorter one"),
    ],
)
def test_labels_that_cannot_be_are_refused(given, sentence, nli):
    complaint(lambda: load_classifier(nli, **{**GIVEN, **given}), sentence)


def test_a_zero_shot_pipeline_classifies_no_text_by_itself(tmp_path):
    pipeline = transformers.pipeline("zero-shot-classification", model=save(tmp_path), device="cpu")
    complaint(lambda: explearn.explain(pipeline, tiny.TEXTS[0]), "candidate labels go with its model into")


def test_what_is_no_zero_shot_classifier_or_text_is_refused(classifier, tmp_path):
    with pytest.raises(ExplearnError, match=r"its classes are bad, fair, good; .* begins with entail"):
        load_classifier(tiny.save(tmp_path / "plain", classes=3), **GIVEN)
    with pytest.raises(DataError, match="text 2: is a pair"):
        classifier.encode(["a dog", ("a dog", "a fox")])
    with pytest.raises(UnsupportedError, match="pairs of a text and a hypothesis"):
        ListedTask(classifier, ["a dog"], labels=["dog"])
    with pytest.raises(UnsupportedError, match="candidate labels"):
        export_onnx(tmp_path / "m.onnx", explainer="lime", classifier=classifier)
    versus = explearn.versus(classifier, "dog")
    with pytest.raises(UnsupportedError, match="no model to look into"):
        explearn.explain(versus, "a dog", "gradient")
    assert explearn.explain(versus, "a dog", "occlusion", "castle").target == "castle versus dog"
    classifier.save_pretrained(tmp_path / "c")
    given = ClassifierParams(name=str(tmp_path / "c"))
    with pytest.raises(ExplearnError, match="has candidate labels"):
        import_classifier(tmp_path / "d", given, "films", LABELS, ComputeOptions(device="cpu"))


def test_an_explainer_trained_for_the_pairs_explains_zero_shot_answers(nli, classifier):
    pairs = load_classifier(nli, device="cpu")
    examples = [
        Example(f"e{i}", tuple(a.split()), "entailment", "train", "nli", tuple(b.split()))
        for i, (a, b) in enumerate(tiny.PAIRS)
    ]
    gold = {e.id: np.arange(len(e.all_words)) % 2 == 0 for e in examples}
    marker = Marker(protocol="in_domain", epochs=1).fit(pairs, examples, gold)
    (attribution,) = marker.explain(classifier, ["a warm funny sequel"])
    assert np.isfinite(attribution.scores).all() and attribution.target in LABELS


def test_the_command_line_takes_candidate_labels(nli, tmp_path):
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({"labels": LABELS, "hypothesis": HYPOTHESIS}), encoding="utf-8")
    common = ["--device", "cpu", "--classifier", nli, "--completion", str(labels)]
    done = run("explain", *common, "--json", "--target", "dog", "a warm funny sequel")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout.splitlines()[0])
    assert (record["target"], record["words"]) == ("dog", ["a", "warm", "funny", "sequel"])
    texts = tmp_path / "texts.csv"
    page = tmp_path / "page.html"
    texts.write_text("text,label\n" + "".join(f'"{text}",dog\n' for text in SHORT), encoding="utf-8")
    files = ["--texts", str(texts), "--label-column", "label", "--out", str(page)]
    done = run("compare", *common, *files, "--method", "gradient", "--method", "occlusion")
    assert done.exit_code == 0 and page.exists(), done.output
