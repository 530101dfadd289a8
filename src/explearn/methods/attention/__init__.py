"""Attention weights read off as explanations, without gradients."""
