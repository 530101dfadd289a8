"""Every learned explainer learns from lists of texts by one `fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny

import explearn
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError
from explearn.methods.aml.paml import PAML
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.chance.word_list import WordList
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.expnet.paper import ExpNetPaper
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.l2e.explainer import L2E
from explearn.methods.listed_task import ListedTask

QUICK = {"epochs": 1, "batch_size": 4, "validation_texts": 4}
METHODS: dict[str, LearnedExplainer] = {
    "expnet": ExpNet(epochs=2, protocol="in_domain"),
    "expnet_paper": ExpNetPaper(epochs=2, protocol="in_domain"),
    "l2e": L2E(samples=4, width=16, epochs=2),
    "ivra": IvRA(criteria=["comp"], schedule=QUICK),
    "smat": SMaT(criteria=["cons"], schedule=QUICK),
    "paml": PAML(epochs=1, batch_size=4),
    "word_list": WordList(),
}


def task(texts: int = 8, **options: Any) -> ListedTask:
    """Texts with the labels that the classifier gives them, the first word of each being evidence."""
    of = tiny.classifier("bert")
    words = ["fox", "dog", "sea", "castle", "tide", "morning"]
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(texts):
        text = " ".join(rng.choice(words, size=5))
        pairs.append((text, of.predict([text])[0]))
    gold = {f"train-{number}": (True, *[False] * 4) for number in range(1, texts + 1)}
    return ListedTask(of, pairs, pairs[:6], gold=gold, **options)


@pytest.mark.parametrize("name", METHODS)
def test_each_method_learns_from_texts_and_is_kept(name: str, tmp_path: Path) -> None:
    explainer = METHODS[name]
    assert explainer.fit(task()) is explainer
    of = getattr(explainer, "classifier", None) if name in ("ivra", "smat") else tiny.classifier("bert")
    assert isinstance(of, explearn.TransformerPredictor)
    explainer.save_pretrained(tmp_path / name)
    again = type(explainer).from_pretrained(tmp_path / name)
    assert again.options.model_dump() == explainer.options.model_dump()
    for a, b in zip(explainer.explain(of, tiny.TEXTS), again.explain(of, tiny.TEXTS), strict=True):
        np.testing.assert_array_equal(a.scores, b.scores)


@pytest.mark.parametrize(
    ("method", "protocol"), [(ExpNet, "universal"), (ExpNet, "few_shot"), (ExpNetPaper, "leave_one_task_out")]
)
def test_expnet_learns_from_other_tasks(method: Any, protocol: str) -> None:
    one, other = task(name="one"), task(12, name="other")
    few = {"marks": 2} if protocol == "few_shot" else {}
    own = ["texts"] if few else []
    actual = method(epochs=1, protocol=protocol, **few).fit(task(others=[one, other]))
    assert actual.trained_on == ["one", "other", *own]
    if method is ExpNetPaper:
        with pytest.raises(ParamsError, match=f"{protocol} needs another task than 'alone'"):
            method(protocol=protocol, **few).fit(task(name="alone"))


def test_what_was_trained_need_not_be_true_of_itself() -> None:
    assert WordList()._trained({}) == {}
    with pytest.raises(ModelError, match="this word_list is not trained"):
        WordList()._trained(None)


def test_a_word_list_scores_words_by_how_often_they_were_marked() -> None:
    """12 words, 3 of them marked: r = 1/4. "fox" comes 3 times, 2 of them marked: (2 + r) / 4; "sea" never was."""
    of = tiny.classifier("bert")
    train = [("Fox, the dog", "no"), ("fox a lazy dog", "no"), ("the fox sleeps a dog", "no"), ("the tide", "no")]
    gold = {"train-1": [True, False, False], "train-2": [True, False, False, True], "train-3": [False] * 5}
    (row,) = WordList().fit(ListedTask(of, train, gold=gold)).explain(of, ["sea FOX a dog!"])
    np.testing.assert_allclose(row.scores, [1 / 4, 2.25 / 4, 0.25 / 3, 1.25 / 4], rtol=1e-6)
    with pytest.raises(DataError, match="of 0 words of marked texts 0% are marked"):
        WordList().fit(ListedTask(of, train))


def test_an_ensemble_teaches_with_the_mean_of_its_ranks() -> None:
    of_task = task(teachers={"occlusion": {"removal": "mask"}})
    alone, both = of_task.lessons("occlusion"), of_task.lessons("ensemble:occlusion,gradient")
    assert {split: len(rows) for split, rows in both.by_split.items()} == {"train": 8, "validation": 6}
    assert alone.signed and not both.signed
    assert all(lesson.weights.min() > 0 and lesson.weights.max() <= 1 for lesson in both.by_split["train"])


def test_examples_keep_their_ids_and_pairs_are_numbered() -> None:
    example = explearn.Example("mine", ("the", "fox"), "yes", "train", "toy")
    actual = ListedTask(tiny.classifier("bert"), [example, ("the dog", "no")])
    assert [row.id for row in actual.examples()] == ["mine", "train-2"]
    assert actual.examples("validation") == actual.examples("test") == []
    with pytest.raises(UnknownNameError, match="dev"):
        actual.examples("dev")


def test_labels_that_are_none_of_the_classifier_s_classes() -> None:
    marked = ListedTask(tiny.classifier("bert"), [("fox sea", "good")], gold={"train-1": (True, False)})
    said = r"the marked texts' labels \('good'\) are none of the classifier's classes \('no', 'yes'\)"
    with pytest.raises(DataError, match=said):
        METHODS["expnet"].fit(marked)
