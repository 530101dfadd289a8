"""Explearn: explainers that learn to explain text classifiers, judged against the established attribution methods.

A predictor is what is explained, an explainer makes attributions of its predictions, and metrics say how good they are:

    import explearn

    classifier = explearn.load_classifier("FOLDER_OR_HUB_NAME")
    attribution = explearn.explain(classifier, "A warm, funny and wholly unnecessary sequel.")
    attribution.print()
    print(explearn.evaluate(classifier, [attribution], metrics=["comprehensiveness"]))
"""

import ast
import importlib
from pathlib import Path
from typing import Any


def _modules_of_names() -> dict[str, str]:
    """Read name -> module from the stub, which type checkers and editors read, too."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    found = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found.update({alias.name: node.module for alias in node.names})
    return found


_MODULES = _modules_of_names()

__all__ = list(_MODULES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: importing torch takes seconds, `import explearn` must not."""
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    if name in ("metrics", "testing"):
        return importlib.import_module(f"explearn.{name}")
    if name == "__version__":
        from importlib import metadata

        return metadata.version("explearn")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
