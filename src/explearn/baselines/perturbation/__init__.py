"""Methods that look at how predictions change when words are left out."""

from explearn.baselines.perturbation.deep_shap import DeepShap
from explearn.baselines.perturbation.kernel_shap import KernelShap
from explearn.baselines.perturbation.lime import Lime
from explearn.baselines.perturbation.occlusion import Occlusion
from explearn.baselines.perturbation.shap import Shap
from explearn.baselines.perturbation.solvex import Solvex

__all__ = ["DeepShap", "KernelShap", "Lime", "Occlusion", "Shap", "Solvex"]
