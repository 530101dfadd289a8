"""Sheets that ask people to predict the model, and what comes back."""

from unittest.mock import patch

import pytest
from project_cases import example, make_explained
from sheet_cases import rows, write

from explearn.core.documents import read_json
from explearn_study.annotate import command
from explearn_study.annotate.people.simulation import Guess, simulation_figures

WORDS = ("one two three four five six", "six five four three two one")
TEXTS = [example(n, f"{WORDS[n % 2]} {n}", ("negative", "positive")[n % 2], "test") for n in range(8)]


GIVEN = ("negative", "positive", "positive", "positive", "negative", "negative", "negative", "positive")
"""The model's answers, wrong on f-2 and f-5."""


@pytest.fixture
def predicted(tmp_path):
    return make_explained(tmp_path, TEXTS, GIVEN)


def sheets(project):
    project.succeed("simulate", "--method", "random", "--out", project.root / "p.csv")
    return sorted(project.root.glob("p-*.csv"))


def answer(path, person, answers):
    return write(path, [{**row, "annotator": person, "verdict": answers.get(row["id"], "")} for row in rows(path)])


def explained(path):
    return {row["id"] for row in rows(path) if "1" in row["shown"].split()}


def test_half_of_a_persons_texts_have_explanations_and_the_other_half_the_next_persons(predicted):
    one, two = sheets(predicted)
    everything = {text.id for text in TEXTS}
    assert all({row["id"] for row in rows(path)} == everything for path in (one, two))
    assert len(explained(one)) == 4 and explained(two) == everything - explained(one)
    assert [row["id"] for row in rows(two)] != [row["id"] for row in rows(one)]
    # Of 7 words 20 % is 1: the last one, whose score is highest.
    assert {row["shown"] for row in rows(one)} == {"0 0 0 0 0 0 1", "0 0 0 0 0 0 0"}


def test_a_few_texts_are_of_all_kinds_and_no_sheet_tells_a_label(predicted):
    """Of the four pairs of true and predicted class, two have one text each."""
    with patch.object(command, "TEXTS_A_SHEET", 4):
        path, _ = sheets(predicted)
    assert {"f-2", "f-5"} < {row["id"] for row in rows(path)} and {row["label"] for row in rows(path)} == {""}
    predicted.succeed("simulate", "--method", "random", "--out", predicted.root / "p.html")
    page = (predicted.root / "p-1.html").read_text(encoding="utf-8")
    assert page.count('data-label=""') == 8 and page.count('value="negative"') == page.count('value="positive"') == 8
    assert page.count('<button type="button" disabled') == 8 * 7


def test_accuracies_are_compared_over_texts_seen_both_ways(predicted):
    """Both people are right with explanations and wrong without: of 2^8 signs two are as extreme."""
    other = {"negative": "positive", "positive": "negative"}
    filled = []
    for path, name in zip(sheets(predicted), ("ana", "ben"), strict=True):
        answers = {f"f-{n}": other[label] for n, label in enumerate(GIVEN)}
        answers |= {text: other[answers[text]] for text in explained(path)}
        filled.append(answer(path, name, answers))
    printed = predicted.succeed("simulated", *filled, "--method", "random")
    assert "difference +1.000, p = 0.00781 (paired permutations)" in printed
    figures = read_json(predicted.root / "reports" / "annotation" / "films-random.json")
    assert figures["all"] == {"with": 1.0, "without": 0.0, "texts_with": 8, "texts_without": 8}
    assert figures["people"]["ana"]["texts_with"] == 4 and figures["texts_both_ways"] == 8


def test_one_persons_answers_are_permuted_over_the_two_ways():
    """Three right with, three wrong without: of C(6, 3) = 20 ways to part them two are as extreme."""
    figures = simulation_figures([Guess(f"t{n}", "ana", n < 3, n < 3) for n in range(6)], 13)
    assert figures["test"] == "independent" and figures["p_value"] == pytest.approx(0.1)
    alone = simulation_figures([Guess("t", "ana", True, True)], 13)
    assert alone["p_value"] is None and alone["all"]["without"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "neutral"}, "'neutral'; expected negative, positive, or nothing"),
        ({"sheet": "mark"}, "expected predict"),
        ({"id": "f-99"}, "the id of a text that this method explains"),
        ({"verdict": "positive"}, "expected a name"),
    ],
)
def test_what_is_no_answer_is_refused(predicted, change, said):
    path, _ = sheets(predicted)
    answer(path, "", {})
    lines = rows(path)
    lines[0] |= change
    write(path, lines)
    assert said in predicted.complaint("simulated", path, "--method", "random")


def test_sheets_without_an_answer_are_refused(predicted):
    assert "the sheets have no answers" in predicted.complaint("simulated", *sheets(predicted), "--method", "random")
    assert "unknown method" in predicted.complaint("simulate", "--method", "randm", "--out", "p.csv")
