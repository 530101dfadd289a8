"""Comparisons by sentences, sub-tokens and spans: what is scored, marked, taken out and shown."""

import html
import json
import re

import numpy as np
import pytest
import tiny
from cli_cases import run
from script_cases import TEXTS, classifier

import explearn
from explearn import DataError, ParamsError, TextColumns
from explearn.core.words import Segment, joined_words
from explearn.metrics.runs import read_run
from explearn_study.annotate.people.sheets import format_marked

WEIGHTS = {"good": 2.0, "bad": -3.0, "fine": 1.0}
REVIEWS = (
    "A good film. It is long. Mr. Fox is fine.",
    "Nothing here is bad. I know one fine scene, a good one. Who made it?",
    "Bad plot. Good cast, and a fine end.",
)


def positive(text):
    return float(1 / (1 + np.exp(-sum(WEIGHTS.get(word, 0.0) for word in re.findall(r"\w+", text.lower())))))


def of_words():
    return explearn.FunctionPredictor(lambda texts: [[1 - positive(t), positive(t)] for t in texts], ["neg", "pos"])


def compare(texts, **options):
    settings = {"methods": "occlusion", "out": None, **options}
    further = {name: settings.pop(name) for name in ("unit", "scores", "tell") if name in settings}
    classifier = settings.pop("classifier", None) or of_words()
    return explearn.compare(classifier, texts, options=explearn.CompareOptions(**further), **settings)


def shown(of):
    """By text, its units and which of them are marked."""
    words = {example.id: example.all_words for example in of.examples}
    assert all(words[one.example_id] == one.words for one in of.attributions)
    return {i: (of_text, of.gold.get(i, [False] * len(of_text))) for i, of_text in words.items()}


def test_a_sentence_is_taken_out_whole():
    comparison = compare(list(REVIEWS), unit="sentence")
    # A fifth, or a half, of two or three sentences is one: the one that the class depends on most.
    without = ("It is long. Mr. Fox is fine.", "Nothing here is bad. Who made it?", "Bad plot.")
    falls = []
    for text, rest in zip(REVIEWS, without, strict=True):
        p = positive(text)
        q = positive(rest)
        falls.append(p - q if p >= 0.5 else q - p)
    by_text = comparison.by_text["comprehensiveness"]["occlusion"]
    np.testing.assert_allclose(np.sort(by_text), np.sort(falls), atol=1e-6)
    assert {words for words, _ in shown(comparison).values()} >= {("A good film.", "It is long.", "Mr. Fox is fine.")}


def test_a_sentence_is_marked_where_half_of_its_words_are():
    marks = ("A [[good film.]] It is long. Mr. [[Fox]] is fine.", "Nothing here is bad.", "Bad [[plot.]] Good cast.")
    rows = [{"marks": mark, "label": "pos"} for mark in marks]
    comparison = compare(rows, columns=TextColumns(label="label", rationales="marked:marks"), unit="sentence")
    masks = {words[0]: gold for words, gold in shown(comparison).values()}
    assert masks == {"A good film.": [True, False, False], "Nothing here is bad.": [False], "Bad plot.": [True, False]}
    assert comparison.k == 1 and comparison.positive_rate == 2 / 5
    assert comparison.figures["occlusion"]["plausibility_texts"] == 1  # the other is taken for neg


def test_marks_too_short_for_any_sentence_are_named_once(tmp_path):
    rows = [{"marks": "A [[good]] film of ours."}, {"marks": "I like it so much."}]
    out = tmp_path / "page.html"
    comparison = compare(rows, columns=TextColumns(rationales="marked:marks"), unit="sentence", out=out)
    page = html.unescape(comparison.page.read_text(encoding="utf-8"))
    assert page.count("no sentence has half of its words marked") == 1
    assert page.count("is not measured: different texts hardly ever share a sentence") == 1
    assert (
        comparison.figures["occlusion"]["f1_topk"] is None
        and comparison.figures["occlusion"]["stability_lexical"] is None
    )


