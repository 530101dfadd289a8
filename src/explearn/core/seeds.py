"""Seeds, and random orders that depend on ids alone."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable

from explearn.core.arguments import shown
from explearn.core.errors import ParamsError
from explearn.core.settings import LARGEST_SEED

RANDOM_LOCK = threading.RLock()
"""Held where a library draws from the global generators, which are set to a seed and put back: one thread at a time.

Predicting does not wait for it. What another thread draws from the global generators at such a moment (not what it
draws from a generator of its own) depends on the timing."""


def hash_order(ids: Iterable[str], seed: int) -> list[str]:
    """`ids` in an order that depends on nothing but each id and the seed."""
    return sorted(ids, key=lambda item: (hashlib.sha256(f"{seed}:{item}".encode()).digest(), item))


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators. Raises ParamsError for what is no seed."""
    import numpy as np
    import torch

    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise ParamsError(f"seed: got {shown(seed)}; expected a whole number from 0 to {LARGEST_SEED}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
