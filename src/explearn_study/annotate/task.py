"""A task as annotation sees it: its texts, its labels, and the marks that people have made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, TypeVar

from explearn.core.records import Example, Rationale
from explearn_study.annotate.store import Store
from explearn_study.sections import LLMParams


@dataclass(frozen=True)
class TaskMarks:
    """A task's texts and the marks that people have made on them.

    Attributes:
        examples: of all splits.
        labels: in their order.
        rationales: by people: native, imported from files, seeds, and those of `human.jsonl`.
        adjudicated: decisions where they differ; they take the place of all other marks of their texts.
        unused: ids of the source's texts that the task does not use.
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
        """Rationales with the adjudicated ones in the place of all others of their texts."""
        decided = {r.example_id for r in self.adjudicated}
        return [*(r for r in rationales if r.example_id not in decided), *self.adjudicated]


class OfExample(Protocol):
    @property
    def example(self) -> Example: ...


Item = TypeVar("Item", bound=OfExample)


def spread_over_labels(items: Iterable[Item], labels: Sequence[str], count: int) -> list[Item]:
    """Return at most `count` items, one label after the other, so that none is favoured.

    A label that has no more items is passed over; the labels are then as even as the items allow.
    """
    waiting: dict[str, list[Item]] = {label: [] for label in labels}
    for item in items:
        waiting[item.example.label].append(item)
    rounds = zip_longest(*waiting.values())
    return [item for one_each in rounds for item in one_each if item is not None][:count]
