"""The marks of several annotators merged."""

import pytest

from explearn import DataError, Rationale
from explearn.text.rationales import merge_annotators


def rationales(*masks):
    return [Rationale("t", f"a{n}", "human", tuple(map(bool, map(int, mask)))) for n, mask in enumerate(masks)]


class TestMerge:
    @pytest.mark.parametrize(
        ("masks", "agreement", "merged"),
        [
            (["110", "100"], 0.5, "110"),  # one of two is half
            (["110", "100", "000"], 0.5, "100"),  # one of three is less, two of three more
            (["110", "100", "000", "100"], 0.75, "100"),  # three of four is exactly three quarters
            (["100"] * 7 + ["000"] * 18, 0.28, "100"),  # 0.28 * 25 is more than 7 in floating point
            (["110", "100"], 0.0, "110"),  # what nobody marks is no evidence
        ],
    )
    def test_a_word_counts_at_the_share_asked_for(self, masks, agreement, merged):
        assert merge_annotators(rationales(*masks), agreement) == {"t": tuple(m == "1" for m in merged)}

    def test_two_rationales_of_one_annotator_are_refused(self):
        with pytest.raises(DataError, match="two rationales of annotator 'a0'"):
            merge_annotators([*rationales("10"), *rationales("01")])
