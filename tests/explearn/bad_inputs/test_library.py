"""What a program can hand to the library that cannot be used: of another kind, out of bounds, half of something."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from saying import complaint

import explearn
from explearn import Attribution, CallableClassifier, get_explainer
from explearn.comparison.choice import choose_methods, parse_budget
from explearn.comparison.texts import listed_texts
from explearn.core.storage import write_text

RECORD: dict[str, Any] = {"words": ["a", "film"], "scores": [1, -2.5], "target": "yes", "method": "theirs"}

FIELDS: list[tuple[str, Any]] = [
    ("scores", [1e39, 0]),
    ("scores", [10**400, 0]),
    ("scores", [-1e300, 0]),
    ("token_scores", [10**400]),
    ("target", "\ud800"),
    ("method", "\udfff"),
    ("predicted", "\ud800"),
    ("id", "\ud800"),
    ("id", [10**400]),
    ("probability", 10**400),
    ("probability", math.nan),
    ("probability", 1.5),
    ("probability", -0.1),
    ("value", math.inf),
    ("value", 10**400),
    ("seconds", math.nan),
    ("seconds", -1),
    ("completeness_error", math.inf),
    ("unaligned", -1),
    ("unaligned", 10**400),
    ("windows", 0),
    ("windows", 10**30),
    ("spans", {}),
    ("spans", ""),
    ("pair_start", -1),
    ("pair_start", 0),
    ("pair_start", 2),
]


@pytest.mark.parametrize(("field", "value"), FIELDS, ids=lambda value: ascii(value)[:30])
def test_fields_of_a_record(field: str, value: Any) -> None:
    record = {**RECORD, "tokens": ["x"], "token_scores": [0], field: value}
    complaint(lambda: Attribution.from_record(record), repr(field))


@pytest.mark.parametrize("record", [None, 3, [], "x", [("words", ["a"])]], ids=ascii)
def test_records_that_are_none(record: Any) -> None:
    complaint(lambda: Attribution.from_record(record), "to_record")


GOOD = Attribution.from_record(RECORD)
NO_ATTRIBUTIONS: list[Any] = [None, 3, "abc", GOOD, [GOOD, 3], [GOOD, None], [RECORD], {"a": GOOD}]


@pytest.mark.parametrize("given", NO_ATTRIBUTIONS, ids=lambda value: ascii(value)[:30])
@pytest.mark.parametrize("taker", [explearn.to_frame, explearn.to_arrow, explearn.side_by_side])
def test_what_is_no_attribution(taker: Callable[[Any], Any], given: Any) -> None:
    complaint(lambda: taker(given), "attribution")


@pytest.mark.parametrize("count", [-1, "x", 1.5, math.nan, True, None], ids=ascii)
def test_counts_of_words(count: Any) -> None:
    complaint(lambda: GOOD.top_words(count), "top_words")


@pytest.mark.parametrize("name", [None, 3, ["lime"], b"lime", object, "x" * 10_000], ids=lambda v: ascii(v)[:20])
def test_names_of_methods(name: Any) -> None:
    complaint(lambda: get_explainer(name), "explainer")
    complaint(lambda: explearn.get_info(name), "explainer")


@pytest.mark.parametrize(
    "classifier", [None, 3, "a/folder", lambda texts: texts], ids=["nothing", "number", "name", "function"]
)
def test_what_is_no_classifier(classifier: Any) -> None:
    for method in ("random", "attcat", "lime"):
        complaint(lambda method=method: list(get_explainer(method).explain(classifier, ["a film"])), "classifier")


@pytest.mark.parametrize("texts", [None, 3, b"a film", "a film", {"text": "a film"}, math.nan], ids=ascii)
def test_texts_that_are_no_list(texts: Any) -> None:
    complaint(lambda: list(get_explainer("random").explain(tiny.classifier("bert", 3), texts)), "texts")


@pytest.mark.parametrize("targets", [1, "good", b"good", {"good": 1}, math.nan], ids=ascii)
def test_targets_that_are_no_list(targets: Any) -> None:
    found = get_explainer("random")
    complaint(lambda: list(found.explain(tiny.classifier("bert", 3), ["a film"], targets)), "targets")


def test_unknown_parts_of_a_class() -> None:
    complaint(lambda: explearn.register(explearn.Classifier), "Classifier")
    complaint(lambda: explearn.register(3), "int")


# ---- tasks to learn from ---------------------------------------------------------------------------------------------

LEARNED = ["expnet", "expnet_paper", "consensus", "l2e", "ivra", "paml"]


@pytest.mark.parametrize("method", LEARNED)
def test_what_is_no_task(method: str) -> None:
    for task in (None, 3, "films", tiny.classifier("bert", 3)):
        complaint(lambda task=task: get_explainer(method).fit(task), "task")


TASKS: list[dict[str, Any]] = [
    {"classifier": None},
    {"classifier": "a/folder"},
    {"train": None},
    {"train": "a film"},
    {"train": ["a film"]},
    {"train": [("a", "b", "c")]},
    {"train": [(" ", "good")]},
    {"train": [{"text": "a"}]},
    {"train": [("a film", 3)]},
    {"validation": 3},
    {"gold": [1]},
    {"gold": "ab"},
    {"others": [3]},
]


@pytest.mark.parametrize("change", TASKS, ids=ascii)
def test_parts_of_a_task(change: dict[str, Any]) -> None:
    given = {"classifier": tiny.classifier("bert", 3), "train": [("a film", "good")], **change}
    complaint(lambda: explearn.ListedTask(**given))


# ---- functions in the place of a classifier ------------------------------------------------------------------------

CLASSES: list[Any] = [
    None,
    2,
    "ab",
    b"ab",
    {"a": 1, "b": 2},
    [],
    ["a"],
    ["a", "a"],
    ["a", ""],
    ["a", " "],
    ["a", "\ud800"],
    ["caf\u00e9", "cafe\u0301"],
]


def halves(texts: list[str]) -> Any:
    return [[0.5, 0.5]] * len(texts)


@pytest.mark.parametrize("labels", CLASSES, ids=ascii)
def test_classes_of_a_function(labels: Any) -> None:
    complaint(lambda: CallableClassifier(halves, labels), "labels")


@pytest.mark.parametrize("mask", [3, None, "a b", " a", ["a"]], ids=ascii)
def test_masks_of_a_function(mask: Any) -> None:
    complaint(lambda: CallableClassifier(halves, ["a", "b"], mask=mask), "mask")


ANSWERS: dict[str, Any] = {
    "nothing": None,
    "a text": "x",
    "texts": [["a", "b"]],
    "rows of two lengths": [[0.5, 0.5], [1]],
    "complex numbers": np.full((1, 2), 0.5 + 0j),
    "dates": np.array([["2020-01-01"] * 2], dtype="M8[D]"),
    "things": [[object(), 1]],
    "a dictionary": {"a": 1},
    "a generator": (row for row in [[0.5, 0.5]]),
    "a flat list": [0.5, 0.5],
    "a class too many": [[0.5, 0.25, 0.25]],
    "numbers beyond any": [[10**400, 0]],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_a_function(name: str) -> None:
    classifier = CallableClassifier(lambda _: ANSWERS[name], ["a", "b"])
    said = complaint(lambda: classifier.predict_proba(classifier.encode(["a film"])), "the function: gave", "(1, 2)")
    assert "Error" not in said


def test_a_function_may_do_what_it_likes_with_its_list() -> None:
    def emptied(texts: list[str]) -> Any:
        found = halves(texts)
        texts.clear()
        return found

    classifier = CallableClassifier(emptied, [0, np.int64(1)])
    assert classifier.labels == ["0", "1"]
    assert classifier.predict(["a film", "a book"]) == ["0", "0"]


# ---- bundles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source", [None, 3, b"x", "", "none", "../x", "a/b/c", "\x00", "x" * 300], ids=lambda v: ascii(v)[:20]
)
def test_bundles_that_are_none(source: Any) -> None:
    complaint(lambda: explearn.load(source))


@pytest.mark.parametrize("options", [{"nobody": 3}, {"compute": 3}, {"device": "tpu"}, {"precision": "fp8"}], ids=ascii)
def test_options_of_loading(tmp_path: Path, options: dict[str, Any]) -> None:
    complaint(lambda: explearn.load(tmp_path, **options))


EXPORTS: list[dict[str, Any]] = [
    {"out": None},
    {"out": 3},
    {"method": 3},
    {"method": None},
    {"options": [1]},
    {"options": {"samples": "many"}},
    {"options": {"nobody": 1}},
    {"explainer": get_explainer("lime")},
    {"classifier": 3},
    {"classifier": tiny.classifier("bert", 3)},
    {"metrics": 3},
    {"task": "films"},
    {"with_classifier": True},
]


@pytest.mark.parametrize("change", EXPORTS, ids=lambda value: ascii(value)[:40])
def test_arguments_of_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    complaint(lambda: explearn.export(**{"out": "bundle", "method": "lime", **change}))
    assert list(tmp_path.iterdir()) == []


# ---- comparisons ---------------------------------------------------------------------------------------------------

LISTS: list[Any] = [
    None,
    3,
    b"x",
    {"text": "a"},
    [3],
    ["a", None],
    [math.nan],
    [("a", "b", "c")],
    [("a",)],
    [("a", 3)],
    [],
    [" "],
]


@pytest.mark.parametrize("texts", LISTS, ids=ascii)
def test_texts_to_compare_on(texts: Any) -> None:
    complaint(lambda: listed_texts(texts, None), "text")


@pytest.mark.parametrize("labels", [3, "ab", {"a": 1}, ["a"], [1, 2], [None, "a"], ["a", "\ud800"]], ids=ascii)
def test_labels_to_compare_on(labels: Any) -> None:
    complaint(lambda: listed_texts(["a film", "a book"], labels), "label")


@pytest.mark.parametrize("budget", [math.inf, math.nan, -1, 0, True, [1], 10**400, "9" * 400, "inf", ""], ids=ascii)
def test_budgets(budget: Any) -> None:
    complaint(lambda: parse_budget(budget), "budget")


@pytest.mark.parametrize("methods", [None, 3, ["random", "lime"], "", ",", "lime,light"], ids=ascii)
def test_methods_to_compare(methods: Any) -> None:
    complaint(lambda: choose_methods(methods))


ARGUMENTS: list[dict[str, Any]] = [
    {"classifier": None},
    {"classifier": 3},
    {"max_texts": 0},
    {"max_texts": "3"},
    {"max_texts": 1.5},
    {"max_texts": True},
    {"max_texts": 10**30},
    {"columns": 3},
    {"columns": explearn.TextColumns()},
    {"compute": "cpu"},
    {"scores": "scores.jsonl"},
    {"scores": None},
    {"out": 3},
    {"out": None},
    {"out": "."},
    {"out": "/proc/report.html"},
    {"out": "a\x00b.html"},
    {"out": "x" * 300 + ".html"},
    {"seed": -1},
    {"seed": "x"},
]


@pytest.mark.parametrize("change", ARGUMENTS, ids=ascii)
@pytest.mark.timeout(30)
def test_arguments_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"classifier": tiny.classifier("bert", 3), "texts": ["a film"], "methods": "random", **change}
    complaint(lambda: explearn.compare(**given))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(30)
def test_places_where_no_file_can_be_made(tmp_path: Path) -> None:
    """/proc says of every new file that there is no such folder, which is not waited for."""
    for path in ("/proc/x.html", "/proc/none/x.html", "a\x00b", tmp_path / "a\x00b" / "c"):
        complaint(lambda path=path: write_text(path, "x"))
        complaint(lambda path=path: GOOD.to_html(path))
