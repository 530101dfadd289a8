"""fAML: fine-tuning AML on one text at a time."""

from typing import get_args

import numpy as np
import pytest
import tiny
import torch
from aml_cases import TEXTS, examples, one_word_classifier, refiner, untrained, values

from explearn.methods.aml import faml as engine
from explearn.methods.aml.params import Metric

BACKBONES = ("states", "encoder")


def start(backbone, folder):
    """A pAML of `one_word_classifier` that has not learned, with a G of either kind."""
    if backbone == "encoder":
        backbone = tiny.save_encoder(folder / "encoder")
    return untrained(one_word_classifier(), backbone=backbone)


class TestTuning:
    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_g_itself_stays_as_it_is(self, backbone, tmp_path):
        classifier = one_word_classifier()
        paml = start(backbone, tmp_path)
        before = {name: value.clone() for name, value in paml.model.state_dict().items()}
        refiner(paml, steps=2).explain(classifier, TEXTS)
        assert all(torch.equal(value, before[name]) for name, value in paml.model.state_dict().items())
        assert tiny.hooks(paml.model) == 0


class TestSearch:
    @pytest.mark.parametrize(("patience", "samples"), [(1, 0), (2, 4)])
    def test_a_text_s_map_does_not_depend_on_the_others(self, patience, samples, monkeypatch):
        monkeypatch.setattr(engine, "PATIENCE", patience)
        classifier = tiny.classifier()
        texts = [*examples(4, seed=7), *TEXTS, TEXTS[0], TEXTS[0]]
        targets = [number % 2 for number in range(len(texts))]
        faml = refiner(untrained(classifier), samples=samples, steps=8)
        together = faml.explain(classifier, texts, targets)
        assert len({one.steps for one in faml._searches}) > 1  # some are done before others
        for text, target, attribution in zip(texts, targets, together, strict=True):
            (alone,) = faml.explain(classifier, [text], [target])
            np.testing.assert_allclose(attribution.token_scores, alone.token_scores, atol=1e-3)

    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_a_text_whose_g_diverges_keeps_its_best_map(self, backbone, tmp_path):
        classifier = one_word_classifier()
        faml = refiner(start(backbone, tmp_path), learning_rate=1e30, samples=2)
        assert all(np.isfinite(a.scores).all() for a in faml.explain(classifier, tiny.TEXTS))
        assert faml.notes()["steps"] < faml.options.steps

    @pytest.mark.parametrize("backbone", BACKBONES)
    def test_it_is_never_worse_than_paml_on_its_metric_and_better_on_some_text(self, backbone, tmp_path):
        classifier = one_word_classifier()
        paml = start(backbone, tmp_path)
        texts = [*examples(8, seed=7), *examples(2, seed=8)]
        faml = refiner(paml, steps=15, learning_rate=1e-3 if backbone == "encoder" else 2e-2)
        before, after = (
            values(classifier, method.explain(classifier, texts), "aopc_difference") for method in (paml, faml)
        )
        assert (after >= before - 1e-5).all()
        assert after.mean() > before.mean() + 0.1


class TestNotes:
    def test_each_metric_s_best_map_is_judged_by_all_metrics(self):
        classifier = one_word_classifier()
        paml = untrained(one_word_classifier())
        faml = refiner(paml, metric="comprehensiveness")
        attributions = faml.explain(classifier, examples(6, seed=5))
        notes = faml.notes()
        judged = notes["judged"]
        assert notes["optimised_for"] == "comprehensiveness" and set(judged) == set(get_args(Metric))
        for name in judged:
            column = [row[name] for row in judged.values()]
            smaller = name in ("sufficiency", "log_odds", "aopc_sufficiency")
            assert judged[name][name] == pytest.approx(min(column) if smaller else max(column), abs=1e-4)
        expected = values(classifier, attributions, "comprehensiveness").mean()
        assert judged["comprehensiveness"]["comprehensiveness"] == pytest.approx(expected, abs=1e-5)
