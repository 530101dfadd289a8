from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from explearn.errors import DataError
from explearn.reporting.experiments import Experiment, _of_run, read_experiments, relative_gains, write_experiments


def figures(sim: float, comp: float, suff: float, cons: float) -> dict[str, Any]:
    names = ("simulatability", "aopc_comprehensiveness", "aopc_sufficiency", "consistency")
    return {"important_words": 0.2, **dict(zip(names, (sim, comp, suff, cons), strict=True))}


def run(criteria: list[str], *of_tasks: dict[str, Any], norm: str = "softmax") -> Experiment:
    tasks = {
        f"task{number}": {"methods": {"ivra": found}, "classifier": {"test": {"accuracy": 0.875}}}
        for number, found in enumerate(of_tasks)
    }
    return Experiment("+".join(criteria), "ivra", tuple(criteria), norm, tasks, dict.fromkeys(tasks, 0.9))


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


def test_the_page_has_a_row_a_run_and_a_map_of_gains(tmp_path: Path) -> None:
    page = write_experiments(tmp_path, RUNS).read_text(encoding="utf-8")
    assert "| comp+suff | comp, suff | 0.875 | -2.5 | 0.100 | 0.300 | 0.150 | 0.300 | 0.200 |" in page.splitlines()
    assert page.count("| comp+suff |") == 2
    assert "figures/gains-ivra-softmax.svg" in page
    assert "−" not in page and (tmp_path / "figures" / "gains-ivra-softmax.svg").stat().st_size > 0


def test_a_run_s_files_become_experiments() -> None:
    entry = {"methods": {"smat": figures(0.1, 0.2, 0.3, 0.4)}, "classifier": {"test": {"accuracy": 0.8}}}
    files = {
        "params.yaml": yaml.safe_dump({"tasks": ["a", "b"], "smat": {"criteria": ["sim"], "norm": "sparsemax"}}),
        "reports/metrics/own_model/a.json": json.dumps({"smat": entry}),
        "reports/metrics/classifier/a.json": json.dumps({"test": {"accuracy": 0.9}, "validation": None}),
    }
    (found,) = _of_run("exp", files.get)
    assert (found.explainer, found.criteria, found.norm) == ("smat", ("sim",), "sparsemax")
    assert found.tasks == {"a": entry}
    assert found.before == {"a": 0.9}
    assert _of_run("exp", {}.get) == []


def test_a_folder_without_experiments(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a project whose experiments can be read"):
        read_experiments(tmp_path)
