"""Python's collector of reference cycles, kept off what comes to stay.

Importing torch and transformers makes some million objects that live as long as the process. The collector goes through
them again and again while they are made, and from time to time after that.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_OF_PYTHON = 1000
"""So many objects or fewer set aside are Python's own: 3.12.1 begins with 375, 3.11 and 3.13 with none. Whoever sets
objects aside after the first import sets aside thousands."""


@contextmanager
def start_up() -> Iterator[None]:
    """Collect nothing in the block, which imports torch and loads a model; nor what it has made, as long as it lives.

    Where torch is loaded already there is nothing to gain, and the block runs as it is: what is garbage by then would
    never be freed.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def without_what_is_there() -> Iterator[None]:
    """Leave all objects made before the block out of the collections in it, but for those that are garbage already.

    To look through all that torch and transformers have loaded takes longer than some methods do. Nothing happens where
    somebody else has set objects aside: they would be taken back at the end.
    """
    if gc.get_freeze_count() > _OF_PYTHON:
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
