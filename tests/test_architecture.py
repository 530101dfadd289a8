"""The house holds together: no module needs, directly or not, a module that needs it."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_no_circle_of_imports() -> None:
    graph = grimp.build_graph("explearn", "explearn_study", "explearn_apps", exclude_type_checking_imports=True)
    assert len(graph.modules) > 200
    # Imports inside functions count. Raises CycleError, which names the modules of a circle.
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()
