"""The results of an audit and of a comparison of two classifiers, and their records."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from pydantic_core import to_jsonable_python

from explearn.core.escape import printable
from explearn.core.extras import need
from explearn.core.writing import write_json, write_text
from explearn.report.manifest import Origin, check_page, part, write_manifest
from explearn.report.page import draw
from explearn.show.blocks import Block, ExampleText, Table, columns, plain, several
from explearn.show.html_page import render_html

if TYPE_CHECKING:
    import pandas as pd


FEWEST_VALUES = 8
"""Texts below which a claim is not tested."""


class Pages(NamedTuple):
    """The functions that write a result.

    Attributes:
        sentences: gives the sentences of a result, with marks for bold words.
        blocks: gives the blocks of its page.
    """

    sentences: Callable[[Any], Sequence[str]]
    blocks: Callable[[Any], Sequence[Block]]


class Result:
    """Base of results, dataclasses with `findings`, that print and save themselves.

    Attributes:
        row: class of a finding.
        origin: where it comes from.
        pages: the functions that write its sentences and its page.
        page: path of the page; None if none was written.
    """

    __slots__ = ()
    row: ClassVar[type]
    origin: Origin
    pages: Pages
    page: Path | None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def sentences(self) -> list[str]:
        """Return the result in plain sentences."""
        return [plain(sentence) for sentence in self.pages.sentences(self)]

    def print(self) -> None:
        """Print the sentences."""
        for sentence in self.sentences():
            print(printable(sentence))

    def save(self, path: str | Path) -> Self:
        """Write the page, and beside it its manifest and the findings as CSV and JSON.

        Args:
            path: the page; with page.html go page.json (the manifest, for `explearn verify`), page.findings.csv and
                page.findings.json.

        Returns:
            This result, with the path of its page.

        Raises:
            ParamsError: a file of another kind would be replaced.
            DataError: a file cannot be written.
        """
        page = Path(path)
        check_page(page)
        made = self.origin.facts(page)
        blocks = [*self.pages.blocks(self), Table(columns(["", ""]), list(made.items()))]
        write_text(page, render_html(blocks, draw(blocks), "Kinds of findings"))
        document = {}
        for attribute in fields(self):  # type: ignore[arg-type]
            name = attribute.name
            if attribute.repr and name != "page":  # not example texts, nor where it comes from
                document[name] = to_jsonable_python(getattr(self, name))
        table = io.StringIO()
        writer = csv.DictWriter(table, [column.name for column in fields(self.row)])
        writer.writeheader()
        writer.writerows(document["findings"])
        beside = [page.with_suffix(".findings.csv"), page.with_suffix(".findings.json")]
        write_text(beside[0], table.getvalue())
        write_json(beside[1], document)
        manifest = self.origin.manifest(page, "audit", made)
        manifest["parts"]["page"] = part(page.parent, [page.name, *(file.name for file in beside)])
        write_manifest(page, {**manifest, "verdict": " ".join(self.sentences())})
        return replace(self, page=page)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that an element counts for a class, and what interventions say of it.

    Attributes:
        element: the element, in words.
        kind: word, phrase, order, together, place, class of words, punctuation, pattern or length.
        target: the class for which it counts.
        source: where the claim comes from: attributions, word counts (words that go with the answer), or both.
        texts: number of texts that have it.
        score: mean share of a text's attributions beyond that of as many average words, over the searched texts with
            this answer; None if it has none.
        score_low: lower bound of its 95 % interval.
        score_high: upper bound.
        taken_out: mean fall of the class's probability where it was taken out; None if it was not.
        put_in: mean rise of the class's probability where it was put in.
        effect: mean over both.
        low: lower bound of the effect's 95 % interval.
        high: upper bound.
        changed: number of texts that were changed.
        p_value: of Wilcoxon's signed-rank test over these texts.
        corrected: the same, corrected over all claims (Benjamini and Hochberg).
        confirmed: whether the claim stands.
    """

    element: str
    kind: str
    target: str
    source: str
    texts: int
    score: float | None
    score_low: float | None
    score_high: float | None
    taken_out: float | None
    put_in: float | None
    effect: float | None
    low: float | None
    high: float | None
    changed: int
    p_value: float
    corrected: float
    confirmed: bool


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """A confirmed finding that counts on the wrong side.

    Attributes:
        element: the element, in words.
        kind: its kind.
        target: the wrong answer.
        wrong: number of texts with this wrong answer that have the element (at most 200 are looked at).
        mended: number of these that get the right answer without it.
        right_lost: number of right answers of this class, of as many texts that have it, that are lost without it.
        right: number of these texts.
    """

    element: str
    kind: str
    target: str
    wrong: int
    mended: int
    right_lost: int
    right: int


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """What the classifier does with the texts of a group.

    Attributes:
        group: its name.
        texts: number of its texts.
        rates: class -> share of its texts with this answer.
        accuracy: share of right answers; None without labels.
        accuracy_low: lower bound of its 95 % interval.
        accuracy_high: upper bound.
        small: whether it has fewer than 20 texts, so that its figures say little.
    """

    group: str
    texts: int
    rates: Mapping[str, float]
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    small: bool


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """A confirmed finding whose effect in a group was compared with the other texts.

    Attributes:
        group: name of the group.
        element: the element, in words.
        kind: its kind.
        target: the class for which it counts.
        inside: mean fall of the probability in the group where it is taken out.
        outside: the same in the other texts.
        corrected: p-value of the Mann-Whitney test, corrected over all such comparisons.
        differs: whether it is at most 0.05.
    """

    group: str
    element: str
    kind: str
    target: str
    inside: float
    outside: float
    corrected: float
    differs: bool


