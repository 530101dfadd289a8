from itertools import chain

import pytest
import torch

from explearn.predictors.batching import random_batches


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
