"""What modules import."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def runtime_imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports that may run: those under TYPE_CHECKING never do."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from runtime_imports(ast.Module([other], []))
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from runtime_imports(child)
