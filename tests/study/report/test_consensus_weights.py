"""The report's section on what the consensus weighs: means over tasks, intervals, and what words alone give."""

from __future__ import annotations

from pathlib import Path

import pytest
import task_reports

from explearn.methods.consensus.report import consensus_weights, weights_blocks, weights_sentences
from explearn.show.figures.consensus_weights import write_consensus_weights
from explearn.show.report_html import render_html
from explearn.show.report_markdown import render_report
from explearn_study.params import Params

FEATURES = ["gae_z", "gae_rank", "gae_share", "mean_rank", "length"]


def notes(first: float, intervals: bool = True, features: list[str] = FEATURES, signals: tuple[str, ...] = ("gae",)):
    """Coefficients that rise by 0.1 from `first`, each with an interval of 0.5 to either side."""
    coefficients = {name: first + 0.1 * number for number, name in enumerate(features)}
    return {
        "coefficients": coefficients,
        "intervals": {name: [value - 0.5, value + 0.5] for name, value in coefficients.items()} if intervals else {},
        "signals": list(signals),
        "trained_on": ["plays"],
    }


def report(name="films", first=1.0, methods=("consensus",), **changes):
    figures = {method: task_reports.metrics(0.5, auroc=0.75) for method in (*methods, "random")}
    found = {"notes": {"consensus": notes(first)}, "methods": figures, **changes}
    return task_reports.task(name, **found)


def params(**changes) -> Params:
    tasks = ["films", "plays"]
    sources = {name: {"kind": "embedded", "adapter": "corpus"} for name in tasks}
    given = {"profile": "test", "tasks": tasks, "sources": sources, "explainer": None, "explainers": ["consensus"]}
    return Params.of({**given, "baselines": {"quick": {"random": {}}}, **changes})


@pytest.fixture
def variants():
    words = {"consensus_words": {"of": "consensus", "signals": []}}
    yield params(variants={**words, "consensus_signals": {"of": "consensus", "word_features": False}})
    params()


class TestWeights:
    def test_they_are_means_over_the_tasks(self) -> None:
        found = consensus_weights([report("films", 1.0), report("plays", 2.0)])
        assert found is not None
        weight = found.signals["gae"]["rank"]
        assert weight.mean == pytest.approx(1.6)
        assert weight.interval == pytest.approx((1.1, 2.1))
        assert weight.by_task == pytest.approx({"films": 1.1, "plays": 2.1})
        assert list(found.others) == ["length", "mean_rank"]

    def test_an_interval_without_zero_is_bold(self) -> None:
        (signals, others) = weights_blocks([report(first=0.35)])
        cells = ["+0.35 (-0.15 to +0.85)", "+0.45 (-0.05 to +0.95)", "**+0.55** (+0.05 to +1.05)"]
        assert signals.rows == [["gae", *cells]]
        assert others.rows[1] == ["mean_rank", "**+0.65** (+0.15 to +1.15)"]

    def test_without_a_bootstrap_there_is_no_interval(self) -> None:
        (signals, _) = weights_blocks([report(notes={"consensus": notes(1.0, intervals=False)})])
        assert signals.rows[0][1] == "+1.00"

    def test_without_a_consensus_there_is_nothing_to_show(self, tmp_path: Path) -> None:
        tasks = [task_reports.task()]
        write_consensus_weights(tmp_path, tasks)
        assert (consensus_weights(tasks), weights_blocks(tasks), weights_sentences(params(), tasks)) == (None, [], [])
        assert not list(tmp_path.iterdir())


class TestSentences:
    def test_the_largest_clear_coefficients_are_named(self) -> None:
        first = weights_sentences(params(), [report(first=0.25)])[0]
        assert first.startswith("2 of 5 intervals leave out zero. The largest of these: length +0.65, ")

    def test_what_words_and_signals_alone_give(self, variants: Params) -> None:
        tasks = [report(methods=("consensus", "consensus_words", "consensus_signals"))]
        tasks[0].methods["consensus_words"]["auroc"] = 0.625
        (told,) = [said for said in weights_sentences(variants, tasks) if said.startswith("F1 top-K")]
        assert "consensus as it is 0.500 / 0.750" in told
        assert "words alone, which no model takes part in (consensus_words) 0.500 / 0.625" in told
        assert "signals alone, without a feature of the word itself (consensus_signals)" in told

    def test_without_such_variants_the_report_says_so(self) -> None:
        assert any("is not in this run" in said for said in weights_sentences(params(), [report()]))

    def test_what_is_left_on_another_model(self) -> None:
        checks = {
            "consensus": task_reports.check(0.25, random_labels=task_reports.similarity(0.5)),
            "expnet": task_reports.check(0.125),
        }
        said = " ".join(weights_sentences(params(), [report(sanity={"texts": 5, "methods": checks})]))
        assert "all the classifier's weights were drawn anew: consensus 0.25, expnet 0.12." in said
        assert "fine-tuned on permuted labels: consensus 0.50." in said


class TestFigure:
    def test_the_same_numbers_give_the_same_bytes(self, tmp_path: Path) -> None:
        tasks = [report("films", 1.0), report("plays", -2.0)]
        drawn = []
        for name in ("a", "b"):
            write_consensus_weights(tmp_path / name, tasks)
            drawn.append((tmp_path / name / "consensus.svg").read_bytes())
        assert drawn[0] == drawn[1]
        assert b"-0.40" in drawn[0].replace("−".encode(), b"-")

    def test_words_alone_have_no_heat_map(self, tmp_path: Path) -> None:
        alone = notes(1.0, features=["mean_rank", "length"], signals=())
        write_consensus_weights(tmp_path, [report(notes={"consensus": alone})])
        assert (tmp_path / "consensus.svg").exists()


class TestPages:
    def test_both_pages_have_the_section_where_there_is_a_consensus(self) -> None:
        text, page = render_report(params(), [report()]), render_html(params(), [report()])
        assert "## What the consensus weighs" in text and "](figures/consensus.svg)" in text
        assert page.count('id="consensus"') == 1 and "<strong>+1.00</strong> (+0.50 to +1.50)" in page

    def test_neither_has_it_elsewhere(self) -> None:
        tasks = [task_reports.task(methods={"random": task_reports.metrics()})]
        found = params(explainers=[], explainer="random")
        assert "the consensus weighs" not in render_report(found, tasks) + render_html(found, tasks)
