"""The sections of parameters that stages take, with types, units and ranges."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.records import RationaleKind, Split
from explearn.core.validation import (
    MOST,
    MOST_ROUNDS,
    Fraction,
    LayerIndex,
    PositiveInt,
    Rounds,
    Section,
)
from explearn.model.params import CompletionParams


class RationaleFile(Section):
    """A file of rationales to import, besides those that come with the source."""

    path: str
    """JSON Lines, CSV or Parquet under `data_dir`."""
    format: Literal["mask", "marked", "spans"] = "mask"
    """mask: id, words, rationale (0/1 a word). marked: id, text with [[evidence]]. spans: id, [start, end) of words."""
    annotator: str | None = None
    """For files without a column `annotator`."""
    kind: RationaleKind | None = None
    """For files without a column `kind`."""


class LLMParams(Section):
    """Rationales by a language model (ExpNet, appendix A). The server and its key come from the environment."""

    model: str | None = None
    """Name of the model on the server; default: the environment's EXPLEARN_LLM_MODEL, which DVC does not see."""
    prompt: str = "evidence"
    """A shipped prompt (evidence, decisive, fewest, faults, reason_first), or a YAML file."""
    about: str | None = None
    """A sentence that describes the texts, for the prompt and for people's sheets (default: for the project's own tasks
    the shipped one)."""
    meanings: dict[str, str] = Field(default_factory=dict)
    """Label -> its meaning, for the prompt and for people's sheets."""
    shots: Annotated[int, Field(ge=0, le=64)] = 4
    """Most marked examples in the prompt, even over labels, from data/annotations/TASK/seeds.jsonl."""
    splits: Annotated[list[Split], Field(min_length=1)] = ["train"]
    """Splits whose texts are annotated; those that people have marked are left out."""
    labels: list[str] | None = None
    """Annotate texts of these labels only (default: all)."""
    max_texts: PositiveInt | None = None
    """Most texts a split, drawn by seed in the labels' own proportions."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=16, le=MOST_ROUNDS)] = 600
    """Longest answer, in tokens."""
    fuzzy_threshold: Annotated[float, Field(ge=50, le=100)] = 90.0
    """Least likeness (0 to 100) at which a misspelt quote counts as words of the text; 100: never."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """A rationale of more than this share of a text's words is too diffuse and is dropped."""
    max_hallucinated: Fraction = 0.5
    """An answer of whose words more than this share is not in the text is dropped."""


class RationaleParams(Section):
    files: list[RationaleFile] = Field(default_factory=list)
    llm: LLMParams | None = None
    """Have a language model mark the texts that nobody has marked."""
    train_split: Split = "train"
    """Split whose rationales train the explainers and give K."""


class ClassifierParams(Section):
    """A classifier that somebody has trained already, explained as it is."""

    name: str
    """A hub name, or the folder of a model saved with save_pretrained."""
    revision: str | None = None
    """Of a hub name: git revision, so that every download is the same."""
    labels: dict[str, str] = Field(default_factory=dict)
    """The classifier's name of a class -> the label of the task's texts, where the two differ."""
    completion: CompletionParams | None = None
    """Of a generative model: its prompt, and the words that are its classes (default: its own completion.json)."""


class AttendParams(Section):
    layers: Literal["all"] | Annotated[list[LayerIndex], Field(min_length=1)] = "all"
    """Encoder layers whose attention is taken, counted from 0, or from the end when negative."""
    hidden_states: bool = False
    """Also store the last layer's hidden states, for the ablations of ExpNet's paper (Table 4)."""


class TeachParams(Section):
    """The texts that teachers explain."""

    max_texts: dict[Literal["train", "validation"], PositiveInt] = Field(default_factory=dict)
    """Most texts a split that teachers explain, drawn by seed (default: all)."""


class SignalsParams(Section):
    """Word scores of many methods, for the consensus to learn from."""

    max_texts: PositiveInt | None = 400
    """Most texts a split; those with a rationale come first, then others by seed."""
    unmarked_texts: Annotated[int, Field(ge=0, le=MOST)] = 2000
    """Most texts a split besides, all without a rationale, by seed: the consensus marks them for expnet."""


class LearnedParams(Section):
    """Names of the methods that are trained, each a stage for every task."""

    from_texts: list[str] = Field(default_factory=list)
    """Those that learn from the task's texts and its classifier alone."""
    from_features: list[str] = Field(default_factory=list)
    """Those that learn from what is prepared for them: marks, attention features and word signals of all tasks, or
    teachers' scores."""


class CurveParams(Section):
    """ExpNet trained with more and more marked texts, to measure what they bring. A minute or more a task."""

    tasks: list[str] | None = None
    """Tasks to measure it on (default: all); each needs another task with marks."""
    marks: Annotated[list[Annotated[int, Field(ge=0, le=MOST)]], Field(min_length=1)] = [0, 5, 10, 25, 50, 100, 200]
    """Marked texts to train with, 0: none of the task's own. All that there are come last by themselves."""
    draws: PositiveInt = 5
    """Trainings with each number of texts, each with texts and initial weights of its own."""


class TransferParams(Section):
    """Methods with a classifier of their own, judged on the other tasks with the same classes."""

    explainers: list[str] | None = None
    """Their names (default: all of the run)."""


class StudentsParams(Section):
    """The comparison of teachers with students of theirs, as in L2E's tables."""

    teachers: Annotated[list[str], Field(min_length=1)]
    """Teachers to compare with their students: names as of l2e_paper's option `teacher`."""
    formulations: Annotated[list[Literal["labelling", "ranking"]], Field(min_length=1)] = ["ranking", "labelling"]
    seeds: Rounds = 3
    """Students a teacher and formulation; the other options are those of the run's `l2e_paper`."""
    percent: Annotated[int, Field(ge=1, le=100)] = 30
    """Share of a text's words that is its explanation under `ranking`, in percent (L2E footnote 5)."""
    max_texts: PositiveInt | None = 100
    """Most test texts a task (the paper takes 100 for differences of log-odds and for times)."""


class StudiesParams(Section):
    """Further comparisons that a run may ask for; a study that is not named is not made."""

    marks_curve: CurveParams | None = None
    transfer: TransferParams | None = None
    students: StudentsParams | None = None


class AttributeParams(Section):
    pooling: Literal["own", "max", "sum"] = "own"
    """How the scores of a word's sub-tokens make the word's, in methods that need no training and score sub-tokens:
    each method's own way, or one for all, as in ExpNet (A.5: max) and IvRA (H: sum)."""
    max_texts: PositiveInt | None = None
    """Most test texts explained a task; those with a rationale come first, then others by seed."""


class ReportParams(Section):
    examples: Annotated[int, Field(ge=0, le=500)] = 10
    """Example texts a task, each with the words of every method."""
    remarks: list[str] = Field(default_factory=list)
    """Sentences for the first page on what a reader must know of this run."""
    chance_margin: Fraction = 0.1
    """Warn where accuracy is less than this above always answering the most frequent class."""
