"""Hooks act in one thread, and only as long as their context."""

import threading

import torch
from torch import nn

from explearn.lens.hooks import Hooks

ONE = torch.ones(1)


def test_hooks_act_only_in_the_thread_that_made_them():
    module = nn.Identity()
    elsewhere = []
    with Hooks() as hooks:
        run = hooks.record(module)
        hooks.before(module, lambda _module, args, kwargs: ((args[0] + 1,), kwargs))
        hooks.replace(module, lambda output: 10 * output)
        thread = threading.Thread(target=lambda: elsewhere.append(module(ONE)))
        thread.start()
        thread.join()
        assert elsewhere == [1] and run.output is None
        assert module(ONE) == 20
    assert run.input == 2 and run.output == 2
