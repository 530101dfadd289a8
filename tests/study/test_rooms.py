"""Each stage depends on the rooms whose code it runs: dvc.yaml against what the stages import."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import ROOT

SOURCE = ROOT / "src"
STAGES: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
INDEX: list[dict[str, Any]] = json.loads((SOURCE / "explearn/methods/index.json").read_text(encoding="utf-8"))
LEARNED = sorted({entry["target"].split(".")[2] for entry in INDEX if entry["family"] == "learned"})
"""The folders of the learned methods."""
MOST_ROOMS = 16
"""Rooms, and modules of the pipeline, that a stage may name."""


def module_file(module: str) -> Path | None:
    path = SOURCE / Path(*module.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def imported(tree: ast.AST) -> Iterable[str]:
    """Modules that run when a file does; imports inside functions count, those for type checkers do not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imported(node)


@cache
def direct(path: Path) -> frozenset[Path]:
    found = set()
    for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
        if module.startswith("explearn.") and (file := module_file(module)):
            found.add(file)
    return frozenset(found)


def closure(paths: Iterable[Path]) -> set[Path]:
    """The files of explearn that run when these do."""
    found, left = set(paths), list(paths)
    while left:
        new = direct(left.pop()) - found
        found |= new
        left += new
    return found


def of_methods(*rooms: str) -> set[Path]:
    """Files of the methods that a stage finds by name, of some folders of `methods`."""
    modules = {entry["target"].partition(":")[0] for entry in INDEX}
    return {file for module in modules if module.split(".")[2] in rooms and (file := module_file(module))}


BY_NAME: dict[str, set[Path]] = {
    "teach": of_methods("baselines"),
    **{f"train-{room}": of_methods(room) for room in LEARNED},
    "attribute": of_methods("baselines"),
    "attribute-costly": of_methods("baselines"),
    "attribute-consensus": of_methods("consensus"),
    "attribute-refined": of_methods("aml"),
    "attribute-own-model": of_methods("baselines", "ivra"),
    "variant": of_methods("baselines", *LEARNED),
    "transfer": of_methods("ivra"),
    "sanity": of_methods("baselines", *LEARNED),
    "distil": of_methods("baselines", "l2e"),
}
"""Of the stages that make methods by name, the files of these."""


def cases() -> list[tuple[str, dict[str, str], set[Path]]]:
    found = []
    for name in STAGES:
        if name == "attribute-learned":
            found += [(name, {"room": room}, of_methods(room)) for room in STAGES[name]["matrix"]["room"]]
        else:
            found.append((name, {}, BY_NAME.get(name, set())))
    return found


def dependencies(name: str, item: dict[str, str]) -> list[Path]:
    listed = [dep for dep in STAGES[name]["deps"] if isinstance(dep, str)]
    for key, value in item.items():
        listed = [dep.replace(f"${{item.{key}}}", value) for dep in listed]
    return [ROOT / dep for dep in listed]


@pytest.mark.parametrize(("name", "item", "by_name"), cases())
def test_a_stage_runs_no_code_outside_the_rooms_it_depends_on(
    name: str, item: dict[str, str], by_name: set[Path]
) -> None:
    script = ROOT / STAGES[name]["cmd"].split()[1]
    deps = dependencies(name, item)
    assert script in deps
    runs = {path for path in closure([script, *by_name]) if path.name != "__init__.py" or path.stat().st_size}
    outside = sorted(
        str(path.relative_to(ROOT))
        for path in runs
        if path != SOURCE / "explearn/__init__.py" and not any(path == dep or path.is_relative_to(dep) for dep in deps)
    )
    assert not outside, f"{name} runs {', '.join(outside)}; name their room under its deps, or import less"


@pytest.mark.parametrize(("name", "item", "by_name"), cases())
def test_a_stage_depends_on_no_room_that_it_does_not_need(name: str, item: dict[str, str], by_name: set[Path]) -> None:
    script = ROOT / STAGES[name]["cmd"].split()[1]
    runs = closure([script, *by_name])
    code = [dep for dep in dependencies(name, item) if dep.is_relative_to(SOURCE) and dep.suffix != ".json"]
    idle = [
        str(dep.relative_to(ROOT)) for dep in code if not any(run == dep or run.is_relative_to(dep) for run in runs)
    ]
    # What a package's explainer imports is not known here, and of the rooms' explainers not each needs every one.
    assert name in ("train-other", "attribute-learned") or not idle
    assert len(code) <= MOST_ROOMS


def test_every_dependency_on_code_exists() -> None:
    for name, item, _ in cases():
        for dep in dependencies(name, item):
            if dep.is_relative_to(SOURCE) or dep.is_relative_to(ROOT / "stages"):
                assert dep.exists(), f"{name}: {dep}"
