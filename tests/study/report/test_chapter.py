"""The chapter on the explainer under study."""

import pytest
from evaluations import metrics, paired, run, shown, task, text
from parameter_cases import params_of

from explearn.report.figures.style import svg
from explearn.show.blocks import ExampleText, Paragraph, Picture, Table, walk
from explearn_study.report.chapter import chapter_blocks

VALUES = {"marker": 0.5, "marker_in_domain": 0.7, "gae": 0.6, "lime": 0.1, "random": 0.2}
METHODS = {
    "marker": {"options": {"hidden": 8}},
    "marker_in_domain": {},
    "gae": {},
    "lime": {},
    "random": {},
    "ivra": {},
}
LEARNED = {"from_features": ["marker", "marker_in_domain"], "from_texts": ["ivra"]}
EPOCHS = [
    {"epoch": 0, "loss": None, "best": False, "criteria": {"comp": 0.1}},
    {"epoch": 1, "loss": 0.5, "best": True, "criteria": {"comp": 0.3}},
]


@pytest.fixture
def chapter():
    def of(explainer="marker", own=(), name="films"):
        tests = paired("f1_topk", VALUES, {("marker", "gae"): 0.03})
        notes = {method: {"epochs": EPOCHS, "best_epoch": 1} for method in ("marker", "ivra")}
        figures = {method: metrics(value, training_seconds=7.0) for method, value in VALUES.items()}
        of = task(
            name,
            {**figures, "ivra": metrics()},
            comparisons={"f1_topk": tests},
            notes=notes,
            **shown(text(methods=(*VALUES, "ivra"))),
        )
        return chapter_blocks(
            params_of(methods=METHODS, learned=LEARNED, explainer=explainer), run(of, study=explainer), own
        )

    return of


def tables(blocks):
    return [block for block in walk(blocks) if isinstance(block, Table)]


def rows(table):
    found = {}
    for name, what, *cells in table.rows:
        found[name] = (what, *((cell.text, cell.mark, cell.note) for cell in cells[:1]))
    return found


def test_it_stands_beside_the_best_baselines_with_paired_tests(chapter):
    table, *_ = tables(chapter())
    assert rows(table) == {
        "marker": ("under study", ("0.500", "", "")),
        # Significantly better; random scores are not told apart.
        "gae": ("best baseline, F1 top-K", ("0.600", "best", "p = 0.03")),
        "random": ("random scores", ("0.200", "tied", "p = 1")),
    }


def test_variants_are_told_apart_by_the_options_in_which_they_differ(chapter):
    variants = tables(chapter())[1]
    assert rows(variants)["marker_in_domain"][0] == "protocol in_domain, hidden 32"


def test_the_course_of_training_is_drawn_and_its_budget_listed(chapter):
    blocks = chapter()
    (picture,) = (block for block in walk(blocks) if isinstance(block, Picture))
    drawn = svg(picture)
    assert "criteria.comp" in drawn and "loss" in drawn and "films" in drawn
    training = next(table for table in tables(blocks) if table.columns[0].title == "Task")
    assert training.rows == [["films", "1,200, 90", "1 of 1", "–", "7"]] and training.columns[-1].machine


def test_options_that_differ_from_their_defaults_stand_out(chapter):
    options = {row[0]: row[1:] for row in tables(chapter())[-1].rows}
    assert options["hidden"] == ["\x028\x03", "32"] and options["protocol"] == ["universal", "universal"]


def test_texts_have_a_row_for_each_method_that_is_compared(chapter):
    (example,) = (block for block in walk(chapter()) if isinstance(block, ExampleText))
    assert [row.name for row in example.rows] == ["marked", "marker", "gae"]


def test_what_explains_a_classifier_of_its_own_is_compared_on_that(chapter):
    own = task("films", {"ivra": metrics(0.3), "lime": metrics(0.8)})
    blocks = chapter("ivra", [own])
    assert list(rows(tables(blocks)[0])) == ["ivra †", "lime"]
    said = " ".join(block.text for block in blocks if isinstance(block, Paragraph))
    assert "explains only that" in said and "which this run does not have" in said
    assert "All rows explain the classifiers that ivra trained." in said


def test_a_run_without_an_explainer_under_study_has_no_chapter(chapter):
    assert chapter(None) == []
