"""Optional packages: the extras of `pip install 'explearn[EXTRA]'`."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from explearn.core.errors import UnsupportedError, first_line


class MissingExtraError(UnsupportedError, ImportError):
    """A package that an extra brings is not installed. A comparison leaves out the methods that need it.

    Attributes:
        name: the module that could not be imported.
        extra: the extra's name, as in `pip install 'explearn[EXTRA]'`.
    """

    def __init__(self, module: str, extra: str, what: str, reason: str) -> None:
        package = module.partition(".")[0]
        super().__init__(f"{what} needs the package {package}, which {reason}; pip install 'explearn[{extra}]'")
        self.name = module
        self.extra = extra


def need(module: str, *, extra: str, what: str = "this") -> ModuleType:
    """Import a module that an extra brings.

    For type checking, call this first and let an ordinary import follow.

    Args:
        module: name of the module, such as "dvc" or "optuna.storages.journal".
        extra: the extra in pyproject.toml that contains it.
        what: what needs it, as the message's first words.

    Raises:
        MissingExtraError: the module or one of its own imports is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        reason = f"cannot be imported ({first_line(error).rstrip('.')})"
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package:
            reason = "is not installed"
        raise MissingExtraError(module, extra, what, reason) from error


def check_installed(*packages: str, extra: str, what: str = "this") -> None:
    """Raise MissingExtraError as `need` does, without loading the packages: some take seconds."""
    for package in packages:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):  # ValueError: a module that another one has blocked
            spec = None
        if spec is None:
            raise MissingExtraError(package, extra, what, "is not installed")
