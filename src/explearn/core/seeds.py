"""Seeds, and random orders that depend on ids alone."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LOCK = threading.RLock()


def hash_order(ids: Iterable[str], seed: int) -> list[str]:
    """Return `ids` in an order that depends on nothing but each id and the seed."""
    return sorted(ids, key=lambda item: (hashlib.sha256(f"{seed}:{item}".encode()).digest(), item))


@contextmanager
def numpy_seeded(seed: int) -> Iterator[None]:
    """Let what draws from numpy's global generator draw by `seed`, one thread at a time; its state is put back."""
    import numpy as np

    with _LOCK:
        before = np.random.get_state(legacy=False)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(before)


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
