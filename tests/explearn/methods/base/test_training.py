"""The training loop of the learned explainers."""

import pytest
import torch
from torch import nn

from explearn.methods.base.training import Course, limited, train_epochs


def descent(scores):
    """Train w from 0 on the loss w with steps of 1; return w and the course."""
    module = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(module.weight)
    course = train_epochs(
        [module],
        torch.optim.SGD(module.parameters(), lr=1.0),
        lambda: [[0, 0, 0], [0]],
        lambda batch: module.weight.sum(),
        len(scores) - 1,
        validate=lambda epoch, losses: scores[epoch],
        validate_first=True,
    )
    assert not module.training
    return module.weight.item(), course


@pytest.mark.parametrize(
    ("scores", "patience", "best", "epochs"),
    [
        ([0.0, 2.0, 2.0, 1.0], 3, 1, 3),  # the first of equals
        ([1.0, 0.0, 0.0, 2.0], 2, 0, 2),  # stops before the best one
        ([None, None, None], 1, 2, 2),  # without a score, the last
        ([None, 0.5, None], 3, 1, 2),
        ([(1.0, 0.5), (0.0, 0.9), (1.0, 0.6)], 3, 2, 2),
    ],
)
def test_training_ends_at_the_best_epoch(scores, patience, best, epochs):
    # Two steps of 1 an epoch; losses of epoch n: -2 (n - 1), three texts, and -2 (n - 1) - 1, one text.
    expected = [-2 * epoch - 0.25 for epoch in range(epochs)]
    with limited(patience) as courses:
        weight, course = descent(scores)
    assert (weight, course.best_epoch, course.losses) == (-2.0 * best, best, expected)
    assert courses == [course] and course.validated == any(scores)


def test_a_training_says_by_what_it_ended():
    assert descent([0.0, 1.0, 2.0])[1].ended == "epochs"
    assert descent([1.0, 0.0, 0.0, 0.0, 2.0])[1].ended == "patience"
    with limited(minutes=0) as courses:
        descent([0.0, 1.0, 2.0])
    assert courses[0].ended == "time" and len(courses[0].losses) == 1


def test_the_history_has_each_epoch_with_what_was_measured_and_the_start_if_it_was():
    course = Course([0.5, 0.25], 1, True, "epochs")
    assert course.history() == [
        {"epoch": 1, "loss": 0.5, "best": True},
        {"epoch": 2, "loss": 0.25, "best": False},
    ]
    figures = [{"accuracy": value} for value in (0.3, 0.9, 0.8)]
    assert [entry["accuracy"] for entry in course.history(figures)] == [0.3, 0.9, 0.8]
    assert course.history(figures)[0] == {"epoch": 0, "loss": None, "best": False, "accuracy": 0.3}
