"""No module imports itself, directly or through others."""

from graphlib import TopologicalSorter

import grimp


def test_no_circle_of_imports():
    # Imports inside functions and for types count.
    graph = grimp.build_graph("explearn", "explearn_study", "explearn_apps", exclude_type_checking_imports=False)
    assert len(graph.modules) > 200
    # Raises CycleError, which names the modules of a circle.
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()
