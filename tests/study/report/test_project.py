"""What the study adds to the library's report: its JSON files, papers, students and curves."""

from typing import ClassVar

import numpy as np
import yaml
from evaluations import metrics, paired, run, task
from parameter_cases import MARKERS

from explearn.core.documents import read_json
from explearn.metrics.registry import CATALOGUE
from explearn.report.figures.style import svg
from explearn.report.run import MARKS, MODEL
from explearn.show.blocks import Picture, Table, walk
from explearn_study.params import Params
from explearn_study.report.curves import curve_blocks
from explearn_study.report.papers import paper_blocks
from explearn_study.report.project import parameters_text, write_metrics
from explearn_study.report.students import Students, student_blocks
from explearn_study.sections import COMPARED


def params(adapters=("corpus", "corpus"), **changes):
    tasks = ["films", "meals", "notes", "plays"][: len(adapters)]
    sources = {name: {"kind": "embedded", "adapter": adapter} for name, adapter in zip(tasks, adapters, strict=True)}
    return Params.model_validate({**MARKERS, "profile": "test", "tasks": tasks, "sources": sources, **changes})


BASELINES = {"random": {}, "lime": {"options": {"samples": 12}}}


def keys(document):
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from keys(value)


def cells(table):
    return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows]


def test_parameters_list_only_what_is_set():
    shown = yaml.safe_load(parameters_text(params(methods={**MARKERS["methods"], **BASELINES})))
    assert shown["methods"]["lime"] == {"of": "lime", "options": {"samples": 12}}
    assert not {"encoder_revision", "report"} & set(shown)
    assert shown["sources"]["films"] == {"kind": "embedded", "adapter": "corpus"}


def test_metrics_and_costs_are_two_files(tmp_path):
    methods = {name: metrics(0.4, throughput=45.0, relative_throughput=0.5) for name in ("marker", "rollout")}
    meals = {"marker": metrics(0.2, relative_throughput=0.5), "rollout": metrics(0.9)}
    write_metrics(tmp_path, run(task("films", methods), task("meals", meals)))
    actual = {name: read_json(tmp_path / f"{name}.json") for name in ("metrics", "headline", "costs")}
    of_machine = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    assert not of_machine & {*keys(actual["metrics"]), *keys(actual["headline"])}
    assert set(actual["costs"]["tasks"]["films"]["rollout"]) == of_machine
    # Without values by text the two cannot be told apart.
    assert actual["metrics"]["verdict"] == {MARKS: ["rollout", "marker"], MODEL: ["marker", "rollout"]}
    assert actual["metrics"]["tasks"]["films"]["rollout"]["f1"] == 0.4 and set(actual["metrics"]["classifiers"]) == {
        "films",
        "meals",
    }
    assert actual["headline"]["f1_by_task"] == {"films": 0.4, "meals": 0.2}
    assert actual["headline"]["f1"] == 0.3  # the mean over the tasks


class TestPapers:
    EXPNET = ("sst2", "cola", "hatexplain")

    def tables(self, of, tasks):
        return [block for block in walk(paper_blocks(of, tasks)) if isinstance(block, Table)]

    def test_a_table_is_shown_with_ours_only_where_its_data_sets_are(self):
        of = params(self.EXPNET)
        tasks = [task(n, {"expnet": metrics(0.1 * i), "rollout": metrics(0.9)}) for i, n in enumerate(of.tasks, 1)]
        tables = self.tables(of, tasks)
        assert [table.caption.split(" (")[0] for table in tables] == [
            "F1 on the held-out task", "Precision on the held-out task", "Recall on the held-out task",
            "Texts explained per second",
        ]  # fmt: skip
        rows = {row[0]: [(cell.text, cell.mark) for cell in row[1:3]] for row in tables[0].rows}
        assert rows["expnet"] == [("0.398", "best"), ("0.100", "")]
        assert rows["rollout"][1] == ("0.900", "best") and rows["lime"][1] == ("–", "")
        assert [column.machine for column in tables[3].columns] == [False, True, True]
        assert paper_blocks(params(), [task("films"), task("meals")]) == []

    def test_a_data_set_that_the_run_lacks_has_no_columns(self):
        of = params(("sst2", "custom"))
        tasks = [task(name, {"expnet": metrics(0.1)}) for name in of.tasks]
        headings = [column.title for column in self.tables(of, tasks)[0].columns]
        assert headings == ["Method", "SST-2, paper", "SST-2, ours"]

    def test_ivra_s_tables_are_of_runs_on_the_classifier_that_it_trained(self):
        ivra = {"of": "ivra"}
        adapters = ("imdb", "snli", "squad")
        tasks = {
            name: {"ivra_comp": metrics(aopc_comprehensiveness=0.5), "lime": metrics(aopc_comprehensiveness=0.2)}
            for name in ("films", "meals", "notes")
        }
        reports = [task(name, methods) for name, methods in tasks.items()]
        trained = params(adapters, methods={"ivra_comp": {**ivra, "path": "x"}}, learned={}, explainer="ivra_comp")
        rows = {row[0]: row[2].text for row in self.tables(trained, reports)[0].rows}
        assert [rows[name] for name in ("ivra_comp", "lime", "smat_comp")] == ["0.500", "0.200", "–"]
        learned = {"from_texts": ["ivra_comp"]}
        training = params(adapters, methods={"ivra_comp": ivra}, learned=learned, explainer="ivra_comp")
        assert paper_blocks(training, reports) == []


