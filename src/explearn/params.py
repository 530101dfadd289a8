"""Every parameter of the pipeline, with its type, unit, range and default.

`conf/` composes `params.yaml` (Hydra, through DVC); the stages read `params.yaml` through `load_params`. What only says
where or how fast to compute is not here but in `explearn.compute`: it must not invalidate a cache.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from explearn.data.records import RationaleKind, Split
from explearn.errors import ParamsError, UnknownNameError
from explearn.registry import MethodInfo, get_info

ENSEMBLE = "ensemble:"
"""How the name of a teacher begins that is several methods."""

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]
PositiveInt = Annotated[int, Field(ge=1)]


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def _known(name: str) -> MethodInfo:
    try:
        return get_info(name)
    except UnknownNameError as error:
        raise ValueError(str(error)) from error


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


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)


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
    """List of 0/1, one a word."""
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
    """hub: git revision, for a download that stays the same."""
    view: str | None = None
    """A variant of the labels that the adapter offers (hatexplain: binary or three_class)."""
    splits: dict[Split, str] | None = None
    """Our split -> the source's split or file stem (default: the adapter's own)."""
    carve_validation: OpenFraction = 0.1
    """Fraction of train set aside as validation where `splits` names none, stratified by label."""
    carve_test: OpenFraction = 0.2
    """Fraction of train set aside as test where `splits` names none."""
    max_examples: dict[Split, PositiveInt] = Field(default_factory=dict)
    """Most examples a split, drawn by seed in the labels' own proportions (or evenly, with `balance`)."""
    balance: bool = False
    """Even out the labels of every split by subsampling the larger ones."""
    labels: list[str] | None = None
    """custom: the labels in their order (default: those found, sorted)."""
    label_names: dict[str, str] = Field(default_factory=dict)
    """custom: raw value -> label, where the table holds codes."""
    columns: Columns = Field(default_factory=Columns)
    neutral: str | None = None
    """The classifier's mask token, to add copies of training texts without their evidence, labelled `neutral`: L2E's
    protocol for human rationales (section 5). For sources that bring rationales."""


class RationaleFile(Section):
    """A file of rationales to import besides those that the source brings along."""

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
    max_tokens: Annotated[int, Field(ge=16)] = 600
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


class FinetuneParams(Section):
    epochs: PositiveInt = 6
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Fraction = 0.1
    """Fraction of all steps."""
    batch_size: PositiveInt = 32
    """Examples a step."""
    max_length: Annotated[int, Field(ge=8)] = 256
    """Sub-tokens a text, special tokens included; longer texts are cut."""
    class_weights: Literal["balanced", "none"] = "balanced"
    """balanced: each class weighs n / (C n_c) in the loss."""
    patience: PositiveInt = 2
    """Epochs without a better validation metric (see `selection`) before training stops."""
    selection: Literal["macro_f1", "accuracy", "mcc"] = "macro_f1"
    """Validation metric that picks the checkpoint."""


class AttendParams(Section):
    layer: int = -1
    """Encoder layer whose attention is taken, counted from 0, or from the end when negative."""
    hidden_states: bool = False
    """Also store the last layer's hidden states, for ExpNet's ablations (Table 4)."""


class ExpNetParams(Section):
    features: Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"] = "full"
    """Variant of ExpNet's Table 4."""
    hidden: PositiveInt = 16
    """Units of the hidden layer."""
    alpha: Fraction = 0.6
    """Focal loss weight of evidence tokens; others weigh 1 - alpha."""
    gamma: Annotated[float, Field(ge=0)] = 2.0
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    epochs: PositiveInt = 50
    batch_size: PositiveInt = 32
    """Examples a step."""
    threshold: OpenFraction = 0.5
    """Score from which a word counts as evidence."""
    standardize: bool = False
    """Scale features to zero mean and unit variance over the training tokens. The paper feeds raw attention weights."""


class TeachParams(Section):
    max_texts: dict[Literal["train", "validation"], PositiveInt] = Field(default_factory=dict)
    """Most texts a split that teachers explain, drawn by seed (default: all)."""


