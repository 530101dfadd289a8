"""Attention weights read off as explanations, without gradients."""

from explearn.baselines.attention.attention_flow import AttentionFlow
from explearn.baselines.attention.raw_attention import AttentionMean, RawAttention
from explearn.baselines.attention.rollout import Rollout

__all__ = ["AttentionFlow", "AttentionMean", "RawAttention", "Rollout"]
