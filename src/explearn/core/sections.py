"""The sections of parameters that stages take, with types, units and ranges.

The options of a learned explainer are a section of their own, beside its class. These are here, below all that takes
them, so that reading the parameters of a run needs no room of the library.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from explearn.core.completion import CompletionParams
from explearn.core.errors import ParamsError
from explearn.core.records import RationaleKind, Split
from explearn.core.settings import (
    MOST,
    MOST_ROUNDS,
    MOST_UNITS,
    Fraction,
    LayerIndex,
    OpenFraction,
    PositiveInt,
    Rounds,
    Section,
    Units,
)

ENSEMBLE = "ensemble:"
"""How the name of a teacher begins that is several methods."""


def members(teacher: str) -> list[str]:
    """The methods behind a teacher's name: itself, or those of `ensemble:a,b,c`.

    Raises ParamsError for an ensemble of less than two methods, or of one twice.
    """
    if not teacher.startswith(ENSEMBLE):
        return [teacher]
    names = teacher.removeprefix(ENSEMBLE).split(",")
    if len(names) < 2 or not all(names) or len(set(names)) != len(names):
        raise ParamsError(f"teacher {teacher!r}: expected {ENSEMBLE}NAME,NAME,... with two names or more, each once")
    return names


class Columns(Section):
    """Names of the columns of a user's own table (adapter `custom`). Give `text` or `words`, not both."""

    id: str | None = None
    """Identifier; where there is none, ids are TASK-FILE-ROW."""
    text: str | None = None
    words: str | None = None
    pair: str | None = None
    """Second segment, as text."""
    label: str = "label"
    marked: str | None = None
    """Text whose evidence is set in double square brackets, [[like this]]."""
    mask: str | None = None
    """List of 0/1, one per word."""
    spans: str | None = None
    """List of [start, end) word offsets."""


class SourceParams(Section):
    """Where a task's texts come from and how rows become examples."""

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
    """A variant of the labels that the adapter offers (hatexplain: binary or three_class)."""
    splits: dict[Split, str] | None = None
    """Our split -> the source's split or file stem (default: the adapter's own)."""
    carve_validation: OpenFraction = 0.1
    """Fraction of train set aside as validation where `splits` names none, stratified by label."""
    carve_test: OpenFraction = 0.2
    """Fraction of train set aside as test where `splits` names none."""
    max_examples: dict[Split, PositiveInt] = Field(default_factory=dict)
    """Most examples per split, drawn by seed in the labels' own proportions (or evenly, with `balance`)."""
    balance: bool = False
    """Even out the labels of every split by subsampling the larger ones."""
    labels: list[str] | None = None
    """custom: the labels in their order (default: those found, sorted)."""
    label_names: dict[str, str] = Field(default_factory=dict)
    """custom: raw value -> label, where the table holds codes."""
    columns: Columns = Field(default_factory=Columns)
    neutral: str | None = None
    """The classifier's mask token, to add copies of training texts without their evidence, labelled `neutral`: L2E's
    protocol for human rationales (section 5). For sources that come with rationales."""


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
    """A shipped prompt (`explearn annotate prompts` lists them; without a number: the highest), or a YAML file."""
    about: str | None = None
    """What the texts are, for the prompt (default: the shipped sentence, for tasks that the project knows)."""
    meanings: dict[str, str] = Field(default_factory=dict)
    """Label -> what it means, for the prompt."""
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


class LoraParams(Section):
    """Fine-tuning by low-rank adapters (LoRA); needs the extra `lora`."""

    rank: Units = 8
    """r, of each adapter."""
    alpha: Annotated[int, Field(gt=0, le=10_000)] = 16
    """Adapters count alpha / r times."""
    targets: list[str] = Field(default_factory=list)
    """Last part of the names of the linear maps to adapt, such as `query` or `q_proj`; none: all of the encoder's."""