class L2EParams(Section):
    teacher: str = "attcat"
    """A method under `teachers`, or several: `ensemble:a,b,c`."""
    formulation: Literal["labelling", "ranking"] = "labelling"
    """L2E section 3: levels of sub-tokens, or their order (quadratic in a text's length)."""
    ranking_order: Literal["magnitude", "signed"] = "magnitude"
    """ranking: the order of |w|, as in the paper, or of w."""
    layers: PositiveInt = 4
    heads: PositiveInt = 4
    width: PositiveInt = 128
    """Of embeddings and hidden states; a multiple of `heads`, and even."""
    feedforward: PositiveInt = 256
    """Hidden units of a block's feed-forward part."""
    window: PositiveInt | None = None
    """Sub-tokens to either side that one attends to, for texts of thousands; null: all."""
    embeddings: Literal["classifier", "random"] = "classifier"
    """Start from the classifier's word embeddings (principal components), or at random as in the paper."""
    train_embeddings: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The paper's is sgd, with a learning rate of 1e-4."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    epochs: PositiveInt = 20
    """At most."""
    patience: PositiveInt = 3
    """Epochs without better agreement with the teacher on validation texts before training stops."""
    batch_size: PositiveInt = 32
    """Texts a step."""
    max_texts: PositiveInt | None = None
    """Most training texts, drawn by seed."""

    @model_validator(mode="after")
    def _width_fits(self) -> L2EParams:
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} with {self.heads} heads; expected an even multiple of the heads")
        return self


class DistilParams(Section):
    teachers: list[str] = Field(default_factory=list)
    """Teachers to compare with their students as L2E's paper does: names as of `l2e.teacher`."""
    formulations: Annotated[list[Literal["labelling", "ranking"]], Field(min_length=1)] = ["ranking", "labelling"]
    seeds: PositiveInt = 3
    """Students a teacher and formulation; the other options are those of `l2e`."""
    percent: Annotated[int, Field(ge=1, le=100)] = 30
    """Share of a text's words that is its explanation under `ranking`, in percent (L2E footnote 5)."""
    max_texts: PositiveInt | None = 100
    """Most test texts a task (the paper takes 100 for differences of log-odds and for times)."""


class AttentionScheduleParams(Section):
    """How ivra and smat are trained."""

    epochs: PositiveInt = 4
    batch_size: PositiveInt = 16
    """Examples a step."""
    max_texts: PositiveInt | None = None
    """Most training texts an epoch, drawn anew in each (default: all)."""
    learning_rate: Annotated[float, Field(ge=0)] = 1e-4
    """Of the classifier (AdamW); 0 leaves it as it is."""
    module_learning_rate: Annotated[float, Field(gt=0)] = 3e-2
    """Of the attention module's weights (AdamW, without weight decay)."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    decay: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Factor on both learning rates, every `decay_every` epochs."""
    decay_every: PositiveInt = 1
    """Epochs."""
    train_embeddings: bool = False
    """Also train the word embeddings; they are most of a small encoder's weights."""
    validation_texts: PositiveInt = 64
    """Validation texts that the criteria are measured on after each epoch, to keep the best one."""
    accuracy_tolerance: Fraction = 0.015
    """Loss of validation accuracy up to which an epoch may be the best; beyond it, accuracy counts alone."""


class CriterionWeights(Section):
    """Weight of each criterion's loss beside the task's cross-entropy."""

    sim: Annotated[float, Field(ge=0)] = 1.0
    comp: Annotated[float, Field(ge=0)] = 1.0
    suff: Annotated[float, Field(ge=0)] = 1.0
    cons: Annotated[float, Field(ge=0)] = 1.0


class FaithfulnessLossParams(Section):
    percents: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1)] = [1, 5, 10, 20, 50]
    """Shares k of the words that are taken out or kept."""
    each_step: PositiveInt | None = 1
    """Shares drawn a step (null: all of them); each costs a pass."""
    comp_margin: Annotated[float, Field(gt=0)] = 1.0
    """mu of equation 10, in nats."""
    suff_margin: Annotated[float, Field(ge=0)] = 0.1
    """mu of equation 11, in nats."""
    suff_loss: Literal["margin", "mae", "kl"] = "margin"
    """Equation 11, 16 or 17."""
    choice_weight: Annotated[float, Field(ge=0)] = 3.0
    """Of what draws r to words by what they are worth, in place of the gradient that choosing words has not, beside the
    loss of the shortened text."""


