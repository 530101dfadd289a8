"""Gradients at the word embeddings, computed by captum."""

from explearn.methods.gradient.deep_lift import DeepLift
from explearn.methods.gradient.gradient import Gradient
from explearn.methods.gradient.gradient_shap import GradientShap
from explearn.methods.gradient.input_x_gradient import InputXGradient
from explearn.methods.gradient.integrated_gradients import IntegratedGradients
from explearn.methods.gradient.sequential_ig import SequentialIG

__all__ = [
    "DeepLift",
    "Gradient",
    "GradientShap",
    "InputXGradient",
    "IntegratedGradients",
    "SequentialIG",
]
