"""Every learned explainer learns from lists of texts by one `fit`."""

import functools
import json

import numpy as np
import pytest
import tiny
import torch
from listed import fit, listed
from saying import complaint

import explearn
from explearn import DataError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.methods.aml.paml import PAML
from explearn.methods.at2.explainer import AT2, ridge
from explearn.methods.base.task import ListedTask
from explearn.methods.chance.word_list import WordFacts, WordList
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.l2e.explainer import L2E
from explearn.methods.marker.explainer import Marker
from explearn.methods.reader.explainer import Reader
from explearn.testing import check_explainer

QUICK = {"epochs": 1, "batch_size": 4, "validation_texts": 4}
METHODS = {
    "marker": (Marker, {"epochs": 2, "protocol": "in_domain", "hidden": 5}),
    "expnet": (ExpNet, {"epochs": 2, "protocol": "in_domain"}),
    "reader": (Reader, {"samples": 4, "width": 16, "epochs": 2}),
    "l2e": (L2E, {"teacher": "occlusion", "layers": 1, "width": 16, "epochs": 1}),
    "ivra": (IvRA, {"frozen": True, "schedule": QUICK}),
    "smat": (SMaT, {"criteria": ["cons"], "schedule": QUICK}),
    "paml": (PAML, {"backbone": "states", "epochs": 1, "batch_size": 4}),
    "at2": (AT2, {"samples": 4}),
    "word_list": (WordList, {}),
    "word_facts": (WordFacts, {}),
}
BOUND = ("marker", "reader", "l2e", "ivra", "smat", "paml", "at2")
"""Those that explain the classifier alone that they were trained for."""
WORDS = ["fox", "dog", "sea", "castle", "tide", "morning"]
MASK = [True, False, False, False, False]
"""In each text the first of five words is evidence."""


