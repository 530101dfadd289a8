"""A classifier in the user's own code, named as `module:name` or `file.py:name`. Loading it runs that code."""

from __future__ import annotations

import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from typing import Any

from explearn.core.errors import ModelError, blaming


def load_object(source: str) -> Any:
    """Run a module or a file of the user, and return what has a name in it.

    A module is looked for in the working directory first; a file finds the modules beside it.

    Args:
        source: `module:name` or `file.py:name`.

    Raises:
        ModelError: there is no such module, file or name, or the code fails.
    """
    place, _, name = source.rpartition(":")
    with blaming(None, f"{source}: {place} failed", ModelError):
        module = _module(place)
    try:
        return attrgetter(name)(module)
    except AttributeError as error:
        raise ModelError(f"{source}: {place} has no {name}; expected the name of a classifier or function") from error


def _module(place: str) -> Any:
    """Run a module or file and return it."""
    if not place.endswith(".py"):
        _find_beside(Path.cwd())
        return importlib.import_module(place)
    path = Path(place).resolve()
    if not path.is_file():
        raise ModelError(f"{place}: no such file; expected Python code with a classifier (file.py:name)")
    _find_beside(path.parent)
    spec: Any = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    # What it defines may be saved and loaded under the module's name, unless another module has it.
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _find_beside(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
