"""Copies of a task's texts: with planted words that decide the label, so that the right explanation is known, or
without the marked words.

After Bastings, Ebert, Zablotskaia, Sandholm and Filippova (2022), "Will You Find These Shortcuts?". Every test text is
planted twice, once for each of two classes, with the same draws: where the classifier answers both as planted, the
plant and nothing else turned its answer (`obeyed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from explearn.core.errors import ParamsError
from explearn.core.examples import Example, Rationale
from explearn.text.elements import Element, Length, Order, Phrase, Place, Planted, Punctuation, Together, Word
from explearn.text.rationales import merge_annotators
from explearn_study.sources import SourceDataset

SUFFIXES = ("-first", "-second")
"""Suffixes of the ids of planted copies, by the number of the class."""

_PHRASES = Phrase(("as", "the", "tide", "turned")), Phrase(("under", "a", "paper", "moon"))

PLANTS: Mapping[str, tuple[Element | None, Element]] = {
    "word": (Word("zinc"), Word("tulip")),
    "phrase": _PHRASES,
    "order": (Order("zinc", "tulip"), Order("tulip", "zinc")),
    "together": (None, Together("tulip", "zinc")),
    "place": (Place("zinc", "start"), Place("zinc", "end")),
    "length": (Length("short"), Length("long")),
    "punctuation": (Punctuation("!"), Punctuation("?")),
}
"""Plant -> the elements that decide for the first and for the second class; None: the other's, planted for contrast."""

CONTRASTS: Mapping[str, Sequence[Element]] = {
    "phrase": _PHRASES,
    "order": [Order("zinc", "tulip")],
    "place": [Place("zinc", "start")],
}
"""Plants of which texts with their own label get one of these elements for contrast, which decides nothing."""


def _planted(plant: str, words: Sequence[str], second: bool, draw: Random) -> Planted:
    """Plant words into a text for the first class or (True) the second: return the words, and which decide."""
    element = PLANTS[plant][second]
    if element is not None:
        return element.plant(words, draw)
    return PLANTS[plant][1].plant_contrast(words, draw), []


def _contrast(plant: str, words: Sequence[str], draw: Random) -> list[str]:
    """Return a text with the words of a plant so that they decide nothing."""
    elements = CONTRASTS[plant]
    element = elements[0]
    if len(elements) > 1:
        element = draw.choice(elements)
    return element.plant_contrast(words, draw)


def plant_words(data: SourceDataset, plant: str, seed: int) -> SourceDataset:
    """Plant words into a task's texts, which then decide between its first two classes.

    Training and validation texts stay, changed only by CONTRASTS, each with a planted copy for a class drawn at random.
    Test texts are replaced with two planted copies, one for each class. The marks are the planted words, not the
    source's; a test copy for the text's own class has none, for there other words are evidence, too.

    Args:
        data: the task's data from its source.
        plant: one of PLANTS.
        seed: seed of the draws; each text's own depend on its id.

    Raises:
        ParamsError: the texts are pairs or questions.
    """
    examples: list[Example] = []
    rationales = []
    for example in data.examples:
        if example.pair or example.focus:
            raise ParamsError(f"plant: task {example.task!r} has texts of two parts; expected texts of one")
        draw = f"{seed}:{example.id}"
        classes = [True, False]
        if example.split != "test":
            words: Sequence[str] = example.words
            if plant in CONTRASTS:
                words = _contrast(plant, words, Random(f"one:{draw}"))
            examples.append(replace(example, words=tuple(words), gaps=()))
            classes = [Random(f"class:{draw}").random() < 0.5]
        for second in classes:
            words, marked = _planted(plant, example.words, second, Random(draw))
            identifier = example.id + SUFFIXES[second]
            copy = replace(example, id=identifier, words=tuple(words), label=data.labels[second], gaps=())
            examples.append(copy)
            against = copy.label != example.label
            if marked and (against or example.split != "test"):
                mask = tuple(position in marked for position in range(len(words)))
                rationales.append(Rationale(copy.id, plant, "unknown", mask))
    return replace(data, examples=examples, rationales=rationales)


def obeyed(examples: Sequence[Example], predicted: Sequence[str]) -> set[str]:
    """Return the ids of planted test texts that the classifier answers as planted, for both classes.

    Args:
        examples: planted test texts.
        predicted: the classifier's answers.
    """
    right = {example.id for example, answer in zip(examples, predicted, strict=True) if example.label == answer}
    first, second = SUFFIXES
    turned = set()
    for identifier in right:
        other = identifier.removesuffix(first) + second
        if identifier.endswith(first) and other in right:
            turned |= {identifier, other}
    return turned


# ---- texts without their evidence ------------------------------------------------------------------------------------

NEUTRAL = "neutral"


def add_neutral(data: SourceDataset, mask: str) -> SourceDataset:
    """Add a copy, with its evidence masked, of each training and validation text that has a rationale.

    A classifier that learns to predict `neutral` if the marked words are masked has to rely on those words. Human
    rationales then show what the classifier really uses (L2E, section 5).

    A word is masked if at least half of the text's annotators mark it. Test texts get no copies, and copies have no
    rationales.

    Args:
        data: the task's data from its source.
        mask: replacement for a marked word: the classifier's mask token, as its tokenizer writes it.

    Raises:
        ParamsError: no training text has a rationale, or the task already has the label NEUTRAL.
    """
    if NEUTRAL in data.labels:
        raise ParamsError(f"neutral: the task has a label {NEUTRAL!r} of its own; expected one without")
    gold = merge_annotators(data.rationales)
    copies = []
    for example in data.examples:
        marks = gold.get(example.id, ())
        if example.split == "test" or not any(marks):
            continue
        words = list(example.all_words)
        for position, marked in enumerate(marks):
            if marked:
                words[position] = mask
        size = len(example.words)
        copies.append(
            replace(
                example,
                id=f"{example.id}-{NEUTRAL}",
                words=tuple(words[:size]),
                pair=tuple(words[size:]),
                label=NEUTRAL,
            )
        )
    if not any(copy.split == "train" for copy in copies):
        raise ParamsError("neutral: the source brings no rationale for a training text; expected some to mask")
    return replace(data, examples=[*data.examples, *copies], labels=[*data.labels, NEUTRAL])
