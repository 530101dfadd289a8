"""The texts, labels and marks that an explainer learns from."""

import pytest
import tiny

from explearn.methods.base.task import ListedTask


@pytest.mark.parametrize(
    ("classes", "labels", "expected"),
    [
        (["1 star", "2 stars"], [1, 2], ["1 star", "2 stars"]),
        (["1 star", "2 stars"], [1, 0], ["2 stars", "1 star"]),
        (["bad", "good"], [1, "bad"], ["good", "bad"]),
    ],
)
def test_a_number_as_label_is_a_position_only_where_it_cannot_be_a_name(classes, labels, expected):
    classifier = tiny.classifier().renamed(dict(zip(tiny.classifier().labels, classes, strict=True)))
    task = ListedTask(classifier, ["a warm film", "a dull film"], labels=labels)
    assert [example.label for example in task.examples()] == expected
