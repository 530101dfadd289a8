"""Two classifiers on the same texts: what came and went, and none of it where they are the same."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
from audit_cases import PLANTS, TEXTS, classifier, sentences
from cli_cases import run

import explearn
from explearn.auditing.diff import _changes
from explearn.auditing.tested import LEAST_EFFECT
from explearn.core.errors import ParamsError
from explearn.text.elements import Word


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


CLAIMS = 60
CHANGED_TEXTS = 40


def comparison_of_noisy_copies(draw, real=0.0):
    """What two copies of a classifier give whose answers differ by noise alone, but for the first claim's effect.

    Noise of 0.05 in each answer; the unchanged text's is the same for all claims.
    """
    effect = draw.uniform(-0.05, 0.15, (CLAIMS, 1))
    tested = []
    effects = []
    for copy in range(2):
        noise = draw.normal(0, 0.05, (CLAIMS, CHANGED_TEXTS)) + draw.normal(0, 0.05, CHANGED_TEXTS)
        values = effect + noise
        values[0] += real * (copy == 0)
        low = values.mean(axis=1) - 2 * values.std(axis=1) / CHANGED_TEXTS**0.5
        tested.append([SimpleNamespace(confirmed=bool(bound >= LEAST_EFFECT), texts=CHANGED_TEXTS) for bound in low])
        effects.append(list(values))
    claims = [(Word(f"word{number}"), 0) for number in range(CLAIMS)]
    return _changes(claims, tested, effects, ["yes"])


def test_at_most_one_comparison_in_twenty_of_noisy_copies_names_a_change(monkeypatch):
    # It takes most of the time, and has no part in what a change is.
    monkeypatch.setattr(explearn.auditing.diff, "mean_interval", lambda *arguments: (None, None))
    draw = np.random.default_rng(13)
    named = 0
    for _ in range(400):
        changes = comparison_of_noisy_copies(draw)
        assert len(changes) > 10
        named += any(change.status != "the same" for change in changes)
    assert named <= 0.05 * 400
    found = 0
    for _ in range(100):
        changes = comparison_of_noisy_copies(draw, real=0.1)
        found += any(change.element == "‘word0’" and change.status in ("came", "grew") for change in changes)
    assert found >= 95


def test_classes_in_another_order_are_the_same_classes(tmp_path):
    rule = PLANTS["word"][1]

    def reordered(texts):
        return [[0.9, 0.1] if rule(text.split()) else [0.2, 0.8] for text in texts]

    same = explearn.FunctionPredictor(reordered, ["yes", "no"], name="reordered")
    for pair in ((classifier(rule), same), (same, classifier(rule))):
        diff = explearn.diff(*pair, TEXTS, options=explearn.AuditOptions(work=tmp_path / "work"))
        assert not diff.answers
        assert {change.status for change in diff.findings} == {"the same"}
        changes = {(change.element, change.target): change for change in diff.findings}
        change = changes["‘alpha’", "yes"]
        assert (change.before, change.after) == (pytest.approx(0.7), pytest.approx(0.7))


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
    page = tmp_path / "diff.html"
    arguments = ["diff", "--classifier", folders[0], "--texts", table, "--out", page, "--fail-above", "0.1"]
    same = run(*arguments, "--against", folders[0])
    assert same.exit_code == 0 and "0 of 60 answers changed" in same.output
    other = run(*arguments, "--against", folders[1])
    assert other.exit_code == 1 and "of the answers changed, more than 0.1" in other.output
    assert (tmp_path / "diff.findings.csv").exists()
