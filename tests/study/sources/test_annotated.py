"""Adapters of data sets that come with marked words."""

import pytest
from adapter_cases import example, mapped

from explearn_study.sources.annotated import Dropped, mask_of_phrase

WORDS = ["you", "utter", "turnip"]
NAMES = ("hatespeech", "normal", "offensive")


def post(*labels, masks):
    """A post as local files have it, by annotators 4, 5 and 6."""
    return {"id": "p-1", "tokens": WORDS, "labels": list(labels), "annotators": [4, 5, 6], "rationales": masks}


def hub_post(*labels, masks):
    """The same post as the hub has it."""
    annotators = {"label": [NAMES.index(label) for label in labels], "annotator_id": [4, 5, 6]}
    return {"id": "p-1", "post_tokens": WORDS, "annotators": annotators, "rationales": masks}


class TestHateXplain:
    @pytest.mark.parametrize("make", [post, hub_post])
    @pytest.mark.parametrize(
        ("labels", "binary", "three_class"),
        [
            (("normal", "normal", "normal"), "normal", "normal"),
            (("offensive", "normal", "normal"), "normal", "normal"),
            (("offensive", "offensive", "normal"), "toxic", "offensive"),
            (("offensive", "hatespeech", "hatespeech"), "toxic", "hatespeech"),
            (("offensive", "hatespeech", "normal"), "toxic", None),
        ],
    )
    def test_labels_are_by_majority(self, make, labels, binary, three_class):
        assert example("hatexplain", make(*labels, masks=[])).label == binary
        three = mapped("hatexplain", make(*labels, masks=[]), view="three_class")
        assert three == Dropped("no majority label") or three.label == three_class
        assert isinstance(three, Dropped) == (three_class is None)
        without_normal = mapped("hatexplain", make(*labels, masks=[]), view="toxic")
        assert without_normal == (Dropped("label normal") if three_class == "normal" else three)

    @pytest.mark.parametrize("make", [post, hub_post])
    def test_masks_belong_to_annotators_in_order(self, make):
        masks = [[0, 0, 1], [0, 1, 1], [1, 1, 1]]
        row = example("hatexplain", make("offensive", "hatespeech", "offensive", masks=masks))
        assert [(m.annotator, m.kind, [*m.mask]) for m in row.marks] == [
            (f"annotator-{number}", "human", mask) for number, mask in zip((4, 5, 6), masks, strict=True)
        ]

    def test_two_masks_belong_to_the_two_who_found_the_post_toxic(self):
        row = example("hatexplain", post("offensive", "normal", "offensive", masks=[[0, 0, 1], [0, 1, 1]]))
        assert [m.annotator for m in row.marks] == ["annotator-4", "annotator-6"]

    def test_masks_of_posts_that_are_normal_by_majority_are_not_kept(self):
        assert example("hatexplain", post("offensive", "normal", "normal", masks=[[0, 0, 1]])).marks == ()

    def test_annotators_may_come_as_a_list_of_records(self):
        values = hub_post("offensive", "offensive", "normal", masks=[])
        values["annotators"] = [{"label": n, "annotator_id": a} for n, a in [(2, 4), (2, 5), (1, 6)]]
        assert example("hatexplain", values).label == "toxic"

    @pytest.mark.parametrize(
        ("raw", "view", "label"),
        [
            ("normal", "binary", "normal"),
            ("hatespeech", "binary", "toxic"),
            ("offensive", "three_class", "offensive"),
        ],
    )
    def test_posts_with_just_a_majority_label(self, raw, view, label):
        row = example("hatexplain", {"id": "p-2", "text": "you turnip", "label": raw}, view=view)
        assert (row.label, row.words, row.marks) == (label, ("you", "turnip"), ())


class TestMovieRationales:
    REVIEW = "it is a bad film , and a bad film is long ."

    def row(self, *evidences):
        return example("movie_rationales", {"review": self.REVIEW, "label": 0, "evidences": list(evidences)})

    def test_the_words_of_evidences_are_marked(self):
        row = self.row("is long", "it is")
        assert row.label == "negative"
        assert [w for w, m in zip(row.words, row.marks[0].mask, strict=True) if m] == ["it", "is", "is", "long"]
        assert row.marks[0].kind == "human"

    def test_an_evidence_that_is_not_there_is_counted_and_not_guessed(self):
        row = self.row("is long", "a good film")
        assert row.lost == {"evidence not found in its text": 1}
        assert sum(row.marks[0].mask) == 2
        assert self.row("a good film").marks == ()

    @pytest.mark.parametrize(
        ("phrase", "text", "mask"),
        [
            ("good film", "a good film.", "011"),
            ("art", "party art", "01"),
            ("so so", "so so so", "111"),
            ("good", "(good) food", "10"),
            ("", "a b", "00"),
            ("...", "well... no", "10"),
        ],
    )
    def test_a_phrase_stands_between_white_space_or_punctuation(self, phrase, text, mask):
        assert mask_of_phrase(phrase.split(), tuple(text.split())) == tuple(m == "1" for m in mask)
