"""What tests of the paper's ExpNet share."""

from __future__ import annotations

import numpy as np
import torch

from explearn.core.compute import ComputeOptions
from explearn.lens.features import TokenFeatures
from explearn.methods.expnet.paper import ExpNetPaper, TokenExamples

CPU = ComputeOptions(device="cpu")


def planted(texts: int, seed: int, width: int = 8) -> TokenExamples:
    """Twelve tokens a text; column 3 is large where there is evidence, the others are noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(texts * 12, generator=generator) < 0.3).float()
    features = torch.rand(len(labels), width, generator=generator)
    features[:, 3] = 0.5 * labels + 0.4 * torch.rand(len(labels), generator=generator)
    return TokenExamples(features, labels, np.arange(texts + 1) * 12)


def scores(expnet: ExpNetPaper, features: torch.Tensor) -> torch.Tensor:
    return expnet.score(TokenFeatures(features[None], None, torch.zeros(1, 2)))[0]
