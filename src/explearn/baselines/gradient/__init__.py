"""Gradients at the word embeddings, computed by captum."""

from explearn.baselines.gradient.input_x_gradient import InputXGradient
from explearn.baselines.gradient.outputs import select_output

__all__ = ["InputXGradient", "select_output"]
