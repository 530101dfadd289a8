"""A task for annotation: its texts, its labels, and people's marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Protocol, TypeVar

from explearn.core.examples import Example, Rationale
from explearn_study.annotate.store import Store
from explearn_study.sections import LLMParams


@dataclass(frozen=True)
class TaskMarks:
    """A task's texts and people's marks on them.

    Attributes:
        name: name of the task.
        store: its folder of marks.
        examples: texts of all splits.
        labels: the task's labels in their order.
        rationales: people's marks: from the source, from files, seeds, and `human.jsonl`.
        adjudicated: decisions where annotators differ, which replace all other marks of their texts.
        unused: ids of the source's texts that the task does not use.
        llm: parameters of annotation by a model.
    """

    name: str
    store: Store
    examples: Sequence[Example]
    labels: Sequence[str]
    rationales: Sequence[Rationale]
    adjudicated: Sequence[Rationale]
    unused: frozenset[str]
    llm: LLMParams

    @property
    def marked(self) -> frozenset[str]:
        """Ids of the texts that people have marked."""
        return frozenset(r.example_id for r in (*self.rationales, *self.adjudicated))

    def settled(self, rationales: Iterable[Rationale]) -> list[Rationale]:
        """Return rationales with the adjudicated ones replacing all others of their texts."""
        decided = {rationale.example_id for rationale in self.adjudicated}
        open_ones = [rationale for rationale in rationales if rationale.example_id not in decided]
        return [*open_ones, *self.adjudicated]


class HasExample(Protocol):
    @property
    def example(self) -> Example: ...


Item = TypeVar("Item", bound=HasExample)
Taken = TypeVar("Taken")


def spread_over_labels(items: Iterable[Item], labels: Sequence[str], count: int) -> list[Item]:
    """Return at most `count` items, one label after the other, so that none is favoured.

    A label without further items is skipped, so the labels are as balanced as the items allow.
    """
    waiting: dict[str, list[Item]] = {label: [] for label in labels}
    for item in items:
        waiting[item.example.label].append(item)
    return take_in_turn(waiting.values())[:count]


def take_in_turn(groups: Iterable[Sequence[Taken]]) -> list[Taken]:
    """Return the first item of each group, then the second of each, and so on; a group without more is skipped."""
    in_turn = chain.from_iterable(zip_longest(*groups))
    return [item for item in in_turn if item is not None]
