"""Seeds, and random orders that depend only on ids."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable


def hash_order(ids: Iterable[str], seed: int) -> list[str]:
    """Return `ids` in a random order that depends only on each id and the seed."""
    return sorted(ids, key=lambda item: (hashlib.sha256(f"{seed}:{item}".encode()).digest(), item))


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
