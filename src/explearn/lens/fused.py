"""What torch's fused attention kernel for CPUs knows besides its result: each query's log-sum-exp over its keys.

A column of the attention matrix needs every row's normaliser, which is most of what attention costs. The kernel has
them ready, and returns them where it is called by its own name.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend

flash_on_cpu: Callable[..., tuple[torch.Tensor, torch.Tensor]] = (
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
)
"""(query, key, value, dropout, causal, attn_mask=, scale=) -> output, (b, h, n, d), and normalisers, (b, h, n)."""


def additive(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask as it is added to the logits, -inf where a bool one is False, as torch's own call adds it."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, float("-inf"))


def runs_flash_on_cpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    dropout: float,
    scale: float | None,
) -> bool:
    """Whether scaled_dot_product_attention takes the kernel whose normalisers can be had; `bias` as of `additive`."""
    if query.device.type != "cpu":
        return False
    if torch.is_autocast_enabled("cpu") and {t.dtype for t in (query, key, value)} != {torch.get_autocast_dtype("cpu")}:
        return False  # Autocast would turn them into its own type first.
    choice = torch._fused_sdp_choice(query, key, value, bias, dropout, False, scale=scale)
    return bool(choice == SDPBackend.FLASH_ATTENTION.value)
