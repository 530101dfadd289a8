"""Attention weights read off as explanations, without gradients."""

from explearn.baselines.attention.raw_attention import RawAttention
from explearn.baselines.attention.rollout import Rollout

__all__ = ["RawAttention", "Rollout"]