def test_the_page_speaks_of_sentences(tmp_path):
    texts = tmp_path / "t.jsonl"
    texts.write_text("".join(json.dumps({"text": f"{text} {n}"}) + "\n" for n, text in enumerate(REVIEWS)))
    places = f"--texts {texts} --classifier {saved(tmp_path)} --out {tmp_path / 'page.html'}"
    command = f"compare {places} --unit sentence --method random --method gradient --device cpu"
    done = run(*command.split())
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    first = page[page.index("<h1") : page.index('id="sanity-checks"')]
    assert ", by their sentences." in first and "Find the sentences that the classifier depends on" in first
    assert not re.search(r"\bwords?\b", re.sub(r"<[^>]*>", "", first))


def saved(folder):
    return tiny.save(folder / "model", "bert", 2)


@pytest.mark.parametrize(
    ("kind", "unit"), [("WordPiece", "word"), ("byte-level BPE", "token"), ("Unigram", "sentence"), ("Unigram", "span")]
)
def test_texts_of_every_script_have_the_same_units_in_marks_and_scores(kind, unit):
    segments = {script: Segment.of(text) for script, (text, _) in TEXTS.items()}
    masks = {script: [True, True, *[False] * (len(one.words) - 2)] for script, one in segments.items()}
    rows = [
        {"id": script, "marks": format_marked(one.words, masks[script], joined_words(one.spans))}
        for script, one in segments.items()
    ]
    chosen = (lambda text: Segment.of(text).spans) if unit == "span" else unit
    columns = TextColumns(id="id", rationales="marked:marks")
    comparison = compare(rows, classifier=classifier(kind), methods="gradient,occlusion", columns=columns, unit=chosen)
    of_texts = shown(comparison)
    assert of_texts.keys() == TEXTS.keys()
    for script, (words, gold) in of_texts.items():
        text = segments[script].text
        spans = segments[script].spans
        if unit == "sentence":
            assert (words, gold) == ((text,), [len(spans) <= 2 * 2])
        elif unit == "token":
            alone = explearn.explain(classifier(kind), text, "gradient", unit="token")
            assert words == alone.words and gold == [start < spans[1][1] for start, _ in alone.spans]
        else:
            assert words == segments[script].words and gold == masks[script]
    for figures in comparison.figures.values():
        assert all(np.isfinite(figures[name]) for name in ("aopc_comprehensiveness", "infidelity"))
        assert (figures["stability_lexical"] is None) == (unit in ("sentence", "span"))


def test_pairs_kept_runs_and_scores_from_elsewhere(tmp_path):
    pairs = [("Good. Bad.", "It is fine. Or so."), ("It drags. I slept.", "Is it good?")]
    comparison = compare(pairs, classifier=classifier("WordPiece"), unit="sentence", work=tmp_path / "work")
    kept = read_run(tmp_path / "work" / "occlusion.parquet").attributions
    assert [(one.words, one.unit) for one in kept] == [
        (("Good.", "Bad.", "It is fine.", "Or so."), "sentence"),
        (("It drags.", "I slept.", "Is it good?"), "sentence"),
    ]
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text("".join(json.dumps({"words": one.words, "scores": one.scores.tolist()}) + "\n" for one in kept))
    lines = []
    again = compare(
        pairs,
        classifier=classifier("WordPiece"),
        unit="sentence",
        work=tmp_path / "work",
        scores=[theirs],
        tell=lines.append,
    )
    assert any("of an earlier run" in line for line in lines)
    name = "aopc_sufficiency"
    assert (
        again.figures["given_theirs"][name] == again.figures["occlusion"][name] == comparison.figures["occlusion"][name]
    )
    with pytest.raises(DataError, match="expected a record with its words"):
        compare(pairs, classifier=classifier("WordPiece"), scores=[theirs])


def test_what_is_no_unit_is_refused_at_once():
    with pytest.raises(ParamsError, match="unit: got 'chapter'"):
        compare(["no file is read"], unit="chapter")
    with pytest.raises(ParamsError, match="'phrase', but each method finds its own phrases"):
        compare(list(REVIEWS), unit="phrase")
