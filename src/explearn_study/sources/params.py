"""The parameters of the source of a task's texts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from explearn.core.examples import Split
from explearn.core.validation import OpenFraction, PositiveInt, Section
from explearn.text.params import Columns


class SourceParams(Section):
    """The source of a task's texts, and how its rows become examples."""

    kind: Literal["embedded", "files", "hub"]
    adapter: str
    """A row-mapping adapter: corpus, sst2, cola, hatexplain, ..., custom."""
    path: str | None = None
    """embedded, files: a file or folder under `data_dir` (default: the task's name).
    hub: a data set's name (default: the adapter's own)."""
    config: str | None = None
    """hub: configuration of the data set (default: the adapter's own)."""
    revision: str | None = None
    """hub: git revision, so that every download is the same."""
    view: str | None = None
    """One of the adapter's variants of the labels (hatexplain: binary, three_class or toxic)."""
    splits: dict[Split, str] | None = None
    """Our split -> the source's split or file stem (default: the adapter's own)."""
    carve_validation: OpenFraction = 0.1
    """Fraction of `carve_from` taken for validation if `splits` names no split for it, stratified by label."""
    carve_test: OpenFraction = 0.2
    """Fraction of `carve_from` taken for testing if `splits` names no split for it."""
    carve_from: Literal["train", "validation"] = "train"
    """Split from which missing splits are taken."""
    max_examples: dict[Split, PositiveInt] = Field(default_factory=dict)
    """Most examples per split, drawn by seed with labels in proportion."""
    labels: list[str] | None = None
    """custom: the labels in their order (default: those found, sorted)."""
    label_names: dict[str, str] = Field(default_factory=dict)
    """custom: raw value -> label, if the table holds codes."""
    columns: Columns = Field(default_factory=Columns)
    neutral: str | None = None
    """The classifier's mask token. If given, copies of training texts without their evidence are added, labelled
    `neutral`: L2E's protocol for human rationales (section 5). Only for sources with rationales."""
    plant: Literal["word", "phrase", "order", "together", "place", "length", "punctuation"] | None = None
    """What is planted into the texts to decide the label; the planted words are the marks, and the task's results are
    shown apart, as a known answer (`explearn_study.sources.planted`)."""
