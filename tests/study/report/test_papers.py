"""The papers' figures next to ours."""

from evaluations import metrics, task
from parameter_cases import params_of

from explearn.show.blocks import Table, walk
from explearn_study.report.papers import paper_blocks, published


def tables(of, tasks):
    return [block for block in walk(paper_blocks(of, tasks)) if isinstance(block, Table)]


def test_a_table_is_shown_with_ours_only_where_its_data_sets_are():
    of = params_of(("sst2", "cola", "hatexplain"))
    tasks = [task(n, {"expnet": metrics(0.1 * i), "rollout": metrics(0.9)}) for i, n in enumerate(of.tasks, 1)]
    f1, *others = tables(of, tasks)
    assert f1.caption.startswith("F1 on the held-out task (") and len(others) == 3
    rows = {row[0]: [(cell.text, cell.mark) for cell in row[1:3]] for row in f1.rows}
    assert rows["expnet"] == [("0.398", "best"), ("0.100", "")]
    assert rows["rollout"][1] == ("0.900", "best") and rows["lime"][1] == ("–", "")
    assert [column.machine for column in others[-1].columns] == [False, True, True], "texts per second"
    assert paper_blocks(params_of(), [task("films"), task("meals")]) == []


def test_a_data_set_that_the_run_lacks_has_no_columns():
    of = params_of(("sst2", "custom"))
    table, *_ = tables(of, [task(name, {"expnet": metrics(0.1)}) for name in of.tasks])
    assert [column.title for column in table.columns] == ["Method", "SST-2, paper", "SST-2, ours"]


def test_ivra_s_tables_are_of_runs_on_the_classifier_that_it_trained():
    adapters = ("imdb", "snli", "squad")
    figures = {"ivra_comp": metrics(aopc_comprehensiveness=0.5), "lime": metrics(aopc_comprehensiveness=0.2)}
    reports = [task(name, figures) for name in ("films", "meals", "notes")]

    def shown(learned, **of_ivra):
        methods = {"ivra_comp": {"of": "ivra", **of_ivra}}
        return tables(params_of(adapters, methods=methods, learned=learned, explainer="ivra_comp"), reports)

    rows = {row[0]: row[2].text for row in shown({}, path="x")[0].rows}
    assert [rows[name] for name in ("ivra_comp", "lime", "smat_comp")] == ["0.500", "0.200", "–"]
    assert shown({"from_texts": ["ivra_comp"]}) == []


def test_a_method_that_the_paper_does_not_pin_down_has_no_row():
    """What ExpNet's paper calls LRP and FullLRP cannot be told apart with certainty."""
    found = [table for table in published().tables if table.paper == "ExpNet"]
    assert len(found) == 5
    for table in found:
        assert not {"lrp", "full_lrp"} & set(table.figures)
        assert {"gae", "cam", "attcat"} <= set(table.figures) or table.title.startswith("Ablations")