class Findings(list[Finding]):
    """The findings of an audit, confirmed ones first, the largest effects first."""

    @property
    def confirmed(self) -> Findings:
        """Those that stand."""
        return Findings(finding for finding in self if finding.confirmed)

    @property
    def untested(self) -> Findings:
        """Those for which too few texts could be changed."""
        return Findings(finding for finding in self if finding.changed < FEWEST_VALUES)

    def of_class(self, target: str) -> Findings:
        """Return those of a class."""
        return Findings(finding for finding in self if finding.target == target)

    def to_pandas(self) -> pd.DataFrame:
        """Return a frame with one row a finding.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        need("pandas", extra="pipeline", what="a frame")
        import pandas as pd

        return pd.DataFrame([asdict(finding) for finding in self], columns=list(Finding.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class Change:
    """A finding that is confirmed for one of two classifiers or both.

    Attributes:
        element: the element, in words.
        kind: its kind.
        target: the class for which it counts.
        status: came, went, grew, shrank, or the same.
        before: mean effect on the old classifier's probability.
        after: the same for the new one.
        difference: `after` less `before`.
        low: lower bound of its 95 % interval.
        high: upper bound.
        corrected: p-value of the difference, corrected over all these findings.
    """

    element: str
    kind: str
    target: str
    status: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    corrected: float


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """A text whose answer changed.

    Attributes:
        id: its id.
        text: its words.
        before: the old answer.
        after: the new one.
        probability_before: the old classifier's probability of the new answer.
        probability: the new classifier's.
    """

    id: str
    text: str
    before: str
    after: str
    probability_before: float
    probability: float


@dataclass(frozen=True, slots=True)
class ChangedReasons:
    """A text whose answer stayed, with how far the scores of its words did.

    Attributes:
        id: its id.
        text: its words.
        answer: the answer.
        correlation: Spearman's rank correlation of old and new scores.
        before: the highest-scoring words for the old classifier.
        after: the same for the new one.
    """

    id: str
    text: str
    answer: str
    correlation: float
    before: str
    after: str


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Result):
    """What a classifier leans on over many texts.

    Attributes:
        findings: all claims that were looked at.
        errors: confirmed findings that count on the wrong side, those that mend most first; empty without labels.
        groups: figures of each group; empty without groups.
        differences: confirmed findings compared between each group and the other texts.
        texts: number of texts.
        rates: class -> share of the texts with this answer.
        accuracy: share of right answers; None without labels.
        method: the method of the attributions.
        unread: number of words that the classifier did not read.
        unexplained: number of texts that a job has no scores of for their answer, and that were not searched.
        examples: texts with the words of strong findings marked.
        origin: where it comes from.
        pages: the functions that write its sentences and its page.
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "moron" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> audit = explearn.audit(classifier, texts)
        >>> audit.findings.confirmed[0].target
        'rude'
    """

    row = Finding

    findings: Findings
    errors: Sequence[ErrorCause]
    groups: Sequence[GroupFigures]
    differences: Sequence[GroupDifference]
    texts: int
    rates: Mapping[str, float]
    accuracy: float | None
    method: str
    unread: int
    unexplained: int
    examples: Sequence[ExampleText] = field(repr=False)
    origin: Origin = field(repr=False)
    pages: Pages = field(repr=False)
    page: Path | None = None

    def __str__(self) -> str:
        confirmed = len(self.findings.confirmed)
        return f"{several(confirmed, 'confirmed finding')} of {len(self.findings)} on {several(self.texts, 'text')}"


@dataclass(frozen=True, slots=True, repr=False)
class Diff(Result):
    """A comparison of two classifiers on the same texts.

    Attributes:
        findings: findings confirmed for either classifier, those that changed most first.
        answers: texts whose answer changed, those whose probability changed most first.
        reasons: texts whose answer stayed, those whose scores changed most first.
        texts: number of texts.
        method: the method of the attributions.
        origin: where it comes from.
        pages: the functions that write its sentences and its page.
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "moron" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> explearn.diff(classifier, classifier, texts).share
        0.0
    """

    row = Change

    findings: Sequence[Change]
    answers: Sequence[ChangedAnswer]
    reasons: Sequence[ChangedReasons]
    texts: int
    method: str
    origin: Origin = field(repr=False)
    pages: Pages = field(repr=False)
    page: Path | None = None

    def __str__(self) -> str:
        return f"{several(len(self.answers), 'changed answer')} on {several(self.texts, 'text')}"

    @property
    def share(self) -> float:
        """Share of the texts whose answer changed."""
        return len(self.answers) / self.texts