class ScratchParams(Section):
    """The decoder that `encoder: scratch` makes: GPT-2's architecture, random weights, a tokenizer of the texts."""

    layers: Units = 4
    heads: Units = 4
    width: Units = 128
    """Of the states; a multiple of `heads`."""
    vocabulary: Annotated[int, Field(ge=300, le=MOST_UNITS)] = 4000
    """Most sub-tokens, learned from the training texts; all 256 bytes are among them."""
    dropout: Fraction = 0.1

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width: got {self.width}, for {self.heads} heads; expected a multiple of their number")
        return self


class FinetuneParams(Section):
    epochs: Rounds = 6
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Fraction = 0.1
    """Share of all steps in which the learning rate rises."""
    batch_size: Units = 32
    """Examples per step."""
    max_length: Annotated[int, Field(ge=8, le=MOST_ROUNDS)] = 256
    """Most sub-tokens per text, special tokens included; longer texts are cut."""
    class_weights: Literal["balanced", "none"] = "balanced"
    """balanced: each class weighs n / (C n_c) in the loss."""
    patience: Rounds = 2
    """Epochs without a better validation metric (see `selection`) before training stops."""
    selection: Literal["macro_f1", "accuracy", "mcc"] = "macro_f1"
    """Validation metric that picks the checkpoint."""
    lora: LoraParams | None = None
    """Train adapters and the head alone; they are merged when the classifier is saved."""
    scratch: ScratchParams = ScratchParams()
    """Sizes of the decoder that `encoder: scratch` makes."""


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
    """What teachers explain."""

    max_texts: dict[Literal["train", "validation"], PositiveInt] = Field(default_factory=dict)
    """Most texts a split that teachers explain, drawn by seed (default: all)."""


class DistilParams(Section):
    """The comparison of teachers with students of theirs."""

    teachers: list[str] = Field(default_factory=list)
    """Teachers to compare with their students as L2E's paper does: names as of `l2e.teacher`."""
    formulations: Annotated[list[Literal["labelling", "ranking"]], Field(min_length=1)] = ["ranking", "labelling"]
    seeds: Rounds = 3
    """Students a teacher and formulation; the other options are those of `l2e`."""
    percent: Annotated[int, Field(ge=1, le=100)] = 30
    """Share of a text's words that is its explanation under `ranking`, in percent (L2E footnote 5)."""
    max_texts: PositiveInt | None = 100
    """Most test texts a task (the paper takes 100 for differences of log-odds and for times)."""


class SimulatabilityParams(Section):
    enabled: bool = True
    """Train the students; the costliest metric."""
    dimensions: Units = 32
    """Principal components of the classifier's word embeddings that the student reads."""
    steps: Rounds = 50
    """Steps of Adam, each on all training texts."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.05
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Of the divergence between explanation and the student's attention, beside its cross-entropy (IvRA eq. 7)."""
    folds: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] = 2
    """Parts of the texts; a student learns from all but one of them and is tested on that one."""
    repeats: Rounds = 5
    """Partitions into folds, each drawn separately."""


class EvaluateParams(Section):
    protocol: Literal["default", "aml", "eraser"] = "default"
    """Which paper's counts and means faithfulness follows; see `explearn.metrics.faithfulness`."""
    bootstrap_samples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    confidence: OpenFraction = 0.95
    removal: Literal["delete", "mask"] = "delete"
    """How words leave the text for comprehensiveness and sufficiency. Log-odds always masks."""
    percents: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1)] = [1, 5, 10, 20, 50]
    """Shares of the words removed or kept, in percent, for the AOPC means."""
    headline_percent: Annotated[int, Field(ge=1, le=100)] = 20
    """The share of the single comprehensiveness, sufficiency and log-odds figures, and of L2E's, in percent."""
    significance: OpenFraction = 0.05
    """A method is tied with the best where Holm's corrected p-value of the difference is at least this."""
    neighbours: Units = 3
    """Most similar texts that stability compares a text with."""
    consistency_batch: Annotated[int, Field(ge=3, le=MOST_UNITS)] = 64
    """Most texts whose distances are correlated together."""
    infidelity_samples: Annotated[int, Field(ge=0, le=MOST_ROUNDS)] = 10
    """Random sets of words masked in each text, the same for all methods; 0 leaves infidelity out."""
    simulatability: SimulatabilityParams = SimulatabilityParams()


