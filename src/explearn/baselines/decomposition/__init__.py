"""Hidden states split into one vector for each token they stem from; no gradients."""

from explearn.baselines.decomposition.alti import ALTI
from explearn.baselines.decomposition.decompx import DecompX
from explearn.baselines.decomposition.globenc import GlobEnc

__all__ = ["ALTI", "DecompX", "GlobEnc"]
