"""What the study adds to the library's report: its facts, its JSON files, papers, students and curves."""

from typing import ClassVar

import pytest
import yaml
from parameter_cases import MARKERS
from task_reports import metrics, run, task

from explearn.core.documents import read_json
from explearn.metrics.registry import CATALOGUE
from explearn.report.figures.style import svg
from explearn.show.blocks import Picture, Table
from explearn_study.distil import COMPARED
from explearn_study.params import Params
from explearn_study.report.curves import curve_blocks
from explearn_study.report.papers import paper_blocks, student_blocks
from explearn_study.report.project import parameters_text, run_facts, write_metrics


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


def test_the_facts_of_a_run_are_those_of_its_parameters():
    of = params(methods={**MARKERS["methods"], **BASELINES})
    facts = run_facts(of, [task(methods=dict.fromkeys(("random", "lime", "marker"), metrics()))])
    assert list(facts.methods) == ["marker", "random", "lime"] and facts.study == "marker"
    assert facts.options["marker"]["protocol"] == "universal" and "random" not in facts.trained


def test_parameters_list_only_what_is_set():
    shown = yaml.safe_load(parameters_text(params(methods={**MARKERS["methods"], **BASELINES})))
    assert shown["methods"]["lime"] == {"of": "lime", "options": {"samples": 12}}
    assert not {"encoder_revision", "report"} & set(shown)
    assert shown["sources"]["films"] == {"kind": "embedded", "adapter": "corpus"}


def test_metrics_and_costs_are_two_files(tmp_path):
    methods = {name: metrics(0.4, throughput=45.0, relative_throughput=0.5) for name in ("marker", "rollout")}
    meals = {"marker": metrics(0.2, relative_throughput=0.5), "rollout": metrics(0.9)}
    write_metrics(tmp_path, params(), [task("films", methods), task("meals", meals)], [], {"f1_topk": ["cam"]})
    actual = {name: read_json(tmp_path / f"{name}.json") for name in ("metrics", "headline", "costs")}
    of_machine = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    assert not of_machine & {*keys(actual["metrics"]), *keys(actual["headline"])}
    assert set(actual["costs"]["tasks"]["films"]["rollout"]) == of_machine - {"time"}
    assert actual["metrics"]["tasks"]["films"]["rollout"]["f1"] == 0.4 and set(actual["metrics"]["classifiers"]) == {
        "films",
        "meals",
    }
    assert actual["headline"]["f1_by_task"] == {"films": 0.4, "meals": 0.2}
    assert actual["headline"]["f1"] == 0.3  # the mean over the tasks


class TestPapers:
    EXPNET = ("sst2", "cola", "hatexplain")

    def tables(self, of, tasks):
        return [block for block in paper_blocks(of, tasks) if isinstance(block, Table)]

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
    def document(self, task, teacher, p_value, student=0.3):
        figures = {
            "teacher": 0.2, "teacher_error": 0.01, "student": student, "student_error": 0.02, "random": 0.1,
            "both": 0.5, "p_value": p_value,
        }  # fmt: skip
        seconds = {"teacher": 0.5, "classifier": 0.01, "student_classified": 0.02, "student": 0.001}
        formulations = {"labelling": dict.fromkeys(COMPARED, figures)}
        return {
            "task": task,
            "teacher": teacher,
            "formulations": formulations,
            "students": [
                {"formulation": "labelling", "rank_agreement": 0.5 + by, "top_overlap": None} for by in (0, 0.2)
            ],
            "seconds": seconds,
            "training": [10.0, 20.0],
        }

    def tables(self, *documents):
        of = params(("sst2", "cola"), teachers={"lime": {}}, studies={"students": {"teachers": ["lime"]}})
        return {block.caption: block for block in student_blocks(of, documents) if isinstance(block, Table)}

    def test_rows_and_columns_are_those_of_the_paper_with_its_figures(self):
        tables = self.tables(self.document("films", "lime", 0.9))
        agreement = tables["Agreement of predictions, % (L2E table 1)"]
        assert cells(agreement) == [
            ["random", "", "10"], ["lime", "A", "20"], ["lime", "L2E", "30"], ["lime", "both", "50"],
        ]  # fmt: skip
        assert [row[2].note for row in agreement.rows[1:]] == ["84", "82", "80"]
        assert cells(tables["Stability among texts of similar meaning, IoU in % (table 3)"])[1][2] == "20.0 ± 1.0"
        assert cells(tables["Precision / recall / F1 against marked words, % (table 4)"])[2][2] == "30 / 30 / 30"
        fidelity = tables["Fidelity of students to their teachers"]
        assert fidelity.rows == [["lime", "films", "labelling", "0.60", "–"]]
        times = tables["Time (L2E figures 3 to 6)"]
        assert times.machine and times.rows == [
            ["lime", "films", "500.00", "10.00", "20.00", "1.00", "500.0×", "25.0×", "15"]
        ]

    @pytest.mark.parametrize(
        ("caption", "better"),
        [
            ("Stability among texts of similar meaning, IoU in % (table 3)", 2),
            ("Log-odds lost by masking words against the class (table 8); lower is better", 1),
        ],
    )
    def test_the_better_of_a_pair_is_bold_where_they_differ_after_holm_s_correction(self, caption, better):
        """Of two cells, 0.02 passes 0.05 / 2 and 0.06 does not pass 0.05; 0.03 and 0.03 both fail 0.05 / 2."""
        table = self.tables(self.document("films", "lime", 0.02), self.document("meals", "lime", 0.06))[caption]
        assert [cell.mark for cell in table.rows[better][2:]] == ["best", ""]
        assert not any(cell.mark for cell in table.rows[3 - better][2:])
        unsure = self.tables(self.document("films", "lime", 0.03), self.document("meals", "lime", 0.03))[caption]
        for row in unsure.rows[1:]:
            assert not any(cell.mark for cell in row[2:])

    def test_what_is_missing_is_a_dash_or_no_table(self):
        tables = self.tables(self.document("films", "lime", 0.9), self.document("meals", "occlusion", 0.9))
        assert cells(tables["Log-odds lost by masking words for the class (tables 2 and 9)"])[1][2:] == [
            "0.20 ± 0.01",
            "–",
        ]
        assert list(self.tables(self.document("films", "lime", 0.9, None))) == [
            "Fidelity of students to their teachers",
            "Time (L2E figures 3 to 6)",
        ]
        assert student_blocks(params(), []) == []


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
        facts = run(*self.METHODS)
        curve = {"task": "films", "points": [self.point(0, 0.4), self.point(10, 0.5), self.point(80, None)]}
        blocks = curve_blocks(facts, [task(methods=self.METHODS), task("other")], {"films": curve})
        drawn = svg(next(block for block in blocks if isinstance(block, Picture)))
        for text in ("films: F1 top-K", "films: AUROC", "rollout 0.50", "95 % interval"):
            assert text in drawn, text
        assert blocks[-1].blocks[0].rows[2] == ["films", "80", "–", "–", "–"]
        assert curve_blocks(facts, [task()], {}) == []
