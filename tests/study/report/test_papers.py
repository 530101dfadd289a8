"""The papers' figures next to ours."""

from evaluations import metrics, task
from parameter_cases import params_of

from explearn import get_info
from explearn.show.blocks import Table, walk
from explearn_study.report.papers import paper_blocks, published


def tables_of(blocks):
    return [block for block in walk(blocks) if isinstance(block, Table)]


def tables(of, tasks):
    return tables_of(paper_blocks(of, tasks))


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


def test_ivra_s_tables_have_baselines_on_the_classifier_that_it_trained():
    of = ("ivra_comp", "smat_comp", "lime")
    methods = {"ivra_comp": {"of": "ivra"}, "smat_comp": {"of": "smat"}, "lime": {}}
    params = params_of(
        ("imdb", "snli", "squad"), methods=methods, learned={"from_texts": of[:2]}, explainer="ivra_comp"
    )
    infos = dict(zip(of, map(get_info, ("ivra", "smat", "lime")), strict=True))

    def judged(**figures):
        rows = {method: metrics(aopc_comprehensiveness=value) for method, value in figures.items()}
        return [task(name, rows, infos=infos) for name in params.tasks]

    tasks = judged(ivra_comp=0.5, smat_comp=0.4, lime=0.1)
    own = judged(ivra_comp=0.5, lime=0.2)
    (found,) = tables_of(paper_blocks(params, tasks, own))
    rows = {row[0]: row[2].text for row in found.rows}
    assert [rows[name] for name in (*of, "attention_mean")] == ["0.500", "0.400", "0.200", "–"]
    assert paper_blocks(params.model_copy(update={"explainer": "smat_comp"}), tasks, own)
    assert paper_blocks(params.model_copy(update={"explainer": "lime"}), tasks) == []


def test_a_method_that_the_paper_does_not_pin_down_has_no_row():
    """What ExpNet's paper calls LRP and FullLRP cannot be told apart with certainty."""
    found = [table for table in published().tables if table.paper == "ExpNet"]
    assert len(found) == 5
    for table in found:
        assert not {"lrp", "full_lrp"} & set(table.figures)
        assert {"gae", "cam", "attcat"} <= set(table.figures) or table.title.startswith("Ablations")
