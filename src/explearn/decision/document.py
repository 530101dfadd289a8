"""The record of one decision as a JSON document: its fields, its reading, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from explearn.core.attribution_fields import Certificate
from explearn.core.documents import PathLike, read_json
from explearn.core.errors import DataError, listed
from explearn.core.validation import Count, Fraction, Name, Number, Shape, UnicodeText, check
from explearn.show.blocks import bold, several
from explearn.show.printed import Printed

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


class DecisionRecord(Printed, Shape):
    """The record of one decision; `model_json_schema()` is its JSON Schema.

    Attributes:
        record: version of the format.
        text: the text.
        classifier: the classifier.
        answer: its answer.
        target: the class that is explained: that of the answer, unless another was named.
        versus: the class against which it is explained. None: all others.
        value: the difference of their logits, of which scores are parts. None: there is no such class.
        method: the method of explanation.
        scores: a score for each word, for the target; None for a word that was not read.
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
    target: Name
    versus: Name | None
    value: Number | None
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

    def bold_sentences(self) -> list[str]:
        """Say what the record found: the answer, the words behind it, what turns it, and how sure that is."""
        classifier = self.classifier.name or "The classifier"
        said = [
            f"{classifier} answers {bold(self.answer.label)}, with probability {_p(self.answer, self.answer.label)}."
        ]
        if self.target != self.answer.label or self.versus is not None:
            against = ""
            if self.versus is not None:
                against = f", against {bold(self.versus)}, with {_p(self.answer, self.versus)}"
            said.append(f"Explained is {bold(self.target)}, with probability {_p(self.answer, self.target)}{against}.")
        said += _about_elements(self)
        said.append(_about_change(self))
        if self.certificate is not None:
            said.append(f"How sure the method is of its scores: {self.certificate}.")
        else:
            measured = ""
            if any(element.without for element in self.elements):
                measured = "; the effects above are measured"
            said.append(f"{self.method.name} does not say how sure it is of its scores{measured}.")
        return said

    def next_steps(self) -> str:
        """Return how to go on in Python."""
        return (
            ".scores, .elements, .change have the figures; explearn.record(..., out='record.html') writes a page, "
            "explearn.verify checks it."
        )


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


# ---- a record in sentences -------------------------------------------------------------------------------------------


def _p(answer: Answer, label: str) -> str:
    return f"{answer.probabilities[label]:.3f}"


def _about_elements(record: DecisionRecord) -> Iterator[str]:
    if not record.elements:
        yield f"{record.method.name} gives no word a score above 0."
        return
    words = [f"“{element.word}”" for element in record.elements]
    counts = "these words count"
    if len(words) == 1:
        counts = "this word counts"
    yield f"By {record.method.name}, {counts} most for it: {', '.join(map(bold, words))}."
    for word, element in zip(words, record.elements, strict=True):
        if element.without is None:
            yield f"Without {word} no word would be left, so its effect is not known."
        else:
            yield f"Without {word} the probability of {record.target} is {_answered(record, element.without)}."
    if record.without_elements is not None and len(words) > 1:
        yield f"Without all of these words it is {_answered(record, record.without_elements)}."


def _answered(record: DecisionRecord, answer: Answer) -> str:
    """Return the target's probability, that it rises, and the other answer if it has turned."""
    text = _p(answer, record.target)
    if record.versus is not None:
        text += f", of {record.versus} {_p(answer, record.versus)}"
    if _lead(record, answer) > _lead(record, record.answer):
        text += ", which is higher: here the test does not bear out the method"
    if answer.label != record.answer.label and record.classifier.problem != "multi_label":
        text += f", and the answer is {answer.label}"
    return text


def _lead(record: DecisionRecord, answer: Answer) -> float:
    """Return the target's probability, less that of the class against which it is explained, as they are shown."""
    lead = answer.probabilities[record.target]
    if record.versus is not None:
        lead -= answer.probabilities[record.versus]
    return round(lead, 3)


def _about_change(record: DecisionRecord) -> str:
    change = record.change
    target = record.target
    if change.answer is None and change.passes == 0:
        return f"{bold('No change could be tried')}: no word can be left out, since one must stay."
    multi_label = record.classifier.problem == "multi_label"
    turns = "turns the answer"
    if target != record.answer.label and not multi_label:
        turns = f"makes {target} the answer"
    if change.answer is None:
        return (
            f"{bold(f'No change was found that {turns}')}: none of the "
            f"{several(change.passes, 'changed text')} that were tried does (at most {change.budget} are). "
            "There may be one."
        )
    removed = [f"“{edit.word}”" for edit in change.edits if edit.replacement is None]
    done = [f"putting “{edit.replacement}” for “{edit.word}”" for edit in change.edits if edit.replacement is not None]
    if removed:
        done.insert(0, f"taking out {listed(removed, len(removed))}")
    what = " and ".join(done)
    smaller = ""
    if len(change.edits) > 2:
        smaller = " A smaller one may exist."
    becomes = f"the answer {change.answer.label}"
    if multi_label:
        becomes = f"another answer for {target}"
    return (
        f"The smallest change found that {turns} is {bold(what)}: the classifier then gives {becomes}, "
        f"with probability {_p(change.answer, target)} for {target}.{smaller}"
    )