class ConsistencyLossParams(Section):
    loss: Literal["rank", "correlation", "kl", "clustering"] = "rank"
    """Correlation of the distances' soft ranks or of the distances themselves, equation 13, or equation 20."""
    epsilon: Annotated[float, Field(gt=0)] = 0.1
    """Added to the distance of two texts' states."""

    @property
    def least_texts(self) -> int:
        """Texts a batch that the loss takes: a correlation is of pairs, and over a single one there is none."""
        return 3 if self.loss in ("rank", "correlation") else 2


class StudentParams(Section):
    kind: Literal["bag", "encoder"] = "bag"
    """bag: attention over word embeddings. encoder: the task's encoder before fine-tuning, with its own module."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.5
    """SGD."""
    share: OpenFraction = 0.5
    """Of the validation texts that the student learns from; the others judge it and choose the best epoch."""
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Of the divergence of explanations, beside the student's cross-entropy, where the student learns (eq. 7, 14)."""
    asked_weight: Annotated[float, Field(ge=0)] = 0.0
    """The same where the taught student is asked, and the explanations learn from its loss (eq. 15; in the paper 1).
    With 0 it is asked for classes alone, as in the metric and in Fernandes et al. (2022)."""
    pilot_steps: PositiveInt = 10
    """Steps of SGD on one batch, through which the explanations learn (the paper takes 1); an encoder's graph grows
    with each."""
    batch_size: PositiveInt = 64
    """Texts whose explanations it is shown in a step, and as many that it is asked about."""
    restart: Literal["step", "epoch"] = "step"
    """When a student that knows nothing takes the place of the one that has learned: for every step, as the metric's
    students begin, or every epoch, within which it goes on learning as in the paper."""
    dimensions: PositiveInt = 32
    """bag: principal components of the embeddings."""


Criterion = Literal["sim", "comp", "suff", "cons"]


class SMaTParams(Section):
    """Attention-SMaT: weights for whole heads."""

    criteria: Annotated[list[Criterion], Field(min_length=1)] = ["sim"]
    """What the explanations are trained for: simulatability, comprehensiveness, sufficiency, consistency."""
    weights: CriterionWeights = CriterionWeights()
    norm: Literal["softmax", "sparsemax"] = "sparsemax"
    schedule: AttentionScheduleParams = AttentionScheduleParams()
    faithfulness: FaithfulnessLossParams = FaithfulnessLossParams()
    consistency: ConsistencyLossParams = ConsistencyLossParams()
    student: StudentParams = StudentParams()

    @model_validator(mode="after")
    def _criteria_once(self) -> Self:
        if len(set(self.criteria)) != len(self.criteria):
            raise ValueError(f"criteria {self.criteria} repeat a name; expected each once")
        least = self.consistency.least_texts
        for name in ("batch_size", "max_texts"):
            given = getattr(self.schedule, name)
            if "cons" in self.criteria and given is not None and given < least:
                raise ValueError(
                    f"criterion 'cons' compares the texts of a batch, and its loss {self.consistency.loss!r} takes "
                    f"{least}; expected schedule.{name} of {least} or more, got {given}"
                )
        if (
            not self.schedule.learning_rate
            and not self.faithfulness.choice_weight
            and not {"sim", "cons"} & set(self.criteria)
        ):
            raise ValueError(
                "with schedule.learning_rate 0 the classifier stays as it is, and with faithfulness.choice_weight 0 "
                "the explanations have no gradient; expected one of them above 0"
            )
        for name, least in (("sim", 2), ("cons", 3)):
            if name in self.criteria and self.schedule.validation_texts < least:
                raise ValueError(
                    f"criterion {name!r} is measured over texts together; "
                    f"expected schedule.validation_texts of {least} or more"
                )
        return self


class IvRAParams(SMaTParams):
    """IvRA: weights for features, heads and layers."""

    criteria: Annotated[list[Criterion], Field(min_length=1)] = ["comp", "suff"]
    norm: Literal["softmax", "sparsemax"] = "softmax"
    levels: Annotated[list[Literal["feature", "head", "layer"]], Field(min_length=1)] = ["feature", "head", "layer"]
    """Levels whose weights are learned; the others stay at 1."""


