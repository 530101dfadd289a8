"""Two classifiers on the same texts: what came and went, and none of it where they are the same."""

import random

import pytest
import tiny
from audit_cases import PLANTS, TEXTS, classifier, sentences
from cli_cases import run

import explearn
from explearn.core.errors import ParamsError


def test_differences_of_two_classifiers(tmp_path):
    texts = sentences(plants=["alpha", "beta", ""])
    old = classifier(lambda words: "alpha" in words, "old")
    new = classifier(lambda words: "beta" in words, "new")
    diff = explearn.diff(new, old, texts, out=tmp_path / "diff.html")
    statuses = {change.element: change.status for change in diff.findings if change.target == "yes"}
    assert (statuses["‘alpha’"], statuses["‘beta’"]) == ("went", "came")
    has = [("alpha" in text.split()) != ("beta" in text.split()) for text in texts]
    assert len(diff.answers) == sum(has)
    assert "What changed between two classifiers" in (tmp_path / "diff.html").read_text(encoding="utf-8")
    same = explearn.diff(old, old, texts)
    assert not same.answers and {change.status for change in same.findings} == {"the same"}
    assert "no reasons changed" in " ".join(same.sentences())


def test_a_planted_shortcut_stands_before_rarer_words_that_moved_more():
    def by_words(weights, name):
        def predict_proba(texts):
            sums = [0.3 + sum(weights.get(word, 0.0) for word in text.split()) for text in texts]
            return [[1 - p, p] for p in sums]

        return explearn.FunctionPredictor(predict_proba, ["no", "yes"], name=name)

    texts = sentences(plants=["beta shortcut", "", "beta shortcut", "", "beta rare", ""])
    old = by_words({"beta": 0.2, "rare": 0.02}, "old")
    new = by_words({"beta": 0.1, "rare": 0.35, "shortcut": 0.25}, "new")
    diff = explearn.diff(new, old, texts)
    first = diff.findings[0]
    assert (first.element, first.status, first.texts) == ("‘shortcut’", "came", 54)
    assert "‘shortcut’ for yes came (+0.00 to +0.25, in 34 % of the texts)" in diff.sentences()[1]
    statuses = [change.status for change in diff.findings]
    assert statuses == sorted(statuses, key=["came", "went", "grew", "shrank", "the same"].index)


def test_a_difference_needs_the_same_classes():
    other = explearn.FunctionPredictor(lambda texts: [[0.5, 0.5]] * len(texts), ["a", "b"])
    with pytest.raises(ParamsError, match="got the classes a, b"):
        explearn.diff(classifier(PLANTS["word"][1]), other, TEXTS)


def test_the_command_compares_and_fails_above_a_share(tmp_path):
    folders = [tiny.save(tmp_path / str(seed), seed=seed) for seed in (2, 4)]
    draw = random.Random(3)
    words = " ".join(tiny.CORPUS[:4]).split()
    table = tmp_path / "texts.txt"
    table.write_text("".join(f"{' '.join(draw.choices(words, k=6))}\n" for _ in range(60)), encoding="utf-8")
    arguments = ["diff", "--classifier", folders[0], "--texts", table, "--fail-above", "0.1"]
    same = run(*arguments, "--against", folders[0])
    assert same.exit_code == 0 and "0 of 60 answers changed" in same.output
    other = run(*arguments, "--against", folders[1], "--out", tmp_path / "diff.html")
    assert other.exit_code == 1 and "of the answers changed, more than 0.1" in other.output
    assert (tmp_path / "diff.findings.csv").exists()
