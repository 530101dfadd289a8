"""The report from hand-written results: what it says follows from the numbers, and nothing in the data can break it."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from importlib import metadata

import numpy as np
import pytest
import yaml
from markdown_it import MarkdownIt
from task_reports import check, comparison, metrics, task

from explearn.core.errors import DataError
from explearn.core.records import Attribution, Example
from explearn.methods.registry import leaderboard_order
from explearn.show.caveats import chance_warning
from explearn.show.columns import COST_COLUMNS, FAITHFULNESS_COLUMNS, PLAUSIBILITY_COLUMNS, leaderboard
from explearn.show.figures.interval_plots import F1_PLOT, write_plot
from explearn.show.report_markdown import fenced, render_report
from explearn.show.task_report import choose_examples, example_reports
from explearn.show.verdict import headline_sentences, time_sentences
from explearn.show.versions import versions
from explearn_study.evaluate import write_plot_data
from explearn_study.params import Params
from explearn_study.report.files import write_report

SOURCE = {"kind": "embedded", "adapter": "corpus"}


def params(*tasks: str) -> Params:
    # ExpNet leaves one task out, so there must be another.
    names = [*(tasks or ("films",)), "another"]
    return Params.of(
        {
            "profile": "test",
            "tasks": names,
            "sources": dict.fromkeys(names, SOURCE),
            "baselines": {"quick": {"random": {}, "rollout": {}}},
        }
    )


def example(i: str, words: str, label: str = "good") -> Example:
    return Example(id=i, words=tuple(words.split()), label=label, split="test", task="films")


def attributed(e: Example, scores, method: str) -> Attribution:
    return Attribution(
        words=e.all_words,
        scores=np.asarray(scores, dtype=np.float32),
        tokens=e.all_words,
        token_scores=np.asarray(scores, dtype=np.float32),
        target="good",
        method=method,
        probability=0.875,
        predicted="good",
        aggregation="max",
        signed=False,
        example_id=e.id,
    )


def test_leaderboard_goes_by_family():
    assert leaderboard_order(["input_x_gradient", "rollout", "random", "raw_attention", "expnet"]) == [
        "expnet",
        "random",
        "rollout",
        "raw_attention",
        "input_x_gradient",
    ]


def test_best_is_bold_in_its_direction_and_ties_are_all_bold():
    rows = {
        "expnet": metrics(0.4001, 0.3, 0.5, sufficiency=-0.2, log_odds=-1.0, comprehensiveness=0.1),
        "rollout": metrics(0.3999, sufficiency=0.3, log_odds=-2.0, comprehensiveness=None),
        "random": metrics(0.1, sufficiency=0.1, log_odds=0.5, comprehensiveness=-0.0001),
    }
    columns = [*PLAUSIBILITY_COLUMNS[:1], *FAITHFULNESS_COLUMNS[:3]]
    cells = {row.method: [cell.markdown(True) for cell in row.cells] for row in leaderboard(rows, columns)}
    assert cells["expnet"] == ["**0.400** (0.30–0.50)", "**0.100**", "**-0.200**", "-1.000"]
    assert cells["rollout"] == ["**0.400**", "–", "0.300", "**-2.000**"]
    assert cells["random"] == ["0.100", "0.000", "0.100", "0.500"]
    assert [row.family for row in leaderboard(rows, columns)] == ["learned", "chance", "attention"]


def test_where_methods_were_compared_the_tests_say_who_is_best_and_who_ties():
    figures = {"expnet": 0.4001, "rollout": 0.3999, "random": 0.1}
    found = comparison("f1", figures, {("expnet", "random"): 0.01})
    rows = leaderboard({m: metrics(f1) for m, f1 in figures.items()}, PLAUSIBILITY_COLUMNS[:1], {"f1": found})
    assert {row.method: row.cells[0].markdown(True) for row in rows} == {
        "expnet": "**0.400**",
        "rollout": "<u>0.400</u>",
        "random": "0.100",
    }


def test_counted_passes_that_are_not_all_the_work_say_so_and_are_never_best():
    rows = {
        "full_lrp": metrics(forward_passes=1.0, backward_passes=0.0),
        "gae": metrics(forward_passes=2.0, backward_passes=1.0),
    }
    cells = {row.method: [cell.markdown(False) for cell in row.cells[2:4]] for row in leaderboard(rows, COST_COLUMNS)}
    assert cells == {"full_lrp": ["1.0+", "0.0+"], "gae": ["**2.0**", "**1.0**"]}


def test_costs_within_the_clock_s_noise_are_all_best_and_nothing_beats_classifying_alone():
    speeds = {"expnet": 1.08, "raw_attention": 0.93, "rollout": 0.88, "lime": 0.031}
    rows = {
        method: metrics(relative_throughput=speed, throughput=100 * speed, peak_memory_mb=500 / speed)
        for method, speed in speeds.items()
    }
    cells = {row.method: [row.cells[i].markdown(False) for i in (0, 1, 4)] for row in leaderboard(rows, COST_COLUMNS)}
    assert cells == {
        "expnet": ["**108.0**", "**1.00×**", "**463**"],
        "raw_attention": ["93.0", "**0.93×**", "538"],
        "rollout": ["88.0", "0.88×", "568"],
        "lime": ["3.1", "0.03×", "16,129"],
    }
    (said,) = time_sentences(params(), [task(methods=rows)])
    assert said == "Classifying and explaining with expnet takes 1.0× as long as classifying alone."


def test_a_column_without_values_has_no_best():
    (row,) = leaderboard({"expnet": metrics(None)}, PLAUSIBILITY_COLUMNS[:1])
    assert (row.cells[0].text, row.cells[0].best) == ("–", False)


def test_headline_says_who_is_ahead():
    ahead = " ".join(headline_sentences(params(), [task()]))
    assert "F1 of **0.500** (mean over 1 task)" in ahead
    assert "rollout, reaches 0.250: **expnet** is 0.250 above it" in ahead
    assert "No baseline is ahead of **expnet** on any task." in ahead
    behind = " ".join(headline_sentences(params(), [task(methods={"expnet": metrics(0.2), "rollout": metrics(0.3)})]))
    assert "0.100 below it" in behind and "is ahead of **expnet** on 1 of 1 task." in behind
    level = " ".join(headline_sentences(params(), [task(methods={"expnet": metrics(0.3), "rollout": metrics(0.3)})]))
    assert "level with it" in level


def test_headline_without_marked_texts_claims_nothing():
    (sentence,) = headline_sentences(params(), [task(methods={"expnet": metrics(None)})])
    assert "No text of these tasks has marked words" in sentence


@pytest.mark.parametrize(("accuracy", "warned"), [(0.59, True), (0.7, False), (0.4, True), (None, False)])
def test_warning_below_the_margin_over_the_majority(accuracy, warned):
    found = chance_warning({"test": {"accuracy": accuracy, "majority_rate": 0.5}}, 0.1)
    assert (found is not None) == warned


def test_warning_is_a_block_in_the_report():
    weak = task(classifier={"test": {"accuracy": 0.55, "majority_rate": 0.5}})
    text = render_report(params(), [weak])
    assert "> [!WARNING]\n> The classifier's test accuracy is 0.550" in text
    assert "**No evidence about the methods:**" in text and "films (accuracy 0.550" in text
    assert "[!WARNING]" not in render_report(params(), [task()])


def tables(text: str) -> list[list[list[str]]]:
    """Cells of every table, as a renderer sees them."""
    found: list[list[list[str]]] = []
    inside = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("table_open", "table_close"):
            inside = token.type == "table_open"
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and inside:
            found[-1][-1].append(token.content)
    return found


FILM = example("films-1", "not a <b>good</b> film_")


def shown(methods=("expnet", "rollout")):
    scores = {"expnet": [0.9, 0.1, 0.8, 0.2], "rollout": [0.1, 0.2, 0.3, 0.4]}
    return example_reports(
        [FILM],
        {"films-1": [1, 0, 1, 0]},
        {"films-1": ("author", "llm")},
        {m: {"films-1": attributed(FILM, scores[m], m)} for m in methods},
        k=2,
        thresholds={"expnet": 0.5},
        positive_rate=0.2,
    )


def whole_task(**changes):
    figures = {"expnet": 0.5, "rollout": 0.25}
    return task(
        examples=shown(),
        comparisons={"f1": comparison("f1", figures, {("expnet", "rollout"): 0.01})},
        method_agreement={"rank_agreement": np.array([[1.0, 0.256], [0.256, 1.0]])},
        sanity={"texts": 4, "methods": {"expnet": check(), "rollout": check(0.9)}},
        **changes,
    )


def test_report_has_every_part_in_whole_tables():
    text = render_report(params(), [whole_task()])
    for heading in (
        "## Who wins on what",
        "## What not to trust",
        "## All tasks at a glance",
        "## What this is",
        "## Methods",
        "## Task: films",
        "### Data and annotators",
        "### Leaderboard",
        "### Which differences are significant",
        "### Sanity checks",
        "### Is a shortened text still a text",
        "### Example texts",
        "## Param",
    ):
        assert f"\n{heading}" in text
    for table in tables(text):
        assert len(table) > 1 and len({len(row) for row in table}) == 1
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "<p>|" not in rendered and "<b>" not in rendered
    assert rendered.count("<img") == 3
    for fact in ("bad, good", "train 1,200", "author 1,234", "over 4 texts", "0.750", "2.50", "0.900", "0.700"):
        assert fact in text


def test_example_rows_show_marked_and_chosen_words():
    text = render_report(params(), [task(examples=shown())])
    table = next(t for t in tables(text) if t[0] == ["By", "Hits", "Words"])
    good, film = "&lt;b&gt;good&lt;/b&gt;", "film&#95;"
    assert table[1] == ["*Marked* (author, llm)", "2 marked", f"**not** a **{good}** {film}"]
    assert table[2] == ["expnet", "2 of 2", f"**not** a **{good}** {film}"]
    assert table[3] == ["rollout", "1 of 2", f"not a **{good} {film}**"]
    assert "**films-1** · true label good · predicted good (p = 0.88)" in text


def test_a_row_that_explains_another_answer_names_it():
    """IvRA explains its own classifier, whatever comes first; the text's head is of the task's."""
    own = replace(attributed(FILM, [0.9, 0.1, 0.8, 0.2], "ivra"), predicted="b|d", target="b|d", probability=0.5)
    of_task = attributed(FILM, [0.1, 0.2, 0.3, 0.4], "rollout")
    marks = {"k": 2, "thresholds": {}, "positive_rate": 0.2}
    reports = example_reports([FILM], {}, {}, {"ivra": {FILM.id: own}, "rollout": {FILM.id: of_task}}, **marks)
    text = render_report(params(), [task(examples=reports)])
    names = [row[0] for t in tables(text) if t[0][0] == "By" for row in t[2:]]
    assert names == ["ivra (explains “b&#124;d”)", "rollout"] and "predicted good (p = 0.88)" in text


def test_long_texts_show_chosen_words_only():
    long = example("films-2", " ".join(f"w{i}" for i in range(100)))
    reports = example_reports(
        [long],
        {},
        {},
        {"rollout": {long.id: attributed(long, np.arange(100), "rollout")}},
        k=2,
        thresholds={"expnet": 0.5},
        positive_rate=0.2,
    )
    table = next(t for t in tables(render_report(params(), [task(examples=reports)])) if t[0][0] == "By")
    assert table[1] == ["*Marked* (nobody)", "0 marked", "…"]
    assert table[2] == ["rollout", "0 of 2", "… **w98 w99**"]


def test_an_example_that_a_method_does_not_explain_is_named():
    with pytest.raises(DataError, match="method 'rollout': example 'films-1'"):
        example_reports([FILM], {}, {}, {"rollout": {}}, k=1, thresholds={}, positive_rate=0.1)


def test_hostile_names_stay_names():
    nasty = "a|b <script>x</script>\n# top `$x$`"
    text = render_report(params(), [task(nasty, labels=[nasty], split_counts={nasty: 1})])
    prose = text.split("## Parameters and versions")[0]
    assert "<script>" not in prose and "\n# top" not in prose
    assert all(len({len(row) for row in table}) == 1 for table in tables(text))


def test_methods_that_need_a_word_of_warning_are_marked_and_explained():
    text = render_report(params(), [task(methods={"ivra": metrics(), "cam": metrics()})])
    assert "‡" not in text
    assert "| learned | ivra † |" in text and "| learned | ivra |" not in text.split("## Methods")[0]
    assert "ivra †: explains a classifier of its own." in text
    text = render_report(params(), [task(methods={"solvex": metrics(), "cam": metrics()})])
    assert "| solvex ‡ |" in text and "\n‡ searches, on every text" in text
    assert "†" not in text


def test_versions_name_python_and_every_direct_dependency():
    found = dict(versions())
    assert {"python", "explearn", "dvc", "jinja2", "transformers"} <= set(found) and "pytest" not in found
    assert found["torch"] == metadata.version("torch")


def test_code_block_outlasts_backticks_in_it():
    block = fenced("yaml", "a: '````'\n")
    (token,) = MarkdownIt("commonmark").parse(block)
    assert token.type == "fence" and token.content == "a: '````'\n"


def test_examples_are_those_with_marks_spread_over_labels():
    pool = [example(f"{label}-{i}", "w", label) for label in ("bad", "good", "odd") for i in range(10)]
    gold = {e.id: [e.label != "odd"] for e in pool}
    chosen = choose_examples(pool, gold, 4, seed=1)
    assert sorted(e.label for e in chosen) == ["bad", "bad", "good", "good"]
    assert chosen == choose_examples(pool[::-1], gold, 4, seed=1)
    assert chosen != choose_examples(pool, gold, 4, seed=2)
    # Texts nobody marked fill up what is left.
    assert [e.label for e in choose_examples(pool, gold, 21, seed=1)].count("odd") == 1
    assert len(choose_examples(pool[:2], gold, 4, seed=1)) == 2 and choose_examples(pool, gold, 0, seed=1) == []


def test_files_are_the_same_every_time_and_keep_their_text(tmp_path):
    tasks = [task(name, {"expnet": metrics(0.5, 0.4, 0.6), "rollout": metrics(None)}) for name in ("films", "a$b$<c>")]
    for run in ("first", "second"):
        write_report(tmp_path / run, params("films"), tasks)
    names = ("report.md", "figures/f1.svg", "figures/auroc.svg", "machine/pareto.svg", "machine/costs.md")
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    svg = (tmp_path / "first" / "figures" / "f1.svg").read_text(encoding="utf-8")
    texts = [e.text for e in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"films", "a$b$<c>", "expnet", "rollout", "learned"} <= set(texts)
    assert not re.search(r"\d{4}-\d{2}-\d{2}", svg)


def test_plot_data_is_the_numbers(tmp_path):
    write_plot_data(tmp_path / "f1.csv", "f1", "films", {"rollout": metrics(None), "expnet": metrics(0.5, 0.4, 0.6)})
    with (tmp_path / "f1.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.reader(handle))
    assert rows == [
        ["task", "method", "family", "value", "low", "high"],
        ["films", "expnet", "learned", "0.5", "0.4", "0.6"],
        ["films", "rollout", "attention", "", "", ""],
    ]


def test_bars_of_dvc_s_plots_begin_at_zero(repository):
    listed = yaml.safe_load((repository / "dvc.yaml").read_text(encoding="utf-8"))["plots"]
    plots = [plot for entry in listed for plot in entry.values()]
    names = {plot["template"] for plot in plots if "template" in plot}
    assert names
    for name in names:
        template = json.loads((repository / ".dvc" / "plots" / f"{name}.json").read_text(encoding="utf-8"))
        assert template["mark"]["type"] == "bar" and template["encoding"]["x"]["scale"]["zero"] is True


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_any_number_of_tasks_can_be_drawn(tmp_path, count):
    tasks = [task(str(i), {"expnet": metrics(0.5, 0.4, 0.6), "random": metrics(None)}) for i in range(count)]
    write_plot(tmp_path / "f1.svg", F1_PLOT, tasks, 0.95)
    assert (tmp_path / "f1.svg").stat().st_size > 1000


def test_a_task_without_marks_says_so(tmp_path):
    write_plot(tmp_path / "f1.svg", F1_PLOT, [task(methods={"expnet": metrics(None)})], 0.95)
    assert "no marked texts" in (tmp_path / "f1.svg").read_text(encoding="utf-8")
