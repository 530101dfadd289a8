"""Seeds, and random orders that depend only on ids."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LOCK = threading.RLock()


def hash_order(ids: Iterable[str], seed: int) -> list[str]:
    """Return `ids` in a random order that depends only on each id and the seed."""
    return sorted(ids, key=lambda item: (hashlib.sha256(f"{seed}:{item}".encode()).digest(), item))


@contextmanager
def numpy_seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global generator within the block, one thread at a time, and restore its state afterwards."""
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