def pairs(count=8):
    """Texts of five words, with the labels that the classifier gives them."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=5)) for _ in range(count)]
    return list(zip(texts, tiny.classifier().predict(texts), strict=True))


def make(name, **options):
    method, its_options = METHODS[name]
    return method(**its_options, **options)


def fitted(name, of=None, **options):
    explainer = make(name, **options)
    assert fit(explainer, of or tiny.classifier(), pairs(), [MASK] * 8, pairs(6)) is explainer
    return explainer


trained = functools.cache(fitted)


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_it_is_saved_and_explains_as_before(self, name, tmp_path):
        explainer = trained(name)
        of = getattr(explainer, "classifier", None) or tiny.classifier()
        explainer.save_pretrained(tmp_path / name)
        again = explearn.load(tmp_path / name)
        assert repr(again).startswith(f"trained {again.name}(")
        assert type(again) is type(explainer) and again.options == explainer.options
        for attribute in explainer.kept:
            assert getattr(again, attribute) == getattr(explainer, attribute)
        for a, b in zip(explainer.explain(of, tiny.TEXTS), again.explain(of, tiny.TEXTS), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)

    def test_the_seed_alone_decides_and_the_classifier_and_the_global_generator_stay_as_they_are(self, name, tmp_path):
        trained(name)
        torch.randn(3)
        of = tiny.make_classifier()
        fingerprint = of.fingerprint
        state = torch.get_rng_state()
        explainer = fitted(name, of)
        explainer.explain(getattr(explainer, "classifier", None) or of, tiny.TEXTS)
        explainer.save_pretrained(tmp_path / name)
        explearn.load(tmp_path / name)
        assert torch.equal(state, torch.get_rng_state())
        assert explainer.content_hash() == trained(name).content_hash()
        if not name.startswith("word_"):
            assert fitted(name, seed=6).content_hash() != trained(name).content_hash()
        of.weights_changed()
        assert of.fingerprint == fingerprint
        assert tiny.hooks(of.model) == 0 and not of.model.training
        assert not any(p.requires_grad or p.grad is not None for p in of.model.parameters())

    def test_untrained(self, name, tmp_path):
        assert repr(make(name)).startswith(f"{name}(")
        for call in (
            lambda: make(name).explain(tiny.classifier(), tiny.TEXTS),
            lambda: make(name).save_pretrained(tmp_path / "it"),
        ):
            with pytest.raises(ModelError, match=f"this {name} is not trained"):
                call()
        assert list(tmp_path.iterdir()) == []

    def test_a_file_that_is_missing_or_cut_short(self, name, tmp_path):
        explainer = trained(name)
        explainer.save_pretrained(tmp_path / name)
        for file in ("config.json", explainer.weights_file):
            content = (tmp_path / name / file).read_bytes()
            (tmp_path / name / file).write_bytes(content[: len(content) // 2])
            complaint(lambda: explainer.from_pretrained(tmp_path / name), f"not a trained {name}")
            (tmp_path / name / file).unlink()
            complaint(lambda: explainer.from_pretrained(tmp_path / name), f"not a trained {name}")
            (tmp_path / name / file).write_bytes(content)


@pytest.mark.parametrize("name", ["marker", "reader", "paml", "at2"])
@pytest.mark.parametrize("change", [lambda layers: layers[:-1], lambda layers: [*layers, 0], lambda layers: [99] * 9])
def test_layers_that_its_weights_are_not_for(name, change, tmp_path):
    trained(name).save_pretrained(tmp_path / "it")
    config = json.loads((tmp_path / "it" / "config.json").read_text())
    config["layers"] = change(config["layers"])
    (tmp_path / "it" / "config.json").write_text(json.dumps(config))
    complaint(lambda: explearn.load(tmp_path / "it").explain(tiny.classifier(), tiny.TEXTS), "layer")


@pytest.mark.parametrize("name", ["at2", "word_facts"])
def test_it_is_as_every_method(name):
    check_explainer(trained(name), classifier=tiny.classifier())


@pytest.mark.parametrize("name", BOUND)
def test_another_classifier_is_refused(name):
    """But where a check of what explanations depend on asks for it."""
    other = tiny.make_classifier(seed=8)
    with pytest.raises(UnsupportedError, match=f"this {name} was trained for another classifier"):
        trained(name).explain(other, tiny.TEXTS)
    if name == "l2e":  # its student has another vocabulary
        with pytest.raises(UnsupportedError, match="was trained for another classifier"):
            trained(name).explain(other, tiny.TEXTS, other_models=True)
    else:
        assert len(trained(name).explain(other, tiny.TEXTS, other_models=True)) == len(tiny.TEXTS)


@pytest.mark.parametrize(
    ("method", "protocol"), [(Marker, "universal"), (Marker, "few_shot"), (ExpNet, "leave_one_task_out")]
)
def test_marker_learns_from_other_tasks(method, protocol):
    of = tiny.classifier()
    texts = {"one": listed(of, pairs()).examples(), "other": listed(of, pairs(12)).examples()}
    others = {name: (of, its, [MASK] * len(its)) for name, its in texts.items()}
    options = {"protocol": protocol, "epochs": 1}
    own = []
    if protocol == "few_shot":
        options["marks"] = 2
        own = ["texts"]
    actual = fit(method(**options), of, pairs(), [MASK] * 8, others=others)
    assert actual.trained_on == ["one", "other", *own]


def test_a_word_list_scores_words_by_how_often_they_were_marked():
    """12 words, 3 of them marked: r = 1/4. "fox" comes 3 times, 2 of them marked: (2 + r) / 4; "sea" never was."""
    of = tiny.classifier()
    train = ["Fox, the dog", "fox a lazy dog", "the fox sleeps a dog", "the tide"]
    marks = [[True, False, False], [True, False, False, True], [False] * 5, None]
    (row,) = WordList().fit(of, train, marks).explain(of, ["sea FOX a dog!"])
    np.testing.assert_allclose(row.scores, [1 / 4, 2.25 / 4, 0.25 / 3, 1.25 / 4], rtol=1e-6)
    with pytest.raises(DataError, match="no text has a rationale; this method learns from rationales"):
        WordList().fit(of, train, validation=None)
    with pytest.raises(DataError, match="of 2 words of marked texts 0% are marked"):
        WordList().fit(of, ["the tide"], [[False, False]])


def test_word_facts_are_length_place_and_stop_words_but_not_which_word_it_is():
    rng = np.random.default_rng(0)
    texts = ["the " + " ".join(rng.permutation(["castle", "morning", "fox", "sea"])) for _ in range(12)]
    marks = [np.char.str_len(text.split()) > 3 for text in texts]
    of = tiny.classifier()
    word_facts = WordFacts().fit(of, texts, marks)
    (row,) = word_facts.explain(of, ["the afternoon dog dog the"])
    assert row.scores.argmax() == 1 and set(word_facts.frequent) == {"the", "castle", "morning", "fox", "sea"}
    (other,) = word_facts.explain(of, ["the unbelievs pig cow the"])
    np.testing.assert_array_equal(row.scores, other.scores)


def test_at2_finds_the_head_that_the_answers_follow():
    """The answers are made to follow one head's attention; its coefficient is the only large one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) * [1, 5, 0.1, 1, 1, 0]
    y = np.column_stack([x[:, 2], -x[:, 2]])
    theta = ridge(x.T @ x, x.T @ y, 1e-5)
    np.testing.assert_allclose(theta, np.outer([0, 0, 1, 0, 0, 0], [1, -1]), atol=1e-3)


