"""Sanity checks under several seeds."""

from explearn.metrics.sanity import SanityResult, ScoreSimilarity, over_draws


def test_several_draws_are_averaged_():
    first = SanityResult({"embeddings": ScoreSimilarity(0.25, 1.0)}, max_sensitivity=0.5)
    second = SanityResult({"embeddings": ScoreSimilarity(0.75, 0.0)}, max_sensitivity=1.0)
    both = over_draws([first, second])
    assert both == SanityResult({"embeddings": ScoreSimilarity(0.5, 0.5)}, max_sensitivity=0.75)
    unknown = SanityResult({"embeddings": ScoreSimilarity(None, 0.5)})
    assert over_draws([first, unknown]).random_model["embeddings"] == ScoreSimilarity(0.25, 0.75)


def test_a_method_that_failed_in_one_draw_is_skipped():
    skipped = SanityResult(skipped="why")
    assert over_draws([SanityResult(), skipped]) is skipped
