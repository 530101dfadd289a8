"""Hooks that act in only one thread and are removed at the end.

Methods use hooks to look into a model's modules. Another thread may predict with the same model at that moment: a hook
made by `here_only` does nothing there. A library that sets hooks and attributes of its own gets a copy of the modules
that shares the weights (`explearn.predictors.problems.sharing_copy`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def here_only(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that acts only in the thread that calls this function."""
    owner = threading.get_ident()

    @functools.wraps(hook)
    def guarded(*arguments: Any, **options: Any) -> Any:
        return hook(*arguments, **options) if threading.get_ident() == owner else None

    return guarded


@contextmanager
def hooked(handles: Sequence[Any]) -> Iterator[None]:
    """Remove hooks at the end, also after an exception."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