class MetricOfInterest(Section):
    """What AML watches while it learns; how a metric is taken is as under `evaluate`."""

    metric: Literal[
        "sufficiency",
        "comprehensiveness",
        "log_odds",
        "aopc_sufficiency",
        "aopc_comprehensiveness",
        "difference",
        "aopc_difference",
    ] = "aopc_difference"
    """Differences are comprehensiveness - sufficiency, of the headline percent or of the AOPCs."""
    protocol: Literal["default", "aml"] = "default"
    removal: Literal["delete", "mask"] = "delete"
    percents: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1)] = [1, 5, 10, 20, 50]
    headline_percent: Annotated[int, Field(ge=1, le=100)] = 20


class PAMLParams(MetricOfInterest):
    backbone: str = "classifier"
    """Encoder that G starts from: `encoder` (the parameter of that name), `classifier` (the task's own, fine-tuned), a
    hub name or a local folder; its tokenizer may be another one."""
    layers: PositiveInt | None = None
    """Lowest blocks of the backbone that are kept (default: all)."""
    merge: Literal["max", "mean"] = "max"
    """What a sub-token gets of several of the backbone's."""
    masking: Literal["soft", "hard", "random", "mlm", "learned"] = "soft"
    """What stands in for masked tokens: the mask token (soft, hard), a random one, the one that a masked language
    model expects, or a learned embedding."""
    masked_lm: str | None = None
    """Masked language model of masking `mlm`, with the classifier's vocabulary (default: `encoder`)."""
    prediction_weight: Fraction = 0.5
    """lambda_p: the masked text keeps the prediction. 0 leaves the term out."""
    size_weight: Fraction = 0.5
    """lambda_a: little is kept."""
    inverse_weight: Fraction = 1.0
    """lambda_inv: the inversely masked text loses the prediction."""
    max_texts: PositiveInt = 1000
    """Most training texts, drawn by seed."""
    validation_texts: PositiveInt = 100
    """Most validation texts on which the metric of interest is watched."""
    epochs: PositiveInt = 5
    batch_size: PositiveInt = 8
    """Texts a step."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """Of the backbone."""
    head_learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Of the head and the embeddings of the prediction, which are new."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Fraction = 0.1
    """Fraction of all steps."""
    trials: Annotated[int, Field(ge=0)] = 0
    """Trials of a search for the three weights on the validation split; 0 takes those given. A weight that is given as
    0 stays 0."""

    @model_validator(mode="after")
    def _something_to_learn(self) -> Self:
        if not (self.prediction_weight or self.size_weight or self.inverse_weight):
            raise ValueError("prediction_weight, size_weight and inverse_weight are all 0; expected one above 0")
        return self


class FAMLParams(MetricOfInterest):
    scope: Literal["full", "low_rank", "last_block"] = "low_rank"
    """What is fine-tuned for each text: all of G, one text at a time, or small changes to it, many texts at a time."""
    rank: PositiveInt = 8
    """low_rank: rank of the changes."""
    blocks: PositiveInt = 2
    """low_rank: how many of G's last blocks change."""
    steps: Annotated[int, Field(ge=0)] = 20
    """Most steps a text."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    patience: PositiveInt = 10
    """Steps without a better map before a text is done."""
    samples: Annotated[int, Field(ge=0)] = 16
    """Maps tried after each step besides G's own: the best one so far with two words exchanged. With any, the best
    tops of all maps are joined into one, too."""
    cross_metrics: bool = True
    """Also measure the metrics that are not of interest, for the report."""


ON_MODEL = "on_"
"""Prefix of the group of an explainer with a classifier of its own, and the baselines that are run on that."""

LEARNED = "learned"
"""The group of the learned explainers that explain the task's classifier."""


