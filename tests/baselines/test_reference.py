"""Scores of the original research code on a tiny model, in tests/reference; its NOTES.md says what made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explearn import get_explainer
from explearn.compute import ComputeOptions
from explearn.data.alignment import NO_WORD
from explearn.models.classifier import Classifier
from explearn.models.encoding import Encoding

REFERENCE = Path(__file__).parent.parent / "reference"
METHODS = {"attention_last_layer": "raw_attention", "rollout": "rollout"}
"""Name there -> name here."""

TOLERANCES = {"float64": 1e-9, "float32": 1e-5}
"""Relative to the line's largest score."""


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (REFERENCE / name).read_text(encoding="utf-8").splitlines()]


INPUTS = {line["input"]: line for line in lines("inputs.jsonl")}
EXPECTED = [line for line in lines("attributions.jsonl") if line["method"] in METHODS]


@pytest.fixture(scope="module", params=TOLERANCES)
def precision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def classifier(precision: str) -> Classifier:
    loaded = Classifier.from_pretrained(REFERENCE / "model", ComputeOptions(device="cpu"))
    if precision == "float64":
        loaded.model.double()
    return loaded


def encoding(row: dict[str, Any]) -> Encoding:
    """The ids as they stand in the file, every sub-token a word of its own."""
    special = tuple(token in ("[CLS]", "[SEP]") for token in row["tokens"])
    owners = np.cumsum([not s for s in special]) - 1
    return Encoding(
        input_ids=tuple(row["input_ids"]),
        token_type_ids=tuple(row["token_type_ids"]),
        special=special,
        word_ids=tuple(NO_WORD if s else int(owner) for s, owner in zip(special, owners, strict=True)),
        words=tuple(token for token, s in zip(row["tokens"], special, strict=True) if not s),
    )


def test_the_reference_has_ten_inputs_for_each_method() -> None:
    assert [(line["method"], line["input"]) for line in EXPECTED] == [(m, i) for m in METHODS for i in range(10)]


def test_the_classifier_gives_the_reference_s_probabilities(classifier: Classifier) -> None:
    # Stored in float32.
    found = classifier.predict_proba([encoding(row) for row in INPUTS.values()])
    np.testing.assert_allclose(found, [row["probs"] for row in INPUTS.values()], atol=1e-5)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
@pytest.mark.parametrize("name", METHODS)
def test_scores_equal_the_original_code_s(classifier: Classifier, precision: str, name: str, together: bool) -> None:
    method = get_explainer(METHODS[name])
    expected = {line["input"]: line for line in EXPECTED if line["method"] == name}
    encodings = {number: encoding(INPUTS[number]) for number in expected}
    groups = [list(expected)] if together else [[number] for number in expected]
    for group in groups:
        found = method.score_batch(classifier, classifier.batch([encodings[number] for number in group]), None)
        assert str(found.scores.dtype) == f"torch.{precision}"
        for row, number in enumerate(group):
            # The original sets [CLS] to zero and keeps [SEP]; ours scores neither.
            positions = encodings[number].positions
            scores = np.asarray(expected[number]["scores"])
            gap = np.abs(found.scores[row].numpy()[positions] - scores[positions]).max()
            assert gap <= TOLERANCES[precision] * np.abs(scores).max()
            assert int(found.targets[row]) == expected[number]["target"]


def test_attributions_carry_the_reference_s_scores(classifier: Classifier) -> None:
    """The way from text to words keeps the scores: here every word of the text is one sub-token."""
    expected = next(line for line in EXPECTED if line["method"] == "rollout" and line["input"] == 0)
    (found,) = get_explainer("rollout").explain(classifier, [INPUTS[0]["text"]])
    assert found.words == ("great", "little", "movie")
    assert found.tokens == tuple(expected["tokens"][1:-1])
    np.testing.assert_allclose(found.scores, expected["scores"][1:-1], rtol=1e-5)
    np.testing.assert_array_equal(found.scores, found.token_scores)
