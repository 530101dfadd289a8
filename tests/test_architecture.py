"""The house holds together: no module of the package needs, directly or not, a module that needs it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from import_cases import runtime_imports

Graph = dict[str, set[str]]
"""Module -> modules of the package that it imports anywhere, inside functions too."""


def modules_in(folder: Path) -> dict[str, Path]:
    """Name -> file of every module of the package in `folder`."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = (folder.name, *path.relative_to(folder).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph(folder: Path) -> Graph:
    modules = modules_in(folder)
    graph: Graph = {}
    for name, path in modules.items():
        wanted = set()
        for statement in runtime_imports(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.Import):
                wanted |= {alias.name for alias in statement.names}
                continue
            base = statement.module or ""
            if statement.level:
                package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*package[: len(package) - statement.level + 1], *base.split(".")]).rstrip(".")
            inside = {f"{base}.{alias.name}" for alias in statement.names}
            # `from package import name` needs the package itself where the name is no module of it.
            wanted |= inside if inside <= modules.keys() else {base, *inside}
        graph[name] = (wanted & modules.keys()) - {name}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Groups of modules that all reach one another, each sorted."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for following in graph[waiting.pop()] - found:
                found.add(following)
                waiting.append(following)
        return found

    reach = {module: reached(module) for module in graph}
    groups = {frozenset(m for m in reach[module] if module in reach[m]) for module in graph if module in reach[module]}
    return sorted(sorted(group) for group in groups)


def test_no_circle_of_imports(repository: Path) -> None:
    assert circles(import_graph(repository / "src" / "explearn")) == []


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("def f():\n    from package.first import x\n", [["package.first", "package.second"]]),
        ("def f():\n    from .first import x\n", [["package.first", "package.second"]]),
        ("try:\n    import package.first\nexcept ImportError:\n    pass\n", [["package.first", "package.second"]]),
        ("if TYPE_CHECKING:\n    from package.first import x\n", []),
        ("from package import other\n", []),
    ],
)
def test_what_counts_as_a_circle(tmp_path: Path, second: str, expected: list[list[str]]) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    for name, content in (("__init__", ""), ("first", "from package import second\n"), ("second", second)):
        (folder / f"{name}.py").write_text(content, encoding="utf-8")
    (folder / "other.py").write_text("", encoding="utf-8")
    assert circles(import_graph(folder)) == expected
