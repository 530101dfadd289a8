"""The stages' sections of parameters, and that of a task's source, with types, units and ranges."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from explearn.core.examples import RationaleKind, Split
from explearn.core.validation import (
    MOST_ROUNDS,
    Fraction,
    LayerIndex,
    OpenFraction,
    Percent,
    PositiveFloat,
    PositiveInt,
    Rounds,
    Section,
    Whole,
)
from explearn.methods.defaults import ROSTERS
from explearn.metrics.params import EvaluateParams
from explearn.predictors.params import CompletionParams
from explearn.text.params import Columns


class RationaleFile(Section):
    """A file of rationales to import, in addition to those that come with the source."""

    path: str
    """JSON Lines, CSV or Parquet under `data_dir`."""
    format: Literal["mask", "marked", "spans", "eraser", "esnli"] = "mask"
    """mask: id, words, rationale (0/1 per word). marked: id, text with [[evidence]]. spans: id, [start, end) of
    words. eraser: ERASER's JSONL. esnli: e-SNLI's CSV."""
    annotator: str | None = None
    """For files without a column `annotator`."""
    kind: RationaleKind | None = None
    """For files without a column `kind`."""


class LLMAnnotatorParams(Section):
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
    llm: LLMAnnotatorParams | None = None
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


class TrainingLimits(Section):
    """When the training of a learned method ends; one rule for all that have validation texts."""

    patience: Rounds = 3
    """Epochs without a better one on validation texts after which it ends."""
    minutes: PositiveFloat | None = None
    """Processor time of a method and task after which no further epoch begins; null: any. Where this ends a training,
    another machine gives other figures."""


class TaughtParams(Section):
    """A method that learns from a teacher."""

    method: str
    teacher: str
    """Its option `teacher`, the only one that its stage depends on; empty for an ensemble, which depends on all."""

    def __str__(self) -> str:
        return f"{{method: {self.method!r}, teacher: {self.teacher!r}}}"


class LearnedParams(Section):
    """Names of the methods to train, with one stage for each method and task."""

    from_texts: list[str] = Field(default_factory=list)
    """Methods that learn only from the task's texts and its classifier."""
    from_features: list[str] = Field(default_factory=list)
    """Methods that learn from marks, attention features and word signals of all tasks."""
    from_teachers: list[TaughtParams] = Field(default_factory=list)
    """Methods that learn from teachers' scores, each with its teacher."""

    @property
    def names(self) -> list[str]:
        """All of them."""
        taught = [entry.method for entry in self.from_teachers]
        return [*self.from_texts, *self.from_features, *taught]


class CurveParams(Section):
    """Marker trained with increasing numbers of marked texts. It takes a minute or more per task."""

    tasks: list[str] | None = None
    """Tasks (default: all); each needs another task with marks."""
    marks: Annotated[list[Whole], Field(min_length=1)] = [0, 5, 10, 25, 50, 100, 200]
    """Numbers of the task's marked texts to train with; all of them are always added at the end."""
    draws: PositiveInt = 5
    """Trainings with each number of texts, each with its own draw of texts and initial weights."""


COMPARED = (
    "prediction_agreement",
    "delta_log_odds_positive",
    "delta_log_odds_negative",
    "stability_semantic",
    "stability_lexical",
    "stability_semantic_content",
    "stability_lexical_content",
    "f1_topk",
)
"""Metrics that teacher and students are compared by; L2E's tables 1 to 9."""

TEACHER = "teacher"
RANDOM = "random"
"""Names of the sides beside the students, which are named by their seeds."""


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


class OwnClassifierParams(Section):
    """Baselines on the classifier that the explainer under study trained, where its figures and theirs compare."""

    baselines: list[str] | None = list(ROSTERS["quick"])
    """Methods, with the options that the run gives them; null: all of the run that need no training."""


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


MOST_EXAMPLES = 20
"""Most example texts of a task; the stage judge keeps as many."""


class ReportParams(Section):
    about: str = ""
    """A sentence on the run, below the report's verdict."""
    examples: Annotated[int, Field(ge=0, le=MOST_EXAMPLES)] = 4
    """Number of example texts per task; the first with every method's words, the others with the best methods'."""
    chance_margin: Fraction = 0.1
    """Warn if accuracy exceeds that of always predicting the most frequent class by less than this, unless half of
    that prediction's errors are avoided."""


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
