"""Hooks that act in one thread alone, and are taken away at the end.

Methods look into a model by hooks on its modules. Another thread may predict with the same model at that moment: a hook
made by `here_only` does nothing there. Where a library sets hooks and attributes of its own, it gets other modules
around the same weights (`explearn.model.problems.sharing_copy`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def here_only(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that acts in the thread that calls this function, and in no other."""
    owner = threading.get_ident()

    @functools.wraps(hook)
    def guarded(*arguments: Any, **options: Any) -> Any:
        return hook(*arguments, **options) if threading.get_ident() == owner else None

    return guarded


@contextmanager
def hooked(handles: Sequence[Any]) -> Iterator[None]:
    """Take hooks away at the end, also after an exception."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
