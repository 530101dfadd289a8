"""A shortcut is planted, learned and found; without a plant there is none to find."""

from random import Random

import pytest
import tiny

import _shortcuts as shortcuts
from _shortcuts import RANDOM_LABELS, measure_shortcut
from explearn.core.compute import ComputeOptions
from explearn.core.examples import Example
from explearn_study.sources import SourceDataset

NOUNS = ("fox", "dog", "sea", "castle", "tide", "morning", "guide", "light")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.save_encoder(tmp_path_factory.mktemp("encoder"))


def films(count):
    draw = Random(1)
    examples = []
    for number in range(count):
        word, label = (("warm", "good"), ("slow", "bad"))[number % 2]
        words = [*draw.choices(NOUNS, k=4), word]
        draw.shuffle(words)
        examples.append(Example(f"film-{number}", tuple(words), label, "train", "films"))
    return SourceDataset(examples, [], ["bad", "good"], {}, frozenset())


def measure(plant, encoder, folder):
    recipe = {"epochs": 8, "patience": 8, "learning_rate": 3e-3, "batch_size": 16}
    return measure_shortcut(films(120), plant, 1, folder, encoder, ComputeOptions(), **recipe)


def test_a_planted_word_is_among_the_first_findings(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(shortcuts, "PLANTED_SHARE", 0.2)  # an element must be in some texts of few
    result = measure("word", encoder, tmp_path / "classifier")
    assert result.follows and result.effect > 0.5
    assert result.rank is not None and result.rank <= 3 and result.rank_by_counts is not None
    assert 0 < result.confirmed < result.looked_at


def test_under_random_labels_nothing_is_planted(encoder, tmp_path):
    result = measure(RANDOM_LABELS, encoder, tmp_path / "classifier")
    assert (result.obeyed, result.effect, result.rank, result.rank_by_counts) == (None, None, None, None)
    assert not result.follows and result.looked_at
