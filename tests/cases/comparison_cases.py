"""A small model with a mind of its own, and a table of texts for it."""

import csv

import pytest
import tiny

from explearn.methods import registry

TEXTS = (
    "a warm funny sequel",
    "unbelievably slow delivery and no refund",
    "our guide was friendly and the castle looked beautiful",
    "she sells sea shells by the sea shore",
    "the quick brown fox sleeps all afternoon",
    "nobody asked for a broken box",
)
LABELS = ("yes", "no", "yes", "yes", "no", "no")


@pytest.fixture(autouse=True)
def _own_names(monkeypatch):
    """Methods from files are known in the test that gives them alone."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A tiny BERT classifier with the classes no and yes, as save_pretrained writes it."""
    return tiny.save(tmp_path_factory.mktemp("model"), "bert", 2)


@pytest.fixture
def table(tmp_path):
    """Write a CSV file of TEXTS with further columns."""

    def write(name="t.csv", text="text", **columns):
        path = tmp_path / name
        given = {text: TEXTS, **columns}
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(given)
            writer.writerows(zip(*given.values(), strict=True))
        return path

    return write
