"""Model passes of gradient methods, GradientShap, and classifying from embeddings."""

import pytest
import tiny
from gradient_cases import METHODS, TEXTS, explained

from explearn.lens.hooks import Hooks
from explearn.predictors.encoding import text_seed


def passes(of, run):
    """(rows, tokens) of each forward pass."""
    seen = []
    with Hooks() as hooks:
        hooks.before(of.model, lambda _model, _args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)))
        run()
    return seen


class TestPasses:
    @pytest.mark.parametrize("name", METHODS)
    def test_no_pass_is_larger_than_the_budget(self, name):
        """A text and what it is compared with share a pass, however small the budget."""
        of = tiny.make_classifier(max_tokens=60)
        options = {"integrated_gradients": {"steps": 20}, "sequential_ig": {"steps": 5}}.get(name, {})
        for rows, tokens in passes(of, lambda: explained(name, of, TEXTS, **options)):
            assert rows * tokens <= max(60, 2 * tokens)


class TestGradientShap:
    def test_a_seed_belongs_to_a_text_and_its_segments(self):
        single, same, other, pair = tiny.classifier().encode(["slow dog", "slow  dog", "slow fox", ("slow", "dog")])
        assert text_seed(1, single) == text_seed(1, same)
        assert len({text_seed(1, single), text_seed(2, single), text_seed(1, other), text_seed(1, pair)}) == 4
