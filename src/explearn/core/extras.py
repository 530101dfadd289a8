"""Packages that only some parts of Explearn need: the extras of `pip install 'explearn[EXTRA]'`."""

from __future__ import annotations

import importlib
from types import ModuleType

from explearn.core.errors import ExplearnError, first_line


class MissingExtraError(ExplearnError, ImportError):
    """A package that an extra brings is not installed.

    Attributes:
        extra: the extra's name, as in `pip install 'explearn[EXTRA]'`.
    """

    def __init__(self, message: str, *, module: str, extra: str) -> None:
        super().__init__(message)
        self.name = module
        self.extra = extra


def need(module: str, *, extra: str, what: str | None = None) -> ModuleType:
    """Import a module that an extra brings.

    Args:
        module: as `import` takes it, such as "openai" or "optuna.storages.journal".
        extra: the extra of pyproject.toml that brings it.
        what: what cannot be done without it, as the message's first words; default: "this".

    Where types matter, call this first and let an ordinary import follow. Raises MissingExtraError, one sentence that
    names the extra, where the module or one that it needs itself is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        gone = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == package
        reason = "is not installed" if gone else f"cannot be imported ({first_line(error).rstrip('.')})"
        message = f"{what or 'this'} needs the package {package}, which {reason}; pip install 'explearn[{extra}]'"
        raise MissingExtraError(message, module=module, extra=extra) from error