class SanityParams(Section):
    methods: list[str] | None = None
    """Methods to check (default: the learned and the quick ones of the run)."""
    texts: PositiveInt = 10
    """Test texts explained again on every perturbed model."""
    cascade: bool = False
    """Randomise the classifier from its head downwards, one more part at a time; otherwise only all of it at once."""
    noise_samples: Annotated[int, Field(ge=0, le=MOST_ROUNDS)] = 3
    """Draws of noise on the word embeddings for max-sensitivity; 0 leaves it out."""
    noise_radius: Annotated[float, Field(gt=0)] = 0.02
    """Largest change of an embedding's entry (captum's default), in the embeddings' own unit."""
    seeds: PositiveInt = 1
    """Draws of the weights, of the noise and of the permuted labels: the run's seed and those after it."""
    random_labels: bool = False
    """Also fine-tune a classifier on permuted labels and compare; as costly as the stage finetune."""


class SignalsParams(Section):
    """Word scores of many methods, for the consensus to learn from."""

    max_texts: PositiveInt | None = 400
    """Most texts a split; those with a rationale come first, then others by seed."""
    unmarked_texts: Annotated[int, Field(ge=0, le=MOST)] = 2000
    """Most texts a split besides, all without a rationale, by seed: the consensus marks them for expnet."""
    removal_samples: Annotated[int, Field(ge=0, le=MOST_ROUNDS)] = 0
    """Samples for LIME's scores of the marked texts' words, which `aim` above 0 learns from; 0: not computed."""
    removal_texts: PositiveInt = 300
    """Most marked texts a split whose words LIME scores."""

    @field_validator("removal_samples")
    @classmethod
    def _enough_samples(cls, value: int) -> int:
        if value == 1:
            raise ValueError("expected 0, or 2 or more: the first sample is the text itself")
        return value


class CurveParams(Section):
    """How much marked texts bring: ExpNet trained with more and more of them."""

    tasks: list[str] = Field(default_factory=list)
    """Tasks to measure it on; each needs another task with marks. A minute or more a task."""
    marks: Annotated[list[Annotated[int, Field(ge=0, le=MOST)]], Field(min_length=1)] = [0, 5, 10, 25, 50, 100, 200]
    """Marked texts to train with, 0: none of the task's own. All that there are come last by themselves."""
    draws: PositiveInt = 5
    """Trainings with each number of texts, each with texts and initial weights of its own."""


class BaselineParams(Section):
    """Baselines to compare: method -> its options."""

    quick: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those of a few model passes a text; one process a task runs them all."""
    costly: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those of tens of passes or more; each is a stage of its own, so that a change to one reruns it alone."""
    own_model: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those run once more on the classifiers that explainers trained for themselves."""


class EvidenceParams(Section):
    """What an evidence page is to show: the page says of each whether the run did it."""

    texts: PositiveInt = 500
    """Fewest texts, over all tasks, on which every method is judged."""
    seeds: PositiveInt = 3
    """Fewest draws of the sanity checks."""


class AttributeParams(Section):
    max_texts: PositiveInt | None = None
    """Most test texts explained a task; those with a rationale come first, then others by seed."""


class ReportParams(Section):
    examples: Annotated[int, Field(ge=0, le=50)] = 5
    """Example texts a task in report.md."""
    heatmaps: Annotated[int, Field(ge=0, le=500)] = 20
    """Example texts a task in report.html, each with the scores of every method."""
    remarks: list[str] = Field(default_factory=list)
    """Sentences for the first page on what a reader must know of this run."""
    chance_margin: Fraction = 0.1
    """Warn where accuracy is less than this above always answering the most frequent class."""
