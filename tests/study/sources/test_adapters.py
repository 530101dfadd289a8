"""Each data set's row mapping, for rows as local files and as the hub have them. All texts are invented."""

import pytest
from adapter_cases import complaint, example, mapped, source

from explearn import UnknownNameError
from explearn.core.words import segments_of
from explearn_study.sources.adapters import get_adapter
from explearn_study.sources.annotated import Dropped


class TestTextAndLabel:
    @pytest.mark.parametrize(
        ("adapter", "values", "label"),
        [
            ("sst2", {"id": "s-1", "text": "a dull hour", "label": "negative"}, "negative"),
            ("rotten_tomatoes", {"text": "a dull hour", "label": "neg"}, "negative"),
            ("ag_news", {"text": "A new comet was seen", "label": "Sci/Tech"}, "sci/tech"),
            ("emotion", {"text": "i did not expect that", "label": 5}, "surprise"),
            ("sst2", {"text": "a bright hour", "label": "1"}, "positive"),  # a CSV cell
        ],
    )
    def test_files_have_names_and_the_hub_has_numbers(self, adapter, values, label):
        row = example(adapter, values)
        assert row.label == label
        assert row.words == tuple(str(values.get("text", values.get("sentence"))).split())

    def test_the_source_s_own_classes_go_before_the_usual_order(self):
        row = mapped("sst2", {"sentence": "a dull hour", "label": 1}, {"label": ("positive", "negative")})
        assert row.label == "negative"

    @pytest.mark.parametrize(
        ("adapter", "column", "more"),
        [
            ("imdb", "text", {"label": 0}),
            ("hatexplain", "text", {"label": "normal"}),
            ("movie_rationales", "review", {"label": "neg", "evidences": ["two lines"]}),
        ],
    )
    def test_the_text_itself_is_kept(self, adapter, column, more):
        text = "  two\nlines,\tand  a tab "
        row = example(adapter, {column: text, **more})
        assert row.words == tuple(text.split())
        assert segments_of(row.words, row.gaps, None)[0].text == text

    @pytest.mark.parametrize(
        ("given", "identifier"), [({"id": "s-1"}, "s-1"), ({"idx": 3}, "task-train-3"), ({}, None)]
    )
    def test_ids_are_the_row_s_own_or_its_running_number(self, given, identifier):
        assert example("imdb", {"text": "fine", "label": 1, **given}).id == identifier

    def test_a_test_part_without_labels_is_refused(self):
        assert "got -1; expected one of 0 (" in complaint("sst2", {"idx": 0, "sentence": "fine", "label": -1})

    def test_a_missing_column_is_named_with_those_there(self):
        message = complaint("sst2", {"sentense": "fine", "label": 1})
        assert "missing; expected a column 'text' or 'sentence', got sentense, label" in message


class TestSnli:
    def test_a_pair_has_two_segments(self):
        row = example("snli", {"premise": "A dog runs .", "hypothesis": "It sleeps .", "label": 2})
        assert row.words == ("A", "dog", "runs", ".")
        assert row.pair == ("It", "sleeps", ".") and not row.gaps
        assert row.label == "contradiction"

    @pytest.mark.parametrize("label", [-1, "-"])
    def test_rows_without_a_label_are_dropped(self, label):
        row = mapped("snli", {"premise": "A dog runs .", "hypothesis": "It sleeps .", "label": label})
        assert row == Dropped(f"label {label}")


QUESTION = {
    "id": "q-1",
    "question": "Where is the fox ?",
    "context": " The dog sleeps.  The fox is at the sea-shore, alone.",
    "answers": {"text": ["sea-shore", "alone"], "answer_start": [36, 47]},
}


class TestSquad:
    def test_the_answer_is_the_words_that_its_characters_touch(self):
        row = example("squad", QUESTION)
        assert row.words == ("Where", "is", "the", "fox", "?")
        assert row.focus is not None and (row.words + row.pair)[slice(*row.focus)] == ("sea-shore,",)
        assert row.label == "answer" and row.id == "q-1"
        assert segments_of(row.words + row.pair, row.gaps, len(row.words))[1].text == QUESTION["context"]

    def test_questions_without_a_usable_answer_are_dropped(self):
        assert mapped("squad", {**QUESTION, "answers": {"text": [], "answer_start": []}}) == Dropped("no answer")
        long = " ".join(["word"] * 16)
        row = {**QUESTION, "context": long, "answers": {"text": [long], "answer_start": [0]}}
        assert mapped("squad", row) == Dropped("answer longer than 15 words")


class TestCustom:
    def row(self, values, columns, **options):
        return example("custom", values, columns=columns, **options)

    def test_text_and_label(self):
        row = self.row({"t": "fine soup", "y": "good", "n": 3}, {"text": "t", "label": "y", "id": "n"})
        assert (row.words, row.label, row.id, row.marks) == (("fine", "soup"), "good", "3", ())

    @pytest.mark.parametrize("words", [["fine", "soup"], '["fine", "soup"]', "fine soup"])
    def test_words_as_a_list_or_a_cell(self, words):
        assert self.row({"w": words, "label": "good"}, {"words": "w"}).words == ("fine", "soup")

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("marked", "[[fine]] soup"),
            ("mask", [1, 0]),
            ("spans", [[0, 1]]),
            ("spans", "[[0, 1]]"),
        ],
    )
    def test_each_way_to_mark(self, kind, value):
        row = self.row({"t": "fine soup", "label": "good", "m": value}, {"text": "t", kind: "m"})
        assert [(m.annotator, m.kind, m.mask) for m in row.marks] == [("table", "unknown", (True, False))]

    @pytest.mark.parametrize("kind", ["marked", "mask", "spans"])
    def test_an_empty_cell_is_no_rationale(self, kind):
        for empty in ("", None):
            assert self.row({"t": "fine", "label": "good", "m": empty}, {"text": "t", kind: "m"}).marks == ()

    def test_marked_text_may_stand_alone(self):
        row = self.row({"m": "[[fine]] soup", "label": "good"}, {"marked": "m"})
        assert (row.words, row.marks[0].mask) == (("fine", "soup"), (True, False))
        assert self.row({"m": "fine soup", "label": "good"}, {"marked": "m"}).marks == ()

    def test_marks_of_a_pair(self):
        columns = {"text": "a", "pair": "b", "marked": "m"}
        row = self.row({"a": "fine soup", "b": "good food", "m": "[[fine]] soup", "label": "x"}, columns)
        assert row.pair == ("good", "food")
        assert row.marks[0].mask == (True, False, False, False)

    def test_codes_are_translated(self):
        options = {"label_names": {"0": "bad", "2": "good", "true": "good"}}
        for code, label in ((0, "bad"), ("2", "good"), (True, "good"), ("good", "good")):
            assert self.row({"t": "soup", "label": code}, {"text": "t"}, **options).label == label
        message = complaint("custom", {"t": "soup", "label": 1}, columns={"text": "t"}, **options)
        assert "field 'label': got 1; expected one of bad, good" in message


class TestRegistry:
    def test_an_unknown_adapter_brings_near_names(self):
        with pytest.raises(UnknownNameError, match="unknown adapter 'sst'; did you mean sst2"):
            get_adapter("task", source("sst"))
