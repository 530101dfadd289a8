"""Attention features of sub-tokens."""

from __future__ import annotations

import pytest
import tiny
from rounding import assert_close

from explearn.lens.features import batch_features


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_padding_changes_no_feature(kind: str) -> None:
    of = tiny.classifier(kind)
    encodings = of.encode(tiny.TEXTS)
    together = batch_features(of, of.batch(encodings), hidden=True)
    for row, encoding in enumerate(encodings):
        alone = batch_features(of, of.batch([encoding]), hidden=True)
        length = len(encoding)
        assert_close(together.attention[row, :length], alone.attention[0])
        assert together.hidden is not None and alone.hidden is not None
        assert_close(together.hidden[row, :length], alone.hidden[0])
        assert_close(together.logits[row], alone.logits[0])
