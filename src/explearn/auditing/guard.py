"""Elements taken out of texts and put in, and guards: classifiers that get each text without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import listed
from explearn.core.validation import Shape, check
from explearn.core.writing import write_json, write_text
from explearn.predictors.function import FunctionPredictor
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import NamedClassifier
from explearn.text.elements import Element, parse_element
from explearn.text.encoding import PlainText, plain_text
from explearn.text.scored import ScoredText, Vocabulary


@dataclass(frozen=True, slots=True)
class Editor:
    """Takes elements out of texts, and puts them in.

    Attributes:
        elements: the elements.
        vocabulary: facts about all texts.
        donors: element -> texts that have it, of which each in turn gives its words.
    """

    elements: Sequence[Element]
    vocabulary: Vocabulary
    donors: Mapping[Element, Sequence[ScoredText]] = field(default_factory=dict)

    def found(self, text: ScoredText) -> list[Element]:
        """Return the elements that a text has."""
        return [element for element in self.elements if element.find(text, self.vocabulary)]

    def without(self, text: ScoredText) -> PlainText | None:
        """Return a text without the elements; None if a segment would have no word."""
        for element in self.found(text):
            if element.find(text, self.vocabulary):
                changed = element.remove(text, self.vocabulary)
                if changed is None:
                    return None
                text = ScoredText.of(changed)
        return plain_text(text.example.segments)

    def having(self, text: ScoredText, element: Element, number: int) -> PlainText | None:
        """Return a text with an element put in, by the words of a donor; None if that cannot be."""
        donors = self.donors[element]
        if not donors or not element.lacks(text, self.vocabulary):
            return None
        _, version = element.put_in(text, donors[number % len(donors)], self.vocabulary)[0]
        return version


def guarded(classifier: Predictor, editor: Editor) -> FunctionPredictor:
    """Return a predictor that takes elements out of each text before it asks a classifier.

    A text that would have no word left stays as it is.

    Args:
        classifier: the classifier.
        editor: what is taken out.
    """

    def predict_proba(texts: list[PlainText]) -> list[list[float]]:
        asked = []
        for text in texts:
            asked.append(editor.without(ScoredText.of(text)) or text)
        rows: list[list[float]] = classifier.predict_proba(asked).tolist()
        return rows

    names = listed([str(element) for element in editor.elements])
    guard = FunctionPredictor(
        predict_proba,
        classifier.labels,
        version=repr((classifier.fingerprint, editor.elements, editor.vocabulary)),
        name=f"{classifier.name} without {names}",
    )
    guard.costs_money = classifier.costs_money
    guard.max_words = 10**6  # the classifier itself says what is too long
    return guard


# ---- files -----------------------------------------------------------------------------------------------------------

GUARD = "guard.json"

CODE = '''"""A classifier, with {names} taken out of each text before it is asked; `explearn fix` wrote it.

explearn explain --classifier guard.py:guard "A text."
"""

from explearn.auditing.guard import load_guard

guard = load_guard(__file__)
'''


class GuardFile(Shape):
    """The content of GUARD.

    Attributes:
        classifier: name of the classifier, or its folder, relative to this one.
        elements: names of the elements.
        function_words: of the vocabulary.
        length: of the vocabulary.
    """

    classifier: str
    elements: list[str]
    function_words: list[str]
    length: float


def write_guard(folder: Path, classifier: str, editor: Editor) -> None:
    """Write a guard into a folder, as code that commands take as a classifier.

    Args:
        folder: the folder.
        classifier: name of the classifier, or its folder, relative to this one.
        editor: what is taken out.
    """
    elements = [str(element) for element in editor.elements]
    vocabulary = editor.vocabulary
    values = {"classifier": classifier, "elements": elements, "length": vocabulary.length}
    write_json(folder / GUARD, {**values, "function_words": sorted(vocabulary.function_words)})
    write_text(folder / "guard.py", CODE.format(names=repr(listed(elements))))


def load_guard(code: str, compute: ComputeOptions | None = None) -> FunctionPredictor:
    """Return the guard that `write_guard` wrote.

    Args:
        code: path of its code.
        compute: where and how to compute.

    Raises:
        DataError: the file beside it cannot be used.
        ModelError: the classifier cannot be loaded.
    """
    folder = Path(code).parent
    file: GuardFile = check(GuardFile, read_json(folder / GUARD), before=f"{folder / GUARD}, ")
    name = file.classifier
    if (folder / name).exists():
        name = str(folder / name)
    vocabulary = Vocabulary(frozenset(file.function_words), file.length, {})
    elements = [parse_element(element) for element in file.elements]
    return guarded(NamedClassifier(name).load(compute), Editor(elements, vocabulary))
