"""Attributions show themselves: colours, HTML, terminals, tables. Whatever a text holds is shown and nothing more."""

import io
import json
from itertools import product

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import tiny
from cli_cases import complaint, explain, records
from html_pages import Page
from rich.console import Console

import explearn
from explearn import Attribution
from explearn.core.word_tables import WORD_SCHEMA
from explearn.show import display

HOSTILE = '<img src=x onerror="alert(1)">'.replace(" ", "/")
LIGHT = ((255, 255, 255), (27, 31, 39))
DARK = ((18, 21, 27), (233, 236, 241))
"""Page and ink of both themes of the report."""


def attribution(words=("not", "good"), scores=(-0.5, 1.0), **changes):
    array = np.array(scores, np.float32)
    fields = {
        "words": tuple(words), "scores": array, "tokens": tuple(words), "token_scores": array, "target": "yes",
        "method": "m", "probability": 0.75, "predicted": "yes", "aggregation": "max", "signed": True,
    }  # fmt: skip
    return Attribution(**{**fields, **changes})


def luminance(colour):
    """Relative luminance, WCAG 2.2."""
    return linear(colour) @ [0.2126, 0.7152, 0.0722]


def linear(colours):
    both = np.array(colours) / 255
    return np.where(both <= 0.04045, both / 12.92, ((both + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class TestColours:
    @pytest.mark.parametrize("colour", [display.FOR, display.AGAINST])
    @pytest.mark.parametrize("theme", [LIGHT, DARK])
    @pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
    def test_words_stay_readable_on_every_strength_in_both_themes(self, colour, theme, strength):
        page, ink = theme
        share = display.OPACITY * strength
        tinted = [share * c + (1 - share) * p for c, p in zip(colour, page, strict=True)]
        assert contrast(tinted, ink) >= 4.5

    @pytest.mark.parametrize(
        "seen_as",
        [
            # Machado, Oliveira and Fernandes (2009), severity 1: protanopia, deuteranopia, tritanopia.
            [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
            [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
            [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
        ],
        ids=["protanopia", "deuteranopia", "tritanopia"],
    )
    def test_the_two_sides_differ_for_the_colour_blind(self, seen_as):
        seen = np.clip(linear([display.FOR, display.AGAINST]) @ np.array(seen_as).T, 0, 1)
        shown = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)
        # Red and green of the same lightness would be some 30 apart for the first two.
        assert np.linalg.norm(255 * (shown[0] - shown[1])) > 100


class TestScale:
    @pytest.mark.parametrize(
        ("output", "scores", "strengths"),
        [
            ("probability", (0.25, -0.04), (0.5, -0.2)),
            ("probability", (5e-7, -0.0015), (0, 0)),
            ("probability", (-3.0, 1.0), (-np.sqrt(3 / 4), 0.5)),
            ("logit", (0.25, np.nan), (0.5, np.nan)),
            ("log_probability", (4.0, -12.0), (0.5, -np.sqrt(3 / 4))),
            ("", (5e-7, 15e-7), (0.5, np.sqrt(3 / 4))),
            ("", (0.009, 0.991), (0, np.sqrt(0.991))),
            ("", (0.0, 0.0), (0, 0)),
        ],
    )
    def test_colours_are_roots_of_shares_of_what_is_at_stake(self, output, scores, strengths):
        actual = display.strengths(attribution(scores=scores, output=output))
        np.testing.assert_allclose(actual, strengths, rtol=1e-6)

    def test_scores_of_a_value_are_shares_of_the_value_at_least(self):
        actual = attribution(scores=(1.0, -0.5), output="logit", value=-4.0)
        np.testing.assert_allclose(display.strengths(actual), (0.5, -np.sqrt(1 / 8)))
        assert display.output_of(actual) == "value"

    def test_a_word_below_the_floor_has_no_colour_no_sign_and_is_not_named(self):
        actual = attribution(scores=(-0.009, 0.5), output="probability")
        pale, _ = display.shown_words(actual)
        assert (pale.strength, pale.sign) == (0, "")
        assert display.strongest_words(actual) == "For yes: good +0.500"
        assert 'class=""' in display.words_html(actual)

    @pytest.mark.parametrize(
        ("output", "scores", "sentence"),
        [
            ("probability", (0.0, 5e-7), "No word changes the answer by more than 0.01 (probability)"),
            ("logit", (0.0, -0.005), "No word changes the answer by more than 0.01 (logit)"),
            ("", (0.0, 0.0), "No word has 1% of the scores"),
        ],
    )
    def test_it_is_said_where_no_word_has_a_colour(self, output, scores, sentence):
        actual = attribution(scores=scores, output=output)
        assert display.remarks(actual) == sentence
        assert sentence in actual._repr_html_() and sentence in str(actual)
        assert "No word" not in attribution(scores=(0.0, 0.5), output=output)._repr_html_()

    def test_the_output_stands_beside_each_method(self):
        together = explearn.Attributions([attribution(output="logit", method="m"), attribution(method="n")])
        page = together._repr_html_()
        assert "<b>m</b> <small>logit</small>" in page and "<b>n</b> <small>share</small>" in page


class TestRemarksOnAText:
    def test_words_with_signs_of_both_kinds_are_named_the_clearest_first(self):
        one = attribution(("a", "b", "c"), (0.04, 0.25, 0.5), output="probability")
        other = attribution(("a", "b", "c"), (-0.9, -0.09, 0.5), output="probability", method="n")
        (sentence,) = display.text_remarks([one, other])
        assert sentence == "The methods disagree on the sign of ‘b’, ‘a’."
        assert sentence in explearn.Attributions([one, other])._repr_html_()

    @pytest.mark.parametrize(
        "changes",
        [{"scores": (-0.009, 0.5)}, {"signed": False, "scores": (0.4, 0.5)}, {"target": "no"}],
        ids=["below the floor", "without signs", "another class"],
    )
    def test_what_does_not_disagree(self, changes):
        one = attribution(scores=(0.4, 0.5), output="probability")
        other = attribution(**{"scores": (-0.4, 0.5), "output": "probability", "method": "n", **changes})
        assert display.text_remarks([one, other]) == []

    def test_an_empty_text_is_named_where_it_has_nearly_the_same_answer(self):
        (sentence,) = display.text_remarks([attribution(probability=0.9, without_words=0.85)])
        assert "p = 0.850 for yes, too" in sentence
        assert not display.text_remarks([attribution(probability=0.9, without_words=0.8)])
        assert not display.text_remarks([attribution(probability=0.1, without_words=0.1, predicted="no")])

    def test_explain_asks_about_an_empty_text_and_keeps_the_first_classes(self):
        labels = ["bug", "feature", "question", "praise"]
        classifier = explearn.FunctionPredictor(
            lambda texts: [[0.2, 0.5, 0.3, 0] if text else [0.1, 0.4, 0.5, 0] for text in texts], labels
        )
        actual = explearn.explain(classifier, "ok then", "occlusion")
        assert actual.without_words == pytest.approx(0.4)
        assert [(found.label, round(found.probability, 6)) for found in actual.classes] == [
            ("feature", 0.5), ("question", 0.3), ("bug", 0.2),
        ]  # fmt: skip
        assert "--versus question" in Page(actual._repr_html_()).text

    def test_a_classifier_that_takes_no_empty_text_is_explained_all_the_same(self):
        def predict(texts):
            return [[len(text.split()[0]) / 10, 1 - len(text.split()[0]) / 10] for text in texts]

        classifier = explearn.FunctionPredictor(predict, ["long", "short"])
        actual = explearn.explain(classifier, "ok then", "occlusion")
        assert np.isnan(actual.without_words) and not actual.classes


class TestHtml:
    @pytest.mark.parametrize("hostile", [HOSTILE, "</style><script>alert(1)</script>", '"onload="x'])
    def test_what_data_says_is_text(self, hostile, tmp_path):
        actual = attribution((hostile, "good"), target=hostile, predicted="other", method="m", example_id=hostile)
        other = attribution((hostile, "good"), predicted=hostile, method="n", example_id=hostile)
        together = explearn.Attributions([actual, other])
        pages = [actual._repr_html_(), together._repr_html_()]
        pages += [actual.to_html(tmp_path / "a.html").read_text(), together.to_html(tmp_path / "b.html").read_text()]
        for page in pages:
            elements = Page(page)
            assert not elements.all("img") and not elements.all("script")
            assert not elements.acts()
            assert elements.text.count(hostile) >= 2

    def test_control_characters_are_shown_as_escapes(self):
        page = attribution(("a\x1b[31mb\x00", "\u202ego\nod"))._repr_html_()
        assert "\x1b" not in page and "\x00" not in page and "\u202e" not in page
        assert r"a\x1b[31mb\x00" in page and r"\u202ego\x0aod" in page

    def test_words_have_strength_side_and_score(self):
        negative, positive = self.words(attribution())
        # A third and two thirds of the scores; roots of these.
        assert (negative["class"], negative["style"]) == ("against signed", "--s:0.577")
        assert (positive["class"], positive["style"]) == ("for signed", "--s:0.816")
        first, _ = self.words(attribution(scores=(0.5, 1.0), signed=False))
        assert first["class"] == "for"

    def test_a_focused_word_shows_its_score_which_is_part_of_its_name(self):
        negative, positive = self.words(attribution())
        assert negative["tabindex"] == positive["tabindex"] == "0"
        assert (negative["data-score"], negative["aria-label"]) == ("−0.5", "not −0.5")
        assert (positive["data-score"], positive["aria-label"]) == ("+1", "good +1")
        assert ":is(:hover,:focus)::after{content:attr(data-score)" in attribution()._repr_html_()

    def test_unread_words_are_struck_and_have_no_score(self):
        actual = attribution(scores=(0.5, np.nan))
        assert self.words(actual)[1]["data-score"] == "not read by the classifier"
        assert "nan" not in actual._repr_html_()

    def words(self, actual):
        return [word for _, word in Page(actual._repr_html_()).elements if "data-score" in word]

    @pytest.mark.parametrize(
        ("scores", "signed", "sentence"),
        [
            ((-0.5, 1.0), True, "For yes: good +1.00. Against: not -0.500"),
            ((-0.5, -1.0), True, "Against: good -1.00, not -0.500"),
            ((0.5, 1.0), False, "Highest: good 1.00, not 0.500"),
        ],
    )
    def test_the_strongest_words_for_and_against_are_named(self, scores, signed, sentence):
        actual = attribution(scores=scores, signed=signed)
        assert sentence in Page(actual._repr_html_()).text
        assert sentence in Page(explearn.Attributions([actual, actual])._repr_html_()).text

    def test_a_page_stands_alone_and_runs_nothing(self, tmp_path):
        page = attribution().to_html(tmp_path / "new" / "page.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
        assert "default-src 'none'" in page and "http://" not in page and "https://" not in page
        assert [p.name for p in (tmp_path / "new").glob("[!.]*")] == ["page.html"]

    def test_the_second_segment_is_set_apart(self):
        assert "‖" in attribution(pair_start=1)._repr_html_()
        assert "‖" not in attribution()._repr_html_()


class TestTerminal:
    def shown(self, actual, **options):
        buffer = io.StringIO()
        Console(file=buffer, width=200, **options).print(actual)
        return buffer.getvalue()

    def test_signs_and_text_without_colour(self):
        head, words, top = self.shown(attribution()).splitlines()[:3]
        assert (head, words.strip()) == ("m (share): yes (p = 0.750)", "−not +good")
        assert top == "For yes: good +1.00. Against: not -0.500"

    def test_colour_is_that_of_the_pages(self):
        out = self.shown(attribution(scores=(-0.2, 1.0)), force_terminal=True, color_system="truecolor")
        assert f"48;2;{';'.join(map(str, display.FOR))}" in out
        assert f"38;2;{';'.join(map(str, display.AGAINST))}" in out

    def test_a_text_cannot_command_the_terminal(self):
        hostile = attribution(("\x1b]0;title\x07", "[red]good[/red]"), target="\x1b[2J", predicted="\x1b[2J")
        out = self.shown(hostile, force_terminal=True) + str(hostile)
        assert "\x1b]0;" not in out and "\x1b[2J" not in out and "\x07" not in out
        assert "[red]good[/red]" in out


class TestAttributions:
    def test_methods_stand_together_text_by_text(self):
        one = ("a",)
        two = ("b",)
        actual = [attribution(words, (1.0,), method=m) for m, words in product(("x", "y"), (one, two))]
        together = explearn.Attributions(actual)
        assert together.methods == ["x", "y"]
        assert [[(a.words, a.method) for a in text] for text in together.texts] == [
            [(one, "x"), (one, "y")],
            [(two, "x"), (two, "y")],
        ]


class TestWhereWordsStand:
    def test_spans_are_those_of_the_original_string(self, tiny_folder):
        classifier = explearn.load_classifier(tiny_folder, device="cpu")
        text = "  the lazy\tdog\n\ncafé  jumps "
        pair = "no  refund"
        actual = explearn.explain(classifier, (text, pair), "rollout")
        assert actual.pair_start == 5
        for index, (word, (start, end)) in enumerate(zip(actual.words, actual.spans, strict=True)):
            assert (text if index < 5 else pair)[start:end] == word


class TestCommand:
    def test_several_methods_in_a_page_and_a_table(self, tiny_folder, tmp_path):
        page = tmp_path / "out.html"
        table = tmp_path / "out.parquet"
        result = explain(
            tiny_folder, "--method", "rollout", "--method", "occlusion", "--out", page, "--out", table, *tiny.TEXTS
        )
        assert result.exit_code == 0 and result.stdout.splitlines() == [str(page), str(table)]
        read = page.read_text(encoding="utf-8")
        assert read.count("<b>rollout</b>") == read.count("<b>occlusion</b>") == len(tiny.TEXTS) + 1
        assert "<b>occlusion</b>: Drop of" in read
        rows = pq.read_table(table)
        assert rows.schema.equals(WORD_SCHEMA)
        assert set(rows["method"].to_pylist()) == {"rollout", "occlusion"}
        assert max(rows["text"].to_pylist()) == len(tiny.TEXTS) - 1

    def test_the_texts_of_a_table_are_explained_row_by_row(self, tiny_folder, tmp_path):
        table = tmp_path / "table.csv"
        table.write_text('review,answer\n"a  warm, film",yes\nlazy,no\n', encoding="utf-8")
        options = ("--json", "--texts", table, "--text-column", "review")
        assert [r["words"] for r in records(explain(tiny_folder, *options))] == [["a", "warm,", "film"], ["lazy"]]
        pairs = records(explain(tiny_folder, *options, "--pair-column", "answer"))
        assert [(r["words"], r["pair_start"]) for r in pairs] == [
            (["a", "warm,", "film", "yes"], 3),
            (["lazy", "no"], 1),
        ]

    @pytest.mark.parametrize(
        ("content", "options", "words"),
        [
            ("text\n", (), "table.csv: no text; expected at least one"),
            ("text\n \n", (), "table.csv, row 1, field 'text': got ' '; expected a text of at least one word"),
            ("body\na\n", (), "field 'text': missing; expected a column 'text', got body"),
            ("text\na\n", ("b",), "--texts: got other texts, too"),
        ],
    )
    def test_a_table_without_usable_texts_is_refused(self, tiny_folder, tmp_path, content, options, words):
        table = tmp_path / "table.csv"
        table.write_text(content, encoding="utf-8")
        assert words in complaint(explain(tiny_folder, "--texts", table, *options))

    def test_csv_and_json_lines_hold_what_standard_output_says(self, tiny_folder, tmp_path):
        hostile = 'lazy "dog", =1+1'
        explain(tiny_folder, "--out", tmp_path / "a.csv", hostile)
        (said,) = records(explain(tiny_folder, "--json", "--out", tmp_path / "a.jsonl", hostile))
        table = pa_csv.read_csv(tmp_path / "a.csv")
        assert table["word"].to_pylist() == said["words"] == hostile.split()
        assert table["score"].to_pylist() == pytest.approx(said["scores"])
        written = json.loads((tmp_path / "a.jsonl").read_text(encoding="utf-8"))
        assert {**written, "seconds": 0} == {**said, "seconds": 0}

    def test_options_go_to_the_methods_that_have_them(self, tiny_folder):
        methods = ("--method", "raw_attention", "--method", "lime", "--json")
        plain, (raw, lime) = (
            records(explain(tiny_folder, *methods, *options, "lazy dog jumps"))
            for options in ((), ("-o", "layer=0", "-o", "lime.samples=7"))
        )
        assert raw["scores"] != plain[0]["scores"] and lime["scores"] != plain[1]["scores"]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--out", "out.xlsx", "a"], "--out: got 'out.xlsx'; expected a name that ends in .html, .parquet, .csv"),
            (["--out", "a.csv", "--out", "./a.csv", "a"], "a.csv; expected different files"),
            (
                ["--method", "rollout", "--method", "lime", "-o", "sample=1", "a"],
                "unknown option of rollout, lime 'sample'; did you mean samples?",
            ),
            (
                ["--method", "rollout", "--method", "lime", "-o", "line.samples=1", "a"],
                "unknown method of --option 'line'; did you mean lime?",
            ),
            (["--out", "/dev/null/page.html", "a"], "/dev/null/page.html: cannot be written"),
        ],
        ids=str,
    )
    def test_a_mistake_is_one_sentence(self, tiny_folder, arguments, words):
        assert words in complaint(explain(tiny_folder, *arguments))

    def test_a_text_that_fails_leaves_earlier_files_as_they_were(self, tiny_folder, tmp_path):
        page = tmp_path / "out.html"
        assert explain(tiny_folder, "--out", page, "fine").exit_code == 0
        earlier = page.read_bytes()
        assert "text 2" in complaint(explain(tiny_folder, "--out", page, "fine", ""))
        assert page.read_bytes() == earlier and sorted(p.name for p in tmp_path.glob("[!.]*")) == [
            "out.html",
            "out.json",
        ]