def test_an_ensemble_teaches_with_the_mean_of_its_ranks():
    task = listed(tiny.classifier(), pairs(), pairs(6))
    alone = task.lessons("occlusion")
    both = task.lessons("ensemble:occlusion,gradient")
    assert {split: len(rows) for split, rows in both.by_split.items()} == {"train": 8, "validation": 6}
    assert alone.signed and not both.signed
    assert all(lesson.weights.min() > 0 and lesson.weights.max() <= 1 for lesson in both.by_split["train"])


def test_examples_keep_their_ids_and_other_texts_are_numbered():
    example = explearn.Example("mine", ("the", "fox"), "yes", "train", "toy")
    texts = [example, "the dog", "the sea"]
    actual = ListedTask(tiny.classifier(), texts, gold=[None, [True, False], None])
    assert [(row.id, row.label) for row in actual.examples()] == [("mine", "yes"), ("train-2", ""), ("train-3", "")]
    assert actual.gold == {"train-2": (True, False)}
    assert actual.examples("validation") == actual.examples("test") == []


def test_labels_that_are_none_of_the_classifier_s_classes():
    with pytest.raises(UnknownNameError, match="unknown class 'good'"):
        make("marker").fit(tiny.classifier(), ["fox sea"], [[True, False]], labels=["good"])
    example = explearn.Example("mine", ("fox", "sea"), "good", "train", "toy")
    expected = r"labels of marked texts: \['good'\]; classes: \['no', 'yes'\]"
    with pytest.raises(DataError, match=expected):
        make("marker").fit(tiny.classifier(), [example], [[True, False]])


def test_labels_are_an_argument_of_their_own():
    of = tiny.classifier()
    task = ListedTask(of, ["the fox", ("the dog", "a sea")], labels=["no", 1], validation=["no"])
    assert [(row.words, row.pair, row.label) for row in task.examples("train")] == [
        (("the", "fox"), (), "no"),
        (("the", "dog"), ("a", "sea"), "yes"),
    ]
    assert [row.label for row in task.examples("validation")] == [""]
    with pytest.raises(ParamsError, match="labels: got 1 for 2 texts; expected one for each"):
        ListedTask(of, ["the fox", "the dog"], labels=["no"])
    with pytest.raises(ParamsError, match="validation_labels: got 2 for 0 texts"):
        ListedTask(of, ["the fox"], validation_labels=["no", "yes"])
    with pytest.raises(DataError, match="text 2: got int; expected a text, a pair"):
        ListedTask(of, ["the fox", 3])


def test_pairs_of_a_text_and_its_label_are_asked_about():
    of = tiny.classifier()
    pairs = [("a warm funny sequel", "yes"), ("a dull film", "no")]
    calls = (
        lambda: ListedTask(of, pairs),
        lambda: ListedTask(of, ["the fox"], pairs),
        lambda: make("word_list").fit(of, pairs, [[True, False, False, False, False], [True, False, False, False]]),
        lambda: explearn.explain(of, pairs, "random"),
        lambda: explearn.compare(of, pairs, "random", out=None),
        lambda: explearn.train("reader", of, pairs),
    )
    for call in calls:
        with pytest.raises(ParamsError, match=r"names? of a class \(no, yes\); are these labels\?"):
            call()
    # One pair may be one; and others are pairs of texts.
    explearn.explain(of, pairs[:1], "random")
    explearn.explain(of, [*pairs, ("a dull film", "no refund")], "random")
