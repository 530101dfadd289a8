"""Learned explainers that look inside train and explain on the architectures that were listed after the first ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny

from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.l2e.explainer import L2E
from explearn.methods.listed_task import ListedTask

SOME = [*tiny.TEXTS, *tiny.CORPUS[:5]]


@pytest.mark.parametrize("kind", ("eurobert", *tiny.MORE_DECODERS))
def test_expnet_and_the_reader_of_hidden_states(kind: str) -> None:
    of = tiny.make_classifier(kind)
    data: Any = list(zip(SOME, of.predict(SOME), strict=True))
    gold = {f"train-{i}": [j % 2 == 0 for j in range(len(t.split()))] for i, t in enumerate(SOME, start=1)}
    task = ListedTask(of, data, data[:6], gold=gold, teachers={"occlusion": {}})
    for method in (ExpNet(protocol="in_domain", epochs=1), L2E(epochs=1, samples=4, width=8)):
        for attribution in method.learn(task).explain(of, [*tiny.TEXTS[:2]]):
            assert np.isfinite(attribution.scores).all() and attribution.scores.any()
