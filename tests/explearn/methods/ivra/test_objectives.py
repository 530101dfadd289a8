"""IvRA's losses and its pilot update."""

import math

import pytest
import tiny
import torch
from ivra_cases import examples, simulatability_of
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

from explearn.methods.ivra import objectives, simulatability


class TestLosses:
    @pytest.mark.parametrize(("rise", "margin", "expected"), [(0.0, 1.0, 1.0), (-9.0, 1.0, 0.0), (0.5, 0.1, 0.6)])
    def test_a_margin_is_left_by_what_falls_short_of_it(self, rise, margin, expected):
        assert objectives.margin_loss(torch.tensor([rise]), margin).tolist() == pytest.approx([expected])

    def test_consistency_is_the_divergence_over_the_distance(self):
        r = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])
        states = torch.tensor([[0.0, 3.0], [4.0, 0.0]])
        there = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
        back = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
        actual = objectives.divergence_loss(r, states)
        assert float(actual) == pytest.approx((there + back) / 2 / 5.1, rel=1e-5)

    def test_rank_correlation_is_nearer_to_spearman_than_to_pearson(self):
        generator = torch.Generator().manual_seed(0)
        states = torch.rand(12, 5, generator=generator)
        # Two far groups: their distance decides Pearson's correlation, the order within them most of the ranks.
        r = torch.rand(12, 4, generator=generator) + 5.0 * (torch.arange(12) < 6)[:, None]
        states = states + 5.0 * (torch.arange(12) < 6)[:, None]
        spearman = spearmanr(pdist(r.numpy()), pdist(states.numpy())).statistic
        pearson = pearsonr(pdist(r.numpy()), pdist(states.numpy())).statistic
        assert abs(spearman - pearson) > 0.1
        actual = 1 - float(objectives.rank_correlation_loss(r, states))
        assert abs(actual - spearman) < abs(actual - pearson)
        assert float(objectives.rank_correlation_loss(states, states)) == pytest.approx(0.0, abs=1e-5)
        assert float(objectives.rank_correlation_loss(torch.ones(3, 4), states[:3])) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("count", [2, 13])
def test_the_student_never_sees_the_explanations_it_is_asked_about(count, monkeypatch):
    monkeypatch.setattr(simulatability, "STUDENT_BATCH", 4)
    loss = simulatability_of(tiny.make_classifier(), examples("validation", count))
    calls = []
    explained = loss.explained
    monkeypatch.setattr(
        loss, "explained", lambda texts: calls.append({e.example_id for e in texts}) or explained(texts)
    )
    halves = []
    for _ in range(2):
        loss.begin_epoch()
        calls.clear()
        for _ in range(10):
            loss()
        shown, asked = (set[str]().union(*calls[part::2]) for part in (0, 1))
        assert not shown & asked and shown | asked == {f"validation{n}" for n in range(count)}
        # Halves of 7 and 6 texts: of at most 4 each, and none with a text or two.
        assert count == 2 or {len(texts) for texts in calls} <= {3, 4}
        halves.append(shown)
    assert count == 2 or halves[0] != halves[1]
