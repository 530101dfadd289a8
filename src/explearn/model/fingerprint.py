"""Which weights a model has, as a hash."""

from __future__ import annotations

import hashlib

import torch


def fingerprint(model: torch.nn.Module, start: str = "") -> str:
    """SHA-256 over `start`, and the names and values of all parameters and buffers of a model."""
    digest = hashlib.sha256(start.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
