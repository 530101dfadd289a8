"""A learned explainer that holds some tensors, for tests of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch

from explearn.methods.base.explainer import BatchExplainer, BatchScores
from explearn.methods.base.learned import LearnedExplainer, TrainedState
from explearn.methods.info import About


class Kept(LearnedExplainer, BatchExplainer):
    """It keeps what it is given."""

    about = About(name="kept", family="learned", cost="nothing")
    weights_file = "w.safetensors"
    state: TrainedState

    def learn(self, task: Any, *, description: str | None = None) -> Self:
        return self

    def score_batch(self, classifier: Any, batch: Any, targets: Any) -> BatchScores:
        raise NotImplementedError

    def _state(self) -> TrainedState:
        return self.state

    def _restore(self, state: TrainedState, folder: Path) -> None:
        self.state = state


def keep(folder: Path, tensors: Mapping[str, torch.Tensor], **record: Any) -> None:
    """Save tensors as a trained explainer's."""
    kept = Kept()
    kept.state = TrainedState(tensors, record)
    kept.save_pretrained(folder)
