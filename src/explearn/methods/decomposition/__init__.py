"""Hidden states split into one vector for each token they stem from; no gradients."""

from explearn.methods.decomposition.alti import ALTI
from explearn.methods.decomposition.decompx import DecompX
from explearn.methods.decomposition.globenc import GlobEnc

__all__ = ["ALTI", "DecompX", "GlobEnc"]
