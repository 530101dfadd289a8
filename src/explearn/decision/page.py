"""The page of a record: a few plain sentences first, then what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from explearn.core.attribution import Attribution
from explearn.core.words import Segment
from explearn.decision.document import Answer, DecisionRecord
from explearn.show.blocks import (
    Block,
    Bullets,
    Cell,
    ExampleText,
    Fold,
    Heading,
    Paragraph,
    Table,
    TextRow,
    columns,
    several,
)
from explearn.show.display import SCALE, output_of, pale
from explearn.show.html_page import render_html
from explearn.text.encoding import start_of_pair

NO_ADVICE = (
    "This record is no legal advice. It says how the classifier answers to this text and to changed copies of it; it "
    "does not prove what caused the answer, nor that the answer is right."
)


def page_of(record: DecisionRecord, signed: bool) -> str:
    """Return a record's page.

    Args:
        record: the record, with or without its signature.
        signed: whether it is going to be signed.
    """
    return render_html(list(_blocks(record, signed)), {})


def _blocks(record: DecisionRecord, signed: bool) -> Iterator[Block]:
    first, *others = record.bold_sentences()
    yield Heading("Record of one decision", level=1)
    yield Paragraph(first, style="lead")
    yield Bullets(others)
    yield Paragraph(NO_ADVICE, style="note")
    yield Heading("The text")
    if record.text.segments is None:
        yield Paragraph("The text is left out; its SHA-256 is below. Short texts can be guessed from it.")
    else:
        yield _coloured(record)
        yield Paragraph(SCALE, style="note")
    if record.text.unread:
        yield Paragraph(f"Not read, being beyond what the classifier reads: {several(record.text.unread, 'word')}.")
    yield Heading("All classes")
    yield _probabilities(record)
    yield Heading("How good the method is on such texts")
    if record.population is None:
        yield Paragraph("No comparison was given, so this is not known; explearn compare finds out.")
    else:
        yield Bullets(record.population.sentences)
        if record.population.caveats:
            yield Fold(several(len(record.population.caveats), "caveat"), [Bullets(record.population.caveats)])
    yield Heading("Where this comes from")
    yield Table(columns(["", ""]), _origin(record, signed))
    packages = [f"{name} {version}" for name, version in record.versions.items()]
    yield Fold("Versions", [Paragraph(f"{', '.join(packages)}.")])


def _coloured(record: DecisionRecord) -> ExampleText:
    """Return the text with its words in colour."""
    attribution = attribution_of(record)
    positions = {element.position for element in record.elements}
    chosen = [position in positions for position in range(record.text.words)]
    note = "; ".join(filter(None, [f"for {attribution.target}", output_of(attribution), pale(attribution)]))
    row = TextRow(record.method.name, note, chosen, attribution)
    return ExampleText("", "underlined: the words named above", attribution.words, [row], attribution.pair_start)


def attribution_of(record: DecisionRecord) -> Attribution:
    """Return the scores of a record with text as an attribution, which displays itself."""
    segments = [Segment.of(text) for text in record.text.segments or []]
    target = record.target
    probability: float | None = record.answer.probabilities[target]
    if record.versus is not None:
        target += f" versus {record.versus}"
        probability = None
    return Attribution.from_dict(
        {
            "words": list(chain.from_iterable(segment.words for segment in segments)),
            "spans": list(chain.from_iterable(segment.spans for segment in segments)),
            "pair_start": start_of_pair(segments),
            "scores": record.scores,
            "target": target,
            "probability": probability,
            "value": record.value,
            "method": record.method.name,
            "output": record.method.output,
        }
    )


def _probabilities(record: DecisionRecord) -> Table:
    """Return all classes with their probabilities: of the text, and of the changed text if there is one."""
    answers: dict[str, Answer] = {"This text": record.answer}
    if record.without_elements is not None:
        answers["Without the words above"] = record.without_elements
    if record.change.answer is not None:
        answers["After the smallest change"] = record.change.answer
    rows: list[Sequence[Cell | str]] = []
    for label in sorted(record.answer.probabilities, key=lambda label: -record.answer.probabilities[label]):
        cells: list[Cell | str] = [label]
        for answer in answers.values():
            value = answer.probabilities[label]
            cells.append(Cell(f"{value:.3f}", value))
        rows.append(cells)
    return Table(columns(["Class"], list(answers)), rows, "Probabilities")


def _origin(record: DecisionRecord, signed: bool) -> list[list[str]]:
    rows = [[name, fact] for name, fact in record.made.items()]
    rows.append(["SHA-256 of the text", " and ".join(record.text.sha256)])
    rows.append(
        ["Classifier", f"{record.classifier.name}; fingerprint ({record.classifier.kind}): {record.classifier.sha256}"]
    )
    options = ", ".join(f"{name}={value}" for name, value in record.method.options.items())
    chosen = {"named": "named by the user", "default": "the default method"}.get(
        record.method.chosen, "the best method in the comparison"
    )
    rows.append(
        ["Method", f"{record.method.name} ({options or 'no options'}), {chosen}; SHA-256: {record.method.sha256}"]
    )
    if record.population is not None:
        rows.append(["SHA-256 of the comparison", record.population.comparison])
    kind = "not signed: whoever can change the page can change the record, too"
    if signed:
        kind = "signed (Ed25519)"
    rows.append(["Signature", kind])
    return rows
