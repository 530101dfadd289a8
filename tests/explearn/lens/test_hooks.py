"""Hooks act in one thread, and only as long as their context."""

import threading

import pytest
import tiny
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


def test_a_recording_keeps_the_first_run():
    module = nn.Identity()
    with Hooks() as hooks:
        run = hooks.record(module)
        module(ONE)
        module(2 * ONE)
    assert run.output == 1


def test_hooks_are_removed_after_an_exception():
    module = nn.Identity()
    with pytest.raises(ZeroDivisionError), Hooks() as hooks:
        hooks.after(module, lambda *_call: 1 / 0)
        module(ONE)
    assert tiny.hooks(module) == 0
