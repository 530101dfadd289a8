"""The page of a record: a few plain sentences first, then what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from explearn.core.attribution import Attribution
from explearn.core.errors import listed
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
    bold,
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


def sentences(record: DecisionRecord) -> list[str]:
    """Say what a record found: the answer, the words behind it, what turns it, and how sure that is."""
    target = record.answer.label
    classifier = record.classifier.name or "The classifier"
    said = [f"{classifier} answers {bold(target)}, with probability {_p(record.answer, target)}."]
    said += _about_elements(record, target)
    said.append(_about_change(record, target))
    if record.certificate is not None:
        said.append(f"How sure the method is of its scores: {record.certificate}.")
    else:
        measured = ""
        if any(element.without for element in record.elements):
            measured = "; the effects above are measured"
        said.append(f"{record.method.name} does not say how sure it is of its scores{measured}.")
    return said


def _p(answer: Answer, label: str) -> str:
    return f"{answer.probabilities[label]:.3f}"


def _about_elements(record: DecisionRecord, target: str) -> Iterator[str]:
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
            yield f"Without {word} the probability of {target} is {_answered(record, element.without, target)}."
    if record.without_elements is not None and len(words) > 1:
        yield f"Without all of these words it is {_answered(record, record.without_elements, target)}."


def _answered(record: DecisionRecord, answer: Answer, target: str) -> str:
    """Return the probability of the class, that it rises, and the other answer if it has turned."""
    text = _p(answer, target)
    if text > _p(record.answer, target):
        text += ", which is higher: here the test does not bear out the method"
    if answer.label != target and record.classifier.problem != "multi_label":
        text += f", and the answer is {answer.label}"
    return text


def _about_change(record: DecisionRecord, target: str) -> str:
    change = record.change
    if change.answer is None and change.passes == 0:
        return f"{bold('No change could be tried')}: no word can be left out, since one must stay."
    if change.answer is None:
        return (
            f"{bold('No change was found that turns the answer')}: none of the "
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
    if record.classifier.problem == "multi_label":
        becomes = f"another answer for {target}"
    return (
        f"The smallest change found that turns the answer is {bold(what)}: the classifier then gives {becomes}, "
        f"with probability {_p(change.answer, target)} for {target}.{smaller}"
    )


def _blocks(record: DecisionRecord, signed: bool) -> Iterator[Block]:
    first, *others = sentences(record)
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
        yield Paragraph(
            f"{several(record.text.unread, 'word')} were not read: they are beyond what the classifier reads."
        )
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
    note = "; ".join(filter(None, [f"for {record.answer.label}", output_of(attribution), pale(attribution)]))
    row = TextRow(record.method.name, note, chosen, attribution)
    return ExampleText("", "underlined: the words named above", attribution.words, [row], attribution.pair_start)


def attribution_of(record: DecisionRecord) -> Attribution:
    """Return the scores of a record with text as an attribution, which displays itself."""
    segments = [Segment.of(text) for text in record.text.segments or []]
    return Attribution.from_dict(
        {
            "words": list(chain.from_iterable(segment.words for segment in segments)),
            "spans": list(chain.from_iterable(segment.spans for segment in segments)),
            "pair_start": start_of_pair(segments),
            "scores": record.scores,
            "target": record.answer.label,
            "probability": record.answer.probabilities[record.answer.label],
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
