"""Classifiers in the user's own code, by `module:name` and `file.py:name`."""

import sys

import pytest

from explearn import ModelError, ParamsError
from explearn.predictors.pretrained import NamedClassifier, load_classifier

CODE = """
import explearn
from {beside} import WORD

def odds(texts):
    return [[0.2, 0.8] if WORD in text else [0.7, 0.3] for text in texts]

class Models:
    named = explearn.FunctionPredictor(odds, ["no", "yes"], version="1")

number = 3
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a module and one beside it, which no other test has imported."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    name = f"words_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text("WORD = 'good'")
    (tmp_path / "mine.py").write_text(CODE.format(beside=name))
    (tmp_path / "broken.py").write_text("1 / 0")
    return tmp_path


def load(name, **options):
    return NamedClassifier(str(name), **options).load(None)


def test_a_file_finds_what_is_beside_it_and_a_module_is_looked_for_here(place, monkeypatch):
    made = load(f"{place}/mine.py:odds", class_names={"1": "yes"})
    assert made.predict(["a good film", "a film"]) == ["yes", "0"] and made.name == f"{place}/mine.py:odds"
    monkeypatch.chdir(place)
    assert load("mine:Models.named").labels == ["no", "yes"]
    assert load("mine:odds").fingerprint == load("mine.py:odds").fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        ("mine.py", ParamsError, r"mine\.py; expected a name in it, too"),
        ("none.py:odds", ModelError, r"none\.py: no such file"),
        ("mine.py:nothing", ModelError, r"mine\.py has no nothing"),
        ("broken.py:odds", ModelError, r"broken\.py failed \(ZeroDivisionError"),
        ("mine.py:number", ParamsError, "classifier: got int; expected"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(place, name, error, sentence):
    with pytest.raises(error, match=sentence):
        load(place / name)


def test_nothing_but_a_named_classifier_runs_code(place):
    (place / "mine.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(ModelError):
        load_classifier(f"{place}/mine.py:odds")
