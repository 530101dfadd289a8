"""The report's first screen: what to use, what it looks like, and what may change that."""

from __future__ import annotations

import numpy as np
import pytest
from task_reports import metrics, task

from explearn.core.records import Attribution, Example
from explearn.judge.catalogue import METRICS
from explearn.show.glance import MODEL, OPEN_CAVEATS, PEOPLE, glance
from explearn.show.report_html import render_html
from explearn.show.report_markdown import render_report
from explearn.show.task_report import ExampleReport
from explearn.show.verdict import counted_tasks, headline_sentences, leaders
from explearn_study.params import Params
from explearn_study.report.files import write_report

RNG = np.random.default_rng(13)
NOISE = RNG.normal(0, 0.01, 40)
HOSTILE = "<img/src=x/onerror=alert(1)>"


def params(*tasks: str, explainer: str = "expnet") -> Params:
    names = [*tasks, "another"]
    sources = {name: {"kind": "embedded", "adapter": "corpus"} for name in names}
    return Params.of({"profile": "p", "tasks": names, "sources": sources, "explainer": explainer})


def by_text(**means: float) -> dict:
    """Figures of 40 texts around a mean, of each method; the noise differs from method to method."""
    return {m: np.clip(mean + np.roll(NOISE, 7 * i), -1, 1) for i, (m, mean) in enumerate(means.items())}


def judged(f1: dict, aopc: dict, **changes):
    """A task with these figures, text by text too, and a time for each method."""
    speeds = {
        "lime": 0.02,
        "random": 0.9,
        "cam": 0.8,
        "expnet": 0.95,
        "expnet_in_domain": 0.95,
        "gae": 0.5,
        "ivra": 0.9,
        "faml": 0.02,
        "grad_cam": 0.5,
        "consensus": 0.4,
    }
    methods = {m: metrics(f1[m], aopc_comprehensiveness=aopc[m], relative_throughput=speeds[m]) for m in f1}
    texts = {METRICS[metric].by_text: by_text(**means) for metric, means in ((PEOPLE, f1), (MODEL, aopc))}
    return task("films", methods, by_text=texts, **changes)


def first(of, **changes):
    return glance(params("films"), [of], leaders(counted_tasks(params("films"), [of]), 0.05))


def example(words, gold, predicted="good", methods=("lime", "expnet"), number=0) -> ExampleReport:
    text = Example(id=f"t{number}", words=words, label="good", split="test", task="films")
    scores = np.linspace(-1, 1, len(words)).astype(np.float32)
    found = {
        m: Attribution(
            words=words, scores=scores, tokens=words, token_scores=scores, target=predicted, method=m, probability=0.8,
            predicted=predicted, aggregation="max", signed=True, example_id=text.id,
        )
        for m in methods
    }  # fmt: skip
    chosen = {m: scores > 0 for m in methods}
    return ExampleReport(text, np.array(gold, bool), ("human",), found, chosen)


def test_the_verdict_names_a_method_for_each_question_with_figures_random_scores_and_times():
    found = first(judged({"expnet": 0.5, "lime": 0.3, "random": 0.1}, {"expnet": 0.1, "lime": 0.4, "random": 0.02}))
    assert found.verdict == (
        "Use **expnet** for the words that people would mark (F1 0.500; words at random 0.100); and **lime** for the "
        "words that the classifier depends on (without them its probability falls by 0.400, random words by 0.020)."
    )
    assert "at 1.1× the time of classifying; and" in found.timed and "at 50.0× the time" in found.timed
    assert "×" not in found.verdict
    assert found.methods == ["expnet", "lime"]


def test_beside_a_method_trained_on_the_task_s_marks_stands_the_best_that_needs_none():
    f1 = {"expnet_in_domain": 0.6, "expnet": 0.5, "lime": 0.3, "random": 0.1}
    found = first(judged(f1, {"expnet_in_domain": 0.1, "expnet": 0.1, "lime": 0.4, "random": 0.02}))
    assert found.verdict.startswith(
        "Use **expnet_in_domain**, trained on marked words of the task, for the words that people would mark (F1 "
        "0.600; without such words **expnet** 0.500; words at random 0.100); and **lime** for "
    )
    assert [shown.method for shown in found.leaders] == ["expnet_in_domain", "expnet", "lime"]
    assert found.leaders[1].role == "best at people's words without marked words of the task"
    alone = first(judged({"expnet_in_domain": 0.6, "random": 0.1}, {"expnet_in_domain": 0.4, "random": 0.02}))
    assert "F1 0.600; words at random" in alone.verdict and [s.method for s in alone.leaders] == ["expnet_in_domain"]


