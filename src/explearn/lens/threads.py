"""Hooks that act in one thread alone, and are taken away at the end.

Methods look into a model by hooks on its modules. Another thread may predict with the same model at that moment: a hook
made by `here_only` does nothing there. Where a library sets hooks and attributes of its own, it gets `a_view` of the
model: other modules around the same weights.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


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


def a_view(model: Model) -> Model:
    """A model of its own modules that shares all parameters and buffers with `model`."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    # What accelerate offloaded is in no parameter.
    hooks = [module._hf_hook for module in model.modules() if hasattr(module, "_hf_hook")]
    shared |= {id(kept): kept for hook in hooks if (kept := getattr(hook, "weights_map", None)) is not None}
    return copy.deepcopy(model, shared)