class TestStudents:
    def judged(self, task_name, teacher, p_value=0.01, second=0.3):
        """A teacher at 0.2 and two students, of which each differs from it with this p."""
        values = {"teacher": 0.2, "random": 0.1, "13": 0.4, "14": second}
        figures = {side: {**dict.fromkeys(COMPARED, value), "f1_topk": None} for side, value in values.items()}
        pairs = {("teacher", "13"): p_value, ("teacher", "14"): p_value}
        comparisons = {name: paired(name, values, pairs, CATALOGUE[name].larger_is_better) for name in COMPARED[:-1]}
        agreement = np.array([[1, 0, 0.5, 0.7], *np.zeros((3, 4))])
        evaluation = task(task_name, figures, comparisons=comparisons, agreement=agreement)
        seconds = {"teacher": 0.5, "classifier": 0.01, "student_classified": 0.02, "student": 0.001}
        return Students(task_name, teacher, "labelling", evaluation, {"seconds": seconds, "training": [10.0, 20.0]})

    def tables(self, *students):
        of = params(("sst2", "cola"), teachers={"lime": {}}, studies={"students": {"teachers": ["lime"]}})
        found = [block for block in walk(student_blocks(of, students)) if isinstance(block, Table)]
        return {block.caption: block for block in found if block.caption}

    def test_a_side_is_a_row_with_the_paper_s_figures_beside(self):
        table = self.tables(self.judged("films", "lime"))["Students that learned by labelling"]
        assert [cell.partition(" ")[0] for cell in (column.title for column in table.columns[:3])] == [
            "Task", "Teacher", "Side",
        ]  # fmt: skip
        assert cells(table)[1][:4] == ["films", "lime", "L2E", "0.350"] and cells(table)[1][-1] == "0.60"
        # Agreement on SST-2: 84 and 82 %.
        assert [row[3].note for row in table.rows] == ["0.840", "0.820", ""]
        assert not any("F1" in column.title for column in table.columns), "nothing was marked"

    def test_the_better_side_is_bold_where_every_student_differs(self):
        for p_value, second, marks in ((0.01, 0.3, ["", "best"]), (0.2, 0.3, ["", ""]), (0.01, 0.1, ["", ""])):
            table = self.tables(self.judged("films", "lime", p_value, second))["Students that learned by labelling"]
            assert [row[3].mark for row in table.rows[:2]] == marks, "larger is better"
        table = self.tables(self.judged("films", "lime"))["Students that learned by labelling"]
        place = [column.title for column in table.columns].index("Δ log-odds − ↓")
        assert [row[place].mark for row in table.rows[:2]] == ["best", ""], "smaller is better"

    def test_times_are_of_the_machine(self):
        times = self.tables(self.judged("films", "lime"))["L2E figures 3 to 6"]
        expected = ["films", "lime", "labelling", "500.00", "10.00", "20.00", "1.00", "25.0×", "15"]
        assert times.machine and times.rows == [expected]
        untimed = self.judged("films", "lime")._replace(costs={})
        assert "L2E figures 3 to 6" not in self.tables(untimed) and student_blocks(params(), []) == []


class TestCurves:
    METHODS: ClassVar = {
        "marker": metrics(0.9),
        **{name: metrics(0.5 - 0.1 * i) for i, name in enumerate(("rollout", "lime", "cam", "random", "gae"))},
    }

    def point(self, marks, value):
        low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
        figures = {}
        for name in ("f1_topk", "auroc", "f1"):
            figures |= {name: value, f"{name}_low": low, f"{name}_high": high}
        return {"marks": marks, **figures}

    def test_the_section_has_a_drawing_and_all_points(self):
        curve = {"task": "films", "points": [self.point(0, 0.4), self.point(10, 0.5), self.point(80, None)]}
        blocks = curve_blocks(run(task(figures=self.METHODS), task("other")), {"films": curve})
        drawn = svg(next(block for block in blocks if isinstance(block, Picture)))
        for text in ("films: F1 top-K", "films: AUROC", "rollout 0.50", "95 % interval"):
            assert text in drawn, text
        assert blocks[-1].blocks[0].rows[2] == ["films", "80", "–", "–", "–"]
        assert curve_blocks(run(task()), {}) == []