LEVEL = {"expnet_in_domain": 0.6, "consensus": 0.5004, "expnet": 0.5, "cam": 0.4998, "lime": 0.3, "random": 0.1}
AOPC = {"expnet_in_domain": 0.1, "consensus": 0.1, "expnet": 0.1, "cam": 0.1, "lime": 0.4, "random": 0.02}


def test_beside_the_best_that_needs_no_marks_stands_the_fastest_that_is_not_significantly_worse():
    found = first(judged(LEVEL, AOPC))
    assert (
        "(F1 0.600; without such words **consensus** 0.500 at 2.5× or, not significantly worse, **expnet** 0.500 at "
        "1.1×; words at random 0.100), at 1.1× the time of classifying; and **lime**"
    ) in found.timed
    assert [(s.method, s.role) for s in found.fastest] == [
        ("expnet", "the fastest not significantly worse than consensus: 1.1×")
    ]
    behind = first(judged({**LEVEL, "expnet": 0.45, "cam": 0.45}, AOPC))
    assert "without such words **consensus** 0.500 at 2.5×; words" in behind.timed and not behind.fastest


def test_where_times_play_no_part_the_explainer_under_study_stands_there():
    of = judged(LEVEL, AOPC)
    for studied, said in (("expnet", " or, not significantly worse, **expnet** 0.500"), ("expnet_in_domain", "")):
        chosen = params("films", explainer=studied)
        verdict = glance(chosen, [of], leaders([of], 0.05)).verdict
        assert f"without such words **consensus** 0.500{said}; words at random" in verdict


def test_one_method_may_be_the_best_for_both():
    found = first(judged({"expnet": 0.5, "random": 0.1}, {"expnet": 0.4, "random": 0.02}))
    assert found.verdict.startswith("Use **expnet** for the words that people would mark (")
    assert ", and the words that the classifier depends on (" in found.verdict
    assert [shown.method for shown in found.leaders] == ["expnet"]


def test_the_fastest_method_that_is_not_worse_stands_beside_the_best():
    found = first(judged({"lime": 0.501, "cam": 0.5, "random": 0.1}, {"lime": 0.4, "cam": 0.1, "random": 0.02}))
    assert [shown.method for shown in found.fastest] == ["cam"]
    assert found.fastest[0].role == "the fastest not significantly worse than lime: 1.2×"
    assert "significantly ahead of all others" in found.leaders[0].role


def test_what_random_scores_do_as_well_is_not_recommended():
    one = first(judged({"expnet": 0.1, "random": 0.1001}, {"expnet": 0.4, "random": 0.02}))
    assert one.verdict.startswith("Use **expnet** for the words that the classifier depends on (")
    assert one.verdict.endswith("people would mark, no method is shown to be better than random scores.")
    both = first(judged({"expnet": 0.1, "random": 0.1001}, {"expnet": 0.02, "random": 0.0201}))
    assert both.verdict.startswith("**No method is shown to be better than random scores**")


def test_without_marks_the_verdict_is_about_the_model_alone():
    of = judged({"expnet": 0.5, "lime": 0.3}, {"expnet": 0.1, "lime": 0.4})
    for figures in of.methods.values():
        figures["f1_topk"] = None
    assert first(of).verdict.startswith("Use **lime** for the words that the classifier depends on (")


def test_without_any_method_it_says_so():
    assert first(task("films", {})).verdict == "No method has figures on all tasks, so none is ahead."


def test_a_classifier_that_learned_nothing_is_the_verdict():
    weak = {"test": {"accuracy": 0.52, "majority_rate": 0.5}}
    found = first(judged({"expnet": 0.5}, {"expnet": 0.1}, classifier=weak))
    assert found.verdict.startswith("**No evidence about the methods:**")


