"""Attention weights read off as explanations, without gradients."""

from explearn.methods.attention.attention_flow import AttentionFlow
from explearn.methods.attention.raw_attention import AttentionMean, RawAttention
from explearn.methods.attention.rollout import Rollout

__all__ = ["AttentionFlow", "AttentionMean", "RawAttention", "Rollout"]
