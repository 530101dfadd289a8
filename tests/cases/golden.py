"""Scores of the original research code on a tiny model, in tests/reference; its NOTES.md says what made them."""

import functools
import json

import numpy as np
import torch
from places import ROOT

from explearn import ComputeOptions, Encoding, load_classifier
from explearn.core.words import lay_out

FOLDER = ROOT / "tests" / "reference"
PREDICTED = "attributions.jsonl"
OTHER_CLASS = "attributions_other_class.jsonl"
"""Files: scores for the predicted class, and for the one after it."""


@functools.cache
def lines(name):
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


@functools.cache
def inputs():
    return {line["input"]: line for line in lines("inputs.jsonl")}


def expected(method, file=PREDICTED):
    """Lines of one method by input number: `target`, and `scores` of every position, [CLS] and [SEP] included."""
    actual = {line["input"]: line for line in lines(file) if line["method"] == method}
    assert len(actual) == 10, f"{method} has {len(actual)} lines in {file}"
    return actual


@functools.cache
def classifier(precision="float64"):
    """The reference's model, cast to float64 as the originals were run, or left in float32. Tests leave it as it is."""
    loaded = load_classifier(FOLDER / "model", ComputeOptions(device="cpu"))
    if precision == "float64":
        loaded.model.double()
    return loaded


def encoding(row):
    """The ids as they stand in inputs.jsonl, every sub-token a word of its own."""
    special = [token in ("[CLS]", "[SEP]") for token in row["tokens"]]
    text = lay_out([token for token, s in zip(row["tokens"], special, strict=True) if not s])
    spans = iter(text.spans)
    offsets = [(0, 0) if s else next(spans) for s in special]
    sequence = [None if s else 0 for s in special]
    return Encoding.of([text], row["input_ids"], offsets, sequence, row["token_type_ids"])


def assert_reproduces(
    explainer,
    method,
    tolerance,
    precision="float64",
    file=PREDICTED,
    together=False,
    special=False,
):
    """Fail unless the explainer gives the reference's scores for all ten inputs.

    In `attributions.jsonl` no targets are given: the explainer must find the predicted class by itself.

    Args:
        explainer: the explainer.
        method: its name in the reference.
        tolerance: largest difference, relative to the largest score of the line.
        precision: dtype of the classifier.
        file: file of the reference.
        together: all inputs in one padded batch, instead of each alone.
        special: compare the scores of [CLS] and [SEP] too, for methods that define them as the reference does.
    """
    of = classifier(precision)
    wanted = expected(method, file)
    encodings = {number: encoding(inputs()[number]) for number in wanted}
    for group in [list(wanted)] if together else [[number] for number in wanted]:
        batch = of.batch([encodings[number] for number in group])
        targets = None if file == PREDICTED else torch.tensor([wanted[number]["target"] for number in group])
        actual = explainer.score_batch(of, batch, targets)
        assert str(actual.scores.dtype) == f"torch.{precision}"
        assert not actual.scores.requires_grad
        for row, number in enumerate(group):
            positions = list(range(len(encodings[number]))) if special else encodings[number].positions
            scores = np.asarray(wanted[number]["scores"])
            gap = np.abs(actual.scores[row].numpy()[positions] - scores[positions]).max()
            assert gap <= tolerance * np.abs(scores).max(), f"input {number}: off by {gap}, of {np.abs(scores).max()}"
            assert int(actual.targets[row]) == wanted[number]["target"]