def test_a_method_whose_figures_are_not_like_the_others_says_why():
    found = first(judged({"ivra": 0.5, "cam": 0.3}, {"faml": 0.4, "cam": 0.1} | {"ivra": 0.0}))
    assert "**ivra** (on its own classifier)" in found.verdict


def test_the_text_is_the_first_that_is_marked_right_and_short():
    of = judged(
        {"expnet": 0.5, "lime": 0.3}, {"expnet": 0.1, "lime": 0.4},
        heatmaps=[
            example(("a", "b"), [0, 0], number=1), example(("a", "b"), [1, 0], predicted="bad", number=2),
            example(("w",) * 99, [1] * 99, number=3), example(("c", "d"), [0, 1], number=4),
            example(("e", "f"), [0, 1], number=5), example(("g", "h"), [0, 1], methods=("lime",), number=6),
        ],
    )  # fmt: skip
    assert first(of).example.example.id == "t4" and first(of).task == "films"


def test_caveats_about_the_verdict_s_methods_are_open_and_the_others_folded():
    notes = {"expnet": {"optimised_for": "aopc_difference"}, "cam": {"optimised_for": "aopc_difference"}}
    of = judged({"expnet": 0.5, "cam": 0.3, "random": 0.1}, {"expnet": 0.4, "cam": 0.1, "random": 0.1}, notes=notes)
    found = first(of)
    assert 1 < len(found.open) <= OPEN_CAVEATS and len(set(found.open) | set(found.folded)) > OPEN_CAVEATS
    assert found.open[0].startswith("**Looks at the metric:** expnet")
    assert any(sentence.startswith("**Looks at the metric:** cam") for sentence in found.folded)


def test_a_name_within_another_is_not_that_method():
    notes = {"cam": {"optimised_for": "aopc_difference"}}
    of = judged({"grad_cam": 0.5, "cam": 0.3}, {"grad_cam": 0.4, "cam": 0.1}, notes=notes)
    assert not any("Looks at the metric" in sentence for sentence in first(of).open)


def pages(tmp_path, of):
    write_report(tmp_path, params("films"), [of])
    return render_html(params("films"), [of], tmp_path), render_report(params("films"), [of])


def test_both_pages_show_before_they_tell(tmp_path):
    of = judged(
        {"expnet": 0.5, "lime": 0.3}, {"expnet": 0.1, "lime": 0.4}, heatmaps=[example(("fine", HOSTILE), [0, 1])]
    )
    html, markdown = pages(tmp_path, of)
    marked = "marked words</b> <small>by human<"
    of_html = ['id="verdict"', "<img src=", marked, 'class="for', 'id="wins"', 'id="trust"', "<details><summary>"]
    of_markdown = [
        "Use **",
        "](machine/glance.svg)",
        "*Marked* (human)",
        "## Who wins",
        "## What not",
        "<details>",
        "## All tasks",
    ]
    for page, order in ((html, [*of_html, 'id="overview"']), (markdown, of_markdown)):
        places = [page.index(part) for part in order]
        assert places == sorted(places)
    assert HOSTILE not in html and HOSTILE not in markdown
    assert "&lt;img/src=x/onerror=alert(1)&gt;</mark>" in html
    assert (tmp_path / "machine" / "glance.svg").read_text(encoding="utf-8").count(">lime<") == 2


@pytest.mark.parametrize(
    ("own", "others", "said"),
    [
        (0.5, (0.3, 0.2), "No other method is ahead of **expnet** on any task."),
        (0.2, (0.3, 0.1), "At least one other method is ahead of **expnet** on 1 of 1 task."),
    ],
)
def test_how_often_a_rival_is_ahead_is_said_without_a_double_negative(own, others, said):
    methods = {"expnet": metrics(own), "rollout": metrics(others[0]), "raw_attention": metrics(others[1])}
    (sentence,) = (s for s in headline_sentences(params("films"), [task("films", methods)]) if "The best other" in s)
    assert sentence.endswith(said)
