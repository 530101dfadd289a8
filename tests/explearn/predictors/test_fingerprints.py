"""The state of an estimator as a hash: of values alone."""

import copy
import pickle
import re
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

from explearn.predictors.fingerprints import NoValue, is_estimator, state_digest

TEXTS = ["good film", "fine good film", "a good day", "bad film", "bad bad film", "a bad day"]
LABELS = ["pos", "pos", "pos", "neg", "neg", "neg"]


def dense(matrix):
    return matrix.toarray()


def of(*steps):
    return make_pipeline(*steps).fit(TEXTS, LABELS)


def models(c=10.0):
    logistic = partial(LogisticRegression, C=c)
    yield of(TfidfVectorizer(stop_words=["a"]), logistic())
    yield of(make_union(TfidfVectorizer(), CountVectorizer(analyzer="char")), logistic())
    yield of(TfidfVectorizer(), VotingClassifier([("one", logistic()), ("two", MultinomialNB())], voting="soft"))
    yield GridSearchCV(of(TfidfVectorizer(), logistic()), {"logisticregression__C": [c]}, cv=2).fit(TEXTS, LABELS)
    yield of(TfidfVectorizer(), RandomForestClassifier(5, random_state=int(c)))
    yield of(
        TfidfVectorizer(),
        FunctionTransformer(dense),
        HistGradientBoostingClassifier(max_iter=2, l2_regularization=c, random_state=1),
    )


def test_it_stays_after_predictions_saving_and_training_anew():
    before = [state_digest(model) for model in models()]
    again = list(models())
    for model in again:
        model.predict_proba(TEXTS)
    assert [state_digest(model) for model in again] == before
    assert [state_digest(copy.deepcopy(model)) for model in again] == before


def test_it_is_the_same_in_another_process(run_python, tmp_path, monkeypatch):
    model = next(models())
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    run_python(f"""
import pathlib, pickle
from explearn.predictors.fingerprints import state_digest
model = pickle.loads(pathlib.Path({str(tmp_path / "model")!r}).read_bytes())
assert state_digest(model) == {state_digest(model)!r}
""")


def test_other_parameters_and_arrays_are_another():
    for one, other in zip(models(), models(0.01), strict=True):
        assert state_digest(one) != state_digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], [True]),
        (["ab", "c"], ["a", "bc"]),
        ({"a": 1}, {"a": 2}),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.float64(1), np.float64(2)),
        (re.compile("a"), re.compile("b")),
        (len, abs),
        (np.array(["a", None], object), np.array(["b", None], object)),
    ],
    ids=str,
)
def test_values_are_told_apart(one, other):
    assert state_digest(one) != state_digest(other)


def test_order_and_padding_do_not_count():
    assert state_digest({"a": 1, "b": {2, 3}}) == state_digest({"b": {3, 2}, "a": 1})
    padded = np.dtype({"names": ["a", "b"], "formats": ["i1", "i8"], "offsets": [0, 8]})
    clean, dirty = np.zeros(2, padded), np.full(2 * 16, 255, np.uint8).view(padded)
    dirty["a"] = dirty["b"] = 0
    assert state_digest(clean) == state_digest(dirty)


def test_what_is_no_value_is_refused():
    holds_itself: list = []
    holds_itself.append(holds_itself)
    for thing in (lambda text: text, holds_itself, open(__file__)):  # noqa: SIM115, PTH123
        with pytest.raises(NoValue):
            state_digest([thing])
    assert is_estimator(MultinomialNB()) and not is_estimator(len) and not is_estimator(None)
