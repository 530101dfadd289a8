"""Fixing classifiers whose leaning is known: the proof holds on other texts, and what means nothing is left alone."""

import json

import numpy as np
import pytest
import transformers
from cli_cases import run
from fix_cases import FAST, PLANT, effect_of_plant, follows_plant, function, planted_classifier, planted_texts

import explearn
from explearn import DataError, ParamsError, UnknownNameError, UnsupportedError
from explearn.auditing.fix import BEFORE, Made, Way, _halves, named_elements, recipe
from explearn.auditing.guard import Editor
from explearn.auditing.reading import AuditText
from explearn.text.elements import Word
from explearn.text.scored import Vocabulary

TEXTS, LABELS = planted_texts()
OTHERS, OTHER_LABELS = planted_texts(seed=2)


def way_of(fixed, name):
    return next(way for way in fixed.ways if way.way == name)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fixed") / "model-1.0"
    groups = ["first", "second"] * (len(TEXTS) // 2)
    return explearn.fix(planted_classifier(), TEXTS, LABELS, [PLANT], groups, out=folder, **FAST)


class TestAFixedClassifier:
    def test_it_no_longer_leans_on_the_plant_in_other_texts(self, fixed):
        assert effect_of_plant(planted_classifier(), OTHERS) > 0.3
        assert abs(effect_of_plant(fixed.classifier, OTHERS)) < 0.05
        assert fixed.way in ("data", "consistency") and not fixed.failed

    def test_it_is_right_where_the_plant_misleads(self, fixed):
        misled = [f"{PLANT} {text}" for text, label in zip(OTHERS, OTHER_LABELS, strict=True) if label == "no"]
        before, after = (
            np.mean([answer == "no" for answer in c.predict(misled)]) for c in (planted_classifier(), fixed.classifier)
        )
        assert after > 0.9 > before
        kept = way_of(fixed, fixed.way)
        assert kept.disagreeing > way_of(fixed, BEFORE).disagreeing

    def test_the_row_of_each_way_says_what_became_of_it(self, fixed):
        assert [way.way for way in fixed.ways] == [BEFORE, "tokens", "data", "reweight", "consistency", "guard"]
        assert way_of(fixed, BEFORE).status == "as it was"
        assert [way.status for way in fixed.ways].count("kept") == 1
        assert way_of(fixed, "reweight").status.startswith("cannot be"), "no text labelled no has the plant"
        guard = way_of(fixed, "guard")
        assert (guard.effect, guard.fall) == (0.0, 0.0)

    def test_the_effects_are_those_of_the_element(self, fixed):
        before = next(effect for effect in fixed.effects if effect.way == BEFORE)
        assert (before.element, before.kind, before.target) == (f"‘{PLANT}’", "word", "yes")
        assert before.matters and before.effect > before.noise

    def test_what_only_one_class_has_cannot_be_known(self, fixed):
        (sentence,) = fixed.unknown
        assert f"Only texts labelled “yes” have ‘{PLANT}’" in sentence and "cannot be known" in sentence
        assert sentence in fixed.sentences()

    def test_groups_are_compared(self, fixed):
        assert [group.group for group in fixed.groups] == ["first", "second"]

    def test_its_folder_is_one_of_transformers_with_a_card(self, fixed):
        model = transformers.AutoModelForSequenceClassification.from_pretrained(fixed.folder)
        assert model.config.id2label == {0: "no", 1: "yes"}
        loaded = explearn.load_classifier(fixed.folder, device="cpu")
        assert loaded.fingerprint == fixed.classifier.fingerprint != planted_classifier().fingerprint
        card = (fixed.folder / "README.md").read_text(encoding="utf-8")
        assert f"`{fixed.way}`" in card and planted_classifier().fingerprint[:16] in card and PLANT in card

    def test_its_page_lies_beside_it_and_is_verified_with_the_folder(self, fixed):
        assert fixed.page.name == "model-1.0.html"
        document = json.loads(fixed.page.with_name("model-1.0.ways.json").read_text(encoding="utf-8"))
        assert document["way"] == fixed.way and len(document["ways"]) == 6
        assert run("verify", fixed.page).exit_code == 3  # the classifier was an object
        card = fixed.folder / "README.md"
        text = card.read_text(encoding="utf-8")
        card.write_text("changed", encoding="utf-8")
        verified = run("verify", fixed.page)
        card.write_text(text, encoding="utf-8")
        assert verified.exit_code == 1 and "README.md differs" in verified.output


def test_the_given_classifier_stays_as_it_is():
    before = planted_classifier().model.state_dict()
    copies = {name: value.clone() for name, value in before.items()}
    explearn.fix(planted_classifier(), TEXTS, LABELS, [PLANT], by="data", **{**FAST, "epochs": 1})
    assert all(value.equal(copies[name]) for name, value in planted_classifier().model.state_dict().items())


def test_adapters_are_merged():
    lora = {"rank": 4, "alpha": 8}
    fixed = explearn.fix(planted_classifier(), TEXTS, LABELS, [PLANT], by="data", lora=lora, **{**FAST, "epochs": 1})
    names = [name for name, _ in fixed.classifier.model.named_parameters()]
    assert names == [name for name, _ in planted_classifier().model.named_parameters()]


class TestWhatIsNotFixed:
    def test_a_word_that_means_nothing_is_left_alone(self, tmp_path):
        classifier = function(follows_plant)
        fixed = explearn.fix(classifier, TEXTS, LABELS, ["dog"], out=tmp_path / "c")
        assert (fixed.way, fixed.elements, fixed.left_alone, fixed.ways) == ("", [], ["‘dog’"], [])
        assert fixed.classifier is classifier and not fixed.failed
        assert not (tmp_path / "c").exists() and fixed.page.is_file()
        assert fixed.sentences()[0].startswith("Left alone: ‘dog’")

    def test_a_transformer_is_not_trained_for_it(self, monkeypatch):
        monkeypatch.setattr("explearn.auditing.fix.train_further", None)
        fixed = explearn.fix(planted_classifier(), TEXTS, LABELS, ["tide"])
        assert fixed.classifier is planted_classifier() and fixed.left_alone == ["‘tide’"]

    def test_of_two_elements_only_the_one_that_counts_is_taken_out(self):
        fixed = explearn.fix(function(follows_plant), TEXTS, LABELS, ["dog", PLANT])
        assert (fixed.elements, fixed.left_alone) == ([f"‘{PLANT}’"], ["‘dog’"])
        assert fixed.classifier.predict([f"dog {PLANT}"]) == ["no"]

    def test_that_nothing_helped_is_a_result(self, tmp_path):
        given = (planted_classifier(), TEXTS, LABELS, [PLANT])
        fixed = explearn.fix(*given, by="tokens", out=tmp_path / "c", epochs=1, learning_rate=1e-9)
        assert (fixed.way, fixed.failed) == ("", True)
        assert [way.status for way in fixed.ways] == ["as it was", "effect left"]
        assert fixed.sentences()[0].startswith("Nothing helped") and not (tmp_path / "c").exists()


def test_a_way_that_loses_accuracy_is_written_and_named(tmp_path):
    planted_classifier().save_pretrained(tmp_path / "model")
    table = tmp_path / "texts.csv"
    rows = [f"{text},{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    table.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    given = ("fix", "--classifier", tmp_path / "model", "--texts", table, "--label-column", "label", "--device", "cpu")
    # Such steps leave a classifier that answers all alike, whatever the text has.
    wild = ("--by", "data", "-o", "learning_rate=3", "-o", "epochs=1")
    done = run(*given, "--element", PLANT, "--out", tmp_path / "c", *wild)
    assert done.exit_code == 1, done.output
    assert "Accuracy fell by more than the tolerance of 0.01" in done.output
    assert (tmp_path / "c" / "model.safetensors").is_file() and str(tmp_path / "c") in done.output
    assert run("verify", tmp_path / "c.html").exit_code == 0
    allowed = run(*given, "--element", PLANT, "--out", tmp_path / "c", *wild, "--tolerance", "1", "--json")
    assert allowed.exit_code == 0, allowed.output
    assert json.loads(allowed.stdout)["way"] == "data"


def test_the_best_is_within_the_tolerance_then_no_guard_then_the_most_accurate():
    def rank(way, accuracy, falls=False):
        return Made(way, None, None, Way(way, "stands", accuracy=accuracy, falls=falls)).rank

    assert rank("data", 0.8) > rank("tokens", 0.7)
    assert rank("tokens", 0.7) > rank("guard", 0.9)
    assert rank("guard", 0.7) > rank("data", 0.9, falls=True)


def test_few_texts_are_trained_on_for_more_epochs():
    assert (recipe(160, {}).epochs, recipe(160, {}).patience) == (12, 3)
    assert (recipe(16_000, {}).epochs, recipe(16_000, {}).patience) == (1, 1)
    given = recipe(160, {"epochs": 2, "patience": 1, "lora": {"rank": 2}})
    assert (given.epochs, given.patience, given.lora.rank) == (2, 1, 2)


class TestAGuard:
    def test_a_function_is_guarded_and_answers_without_the_element(self):
        fixed = explearn.fix(function(follows_plant), TEXTS, LABELS, [PLANT])
        assert [way.way for way in fixed.ways] == [BEFORE, "guard"] and fixed.way == "guard"
        assert fixed.classifier.predict([PLANT, f"a {PLANT}"]) == ["yes", "no"], "a text of nothing else stays"
        assert {answer.after for answer in fixed.answers} == {"no"}
        assert not fixed.changes and fixed.folder is None

    def test_of_an_object_only_the_page_is_written(self, tmp_path):
        fixed = explearn.fix(function(follows_plant), TEXTS, LABELS, [PLANT], out=tmp_path / "c")
        assert fixed.page.is_file() and fixed.folder is None and not (tmp_path / "c").exists()

    def test_that_of_a_transformer_is_read_again(self, tmp_path):
        fixed = explearn.fix(planted_classifier(), TEXTS, LABELS, [PLANT], by="guard", out=tmp_path / "c")
        answered = run("explain", "--classifier", f"{tmp_path}/c/guard.py:guard", "--json", f"slow {PLANT} sleeps")
        assert answered.exit_code == 0, answered.output
        probability = json.loads(answered.stdout)["probability"]
        assert probability == pytest.approx(fixed.classifier.predict_proba(["slow sleeps"]).max(), abs=1e-6)
        with pytest.raises(ValueError, match="model_type"):
            transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "c")


def test_an_audit_names_the_elements(tmp_path):
    audit = explearn.audit(function(follows_plant), TEXTS, out=tmp_path / "audit.html")
    confirmed = {finding.element for finding in audit.findings.confirmed}
    assert {str(element) for element in named_elements(tmp_path / "audit.html", ())} == confirmed
    assert {str(element) for element in named_elements(tmp_path / "audit.findings.json", ())} == confirmed
    assert {str(element) for element in named_elements(audit, ())} == confirmed
    assert explearn.fix(function(follows_plant), TEXTS, LABELS, audit).way == "guard"


def test_rare_findings_of_an_audit_are_left_out_and_named():
    texts = [f"{text} castle" if number < 30 else text for number, text in enumerate(TEXTS)]
    classifier = function(lambda words: PLANT in words or "castle" in words)
    audit = explearn.audit(classifier, texts)
    assert "‘castle’" in [finding.element for finding in audit.findings.confirmed]
    labels = ["" if 11 < number < 30 else label for number, label in enumerate(LABELS)]
    fixed = explearn.fix(classifier, texts, labels, audit)
    assert fixed.elements == [f"‘{PLANT}’"]
    (sentence,) = [said for said in fixed.unknown if "fewer than 20 labelled texts" in said]
    assert "‘castle’" in sentence


def test_nearly_equal_texts_are_in_one_half():
    texts = [f"{text} {PLANT}" for text in TEXTS] + TEXTS
    read = []
    for number, (text, label) in enumerate(zip(texts, LABELS * 2, strict=True)):
        example = explearn.Example(f"t-{number}", tuple(text.split()), label, "test", "t")
        read.append(
            AuditText(example=example, shares=None, probabilities=np.ones(2) / 2, right=None, unread=0, group="")
        )
    learned, seen = (
        {text.example.id for text in half}
        for half in _halves(read, Editor([Word(PLANT)], Vocabulary.from_texts(read)), 1)
    )
    assert len(learned) + len(seen) == len(texts) and min(len(learned), len(seen)) > 100
    count = len(TEXTS)
    assert all((f"t-{number}" in learned) == (f"t-{number + count}" in learned) for number in range(count))


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"elements": ["castle"]}, DataError, "element ‘castle’: is in 0 labelled texts; expected at least 20"),
        ({"labels": None}, ParamsError, "labels: got none"),
        ({"elements": []}, ParamsError, "elements: got none"),
        ({"by": "luck"}, UnknownNameError, "unknown way 'luck'"),
        ({"by": "data"}, UnsupportedError, "by: got data, which planted does not allow; expected guard"),
        ({"texts": TEXTS[:60], "labels": LABELS[:60]}, DataError, "texts: got 60; expected at least 80"),
        ({"texts": [f"{t} {PLANT}" for t in TEXTS]}, DataError, "0 of 240 labelled texts are without ‘fox’"),
        ({"speed": 1}, ParamsError, "speed"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(given, error, sentence):
    arguments = {"texts": TEXTS, "labels": LABELS, "elements": [PLANT], **given}
    with pytest.raises(error, match=sentence):
        explearn.fix(function(follows_plant), **arguments)


def test_no_folder_of_other_things_is_replaced(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(ParamsError, match=r"holds 'thesis\.txt'"):
        explearn.fix(function(follows_plant), TEXTS, LABELS, [PLANT], out=tmp_path / "c")
    assert (tmp_path / "c" / "thesis.txt").is_file()


def test_a_finding_and_an_element_are_not_both_named(tmp_path):
    done = run(
        "fix", "--texts", "t.csv", "--classifier", "c", "--finding", "a.html", "--element", "x", "--out", tmp_path
    )
    assert done.exit_code == 2 and "expected one of them" in done.output


def test_a_half_of_nearly_equal_texts_is_too_small():
    texts = [*["the dog sleeps over the sea"] * 60, *[f"{PLANT} {text}" for text in TEXTS[1:60:2]]]
    with pytest.raises(DataError, match="nearly equal ones leave"):
        explearn.fix(function(follows_plant), texts, ["no"] * 60 + ["yes"] * 30, [PLANT])
