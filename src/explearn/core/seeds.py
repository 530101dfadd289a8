"""Seeds, and random orders that depend on ids alone."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable

RANDOM_LOCK = threading.RLock()
"""Held where a library draws from the global generators, which are set to a seed and put back: one thread at a time.

Predicting does not wait for it. What another thread draws from the global generators at such a moment (not what it
draws from a generator of its own) depends on the timing."""


def hash_order(ids: Iterable[str], seed: int) -> list[str]:
    """Return `ids` in an order that depends on nothing but each id and the seed."""
    return sorted(ids, key=lambda item: (hashlib.sha256(f"{seed}:{item}".encode()).digest(), item))


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
