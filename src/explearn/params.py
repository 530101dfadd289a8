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
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from explearn.data.records import RationaleKind, Split
from explearn.errors import ParamsError, UnknownNameError
from explearn.registry import MethodInfo, get_info

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
OpenFraction = Annotated[float, Field(gt=0.0, lt=1.0)]
PositiveInt = Annotated[int, Field(ge=1)]


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def _known(name: str) -> MethodInfo:
    try:
        return get_info(name)
    except UnknownNameError as error:
        raise ValueError(str(error)) from error


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


class RationaleParams(Section):
    files: list[RationaleFile] = Field(default_factory=list)
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
    inverse_weight: Fraction = 0.5
    """lambda_inv: the inversely masked text loses the prediction."""
    max_texts: PositiveInt = 1000
    """Most training texts, drawn by seed."""
    validation_texts: PositiveInt = 200
    """Most validation texts on which the metric of interest is watched."""
    epochs: PositiveInt = 5
    batch_size: PositiveInt = 16
    """Texts a step."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """Of the backbone."""
    head_learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Of the head and the embeddings of the prediction, which are new."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Fraction = 0.1
    """Fraction of all steps."""
    trials: Annotated[int, Field(ge=0)] = 0
    """Trials of a search for the three weights on the validation split; 0 takes those given."""


class FAMLParams(MetricOfInterest):
    scope: Literal["full", "low_rank", "last_block"] = "low_rank"
    """What is fine-tuned for each text: all of G, one text at a time, or small changes to it, many texts at a time."""
    rank: PositiveInt = 8
    """low_rank: rank of the changes."""
    blocks: PositiveInt = 2
    """low_rank: how many of G's last blocks change."""
    steps: Annotated[int, Field(ge=0)] = 30
    """Most steps a text."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    patience: PositiveInt = 10
    """Steps without a better map before a text is done."""
    cross_metrics: bool = True
    """Also measure the metrics that are not of interest, for the report."""


class BaselineParams(Section):
    """Baselines to compare: method -> its options."""

    quick: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those of a few model passes a text; one process a task runs them all."""
    costly: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Those of tens of passes or more; each is a stage of its own, so that a change to one reruns it alone."""


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
    """Example texts shown a task."""
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
    expnet: ExpNetParams = ExpNetParams()
    expnet_in_domain: ExpNetParams = ExpNetParams()
    """As `expnet` unless it is given values of its own."""
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
        if self.explainer not in self.methods:
            raise ValueError(str(UnknownNameError("explainer", self.explainer, self.methods)))
        for name in self.sanity.methods or ():
            if name not in self.methods:
                raise ValueError(str(UnknownNameError("method under sanity.methods", name, self.methods)))
        return self

    @property
    def methods(self) -> list[str]:
        """Names of all methods compared: learned first, then the baselines."""
        return [*self.learned, *self.baselines.quick, *self.baselines.costly]

    @property
    def learned(self) -> list[str]:
        """Names of the learned methods: those trained, then those that refine them."""
        return [*self.explainers, *self.refiners]

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
        raise ParamsError("; ".join(f"{path}, {_sentence(problem)}" for problem in error.errors())) from error


def check_section(section: type[Section], values: Mapping[str, Any]) -> None:
    """Raise ParamsError, naming option, value and what was expected, unless the values make a section."""
    try:
        section.model_validate(dict(values))
    except ValidationError as error:
        raise ParamsError("; ".join(_sentence(problem) for problem in error.errors())) from error


def _sentence(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"]) or "parameters"
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(problem["loc"][-1]), _names_beside(problem["loc"]), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "expected one of those in conf/config.yaml"
        return f"{where}: no such parameter; {hint}"
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    return f"{where}: got {problem['input']!r}; expected: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _names_beside(location: tuple[int | str, ...]) -> list[str]:
    """Names of the parameters of the section that a location, which may lead through lists and mappings, ends in."""
    found: Any = Params
    for part in location[:-1]:
        is_section = isinstance(found, type) and issubclass(found, Section)
        found = found.model_fields[part].annotation if is_section else get_args(found)[-1]
    return list(found.model_fields)
