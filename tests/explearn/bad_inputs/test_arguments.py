"""Arguments of another kind than the public library takes: named in one sentence, whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from saying import complaint

import explearn
from explearn import Attribution, CallableClassifier, Classifier, Example, ListedTask, Rationale, TextColumns
from explearn.core.arguments import PATH, TEXT, arguments
from explearn.core.side_by_side import SideBySide
from explearn.methods.info import About, MethodInfo

A = Attribution.from_record({"words": ["a", "film"], "scores": [1, -2.5], "target": "yes", "method": "theirs"})
EXAMPLE: dict[str, Any] = {"id": "a", "words": ("a", "film"), "label": "yes", "split": "train", "task": "t"}
NO_PATHS: list[Any] = [3, 1.5, True, b"x", [], {}, object(), np.zeros(2), "\ud800"]
NO_LISTS: list[Any] = [None, 3, "a film", b"x", {}, object(), int]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return tiny.classifier("bert", 3)


@pytest.mark.parametrize("path", NO_PATHS, ids=lambda value: ascii(value)[:20])
def test_paths(classifier: Classifier, path: Any) -> None:
    together = explearn.side_by_side([A])
    takers: list[tuple[str, Callable[[Any], Any]]] = [
        ("path", A.to_html),
        ("path", together.to_html),
        ("path", Classifier.from_pretrained),
        ("folder", classifier.save_pretrained),
        ("out", lambda path: explearn.compare(classifier, ["a film"], methods="random", out=path)),
        ("work", lambda path: explearn.compare(classifier, ["a film"], methods="random", out="x.html", work=path)),
        ("scores", lambda path: explearn.compare(classifier, ["a film"], methods="random", scores=[path])),
    ]
    for name, taker in takers:
        complaint(lambda taker=taker: taker(path), f"{name}: got", "expected")


@pytest.mark.parametrize("texts", NO_LISTS, ids=lambda value: ascii(value)[:20])
def test_lists_of_texts(classifier: Classifier, texts: Any) -> None:
    function = CallableClassifier(lambda batch: np.full((len(batch), 2), 0.5), ["a", "b"])
    for taker in (classifier.encode, classifier.predict, function.encode, function.predict):
        complaint(lambda taker=taker: taker(texts), "texts: got", "expected a list")


def test_texts_in_the_place_of_encodings(classifier: Classifier) -> None:
    complaint(lambda: classifier.predict_proba(["a film"]), "encodings: got", "as encode gives them")  # type: ignore[list-item]


RECORDS: list[tuple[type, dict[str, Any], str, Any]] = [
    *((Example, EXAMPLE, name, value) for name in ("id", "label", "split", "task") for value in (None, 3, [3], {1})),
    *((Example, EXAMPLE, "words", value) for value in (None, 3, True, "a film", ["a"], np.zeros(2))),
    *((Example, EXAMPLE, "answer", value) for value in (3, "x", (1,), (None, None), int)),
    *(
        (Rationale, {"example_id": "a", "annotator": "b", "kind": "human", "mask": (True,)}, name, value)
        for name in ("example_id", "annotator", "kind", "mask")
        for value in (None, 3, np.zeros((2, 3)))
    ),
]


@pytest.mark.parametrize(("record", "good", "field", "value"), RECORDS, ids=lambda value: ascii(value)[:20])
def test_records(record: type, good: dict[str, Any], field: str, value: Any) -> None:
    record(**good)
    complaint(lambda: record(**{**good, field: value}), f"field {field!r}: got", "expected")


@pytest.mark.parametrize("value", [3, [], b"x", object()], ids=lambda value: ascii(value)[:20])
def test_columns(value: Any) -> None:
    for name in ("text", "pair", "label", "id", "rationales", "label_names"):
        complaint(lambda name=name: TextColumns(**{name: value}), f"columns, {name}: got")


@pytest.mark.parametrize("value", [None, 3, np.zeros((2, 3)), int], ids=lambda value: ascii(value)[:20])
def test_what_a_method_declares(value: Any) -> None:
    good: dict[str, Any] = {"name": "x", "family": "chance", "cost": "none"}
    for name in ("family", "binarisation", "cost", "needs"):
        complaint(lambda name=name: About(**{**good, name: value}), f"method 'x', {name}: got")
    if not isinstance(value, type):
        complaint(lambda: MethodInfo.of_class(value), "method: got")


def test_parts_of_a_listed_task(classifier: Classifier) -> None:
    train = [("a film", classifier.labels[0])]
    for name in ("others", "name", "lessons", "teachers"):
        complaint(lambda name=name: ListedTask(classifier, train, **{name: 3}), f"{name}: got int")
    for taker in (ListedTask(classifier, train).examples, ListedTask(classifier, train).lessons):
        complaint(lambda taker=taker: taker(3), "got int; expected a text")


@pytest.mark.parametrize("texts", [3, None, ["a"], [A]], ids=lambda value: ascii(value)[:20])
def test_parts_of_a_comparison_side_by_side(texts: Any) -> None:
    complaint(lambda: SideBySide(texts), "texts: got", "side_by_side")


@pytest.mark.parametrize("value", [object(), int, np.zeros((2, 3))], ids=["object", "class", "array"])
def test_values_are_shown_by_their_kind(classifier: Classifier, value: Any) -> None:
    complaint(lambda: classifier.label_index(value), "target: got")
    complaint(lambda: explearn.compare(classifier, ["a film"], seed=value, methods="random"), "seed: got")
    complaint(lambda: explearn.compare(classifier, ["a film"], max_texts=value, methods="random"), "max_texts: got")
    complaint(lambda: explearn.compare(classifier, ["a film"], tell=3, methods="random"), "tell: got")  # type: ignore[arg-type]


class TestTheCheck:
    def test_leaves_good_calls_as_they_are(self, tmp_path: Path) -> None:
        @arguments(path=PATH, name=TEXT)
        def taker(path: Path, name: str = "x", *rest: int) -> tuple[Any, ...]:
            """What it does."""
            return path, name, rest

        assert taker(tmp_path, "y", 3) == (tmp_path, "y", (3,))
        assert taker(path=tmp_path) == (tmp_path, "x", ())
        assert taker.__doc__ == "What it does."

    def test_leaves_missing_and_unknown_arguments_to_python(self) -> None:
        @arguments(name=TEXT)
        def taker(name: str) -> str:
            return name

        for call in (lambda: taker(), lambda: taker("x", more=1)):  # type: ignore[call-arg]
            with pytest.raises(TypeError, match="taker"):
                call()
