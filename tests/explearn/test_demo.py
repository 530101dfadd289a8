"""The demo: a classifier made on the spot, and a text of one's own explained by it."""

import subprocess
import sys

import pytest
from cli_cases import complaint, run

import explearn
from explearn import ComputeOptions
from explearn.cli.demo import classifier
from explearn.cli.demo.classifier import demo_classifier, headlines
from explearn.methods.defaults import defaults

OWN = "The <b>goalkeeper</b> saved two penalties."


@pytest.fixture(scope="module")
def trained():
    """A demo classifier that has seen eight headlines."""
    few = (["Shares fell", "The final was lost", "A new comet", "Borders were closed"] * 2, ["a", "b", "c", "d"] * 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifier, "headlines", lambda _split: few)
        return demo_classifier(ComputeOptions("cpu"), 13)


def test_the_headlines_are_those_of_the_corpus(repository):
    done = subprocess.run([sys.executable, repository / "scripts/make_demo.py", "--check"], check=False)
    assert done.returncode == 0


@pytest.mark.slow
def test_it_learns_its_topics_for_reasons_that_a_reader_shares(monkeypatch):
    """From a third of its headlines in two of its three epochs already."""
    (texts, labels), (held_out, truth) = headlines("train"), headlines("test")
    third = texts[:160], labels[:160]
    with monkeypatch.context() as patch:
        patch.setattr(classifier, "headlines", lambda _split: third)
        patch.setattr(classifier, "_EPOCHS", 2)
        trained = demo_classifier(ComputeOptions("cpu"), 13)
    right = [a == b for a, b in zip(trained.predict(held_out), truth, strict=True)]
    # Four topics as frequent as each other: guessing is right on 25 of 100.
    assert len(right) == 100 and sum(right) > 84
    assert not set(held_out) & set(texts)
    assert not any(parameter.requires_grad for parameter in trained.model.parameters())
    text = "The young goalkeeper saved two penalties and sent her club to the final."
    attribution = explearn.explain(trained, text)
    assert attribution.target == "sports"
    ((best, *_),) = attribution.top_words(1)
    assert best.strip(".") in ("goalkeeper", "penalties", "final", "club")


def test_a_text_of_one_s_own_is_explained_by_all_methods(tmp_path, trained, monkeypatch):
    monkeypatch.setattr("explearn.cli.demo.classifier.demo_classifier", lambda *_: trained)
    page = tmp_path / "demo.html"
    result = run("demo", OWN, "--out", page, "--save", tmp_path / "saved")
    assert result.exit_code == 0 and result.stdout.splitlines()[-1] == str(page)
    read = page.read_text(encoding="utf-8")
    assert "&lt;b&gt;goalkeeper&lt;/b&gt;" in read and "<b>goalkeeper" not in read
    for name in (default.method for default in defaults("demo")):
        assert name in result.stdout and name.replace("_", "_<wbr>") in read
    again = explearn.load_classifier(tmp_path / "saved", device="cpu")
    assert again.predict([OWN]) == trained.predict([OWN])


def test_a_folder_that_is_there_is_not_replaced(tmp_path, trained, monkeypatch):
    monkeypatch.setattr("explearn.cli.demo.classifier.demo_classifier", lambda *_: trained)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    said = complaint(run("demo", OWN, "--out", tmp_path / "demo.html", "--save", tmp_path / "mine"))
    assert "mine: holds 'thesis.txt', which is not" in said
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
