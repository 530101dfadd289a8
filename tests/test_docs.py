"""What the documentation says of the methods is what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

import explearn
from explearn.registry import explainer_class

BASELINES = [name for name in explearn.list_explainers() if not explearn.get_info(name).learned]


@pytest.mark.parametrize("name", BASELINES)
def test_the_table_of_methods_is_true(repository: Path, name: str) -> None:
    info, method = explearn.get_info(name), explainer_class(name)
    signed = "yes" if method.signed else "no"
    row = f"| {name} | {info.family} | {signed} | {method.aggregation} | {info.cost} | {info.summary} |"
    assert row in (repository / "docs" / "methods.md").read_text(encoding="utf-8").splitlines()


def test_the_complete_roster_is_complete(repository: Path) -> None:
    text = (repository / "conf" / "roster" / "complete.yaml").read_text(encoding="utf-8")
    quick, _, costly = text.partition("  costly:")
    for name in BASELINES:
        assert f"\n    {name}: " in (costly if explearn.get_info(name).costly else quick), name
