"""All parameters of a run, as composed from `conf/` into params.yaml, validated as a whole.

Sections of the stages are in `explearn_study.sections`; a method's options are declared by its class. Settings that
only affect where or how fast to compute are in `explearn.core.compute`: they must not invalidate caches.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from explearn.core.documents import PathLike, read_yaml
from explearn.core.errors import ParamsError, UnknownNameError, kind_of
from explearn.core.validation import Fraction, Section, Seed, problems_sentence
from explearn.methods.base.teachers import ANSWERS, ENSEMBLE, members
from explearn.methods.info import ON_MARKS, MethodInfo
from explearn.methods.registry import get_info, list_explainers
from explearn.metrics.params import SanityParams
from explearn.predictors.params import FinetuneParams
from explearn_study.sections import (
    AttendParams,
    AttributeParams,
    ClassifierParams,
    JudgeParams,
    LearnedParams,
    OwnClassifierParams,
    RationaleParams,
    ReportParams,
    SignalsParams,
    SourceParams,
    StudiesParams,
    TaughtParams,
    TeachParams,
    TrainingLimits,
)

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""A name that can be a file name."""


def variant_of(name: str, of: str, options: Mapping[str, Any]) -> MethodInfo:
    """Describe a method with other options under another name; nothing is registered.

    A variant declared exactly like a built-in one keeps the built-in summary.

    Args:
        name: name of the variant.
        of: name of the method.
        options: options that differ from the method's defaults.

    Raises:
        ParamsError: `name` is a method's name, or `of` a variant.
        UnknownNameError: there is no method `of`.
        ValidationError: a malformed name.
    """
    base = get_info(of)
    if base.of is not None:
        raise ParamsError(f"variant {name!r}: {of!r} is itself a variant; expected the name of a method")
    if name in list_explainers():
        built_in = get_info(name)
        if built_in.of is None:
            raise ParamsError(f"variant {name!r}: a method has that name; choose another")
        if built_in.of == of and built_in.defaults == options:
            return built_in
    summary = base.summary
    if options:
        listed = ", ".join(f"{option} {value}" for option, value in options.items())
        summary = f"{summary} Here with {listed}."
    return MethodInfo(**{**base.model_dump(), "name": name, "of": of, "summary": summary, "defaults": dict(options)})


class RunMethod(Section):
    """A method of a run: its name in the run, the method it stands for, and its options."""

    name: str = Field(exclude=True)
    of: str
    """Name of a method (default: the entry's name); an entry with another name is a variant of that method."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options that differ from the method's defaults."""
    path: str | None = None
    """Folder of an explainer that is trained already and is used as it is; `{task}` stands for the task's name."""

    @model_validator(mode="after")
    def _exists(self) -> Self:
        try:
            if self.info.learned:
                self.settings.model_dump()
        except (ParamsError, UnknownNameError) as error:
            raise ValueError(str(error)) from error
        return self

    @cached_property
    def info(self) -> MethodInfo:
        """The method's facts, under its name in the run."""
        trains_own = self._declared.own_model and self.path is None and getattr(self.settings, "own_model", True)
        return self._declared.model_copy(update={"own_model": trains_own})

    @cached_property
    def _declared(self) -> MethodInfo:
        if self.of == self.name:
            return get_info(self.of)
        return variant_of(self.name, self.of, self.options)

    @cached_property
    def settings(self) -> Section:
        """All options, including defaults.

        Raises:
            ParamsError: an option that the method does not have, or a bad value.
        """
        declared = self._declared
        section: Any = Section
        # Not from the class, whose module loads torch.
        if declared.options_class is not None:
            section = pkgutil.resolve_name(declared.options_class)
        try:
            settings: Section = section.model_validate({**declared.defaults, **self.options})
        except ValidationError as error:
            raise ParamsError(problems_sentence(error, section, "options.")) from error
        return settings

    @property
    def base(self) -> str:
        """The method that this is a variant of, or else its own name."""
        return self.info.of or self.name

    @property
    def all_options(self) -> dict[str, Any]:
        """All options except the seed, which is the run's."""
        return self.settings.model_dump(exclude={"seed"})

    @property
    def teacher(self) -> str | None:
        """The method, or ensemble, whose explanations it learns; None if it does not learn from other methods."""
        teacher = getattr(self.settings, "teacher", None)
        return None if teacher == ANSWERS else teacher

    @property
    def learns_own_marks(self) -> bool:
        """Whether it needs marked words of the task that it explains."""
        return getattr(self.settings, "protocol", None) in ON_MARKS

    @property
    def learned_part(self) -> str:
        """The list of `learned` that the method belongs to.

        Raises:
            ValueError: it learns from teachers and from marks, for which there is no stage.
        """
        needs = self.info.needs
        reads_attention = "attentions" in needs and not self._declared.own_model
        learns_marks = getattr(self.settings, "marked", None) is not None
        from_features = reads_attention or learns_marks or bool(needs & {"training_rationales", "other_tasks"})
        if self.teacher is None:
            return "from_features" if from_features else "from_texts"
        if from_features:
            raise ValueError(f"methods.{self.name}: got a teacher and `marked`; expected one of them")
        return "from_teachers"

    @property
    def learned_entry(self) -> str | TaughtParams:
        """Its entry in that list."""
        if self.teacher is None:
            return self.name
        alone = not self.teacher.startswith(ENSEMBLE)
        return TaughtParams(method=self.name, teacher=self.teacher if alone else "")


