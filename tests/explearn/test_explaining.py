"""`explearn.explain`: what people have at hand, in one call."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import transformers
from explearn.predictors.pretrained import load_classifier

import explearn
from explearn.comparison.texts import TextColumns, given_texts
from explearn.core.errors import DataError, ParamsError
from explearn.methods.explaining import AT_ONCE, best_at_once

TEXT = "the quick brown fox"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("model"), "bert", 2)


def loaded(folder: Path) -> tuple[Any, Any]:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def test_without_a_method_the_most_faithful_that_works_at_once_explains() -> None:
    assert best_at_once(tiny.classifier("bert")).name == AT_ONCE[0] == "attn_lrp"
    function = explearn.FunctionPredictor(lambda texts: [[0.3, 0.7]] * len(texts), ["no", "yes"])
    assert best_at_once(function).name == "lime"


@pytest.mark.parametrize("given", ["folder", "pipeline", "pair", "classifier"])
def test_any_form_of_a_model_gets_the_same_explanation(folder: Path, given: str) -> None:
    forms: dict[str, Any] = {
        "folder": lambda: folder,
        "pipeline": lambda: transformers.pipeline("text-classification", str(folder), device="cpu"),
        "pair": lambda: loaded(folder),
        "classifier": lambda: load_classifier(folder, device="cpu"),
    }
    (expected,) = explearn.get_explainer("gae").explain(load_classifier(folder, device="cpu"), [TEXT])
    (attribution,) = explearn.explain(forms[given](), TEXT, "gae")
    np.testing.assert_allclose(attribution.scores, expected.scores, rtol=1e-4)


def test_the_newest_checkpoint_of_a_trainer_is_taken_and_said(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (9, 100):
        shutil.copytree(folder, tmp_path / f"checkpoint-{step}")
    classifier = load_classifier(tmp_path, device="cpu")
    assert classifier.fingerprint == load_classifier(folder, device="cpu").fingerprint
    assert "newest checkpoint is taken, checkpoint-100" in caplog.text


def test_probabilities_of_plain_texts() -> None:
    classifier = tiny.classifier("bert")
    np.testing.assert_array_equal(classifier.predict_proba([TEXT]), classifier.predict_proba(classifier.encode([TEXT])))
    with pytest.raises(ParamsError, match="one string"):
        classifier.predict_proba(TEXT)


def test_whatever_holds_texts_is_read_alike() -> None:
    pd = pytest.importorskip("pandas")
    datasets = pytest.importorskip("datasets")
    classifier = tiny.classifier("bert")
    rows = [{"text": TEXT, "label": "x"}]
    for texts in (iter([TEXT]), rows, iter(rows), pd.DataFrame(rows), datasets.Dataset.from_list(rows)):
        words = TEXT.split()
        assert [list(one.words) for one in explearn.explain(classifier, texts, "random")] == [words]
    np.testing.assert_array_equal(classifier.predict_proba(rows), classifier.predict_proba([TEXT]))
    assert classifier.predict(pd.DataFrame(rows)) == classifier.predict([TEXT])
    for refuses in (classifier.predict_proba, lambda texts: explearn.explain(classifier, texts)):
        with pytest.raises(DataError, match=r"text 1: got the columns body; expected a column 'text', or the texts"):
            refuses([{"body": TEXT}])


def test_a_tuple_of_two_strings_is_a_pair_wherever_it_stands() -> None:
    classifier = tiny.classifier("bert")
    pair = ("the quick", "brown fox")
    (alone,), (listed,) = explearn.explain(classifier, pair, "gae"), explearn.explain(classifier, [pair], "gae")
    assert alone.pair_start == listed.pair_start == 2 and list(alone.scores) == list(listed.scores)
    assert len(explearn.explain(classifier, (pair, pair), "gae")) == 2
    gae = explearn.get_explainer("gae")
    for takes_lists in (
        classifier.predict_proba,
        classifier.predict,
        lambda texts: list(gae.explain(classifier, texts)),
    ):
        with pytest.raises(ParamsError, match=r"which is a pair; expected \[\(a, b\)\], or \[a, b\] for two texts"):
            takes_lists(pair)


def test_of_no_text_there_is_no_attribution() -> None:
    together = explearn.explain(tiny.classifier("bert"), [])
    assert len(together) == 0 and repr(together) == "SideBySide(0 texts by no method)"


def test_several_methods_at_once_are_one_sentence() -> None:
    with pytest.raises(ParamsError, match=r"method: got list; expected one name or explainer"):
        explearn.explain(tiny.classifier("bert"), TEXT, ["gae", "lime"])  # type: ignore[arg-type]


def test_the_attributions_are_a_sequence_that_shows_itself() -> None:
    together = explearn.explain(tiny.classifier("bert"), [TEXT, "she sells shells"])
    assert len(together) == 2 and together[1].words == ("she", "sells", "shells")
    assert repr(together) == "SideBySide(2 texts by attn_lrp)"
    pytest.importorskip("pandas")
    assert list(together.to_pandas()["word"]) == [*TEXT.split(), "she", "sells", "shells"]


def test_tables_in_memory_are_read_as_files_are() -> None:
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
    with pytest.raises(DataError, match="got the columns body; expected a column 'text'"):
        given_texts([{"body": "a"}])
