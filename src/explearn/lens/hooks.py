"""Hooks in a model's modules, which act in one thread and are removed at the end.

Another thread may predict with the same model while a method looks into it; hooks made by `Hooks` do nothing there. A
library that sets hooks and attributes of its own gets a copy of the modules that shares the weights
(`explearn.predictors.problems.sharing_copy`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(slots=True)
class Recording:
    """The first run of a module; None as long as it has not run.

    Attributes:
        input: first positional argument; None if the module was called with keywords only.
        output: what the module returned.
    """

    input: Any = None
    output: Any = None


class Hooks(ExitStack):
    """A context in which hooks can be added to modules; at its end they are removed, also after an exception.

    They act only in the thread that made the context.

    Example:
        >>> import torch
        >>> double = torch.nn.Identity()
        >>> with Hooks() as hooks:
        ...     hooks.replace(double, lambda output: 2 * output)
        ...     run = hooks.record(double)
        ...     double(torch.ones(2))
        tensor([2., 2.])
        >>> run.output
        tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self._owner = threading.get_ident()

    def before(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        """Call `hook(module, args, kwargs)` before each run; its result, unless None, replaces (args, kwargs)."""
        self.callback(module.register_forward_pre_hook(self._here(hook), with_kwargs=True).remove)

    def after(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        """Call `hook(module, args, kwargs, output)` after each run; its result, unless None, replaces the output."""
        self.callback(module.register_forward_hook(self._here(hook), with_kwargs=True).remove)

    def replace(self, module: nn.Module, change: Callable[[Any], Any]) -> None:
        """Replace each output of a module by `change(output)`."""
        self.after(module, lambda _module, _args, _kwargs, output: change(output))

    def record(self, module: nn.Module) -> Recording:
        """Return a recording, which the module's next run fills.

        It holds what the module was given and what came back, whatever other hooks change.
        """
        recording = Recording()

        def on_input(_module: nn.Module, args: tuple[Any, ...], _kwargs: object) -> None:
            if recording.output is None:
                recording.input = args[0] if args else None

        def on_output(_module: nn.Module, _args: object, _kwargs: object, output: object) -> None:
            if recording.output is None:
                recording.output = output

        first = module.register_forward_pre_hook(self._here(on_input), prepend=True, with_kwargs=True)
        self.callback(first.remove)
        self.after(module, on_output)
        return recording

    def _here(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            if threading.get_ident() == self._owner:
                return hook(*arguments)
            return None

        return guarded


@dataclass(slots=True)
class Passes:
    """The numbers of texts that passed the classifier; a batch of 8 texts counts as 8.

    Attributes:
        forward: texts in forward passes.
        backward: texts in backward passes.
    """

    forward: int = 0
    backward: int = 0


@contextmanager
def count_passes(model: nn.Module) -> Iterator[Passes]:
    """Count the passes through a sequence classifier made inside the block.

    A backward pass counts when it starts at the logits; gradients with respect to several classes count several times.
    """
    passes = Passes()

    def on_backward(gradient: Tensor) -> None:
        passes.backward += len(gradient)

    def on_forward(_module: nn.Module, _args: object, _kwargs: object, output: Any) -> None:
        passes.forward += len(output.logits)
        if output.logits.requires_grad:
            output.logits.register_hook(on_backward)

    with Hooks() as hooks:
        hooks.after(model, on_forward)
        yield passes