def _named(entries: Any) -> Any:
    """Set each entry's `name`, and its `of` to that name unless it is set."""
    if not isinstance(entries, Mapping):
        return entries
    named = {}
    for name, entry in entries.items():
        if entry is None:
            entry = {}
        named[name] = {"of": name, **entry, "name": name} if isinstance(entry, Mapping) else entry
    return named


class Params(Section):
    """A run's parameters."""

    profile: str
    seed: Seed = 13
    data_dir: str = "data/corpus"
    tasks: Annotated[list[FileName], Field(min_length=1)]
    sources: dict[str, SourceParams]
    rationales: dict[str, RationaleParams] = Field(default_factory=dict)
    rationale_agreement: Fraction = 0.5
    """A word is evidence if at least this share of the text's annotators mark it."""
    encoder: str | dict[str, str] = "embedded"
    """`embedded`, a hub name, a local folder, or `scratch` (a small decoder without pretrained weights); or task -> one
    of these, for every task not listed under `classifiers`."""
    encoder_revision: str | dict[str, str] | None = None
    """Git revision of a hub name; or task -> revision."""
    classifiers: dict[str, ClassifierParams] = Field(default_factory=dict)
    """Task -> a trained classifier to use instead of fine-tuning the encoder: its hub name or folder, or a section with
    `name`, `revision` and `labels`."""
    finetune: FinetuneParams = FinetuneParams()
    finetune_tasks: dict[str, FinetuneParams] = Field(default_factory=dict)
    """Task -> what counts there in place of `finetune`; what an entry leaves out has its default."""
    attend: AttendParams | None = AttendParams()
    """null: no method of the run learns from attention."""
    signals: SignalsParams | None = SignalsParams()
    """null: no method of the run learns from the word scores of others."""
    methods: Annotated[dict[FileName, RunMethod], Field(min_length=1)]
    """The methods to compare: name -> `of` and `options`."""
    learned: LearnedParams = LearnedParams()
    """Names of the methods to train, by what they learn from."""
    training: TrainingLimits = TrainingLimits()
    explainer: str | None = None
    """The method under study, whose metrics are the headline (default: none)."""
    roster: str = "none"
    """Name of the set of baselines, of `explearn.methods.defaults` or conf/roster/; the methods are in `methods`."""
    teachers: dict[str, RunMethod] = Field(default_factory=dict)
    """Methods that explain training texts for students."""
    teach: TeachParams = TeachParams()
    attribute: AttributeParams = AttributeParams()
    evaluate: JudgeParams = JudgeParams()
    own_classifier: OwnClassifierParams = OwnClassifierParams()
    sanity: SanityParams = SanityParams()
    studies: StudiesParams = StudiesParams()
    """Further comparisons, each with its own stage."""
    report: ReportParams = ReportParams()

    _name_methods = field_validator("methods", "teachers", mode="before")(_named)

    @field_validator("methods")
    @classmethod
    def _in_order(cls, methods: dict[str, RunMethod]) -> dict[str, RunMethod]:
        """Sort in the order of the list of methods, learned ones first, variants after their method."""
        order = list_explainers()

        def position(method: RunMethod) -> tuple[int, bool]:
            return order.index(method.of), method.name != method.of

        return {method.name: method for method in sorted(methods.values(), key=position)}

    @model_validator(mode="after")
    def _tasks_are_complete(self) -> Self:
        _check_once("tasks", self.tasks)
        self._check_tasks("'sources'", self.sources)
        for name in ("rationales", "encoder", "encoder_revision", "classifiers", "finetune_tasks"):
            by_task = getattr(self, name)
            if isinstance(by_task, dict):
                _check_names(f"task under {name!r}", by_task, self.sources)
        if isinstance(self.encoder, dict):
            self._check_tasks("'encoder' or 'classifiers'", {*self.encoder, *self.classifiers})
        return self

    def _check_tasks(self, where: str, entries: Collection[str]) -> None:
        missing = [task for task in self.tasks if task not in entries]
        if missing:
            raise ValueError(f"tasks {', '.join(missing)} have no entry under {where}; expected one each")

    @model_validator(mode="after")
    def _methods_are_in_place(self) -> Self:
        listed = self.learned.names
        _check_once("learned", listed)
        self._check_methods("learned", listed)
        # If nothing is trained, weights that come with the package replace training.
        nothing_trained = not listed and set(self.tasks) <= set(self.classifiers)
        for name, method in self.methods.items():
            self._check_training(name, method, listed, nothing_trained)
        for method in self.trained:
            leaves_out = getattr(method.settings, "protocol", None) == "leave_one_task_out"
            if len(self.plain_tasks) < 2 and (leaves_out or "other_tasks" in method.info.needs):
                raise ValueError(
                    f"methods.{method.name} learns from the other tasks' rationales, but there is one task; add "
                    "another, or use one that learns in domain"
                )
            if method.teacher is not None:
                self._check_teacher(f"methods.{method.name}.options.teacher", method.teacher)
        for name, method in self.teachers.items():
            if method.info.learned or method.of != name:
                raise ValueError(f"teachers.{name}: expected the name of a method that needs no training")
        if self.explainer is not None:
            self._check_methods("explainer", [self.explainer])
        self._check_methods("sanity.methods", self.sanity.methods or ())
        return self

    def _check_methods(self, where: str, names: Iterable[str]) -> None:
        """Raise ValueError for a method that is not in the run, and say how to add one that exists."""
        for name in names:
            if name not in self.methods and name in list_explainers():
                method = RunMethod(name=name, of=name)
                entries = f"an entry {name!r} under methods"
                if method.info.trained:
                    entries += f" and {method.learned_entry} under learned.{method.learned_part}"
                raise ValueError(
                    f"{where}: method {name!r} is not in this run; expected {entries}, or one of its methods"
                )
            _check_names(f"method under {where!r}", [name], self.methods)

    def _check_training(self, name: str, method: RunMethod, listed: Collection[str], nothing_trained: bool) -> None:
        """Raise ValueError unless the method is under `learned` if, and only if, this run trains it."""
        info = method.info
        if method.path is not None:
            if not info.trained or name in listed:
                raise ValueError(f"methods.{name}.path: only for a method that is trained, and not in this run")
        elif info.trained and not (info.ready and nothing_trained):
            part = method.learned_part
            entry = method.learned_entry
            if entry not in getattr(self.learned, part):
                raise ValueError(f"methods.{name}: {method.of!r} is trained; expected {entry} under learned.{part}")
        elif name in listed:
            raise ValueError(f"learned: {name!r} needs no training; leave it out there")
        if info.base is not None and info.base not in listed:
            raise ValueError(
                f"methods.{name}: it starts from {info.base!r}, which is not trained; add that to methods and learned"
            )

    @model_validator(mode="after")
    def _studies_fit_the_run(self) -> Self:
        curve = self.studies.marks_curve
        if curve is not None:
            _check_names("task under studies.marks_curve.tasks", curve.tasks or (), self.tasks)
        for teacher in self.compared_teachers:
            self._check_teacher("studies.students.teachers", teacher)
        return self

    def _check_teacher(self, where: str, teacher: str) -> None:
        try:
            _check_names(f"teacher under {where}", members(teacher), self.teachers)
        except ParamsError as error:
            raise ValueError(f"{where}: {error}") from error

    @property
    def trained(self) -> list[RunMethod]:
        """The methods that are trained in this run."""
        return [method for method in self.methods.values() if method.name in self.learned.names]

    @property
    def with_own_model(self) -> list[RunMethod]:
        """The methods in `trained` that train their own classifier."""
        return [method for method in self.trained if method.info.own_model]

    @property
    def baseline_names(self) -> list[str]:
        """Names of the methods that do not depend on training, in this run or before it."""
        trained = {method.name for method in self.methods.values() if method.path is not None or method in self.trained}
        return [name for name, method in self.methods.items() if not {name, method.info.base} & trained]

    @property
    def planted_tasks(self) -> list[str]:
        """The tasks of planted words: known answers, which no other task learns from and no mean includes."""
        return [task for task in self.tasks if self.sources[task].plant]

    @property
    def plain_tasks(self) -> list[str]:
        """All other tasks."""
        return [task for task in self.tasks if not self.sources[task].plant]

    @property
    def curve_tasks(self) -> list[str]:
        """The tasks of the study marks_curve, if the run has it."""
        study = self.studies.marks_curve
        return [] if study is None else study.tasks or self.plain_tasks

    @property
    def compared_teachers(self) -> list[str]:
        """The teachers of the study students, if the run has it."""
        study = self.studies.students
        return [] if study is None else study.teachers

    @property
    def on_own_classifier(self) -> list[RunMethod]:
        """The explainer under study, if it trained its own classifier, and the baselines that explain that, too."""
        own = [method for method in self.with_own_model if method.name == self.explainer]
        if not own:
            return []
        baselines = self.own_classifier.baselines
        if baselines is None:
            baselines = self.baseline_names
        return [*own, *map(self.method, baselines)]

    def method(self, name: str) -> RunMethod:
        """Return a method of the run or, if it has none of that name, the method with its defaults."""
        return self.methods.get(name) or RunMethod(name=name, of=name)

    def check_task(self, task: str) -> str:
        """Return `task`; raise UnknownNameError, with similar names, if the profile has no such task."""
        if task not in self.tasks:
            raise UnknownNameError("task", task, self.tasks)
        return task

    def rationale_params(self, task: str) -> RationaleParams:
        return self.rationales.get(task, RationaleParams())

    def finetune_of(self, task: str) -> FinetuneParams:
        """Return how a task's classifier is fine-tuned."""
        return self.finetune_tasks.get(task, self.finetune)

    def encoder_of(self, task: str) -> tuple[str, str | None]:
        """Return the encoder that a task's own models start from, and its revision.

        If the task has a given classifier and no encoder of its own, this is the classifier's.
        """
        if isinstance(self.encoder, str) and task not in self.classifiers:
            encoder = self.encoder
        elif isinstance(self.encoder, dict) and task in self.encoder:
            encoder = self.encoder[task]
        else:
            return self.classifiers[task].name, self.classifiers[task].revision
        revision = self.encoder_revision
        return encoder, revision.get(task) if isinstance(revision, dict) else revision


def load_params(path: PathLike | None = None) -> Params:
    """Read and validate a params file.

    Args:
        path: the file. None: the one that EXPLEARN_PARAMS names, or params.yaml.

    Raises:
        ParamsError: the file cannot be used; names parameter, value and what was expected.
    """
    path = path or os.environ.get("EXPLEARN_PARAMS") or "params.yaml"
    values = read_yaml(path, hint="; run this in the project's root, or set EXPLEARN_PARAMS")
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: got {kind_of(values)}; expected a mapping of parameters")
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        raise ParamsError(problems_sentence(error, Params, f"{path}, ")) from error


def _check_names(what: str, names: Iterable[str], allowed: Collection[str]) -> None:
    for name in names:
        if name not in allowed:
            raise ValueError(str(UnknownNameError(what, name, allowed)))


def _check_once(what: str, names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"{what} {names} repeat a name; expected each once")
