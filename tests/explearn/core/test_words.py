"""Words, marks and scores of texts in scripts with and without spaces, on three kinds of tokenizer."""

import sys

import numpy as np
import pytest
import tiny
from script_cases import KINDS, TEXTS, classifier

import explearn
from explearn import Example, MissingExtraError
from explearn.core.words import Segment, joined_words, lay_out, words_of
from explearn.show.display import words_html
from explearn.text.marks import parse_marked
from explearn_study.annotate.people.sheets import format_marked
from explearn_study.example_files import read_examples, write_examples


def example(script):
    words, pair, gaps = words_of([Segment.of(TEXTS[script][0])])
    return Example(script, words, "pos", "test", "t", pair, gaps=gaps)


@pytest.mark.parametrize("script", TEXTS)
class TestWords:
    def test_they_are_unicode_s_and_the_text_can_be_put_together_again(self, script):
        text, expected = TEXTS[script]
        words = Segment.of(text)
        joined = joined_words(words.spans)
        assert "|".join(f"{' ' * (i > 0 and i not in joined)}{w}" for i, w in enumerate(words.words)) == expected
        assert lay_out(words.words, joined) == words

    def test_examples_keep_the_text_in_files(self, script, tmp_path):
        write_examples(tmp_path / "texts.parquet", [example(script)])
        (read,) = read_examples(tmp_path / "texts.parquet")
        assert read == example(script) and read.text == TEXTS[script][0]

    def test_marks_are_written_and_read(self, script):
        of = example(script)
        mask = tuple(i in (1, 2) for i in range(len(of.words)))
        segment, read = parse_marked(format_marked(of.words, mask, of.joined))
        assert (segment.text, segment.words, read) == (of.text, of.words, mask)

    @pytest.mark.parametrize("kind", KINDS)
    def test_they_are_the_same_for_every_tokenizer_and_on_the_page(self, script, kind):
        text = TEXTS[script][0]
        free = explearn.explain(classifier(kind), text, "gradient")
        of_data = explearn.explain(classifier(kind), example(script), "occlusion")
        assert free.words == of_data.words == example(script).words and free.spans == of_data.spans
        assert free.tokens == of_data.tokens and free.unaligned == 0
        page = words_html(free)
        assert page.count(" </") == 0 and page.count("</span> <span") == text.count(" ")


def test_a_word_within_another_s_sub_token_shares_its_score(monkeypatch):
    of = tiny.classifier()
    # Words of "dog" and "lazy" as ICU might cut them, of which the tokenizer makes a piece each.
    whole = Segment("lazy dog", ((0, 3), (3, 4), (5, 6), (6, 8)))
    monkeypatch.setattr(Segment, "of", lambda _text: whole)
    (encoding,) = of.encode(["lazy dog"])
    assert encoding.word_ids == (-1, 0, 3, -1) and encoding.shared == ((1, 0), (2, 3)) and encoding.read == {0, 1, 2, 3}
    scores = explearn.explain(of, "lazy dog", "occlusion")
    assert scores.unaligned == 0 and scores.scores.tolist() == scores.token_scores[[0, 0, 1, 1]].tolist()


def test_a_function_gets_the_text_as_it_was_written():
    asked = []

    def function(texts):
        asked.extend(texts)
        return np.full((len(texts), 2), 0.5)

    of = explearn.FunctionPredictor(function, ["neg", "pos"])
    list(explearn.get_explainer("occlusion", removal="delete").explain(of, [TEXTS["mixed"][0]]))
    assert asked[:4] == [
        "iPhone手机 很好 http://a.b/中文，ok",
        "手机 很好 http://a.b/中文，ok",
        "iPhone 很好 http://a.b/中文，ok",
        "iPhone手机 http://a.b/中文，ok",
    ]


def test_without_icu_such_a_text_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "icu4py.breakers", None)
    with pytest.raises(MissingExtraError, match=r"words of a script without spaces.*explearn\[scripts\]"):
        Segment.of("很好")
    assert Segment.of("a good film").words == ("a", "good", "film")