class BaselineParams(Section):
    """Baselines to compare: method -> its options."""

    quick: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those of a few model passes a text; one process a task runs them all."""
    costly: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those of tens of passes or more; each is a stage of its own, so that a change to one reruns it alone."""
    own_model: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those run once more on the classifiers that explainers trained for themselves (`own_model` of the parameters)."""


class AttributeParams(Section):
    max_texts: PositiveInt | None = None
    """Most test texts explained a task; those with a rationale come first, then others by seed."""


class SimulatabilityParams(Section):
    enabled: bool = True
    """Train the students; the costliest metric."""
    dimensions: PositiveInt = 32
    """Principal components of the classifier's word embeddings that the student reads."""
    steps: PositiveInt = 50
    """Steps of Adam, each on all training texts."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.05
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Of the divergence between explanation and the student's attention, beside its cross-entropy (IvRA eq. 7)."""
    folds: Annotated[int, Field(ge=2)] = 2
    """Parts of the texts; a student learns from all but one of them and is tested on that one."""
    repeats: PositiveInt = 5
    """Partitions into folds, each drawn anew."""


class EvaluateParams(Section):
    protocol: Literal["default", "aml", "eraser"] = "default"
    """Which paper's counts and means faithfulness follows; see `explearn.metrics.faithfulness`."""
    bootstrap_samples: Annotated[int, Field(ge=100)] = 1000
    confidence: OpenFraction = 0.95
    removal: Literal["delete", "mask"] = "delete"
    """How words leave the text for comprehensiveness and sufficiency. Log-odds always masks."""
    percents: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1)] = [1, 5, 10, 20, 50]
    """Shares of the words removed or kept, in percent, for the AOPC means."""
    headline_percent: Annotated[int, Field(ge=1, le=100)] = 20
    """The share of the single comprehensiveness, sufficiency and log-odds figures, and of L2E's, in percent."""
    significance: OpenFraction = 0.05
    """A method is tied with the best where Holm's corrected p-value of the difference is at least this."""
    neighbours: PositiveInt = 3
    """Most similar texts that stability compares a text with."""
    consistency_batch: Annotated[int, Field(ge=3)] = 64
    """Most texts whose distances are correlated together."""
    infidelity_samples: Annotated[int, Field(ge=0)] = 10
    """Random sets of words masked in each text, the same for all methods; 0 leaves infidelity out."""
    simulatability: SimulatabilityParams = SimulatabilityParams()


class SanityParams(Section):
    methods: list[str] | None = None
    """Methods to check (default: the learned and the quick ones of the run)."""
    texts: PositiveInt = 10
    """Test texts explained anew on every perturbed model."""
    cascade: bool = False
    """Randomise the classifier from its head downwards, a part more at a time, not just all of it at once."""
    noise_samples: Annotated[int, Field(ge=0)] = 3
    """Draws of noise on the word embeddings for max-sensitivity; 0 leaves it out."""
    noise_radius: Annotated[float, Field(gt=0)] = 0.02
    """Largest change of an embedding's entry (captum's default), in the embeddings' own unit."""
    random_labels: bool = False
    """Also fine-tune a classifier on permuted labels and compare; as costly as the stage finetune."""


class ReportParams(Section):
    examples: Annotated[int, Field(ge=0, le=50)] = 5
    """Example texts a task in report.md."""
    heatmaps: Annotated[int, Field(ge=0, le=500)] = 20
    """Example texts a task in report.html, each with the scores of every method."""
    chance_margin: Fraction = 0.1
    """Warn where accuracy is less than this above always answering the most frequent class."""


