"""Gradients at the word embeddings, computed by captum."""

from explearn.baselines.gradient.deep_lift import DeepLift
from explearn.baselines.gradient.gradient import Gradient
from explearn.baselines.gradient.gradient_shap import GradientShap
from explearn.baselines.gradient.input_x_gradient import InputXGradient
from explearn.baselines.gradient.integrated_gradients import IntegratedGradients
from explearn.baselines.gradient.sequential_ig import SequentialIG

__all__ = [
    "DeepLift",
    "Gradient",
    "GradientShap",
    "InputXGradient",
    "IntegratedGradients",
    "SequentialIG",
]
