from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explearn import DataError, ParamsError
from explearn.core.seeds import hash_order
from explearn_study.sources.splits import carve, subsample


def labelled(**counts):
    return {f"{label}{n}": label for label, count in counts.items() for n in range(count)}


labels_of_texts = st.dictionaries(st.text(min_size=1, max_size=5), st.sampled_from("xyz"), min_size=12, max_size=60)


class TestOrder:
    def test_the_order_is_that_of_sha256_of_seed_and_id(self):
        # As sha256sum gives them: 13:c 13eb..., 13:a 193a..., 13:d 4e51..., 13:e a1e0..., 13:b d9cb...
        assert hash_order(["a", "b", "c", "d", "e"], 13) == ["c", "a", "d", "e", "b"]


class TestCarve:
    def test_fractions_are_of_train_and_by_label(self):
        splits = carve(labelled(a=60, b=40), {"validation": 0.1, "test": 0.2}, seed=13)
        counts = Counter((split, text[0]) for text, split in splits.items())
        assert counts == {
            ("validation", "a"): 6,
            ("validation", "b"): 4,
            ("test", "a"): 12,
            ("test", "b"): 8,
            ("train", "a"): 42,
            ("train", "b"): 28,
        }

    def test_a_split_that_is_asked_for_is_not_empty(self):
        assert Counter(carve(labelled(a=2, b=2), {"validation": 0.1}, 1).values()) == {"train": 3, "validation": 1}

    @given(labels_of_texts, st.integers(0, 99))
    def test_splits_cover_train_once_and_leave_every_label_in_it(self, labels, seed):
        splits = carve(labels, {"validation": 0.1, "test": 0.2}, seed)
        assert splits.keys() == labels.keys()
        assert {labels[text] for text, split in splits.items() if split == "train"} == set(labels.values())
        total = len(labels)
        sizes = Counter(splits.values())
        counts = Counter(labels.values())
        assert sizes["validation"] == max(1, (total + 5) // 10)
        assert sizes["test"] == max(1, (2 * total + 5) // 10)
        if min(counts.values()) >= 10:  # far from the limits, shares are within one of the proportion
            for label, count in counts.items():
                share = sum(labels[text] == label and split == "test" for text, split in splits.items())
                assert abs(share - sizes["test"] * count / total) < 1

    def test_something_must_be_left_to_train_on(self):
        with pytest.raises(ParamsError, match=r"add up to 1\.0"):
            carve(labelled(a=10), {"validation": 0.5, "test": 0.5}, 1)
        with pytest.raises(DataError, match="train has 2 different texts"):
            carve(labelled(a=1, b=1), {"validation": 0.1}, 1)


class TestSubsample:
    def test_labels_keep_their_proportions(self):
        texts = labelled(a=60, b=40)
        assert Counter(texts[text] for text in subsample(texts, 10, seed=7)) == {"a": 6, "b": 4}

    def test_a_smaller_draw_is_part_of_a_larger_one(self):
        texts = labelled(a=30, b=30)
        assert subsample(texts, 10, 7) < subsample(texts, 20, 7) < set(texts)
