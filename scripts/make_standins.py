"""Write small stand-ins for SNLI and SQuAD, where the hub is out of reach: sentences made from lists of words.

They have the columns of the real sets on the hub, and are read by the same adapters. What they are good for is to run
the pipeline on pairs and on questions; figures on them say nothing about the real sets.

    python scripts/make_standins.py data/standins
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from explearn.core.writing import write_text

SIZES = {"train": 1600, "validation": 200, "test": 400}

WHO = {
    "man": "person", "woman": "person", "nurse": "person", "farmer": "person", "dog": "animal", "cat": "animal",
    "horse": "animal", "boy": "child", "girl": "child", "toddler": "child",
}  # fmt: skip
LOOKS = ("tired", "tall", "young", "wet", "smiling", "quiet", "brown", "hungry")
DOES = {
    "sleeping": "resting", "lying": "resting", "running": "moving", "jumping": "moving", "walking": "moving",
    "eating": "having a meal", "drinking": "having something to drink",
}  # fmt: skip
OPPOSITE = {
    "resting": "moving", "moving": "resting", "having a meal": "sleeping", "having something to drink": "asleep",
}  # fmt: skip
PLACES = {
    "in a kitchen": "indoors", "in a bedroom": "indoors", "in a hall": "indoors", "in a library": "indoors",
    "on a beach": "outdoors", "in a field": "outdoors", "in the street": "outdoors", "in a forest": "outdoors",
}  # fmt: skip
SIDES = {"indoors": "outdoors", "outdoors": "indoors"}
UNKNOWN = (
    "is waiting for a friend", "has been here before", "is in a good mood", "will go home soon",
    "lives in a small town", "has a birthday today",
)  # fmt: skip

NAMES = (
    "Anna", "Tom", "Maria", "Peter", "Lena", "Ivan", "Sara", "Omar", "Julia", "David", "Nina", "Hugo", "Clara", "Felix",
)  # fmt: skip
CITIES = ("Paris", "London", "Rome", "Berlin", "Madrid", "Vienna", "Prague", "Dublin", "Oslo", "Athens")
THINGS = ("bike", "lamp", "coat", "clock", "guitar", "chair", "camera", "tent", "book", "table")
COLOURS = ("red", "blue", "green", "black", "white", "yellow")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def inference(draw: random.Random) -> dict[str, Any]:
    """A scene, and a sentence that follows from it, may be true, or cannot be."""
    who, looks, does, place = (draw.choice(list(words)) for words in (WHO, LOOKS, DOES, PLACES))
    label = draw.randrange(3)
    claims = (
        (f"{_a(WHO[who])} is {DOES[does]}.", f"The {who} is {PLACES[place]}.", f"A {looks} {WHO[who]} is {place}."),
        tuple(f"The {who} {unknown}." for unknown in UNKNOWN),
        (f"The {who} is {OPPOSITE[DOES[does]]}.", f"The {who} is {SIDES[PLACES[place]]}.", f"Nobody is {place}."),
    )
    return {"premise": f"A {looks} {who} is {does} {place}.", "hypothesis": draw.choice(claims[label]), "label": label}


def _a(noun: str) -> str:
    return f"An {noun}" if noun[0] in "aeiou" else f"A {noun}"


def question(draw: random.Random) -> dict[str, Any]:
    """Four purchases, and a question about one of them; every kind of answer comes several times in the passage."""
    buyers = draw.sample(NAMES, 4)
    things = draw.sample(THINGS, 4)
    facts = [
        {"who": name, "what": f"{draw.choice(COLOURS)} {thing}", "thing": thing, "city": city, "day": draw.choice(DAYS)}
        for name, thing, city in zip(buyers, things, draw.sample(CITIES, 4), strict=True)
    ]
    asked = draw.choice(facts)
    questions = {
        "city": f"Where did {asked['who']} buy a {asked['thing']}?",
        "day": f"When was {asked['who']} in {asked['city']}?",
        "what": f"What did {asked['who']} buy in {asked['city']}?",
        "who": f"Who bought a {asked['thing']}?",
    }
    kind = draw.choice(sorted(questions))
    passage = ""
    start = 0
    for fact in facts:
        for part in (fact["who"], " bought a ", fact["what"], " in ", fact["city"], " on ", fact["day"], ". "):
            if fact is asked and part == asked[kind]:
                start = len(passage)
            passage += part
    answers = {"text": [asked[kind]], "answer_start": [start]}
    return {"question": questions[kind], "context": passage.strip(), "answers": answers}


def different(make: Any, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Rows of which none comes twice."""
    seen = set()
    while True:
        row = make(draw)
        key = json.dumps(row, sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield row


def main(
    folder: Annotated[Path, typer.Argument(help="Where snli/ and squad/ are written.")],
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 13,
) -> None:
    """Write train, validation and test of both as JSON Lines."""
    for name, make in (("snli", inference), ("squad", question)):
        rows = different(make, random.Random(f"{name} {seed}"))
        for split, size in SIZES.items():
            lines = [json.dumps({"id": f"{name}-{split}-{n}", **next(rows)}) for n in range(size)]
            write_text(folder / name / f"{split}.jsonl", "\n".join(lines) + "\n")
            print(f"{folder / name / split}.jsonl: {size:,} rows")


if __name__ == "__main__":
    typer.run(main)
