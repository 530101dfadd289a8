"""What passes the parts of each architecture is what the model gives, and follows the formulas of a block."""

import pytest
import tiny
import torch

from explearn import UnsupportedError
from explearn.lens.anatomy import dissect


def test_a_head_of_another_kind_is_refused():
    model = tiny.make_classifier().model
    model.classifier = torch.nn.Sequential(torch.nn.Linear(tiny.HIDDEN, 2))
    with pytest.raises(UnsupportedError, match="built in an unusual way"):
        dissect(model)


def test_a_convolution_between_the_blocks_is_refused():
    of = tiny.make_classifier("deberta-v2")
    of.model.base_model.encoder.conv = torch.nn.Identity()
    with pytest.raises(UnsupportedError, match="a convolution follows its first layer"):
        dissect(of.model)
