"""Seeds, and random orders that depend on ids alone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable


def hash_order(ids: Iterable[str], seed: int) -> list[str]:
    """`ids` in an order that depends on nothing but each id and the seed."""
    return sorted(ids, key=lambda item: (hashlib.sha256(f"{seed}:{item}".encode()).digest(), item))


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
