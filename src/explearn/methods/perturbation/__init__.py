"""Methods that look at how predictions change when words are left out."""

from explearn.methods.perturbation.deep_shap import DeepShap
from explearn.methods.perturbation.kernel_shap import KernelShap
from explearn.methods.perturbation.lime import Lime
from explearn.methods.perturbation.occlusion import Occlusion
from explearn.methods.perturbation.shap import Shap
from explearn.methods.perturbation.solvex import Solvex

__all__ = ["DeepShap", "KernelShap", "Lime", "Occlusion", "Shap", "Solvex"]
