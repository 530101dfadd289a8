"""The record of one decision as a JSON document: its fields, its reading, and its JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from explearn.core.attribution_fields import Certificate
from explearn.core.documents import PathLike, read_json
from explearn.core.errors import DataError
from explearn.core.validation import Count, Fraction, Name, Number, Shape, UnicodeText, check

VERSION: Literal[1] = 1
"""Version of the record's format."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Probabilities = dict[str, Fraction]
"""Class -> probability."""


class RecordedText(Shape):
    """The text of a decision.

    Attributes:
        sha256: SHA-256 of each segment, in UTF-8.
        segments: the segments, one or two of a pair; None if the record keeps only their hash.
        words: number of words.
        unread: number of words that the classifier or the method did not read.
    """

    sha256: list[Sha256]
    segments: Annotated[list[UnicodeText], Field(min_length=1, max_length=2)] | None
    words: Count
    unread: Count


class RecordedClassifier(Shape):
    """The classifier.

    Attributes:
        name: its name.
        sha256: its fingerprint.
        kind: what the fingerprint is made from.
        problem: the kind of its output.
    """

    name: str
    sha256: Name
    kind: str
    problem: str


class Answer(Shape):
    """An answer of the classifier.

    Attributes:
        label: the most probable class.
        probabilities: of all classes.
    """

    label: Name
    probabilities: Probabilities


class RecordedMethod(Shape):
    """The method of explanation.

    Attributes:
        name: its name.
        options: its options.
        chosen: why this method.
        output: the output that its scores are parts of, as in `Attribution`.
        sha256: of name, options and, for a trained method, weights.
    """

    name: Name
    options: dict[str, Any]
    chosen: Literal["named", "best in the comparison", "default"]
    output: Literal["", "logit", "probability", "log_probability"]
    sha256: Sha256


class RecordedWord(Shape):
    """A word with a high score.

    Attributes:
        position: index of the word, from 0.
        word: the word; `word N`, N from 1, in a record without text.
        without: the answer to the text without this word; None if it is the only word, or there is no answer.
    """

    position: Count
    word: UnicodeText
    without: Answer | None


class Edit(Shape):
    """A word that is taken out or exchanged.

    Attributes:
        position: index of the word, from 0.
        word: the word, as in `RecordedWord`.
        replacement: the word in its place; None if it is taken out.
    """

    position: Count
    word: UnicodeText
    replacement: UnicodeText | None


class Change(Shape):
    """What a search for the smallest change that turns the answer found.

    Attributes:
        edits: the words changed; empty if no change that was tried turns the answer.
        answer: the answer to the changed text; None if none was found.
        passes: number of changed texts that the classifier and its masked-word head read.
        budget: most passes.
        exchange: where replacements came from; None: words were only taken out.
        replacements: the list of replacements, by word.
    """

    edits: list[Edit]
    answer: Answer | None
    passes: Count
    budget: Count
    exchange: Literal["masked", "list"] | None
    replacements: dict[str, list[str]]


class Population(Shape):
    """What a comparison found about the method on other texts of the same kind.

    Attributes:
        comparison: SHA-256 of the comparison's JSON.
        sentences: its figures, in words.
        caveats: its reasons not to trust them.
    """

    comparison: Sha256
    sentences: list[str]
    caveats: list[str]


class Signature(Shape):
    """An Ed25519 signature (RFC 8032) of the rest of the record (`explearn.decision.signature.signed_bytes`).

    Attributes:
        algorithm: Ed25519.
        public_key: 32 bytes, base64.
        value: 64 bytes, base64.
    """

    algorithm: Literal["Ed25519"]
    public_key: str
    value: str


class DecisionRecord(Shape):
    """The record of one decision; `model_json_schema()` is its JSON Schema.

    Attributes:
        record: version of the format.
        text: the text.
        classifier: the classifier.
        answer: its answer.
        method: the method of explanation.
        scores: a score for each word, for the class of the answer; None for a word that was not read.
        elements: the words with the highest scores above 0, highest first.
        without_elements: the answer to the text without all of them; None if there are none, no other word is left, or
            there is no answer.
        change: the smallest change found.
        certificate: how sure the method is of its scores; None if it does not say.
        population: how good the method is on texts of this kind; None without a comparison.
        made: when and how the record was made.
        versions: package -> version.
        page_sha256: of the page that was written with the record; None if none was.
        signature: None if the record is not signed.

    Example:
        >>> import explearn
        >>> schema = explearn.DecisionRecord.model_json_schema()
        >>> sorted(schema["properties"])[:3]
        ['answer', 'certificate', 'change']
    """

    record: Literal[1]
    text: RecordedText
    classifier: RecordedClassifier
    answer: Answer
    method: RecordedMethod
    scores: list[Number | None]
    elements: list[RecordedWord]
    without_elements: Answer | None
    change: Change
    certificate: Certificate | None
    population: Population | None
    made: dict[str, str]
    versions: dict[str, str]
    page_sha256: Sha256 | None = None
    signature: Signature | None = None

    def __repr__(self) -> str:
        return f"DecisionRecord({self.answer.label!r} by {self.classifier.name!r}, explained by {self.method.name!r})"


def is_record(document: object) -> bool:
    """Return whether a JSON document is a record of a decision, of any version."""
    return isinstance(document, dict) and "record" in document and "manifest" not in document


def holds_record(path: Path) -> bool:
    """Return whether a file holds a record of a decision, of any version."""
    if not path.is_file():
        return False
    try:
        return is_record(read_json(path))
    except DataError:
        return False


def read_record(path: PathLike) -> tuple[DecisionRecord, dict[str, Any]]:
    """Return a record, and the document that it was read from.

    Raises:
        DataError: the file is not a record, or one of another version.
    """
    document = read_json(path)
    if not is_record(document):
        raise DataError(f"{path}: is not a record; expected the JSON that explearn record wrote")
    if document["record"] != VERSION:
        raise DataError(
            f"{path}: is a record of version {document['record']!r}, and this Explearn reads version {VERSION}; check "
            "it with the version of Explearn that it names"
        )
    record: DecisionRecord = check(DecisionRecord, document, before=f"{path}, ")
    return record, document
