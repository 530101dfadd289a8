"""No module imports itself, directly or through others, and one name is one class."""

import ast
from collections import defaultdict
from graphlib import TopologicalSorter

import grimp


def test_no_circle_of_imports():
    # Imports inside functions and for types count.
    graph = grimp.build_graph("explearn", "explearn_study", "explearn_apps", exclude_type_checking_imports=False)
    assert len(graph.modules) > 200
    # Raises CycleError, which names the modules of a circle.
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()


def test_no_two_classes_have_one_name(repository):
    # Classes within a class, such as a method's Options, are told apart by it.
    modules = defaultdict(list)
    for path in (repository / "src").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(path.relative_to(repository).as_posix())
    twice = {name: paths for name, paths in modules.items() if len(paths) > 1}
    assert len(modules) > 300 and twice == {}
