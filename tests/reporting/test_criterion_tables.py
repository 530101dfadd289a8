from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from explearn.reporting.content.criterion_tables import OwnModelRun, criterion_blocks, relative_gains
from explearn.reporting.figures.heatmaps import write_gain_maps
from explearn.reporting.pages.experiments import Experiment, own_model_runs, write_experiments


def figures(sim: float, comp: float, suff: float, cons: float) -> dict[str, Any]:
    names = ("simulatability", "aopc_comprehensiveness", "aopc_sufficiency", "consistency")
    return {"important_words": 0.2, **dict(zip(names, (sim, comp, suff, cons), strict=True))}


def run(
    criteria: list[str], *of_tasks: dict[str, Any], norm: str = "softmax", best: int = 1, **others: Any
) -> OwnModelRun:
    tasks = {
        f"task{number}": {"methods": {"ivra": found}, "classifier": {"test": {"accuracy": 0.875}}, "best_epoch": best}
        for number, found in enumerate(of_tasks)
    }
    return OwnModelRun("+".join(criteria), "ivra", tuple(criteria), norm, tasks, dict.fromkeys(tasks, 0.9), others)


RUNS = [
    run(["comp"], figures(0.1, 0.4, 0.2, 0.3), figures(0.1, 0.2, 0.2, 0.3)),
    run(["suff"], figures(0.1, 0.1, 0.1, 0.3), figures(0.1, 0.1, 0.004, 0.3)),
    run(["comp", "suff"], figures(0.1, 0.3, 0.15, 0.3), figures(0.1, 0.1, 0.1, 0.3)),
]


def test_relative_gains_by_hand() -> None:
    sets, gains = relative_gains(RUNS)
    assert sets == ["comp", "suff", "comp+suff"]
    # comp: -25 % and -50 %; suff, where less is better, 0.15 for 0.1 is -50 %, and the other task's base is too near 0.
    expected = [[np.nan] * 3, [0, -62.5, -37.5], [-100, 0, -50], [np.nan] * 3]
    np.testing.assert_allclose(gains, expected)


def test_of_repetitions_the_mean_is_compared_whatever_their_order() -> None:
    alike = {name: figures(0.1, value, 0.1, 0.3) for name, value in (("a", 0.5), ("b", 0.3), ("c", 0.4), ("d", 0.1))}
    unknown = {**alike["a"], "aopc_comprehensiveness": None}
    runs = [
        run(["comp"], alike["a"]), run(["comp"], alike["b"]), run(["comp"], unknown), run(["suff", "comp"], alike["c"]),
        run(["comp", "suff"], alike["d"]), run(["cons"], alike["b"]), run(["sim"], alike["b"]),
    ]  # fmt: skip
    for given in (runs, runs[::-1], runs[3:] + runs[:3]):
        sets, gains = relative_gains(given)
        assert sets == ["sim", "comp", "cons", "comp+suff"]
        # comp alone: 0.4 in the mean; with suff 0.25.
        np.testing.assert_allclose(gains[1], [-25, 0, -25, -37.5])


def test_runs_that_differ_in_more_than_the_seed_are_not_mixed() -> None:
    pair = [run(list(of), figures(0.1, value, 0.1, 0.3)) for of, value in ((["comp"], 0.4), (["comp", "cons"], 0.2))]
    longer = [replace(of, name=f"long {of.name}", others={"ivra.schedule.epochs": 9}) for of in pair]
    for given in (pair + longer, (pair + longer)[::-1]):
        blocks, maps = criterion_blocks(given)
        blocks = [block for block in blocks if "gains" in block.title]
        assert [block.figure for block in blocks] == ["gains-ivra-softmax-2.svg", "gains-ivra-softmax.svg"][::-1]
        assert [found.file for found in maps] == [block.figure for block in blocks]
        assert all(("long comp" in block.sentence) == (number == 0) for number, block in enumerate(blocks))
    (block,) = [block for block in criterion_blocks([pair[0], longer[1]])[0] if "gains" in block.title]
    assert not block.figure and "differ from the others in further parameters" in block.sentence
    (block,) = [block for block in criterion_blocks([*pair, pair[0]])[0] if "gains" in block.title]
    assert "which differ in the seed alone, count as their mean" in block.sentence


def test_a_run_that_came_out_untrained_is_marked() -> None:
    ((block,), _) = criterion_blocks([run(["comp"], figures(0.1, 0.4, 0.2, 0.3), best=0)])
    assert block.rows[0][1] == "comp (not trained: no epoch was better than the start)"


def test_a_table_has_a_row_a_run_and_a_map_shows_the_gains(tmp_path: Path) -> None:
    blocks, maps = criterion_blocks(RUNS)
    assert [block.title for block in blocks] == ["ivra, softmax: task0", "ivra, softmax: task1", "ivra, softmax: gains"]
    assert list(blocks[0].rows[2]) == (
        ["comp+suff", "comp, suff", "0.875", "-2.5", "0.100", "0.300", "0.150", "0.300", "0.200"]
    )
    write_gain_maps(tmp_path, maps)
    assert (tmp_path / blocks[2].figure).stat().st_size > 0


def test_a_sentence_says_why_there_are_no_gains() -> None:
    near_nothing = [run(list(of), figures(0.001, 0.009, -0.009, 0.0)) for of in (["comp"], ["suff"], ["comp", "suff"])]
    mixed = [run(list(of), figures(0.1, 0.2, 0.1, 0.3)) for of in (["comp", "suff"], ["sim", "cons"])]
    for runs, reason in (
        (near_nothing, "within 0.01 of 0"),
        (mixed, "no experiment was trained for one criterion alone"),
    ):
        blocks, maps = criterion_blocks(runs)
        assert blocks[-1].title == "ivra, softmax: gains" and not blocks[-1].figure and not maps
        assert reason in blocks[-1].sentence
    assert [block.title for block in criterion_blocks(near_nothing[2:])[0]] == ["ivra, softmax: task0"]


def test_both_pages_of_the_comparison_show_them(tmp_path: Path) -> None:
    experiments = [Experiment("a", "a", {}, {"explainer": "ivra", "f1": 0.5}, own_models=RUNS)]
    markdown, page = (path.read_text(encoding="utf-8") for path in write_experiments(tmp_path, experiments))
    assert "| comp+suff | comp, suff | 0.875 |" in markdown and "(figures/gains-ivra-softmax.svg)" in markdown
    assert "comp, suff</td>" in page and page.count("data:image/svg+xml;base64,") == 1


def test_a_run_s_files_become_one_with_the_criteria_of_its_parameters() -> None:
    entry = {"methods": {"smat": figures(0.1, 0.2, 0.3, 0.4)}, "classifier": {"test": {"accuracy": 0.8}}}
    params = {"smat.criteria": ["sim"], "smat.norm": "sparsemax", "ivra.criteria": ["comp"], "seed": 13}
    experiment = Experiment("exp", "exp", params, {})
    classifiers = {"a": {"test": {"accuracy": 0.9}}, "b": {"test": None}}
    (found,) = own_model_runs(experiment, {"a": {"smat": entry}, "b": {}}, classifiers)
    assert (found.name, found.explainer, found.criteria, found.norm) == ("exp", "smat", ("sim",), "sparsemax")
    assert found.tasks == {"a": entry}
    assert found.before == {"a": 0.9, "b": None}
    assert found.others == {"smat.norm": "sparsemax", "ivra.criteria": ["comp"]}