class Params(Section):
    profile: str
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 13
    encoder: str = "embedded"
    """`embedded`, a hub name, or a local folder."""
    encoder_revision: str | None = None
    data_dir: str = "data/corpus"
    tasks: Annotated[list[str], Field(min_length=1)]
    sources: dict[str, SourceParams]
    rationales: dict[str, RationaleParams] = Field(default_factory=dict)
    rationale_agreement: Fraction = 0.5
    """A word is evidence when at least this share of its annotators mark it."""
    finetune: FinetuneParams = FinetuneParams()
    attend: AttendParams = AttendParams()
    explainer: str = "expnet"
    """The explainer under study; its metrics are the headline."""
    explainers: Annotated[list[str], Field(min_length=1)] = ["expnet", "expnet_in_domain"]
    """Learned explainers that are trained and compared."""
    own_model: list[str] = Field(default_factory=list)
    """Of the explainers, all that train a classifier of their own; `baselines.own_model` are run on it, too."""
    transfer: list[str] = Field(default_factory=list)
    """Of `own_model`, those that are also judged on the other tasks with the same classes."""
    expnet: ExpNetParams = ExpNetParams()
    expnet_in_domain: ExpNetParams = ExpNetParams()
    """As `expnet` unless it is given values of its own."""
    teachers: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Methods that explain training texts for students: method -> its options."""
    teach: TeachParams = TeachParams()
    l2e: L2EParams = L2EParams()
    distil: DistilParams = DistilParams()
    ivra: IvRAParams = IvRAParams()
    smat: SMaTParams = SMaTParams()
    refiners: list[str] = Field(default_factory=list)
    """Methods that refine a trained explainer on every text they explain."""
    paml: PAMLParams = PAMLParams()
    faml: FAMLParams = FAMLParams()
    roster: str = "none"
    """Name of the set of baselines, a file in conf/roster/; the methods themselves are in `baselines`."""
    baselines: BaselineParams = BaselineParams()
    attribute: AttributeParams = AttributeParams()
    evaluate: EvaluateParams = EvaluateParams()
    sanity: SanityParams = SanityParams()
    report: ReportParams = ReportParams()

    @model_validator(mode="after")
    def _tasks_have_sources(self) -> Params:
        missing = [task for task in self.tasks if task not in self.sources]
        if missing:
            raise ValueError(f"tasks {', '.join(missing)} have no entry under 'sources'; expected one each")
        if len(set(self.tasks)) != len(self.tasks):
            raise ValueError(f"tasks {self.tasks} repeat a name; expected each once")
        for task in self.tasks:
            if not _NAME.fullmatch(task):
                raise ValueError(f"task {task!r}: expected letters, digits, '_', '-' and '.', for it names files")
        for task in self.rationales:
            if task not in self.sources:
                raise ValueError(str(UnknownNameError("task under 'rationales'", task, self.sources)))
        return self

    @model_validator(mode="after")
    def _methods_are_known(self) -> Params:
        for name in self.explainers:
            info = _known(name)
            if not info.learned:
                raise ValueError(f"explainer {name!r} is not trained; name it under baselines, not under explainers")
            if info.base is not None:
                raise ValueError(f"explainer {name!r} has no training of its own; name it under refiners")
            leaves_one_out = _known(name).defaults.get("protocol") == "leave_one_task_out"
            if leaves_one_out and len(self.tasks) < 2:
                raise ValueError(
                    f"explainer {name!r} learns from the other tasks' rationales, but there is one task; "
                    "add another, or take one that learns in domain"
                )
        for name in self.teachers:
            if _known(name).learned:
                raise ValueError(
                    f"teachers.{name}: {name!r} is trained itself; expected a method that needs no training"
                )
        if "l2e" in self.explainers:
            self._check_teacher("l2e.teacher", self.l2e.teacher)
        for teacher in self.distil.teachers:
            self._check_teacher("distil.teachers", teacher)
        if len(set(self.explainers)) != len(self.explainers):
            raise ValueError(f"explainers {self.explainers} repeat a name; expected each once")
        for name in self.refiners:
            base = _known(name).base
            if base is None:
                raise ValueError(
                    f"refiner {name!r} starts from no trained explainer; name it under explainers or baselines"
                )
            if base not in self.explainers:
                raise ValueError(f"refiner {name!r} starts from {base!r}, which is not under explainers; add it there")
        if len(set(self.refiners)) != len(self.refiners):
            raise ValueError(f"refiners {self.refiners} repeat a name; expected each once")
        for section, methods in (("quick", self.baselines.quick), ("costly", self.baselines.costly)):
            for name in methods:
                info = _known(name)
                if info.learned:
                    right = "explainers" if info.base is None else "refiners"
                    raise ValueError(f"baselines.{section}.{name}: {name!r} is trained; name it under {right}")
                if info.costly != (section == "costly"):
                    right = "costly" if info.costly else "quick"
                    raise ValueError(f"baselines.{section}.{name}: {name!r} is a {right} method; move it there")
        for name in self.baselines.own_model:
            if _known(name).learned:
                raise ValueError(f"baselines.own_model.{name}: {name!r} is trained; expected a baseline")
        for name in self.own_model:
            if name not in self.explainers:
                raise ValueError(str(UnknownNameError("explainer under own_model", name, self.explainers)))
            if not _known(name).own_model:
                raise ValueError(f"own_model: {name!r} trains no classifier; expected one that does, such as ivra")
        for name in self.transfer:
            if name not in self.own_model:
                raise ValueError(str(UnknownNameError("explainer under transfer", name, self.own_model)))
        for name in self.explainers:
            if _known(name).own_model and name not in self.own_model:
                raise ValueError(f"explainer {name!r} trains a classifier of its own; name it under own_model, too")
        if self.explainer not in self.methods:
            raise ValueError(str(UnknownNameError("explainer", self.explainer, self.methods)))
        for name in self.sanity.methods or ():
            if name not in self.methods:
                raise ValueError(str(UnknownNameError("method under sanity.methods", name, self.methods)))
        return self

    def _check_teacher(self, where: str, teacher: str) -> None:
        try:
            names = members(teacher)
        except ParamsError as error:
            raise ValueError(f"{where}: {error}") from error
        for name in names:
            if name not in self.teachers:
                raise ValueError(str(UnknownNameError(f"teacher under {where}", name, self.teachers)))

    @property
    def methods(self) -> list[str]:
        """Names of all methods compared: learned first, then the baselines."""
        return [*self.learned, *self.baselines.quick, *self.baselines.costly]

    @property
    def learned(self) -> list[str]:
        """Names of the learned methods: those trained, then those that refine them."""
        return [*self.explainers, *self.refiners]

    def group_of(self, method: str) -> str:
        """The group that explains by this method of the run; see `explearn.attribute.group_methods`.

        Raises UnknownNameError for a method that is not of the run.
        """
        if method in self.own_model:
            return f"{ON_MODEL}{method}"
        if method in self.refiners:
            return method
        if method in self.explainers:
            return LEARNED
        for group, methods in self.baseline_groups.items():
            if method in methods:
                return group
        raise UnknownNameError("method", method, self.methods)

    @property
    def baseline_groups(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Group -> method -> options: all quick baselines together, each costly one by itself."""
        groups = {name: {name: options} for name, options in self.baselines.costly.items()}
        return {"quick": self.baselines.quick, **groups} if self.baselines.quick else groups

    def check_task(self, task: str) -> str:
        """Return `task`; raises UnknownNameError, with near names, if the profile has no such task."""
        if task not in self.tasks:
            raise UnknownNameError("task", task, self.tasks)
        return task

    def rationale_params(self, task: str) -> RationaleParams:
        return self.rationales.get(task, RationaleParams())


