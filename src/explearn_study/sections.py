"""The stages' sections of parameters, with types, units and ranges."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from explearn.core.examples import RationaleKind, Split
from explearn.core.validation import (
    MOST_ROUNDS,
    Fraction,
    LayerIndex,
    Percent,
    PositiveInt,
    Rounds,
    Section,
    Whole,
)
from explearn.metrics.params import EvaluateParams
from explearn.predictors.params import CompletionParams


class RationaleFile(Section):
    """A file of rationales to import, in addition to those that come with the source."""

    path: str
    """JSON Lines, CSV or Parquet under `data_dir`."""
    format: Literal["mask", "marked", "spans"] = "mask"
    """mask: id, words, rationale (0/1 per word). marked: id, text with [[evidence]]. spans: id, [start, end) of
    words."""
    annotator: str | None = None
    """For files without a column `annotator`."""
    kind: RationaleKind | None = None
    """For files without a column `kind`."""


class LLMParams(Section):
    """Rationales from a language model (ExpNet, appendix A). The server and its key come from the environment."""

    model: str | None = None
    """Name of the model on the server (default: EXPLEARN_LLM_MODEL, which DVC does not track)."""
    prompt: str = "evidence"
    """A built-in prompt (evidence, decisive, fewest, faults, reason_first), or a YAML file."""
    about: str | None = None
    """A sentence that describes the texts, for the prompt and for people's sheets (default: built in for the project's
    own tasks)."""
    meanings: dict[str, str] = Field(default_factory=dict)
    """Label -> its meaning, for the prompt and for people's sheets."""
    shots: Annotated[int, Field(ge=0, le=64)] = 4
    """Most marked examples in the prompt, balanced over labels, from data/annotations/TASK/seeds.jsonl."""
    splits: Annotated[list[Split], Field(min_length=1)] = ["train"]
    """Splits whose texts are annotated, except texts that people have marked."""
    labels: list[str] | None = None
    """Annotate only texts with these labels (default: all)."""
    max_texts: PositiveInt | None = None
    """Most texts per split, drawn by seed with labels in proportion."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=16, le=MOST_ROUNDS)] = 600
    """Longest answer, in tokens."""
    fuzzy_threshold: Annotated[float, Field(ge=50, le=100)] = 90.0
    """Smallest similarity (0 to 100) at which a misspelt quote counts as words of the text; 100: never."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """A rationale with more than this share of a text's words is too diffuse and is dropped."""
    max_hallucinated: Fraction = 0.5
    """An answer is dropped if more than this share of its words is not in the text."""


class RationaleParams(Section):
    files: list[RationaleFile] = Field(default_factory=list)
    llm: LLMParams | None = None
    """Let a language model mark the texts that nobody has marked."""
    train_split: Split = "train"
    """Split whose rationales train the explainers and determine K."""


class ClassifierParams(Section):
    """A classifier that is already trained."""

    name: str
    """A hub name, or the folder of a model saved with save_pretrained."""
    revision: str | None = None
    """Git revision of a hub name, so that every download is the same."""
    labels: dict[str, str] = Field(default_factory=dict)
    """The classifier's name of a class -> the label in the task's texts, if they differ."""
    completion: CompletionParams | None = None
    """For a generative model: its prompt and label words (default: its own completion.json)."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class AttendParams(Section):
    """Attention features, for methods that learn from them."""

    layers: Literal["all"] | Annotated[list[LayerIndex], Field(min_length=1)] = "all"
    """Encoder layers whose attention is used, from 0, or from the end if negative."""
    hidden_states: bool = False
    """Also store the last layer's hidden states, for the ablations of ExpNet's paper (Table 4)."""


class TeachParams(Section):
    """The texts that teachers explain."""

    max_texts: dict[Literal["train", "validation"], PositiveInt] = Field(default_factory=dict)
    """Most texts per split that teachers explain, drawn by seed (default: all)."""


class SignalsParams(Section):
    """Word scores of several methods, for the consensus to learn from."""

    max_texts: PositiveInt | None = 400
    """Most texts per split; those with a rationale come first, then others by seed."""
    unmarked_texts: Whole = 2000
    """Most additional texts per split without a rationale, by seed: the consensus marks them for marker."""


class LearnedParams(Section):
    """Names of the methods to train, with one stage for each method and task."""

    from_texts: list[str] = Field(default_factory=list)
    """Methods that learn only from the task's texts and its classifier."""
    from_features: list[str] = Field(default_factory=list)
    """Methods that learn from marks, attention features and word signals of all tasks."""
    from_teachers: list[str] = Field(default_factory=list)
    """Methods that learn from teachers' scores."""

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.from_texts, *self.from_features, *self.from_teachers]


class CurveParams(Section):
    """ExpNet trained with increasing numbers of marked texts. It takes a minute or more per task."""

    tasks: list[str] | None = None
    """Tasks (default: all); each needs another task with marks."""
    marks: Annotated[list[Whole], Field(min_length=1)] = [0, 5, 10, 25, 50, 100, 200]
    """Numbers of the task's marked texts to train with; all of them are always added at the end."""
    draws: PositiveInt = 5
    """Trainings with each number of texts, each with its own draw of texts and initial weights."""


class StudentsParams(Section):
    """The comparison of teachers with their students, as in L2E's tables."""

    teachers: Annotated[list[str], Field(min_length=1)]
    """Teachers to compare with their students: names as of l2e's option `teacher`."""
    formulations: Annotated[list[Literal["labelling", "ranking"]], Field(min_length=1)] = ["ranking", "labelling"]
    seeds: Rounds = 3
    """Students a teacher and formulation; the other options are those of the run's `l2e`."""
    percent: Percent = 30
    """Share of a text's words that is its explanation under `ranking`, in percent (L2E footnote 5)."""
    max_texts: PositiveInt | None = 100
    """Most test texts per task (the paper uses 100 for differences of log-odds and for times)."""


class StudiesParams(Section):
    """Optional further comparisons."""

    marks_curve: CurveParams | None = None
    students: StudentsParams | None = None


class AttributeParams(Section):
    pooling: Literal["own", "max", "sum"] = "own"
    """How sub-token scores are aggregated to word scores, for methods that need no training and score sub-tokens:
    each method's own way, or one for all, as in ExpNet (A.5: max) and IvRA (H: sum)."""
    max_texts: PositiveInt | None = None
    """Most test texts to explain per task; those with a rationale come first, then others by seed."""


class JudgeParams(EvaluateParams):
    """The metrics' settings of a run."""

    twin: bool = False
    """Also measure faithfulness on a twin of each classifier, fine-tuned with words removed at random in the way of
    `removal` (F-Fidelity, Zheng et al. 2025); takes one fine-tuning a task."""


class ReportParams(Section):
    examples: Annotated[int, Field(ge=0, le=500)] = 4
    """Number of example texts per task; the first with every method's words, the others with the best methods'."""
    chance_margin: Fraction = 0.1
    """Warn if accuracy exceeds that of always predicting the most frequent class by less than this, unless half of
    that prediction's errors are avoided."""
