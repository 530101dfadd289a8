"""Batches by a budget or at random, which shrink when memory is short."""

from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from explearn.predictors.batching import budget_batches, random_batches, run_batches


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 1000))
def test_of_a_budget_each_index_comes_once_the_longest_first_and_within_it(lengths, budget):
    batches = list(budget_batches(lengths, budget))
    order = list(chain(*batches))
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1


def batches(lengths, size, **options):
    return list(random_batches(lengths, size, torch.Generator().manual_seed(0), **options))


@pytest.mark.parametrize("mix", [True, False])
@pytest.mark.parametrize("stretch", [1, 4, 100])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_each_text_is_in_one_batch(mix, stretch, size):
    groups = batches([n % 7 for n in range(40)], size, stretch=stretch, mix_stretches=mix)
    assert sorted(chain(*groups)) == list(range(40))
    assert all(len(batch) <= size for batch in groups)


def test_one_stretch_sorts_all_texts_by_length():
    groups = batches([n % 8 for n in range(64)], 8, stretch=8)
    assert all(len({i % 8 for i in batch}) == 1 for batch in groups)
    assert [batch[0] % 8 for batch in groups] != list(range(8))


@pytest.mark.parametrize("share", (1, 3))
def test_batches_shrink_when_memory_is_short_and_every_text_is_run_once(share):
    lengths = [5, 7, 3, 8, 2, 6, 4, 4]
    owner = SimpleNamespace(max_tokens=64 * share, same_length=False)
    failed = []

    def run(indices):
        if len(indices) * max(lengths[i] for i in indices) > 16:
            failed.append(indices)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [lengths[i] for i in indices]

    assert run_batches(lengths, owner, run, share) == lengths
    assert len(failed) == 2  # batches of 64 padded sub-tokens, then of 32; those of 16 go
    assert owner.max_tokens == 16 * share