def load_params(path: str | os.PathLike[str] = "params.yaml") -> Params:
    """Read and check a params file.

    Raises ParamsError naming the file, the parameter, what was got and what was expected.
    """
    try:
        raw = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ParamsError(f"{path}: no such file; run from the project's root or give --params") from error
    except OSError as error:
        raise ParamsError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from error
    if not isinstance(raw, dict):
        raise ParamsError(f"{path}: got {type(raw).__name__}; expected a mapping of parameters")
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        raise ParamsError("; ".join(f"{path}, {_sentence(problem, Params)}" for problem in error.errors())) from error


def check_section(section: type[Section], values: Mapping[str, Any]) -> None:
    """Raise ParamsError, naming option, value and what was expected, unless the values make a section."""
    try:
        section.model_validate(dict(values))
    except ValidationError as error:
        raise ParamsError("; ".join(_sentence(problem, section) for problem in error.errors())) from error


def _sentence(problem: Any, root: type[Section]) -> str:
    where = ".".join(str(part) for part in problem["loc"]) or "parameters"
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(problem["loc"][-1]), _names_beside(problem["loc"], root), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "expected one of those in conf/config.yaml"
        return f"{where}: no such parameter; {hint}"
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    return f"{where}: got {problem['input']!r}; expected: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _names_beside(location: tuple[int | str, ...], root: type[Section]) -> list[str]:
    """Names of the parameters of the section that a location, which may lead through lists and mappings, ends in."""
    found: Any = root
    for part in location[:-1]:
        is_section = isinstance(found, type) and issubclass(found, Section)
        found = found.model_fields[part].annotation if is_section else get_args(found)[-1]
        if type(None) in get_args(found):
            (found,) = (kind for kind in get_args(found) if kind is not type(None))
    return list(found.model_fields)
