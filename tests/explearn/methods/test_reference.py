"""Attention methods against the original research code's scores; other families have their own files."""

from __future__ import annotations

import golden
import numpy as np
import pytest

from explearn import get_explainer

METHODS = {"attention_last_layer": "raw_attention", "rollout": "rollout"}
"""Name there -> name here."""

TOLERANCES = {"float64": 1e-9, "float32": 1e-5}


@pytest.mark.parametrize("precision", TOLERANCES)
def test_the_classifier_gives_the_reference_s_probabilities(precision: str) -> None:
    # Stored in float32.
    rows = golden.inputs().values()
    found = golden.classifier(precision).predict_proba([golden.encoding(row) for row in rows])
    np.testing.assert_allclose(found, [row["probs"] for row in rows], atol=1e-5)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", METHODS)
def test_scores_equal_the_original_code_s(name: str, precision: str, together: bool) -> None:
    golden.assert_reproduces(
        get_explainer(METHODS[name]), name, TOLERANCES[precision], precision=precision, together=together
    )


def test_attributions_carry_the_reference_s_scores() -> None:
    """The way from text to words keeps the scores: here every word of the text is one sub-token."""
    expected = golden.expected("rollout")[0]
    (found,) = get_explainer("rollout").explain(golden.classifier("float32"), [golden.inputs()[0]["text"]])
    assert found.words == ("great", "little", "movie")
    assert found.tokens == tuple(expected["tokens"][1:-1])
    np.testing.assert_allclose(found.scores, expected["scores"][1:-1], rtol=1e-5)
    np.testing.assert_array_equal(found.scores, found.token_scores)
