"""Which number of the classifier a gradient is taken of."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from explearn.methods.base.options import check_choice

Output = Literal["logit", "probability", "log_probability"]


def check_output(output: str) -> None:
    """Raise ParamsError unless `output` is one of Output."""
    check_choice("output", output, get_args(Output))


def select_output(logits: torch.Tensor, targets: torch.Tensor, output: Output) -> torch.Tensor:
    """The explained number of each text, shape (batch,): the target's logit, probability or log-probability."""
    values = {
        "logit": lambda: logits,
        "probability": lambda: logits.softmax(-1),
        "log_probability": lambda: logits.log_softmax(-1),
    }[output]()
    return values.gather(-1, targets[:, None]).squeeze(-1)
