"""Every parameter of a run, checked as a whole: what `conf/` composes into params.yaml.

The sections of the stages are in `explearn_study.sections`, the options of a learned explainer in a section of its own
name, which its class declares. What only says where or how fast to compute is not here but in
`explearn.core.compute`: it must not invalidate a cache.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, create_model, field_validator, model_validator

from explearn.core.documents import kind_of, read_yaml
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.settings import Fraction, Seed, problems_sentence
from explearn.judge.params import EvaluateParams, SanityParams
from explearn.methods.base.teachers import members
from explearn.methods.info import MethodInfo
from explearn.methods.registry import get_info, learned_sections, list_explainers, set_variants
from explearn.model.params import FinetuneParams
from explearn.text.params import SourceParams
from explearn_study.model_params import ModelParams
from explearn_study.sections import (
    AttendParams,
    AttributeParams,
    BaselineParams,
    CurveParams,
    DistilParams,
    EvidenceParams,
    RationaleParams,
    ReportParams,
    SignalsParams,
    TeachParams,
)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

ON_MODEL = "on_"
"""Prefix of the group of an explainer with a classifier of its own, and the baselines that are run on that."""

FROM_OTHER_TASKS = ("leave_one_task_out", "universal", "few_shot")
"""Values of an explainer's option `protocol` that take the marks of other tasks."""

LEARNED = "learned_"
"""Prefix of the group of the learned explainers of one room that explain the task's classifier."""


class Params(ModelParams):
    """A run's parameters. `Params.of` adds a section for each learned explainer; `section` gives it."""

    profile: str
    seed: Seed = 13
    data_dir: str = "data/corpus"
    tasks: Annotated[list[str], Field(min_length=1)]
    sources: dict[str, SourceParams]
    rationales: dict[str, RationaleParams] = Field(default_factory=dict)
    rationale_agreement: Fraction = 0.5
    """A word is evidence when at least this share of its annotators mark it."""
    finetune: FinetuneParams = FinetuneParams()
    attend: AttendParams = AttendParams()
    signals: SignalsParams = SignalsParams()
    explainer: str | None = "expnet"
    """The explainer under study; its metrics are the headline. None: all methods are compared alike."""
    explainers: list[str] = ["expnet", "expnet_in_domain", "expnet_paper"]
    """Learned explainers that are trained and compared. In params.yaml they stand by room, the folder of
    src/explearn/methods that holds them, since a stage depends on its room: {expnet: [expnet], ivra: [ivra]}."""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Methods of the run with other options: name -> `of`, the method, and the options in which it differs from that
    one in this run. A learned one is trained; all are compared like any other method."""
    transfer: list[str] = Field(default_factory=list)
    """Of the explainers with a classifier of their own, those that are also judged on the other tasks with the same
    classes."""
    teachers: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Methods that explain training texts for students: method -> its options."""
    teach: TeachParams = TeachParams()
    distil: DistilParams = DistilParams()
    refiners: list[str] = Field(default_factory=list)
    """Methods that refine a trained explainer on every text they explain."""
    roster: str = "none"
    """Name of the set of baselines, a file in conf/roster/; the methods themselves are in `baselines`."""
    baselines: BaselineParams = BaselineParams()
    attribute: AttributeParams = AttributeParams()
    evaluate: EvaluateParams = EvaluateParams()
    sanity: SanityParams = SanityParams()
    evidence: dict[str, EvidenceParams] = Field(default_factory=dict)
    """Evidence pages: name -> what is required of the run."""
    curve: CurveParams = CurveParams()
    report: ReportParams = ReportParams()

    @classmethod
    def of(cls, values: Any) -> Params:
        """Check values as of params.yaml. Raises pydantic's ValidationError.

        A section of a built-in variant keeps what the variant stands for where it does not say otherwise.
        """
        if isinstance(values, Mapping):
            stands_for = {name: defaults for name, (_, defaults) in learned_sections().items() if name in values}
            sections = {name: values[name] for name in stands_for if isinstance(values[name], Mapping)}
            values = {**values, **{name: {**stands_for[name], **given} for name, given in sections.items()}}
        return with_sections(cls).model_validate(values)

    @field_validator("explainers", mode="before")
    @classmethod
    def _from_rooms(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        names = []
        for room, listed in given.items():
            if listed is not None and not (
                isinstance(listed, list | tuple) and all(isinstance(n, str) for n in listed)
            ):
                raise ValueError(f"{room}: got {kind_of(listed)}; expected a list of names of explainers")
            for name in listed or ():
                if (right := _known(name).room) != room:
                    raise ValueError(f"{name!r} is in the room {right!r}; name it under explainers.{right}")
                names.append(name)
        order = list_explainers()
        return sorted(names, key=order.index)

    @model_validator(mode="after")
    def _tasks_have_sources(self) -> Self:
        missing = [task for task in self.tasks if task not in self.sources]
        if missing:
            raise ValueError(f"tasks {', '.join(missing)} have no entry under 'sources'; expected one each")
        _check_once("tasks", self.tasks)
        self.check_models(self.tasks, self.sources)
        for kind, name in [*(("task", t) for t in self.tasks), *(("evidence", name) for name in self.evidence)]:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{kind} {name!r}: expected letters, digits, '_', '-' and '.', for it names files")
        for task in self.rationales:
            if task not in self.sources:
                raise ValueError(str(UnknownNameError("task under 'rationales'", task, self.sources)))
        return self

    @model_validator(mode="after")
    def _variants_are_known(self) -> Self:
        try:
            set_variants(self.variants)
        except (ParamsError, UnknownNameError) as error:
            raise ValueError(str(error)) from error
        for name in self.variants:
            if not _NAME.fullmatch(name):
                raise ValueError(f"variant {name!r}: expected letters, digits, '_', '-' and '.', for it names files")
            if (info := _known(name)).base is not None and info.base not in self.explainers:
                raise ValueError(f"variant {name!r} starts from {info.base!r}, which is not under explainers")
        return self

    @model_validator(mode="after")
    def _explainers_are_trained(self) -> Self:
        _check_once("explainers", self.explainers)
        for name in self.explainers:
            info = _known(name)
            if not info.learned:
                raise ValueError(f"explainer {name!r} is not trained; name it under baselines, not under explainers")
            if info.base is not None:
                raise ValueError(f"explainer {name!r} has no training of its own; name it under refiners")
            if name in self.variants:
                raise ValueError(f"explainer {name!r} is a variant, and so in the run; expected other names")
        _check_once("refiners", self.refiners)
        for name in self.refiners:
            base = _known(name).base
            if base is None:
                raise ValueError(
                    f"refiner {name!r} starts from no trained explainer; name it under explainers or baselines"
                )
            if base not in self.explainers:
                raise ValueError(f"refiner {name!r} starts from {base!r}, which is not under explainers; add it there")
        for name in self.transfer:
            if name not in self.own_model:
                raise ValueError(str(UnknownNameError("explainer under transfer", name, self.own_model)))
        return self

    @model_validator(mode="after")
    def _teachers_are_known(self) -> Self:
        for name in self.teachers:
            if _known(name).learned:
                raise ValueError(
                    f"teachers.{name}: {name!r} is trained itself; expected a method that needs no training"
                )
        for teacher in self.distil.teachers:
            self._check_teacher("distil.teachers", teacher)
        return self

    @model_validator(mode="after")
    def _options_fit_the_run(self) -> Self:
        for name in (*self.explainers, *(name for name in self.variants if _known(name).trained)):
            try:
                options = self.options_of(name)
            except ParamsError as error:
                raise ValueError(f"variants.{name}: {error}") from error
            needs_others = "other_tasks" in _known(name).needs or options.get("protocol") in FROM_OTHER_TASKS
            if needs_others and len(self.tasks) < 2:
                raise ValueError(
                    f"explainer {name!r} learns from the other tasks' rationales, but there is one task; "
                    "add another, or take one that learns in domain"
                )
            if "teacher" in _known(name).needs:
                where = f"variants.{name}" if name in self.variants else name
                self._check_teacher(f"{where}.teacher", options["teacher"])
        return self

    @model_validator(mode="after")
    def _baselines_are_in_place(self) -> Self:
        # Where nothing is trained, weights that come with the package stand for a training.
        given = not self.explainers and set(self.tasks) <= set(self.classifiers)
        for section, methods in (("quick", self.baselines.quick), ("costly", self.baselines.costly)):
            for name in methods:
                info = _known(name)
                if info.learned and not (info.ready and given):
                    right = "explainers" if info.base is None else "refiners"
                    raise ValueError(f"baselines.{section}.{name}: {name!r} is trained; name it under {right}")
                if info.costly != (section == "costly"):
                    right = "costly" if info.costly else "quick"
                    raise ValueError(f"baselines.{section}.{name}: {name!r} is a {right} method; move it there")
                if name in self.variants:
                    raise ValueError(f"baselines.{section}.{name}: {name!r} is a variant, and so in the run already")
        for name in self.baselines.own_model:
            if _known(name).learned:
                raise ValueError(f"baselines.own_model.{name}: {name!r} is trained; expected a baseline")
        return self

    @model_validator(mode="after")
    def _studied_methods_are_of_the_run(self) -> Self:
        if not self.methods:
            raise ValueError("there is no method; expected one at least under explainers, baselines or variants")
        if self.explainer is not None and self.explainer not in self.methods:
            raise ValueError(str(UnknownNameError("explainer", self.explainer, self.methods)))
        for name in self.sanity.methods or ():
            if name not in self.methods:
                raise ValueError(str(UnknownNameError("method under sanity.methods", name, self.methods)))
        return self

    @model_validator(mode="after")
    def _curve_has_tasks(self) -> Self:
        _check_once("curve.tasks", self.curve.tasks)
        for task in self.curve.tasks:
            if task not in self.tasks:
                raise ValueError(str(UnknownNameError("task under curve.tasks", task, self.tasks)))
        if self.curve.tasks and len(self.tasks) < 2:
            raise ValueError(
                f"curve.tasks: {self.curve.tasks[0]!r} starts from the other tasks' marks, but there is one task; "
                "add another"
            )
        marks = self.curve.marks
        if marks != sorted(set(marks)):
            raise ValueError(f"curve.marks: got {marks}; expected rising numbers")
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
        """Names of all methods compared: learned first, then the baselines, variants behind the others of each."""
        return [*self.learned, *self.baseline_names]

    @property
    def learned(self) -> list[str]:
        """Names of the learned methods: those trained, those that refine them, then variants of either."""
        return [*self.explainers, *self.refiners, *(name for name in self.variants if _known(name).learned)]

    @property
    def baseline_names(self) -> list[str]:
        """Names of the methods compared that are not trained here."""
        variants = (name for name in self.variants if not _known(name).learned)
        return [*self.baselines.quick, *self.baselines.costly, *variants]

    @property
    def trained(self) -> list[str]:
        """Names of the methods with a training of their own, variants with them."""
        return [name for name in self.learned if _known(name).trained]

    @property
    def own_model(self) -> list[str]:
        """Of `trained`, those that train a classifier of their own; `baselines.own_model` are run on it, too."""
        return [name for name in self.trained if _known(name).own_model]

    def group_of(self, method: str) -> str:
        """The group that explains by this method of the run; see `explearn_study.attribute.group_methods`.

        Raises UnknownNameError for a method that is not of the run.
        """
        if method in self.variants:
            return method
        if method in self.own_model:
            return f"{ON_MODEL}{method}"
        if method in self.refiners:
            return method
        if method in self.explainers:
            return f"{LEARNED}{_known(method).room}"
        for group, methods in self.baseline_groups.items():
            if method in methods:
                return group
        raise UnknownNameError("method", method, self.methods)

    @property
    def baseline_groups(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Group -> method -> options: all quick baselines together, each costly one by itself."""
        groups = {name: {name: options} for name, options in self.baselines.costly.items()}
        return {"quick": self.baselines.quick, **groups} if self.baselines.quick else groups

    def section(self, name: str) -> Any:
        """The section of a learned explainer's options. Raises UnknownNameError for a method without one."""
        if name not in learned_sections():
            raise UnknownNameError("section of options", name, learned_sections())
        return getattr(self, name)

    def options_of(self, name: str) -> dict[str, Any]:
        """The options of a method of the run: its section's, or those in the roster; a variant's own go before them.

        Raises UnknownNameError, and ParamsError for an option that a variant's method does not take.
        """
        if name in self.variants:
            own = {option: value for option, value in self.variants[name].items() if option != "of"}
            of = str(self.variants[name]["of"])
            merged = _merged(self.options_of(of), own)
            if of not in learned_sections():
                return merged
            section = type(self.section(of))
            try:
                checked: dict[str, Any] = section.model_validate(merged).model_dump(exclude={"seed"})
                return checked
            except ValidationError as error:
                raise ParamsError(problems_sentence(error, section)) from error
        if name in learned_sections():
            found: dict[str, Any] = self.section(name).model_dump(exclude={"seed"})
            return found
        get_info(name)
        return {**self.baselines.quick, **self.baselines.costly}.get(name, {})

    def check_task(self, task: str) -> str:
        """Return `task`; raises UnknownNameError, with near names, if the profile has no such task."""
        if task not in self.tasks:
            raise UnknownNameError("task", task, self.tasks)
        return task

    def rationale_params(self, task: str) -> RationaleParams:
        return self.rationales.get(task, RationaleParams())


@cache
def with_sections(base: type[Params]) -> type[Params]:
    """The parameters with a section for each learned explainer, by its name."""
    sections: dict[str, Any] = {}
    for name, (target, defaults) in learned_sections().items():
        module, _, attribute = target.partition(":")
        section = getattr(importlib.import_module(module), attribute)
        sections[name] = (section, section(**defaults))
    found: type[Params] = create_model(base.__name__, __base__=base, **sections)
    return found


def load_params(path: str | os.PathLike[str] = "params.yaml") -> Params:
    """Read and check a params file.

    Raises ParamsError naming the file, the parameter, what was got and what was expected.
    """
    raw = read_yaml(path, hint="; run from the project's root or give --params")
    if not isinstance(raw, dict):
        raise ParamsError(f"{path}: got {kind_of(raw)}; expected a mapping of parameters")
    try:
        return Params.of(raw)
    except ValidationError as error:
        root = with_sections(Params)
        raise ParamsError(problems_sentence(error, root, f"{path}, ")) from error


def _known(name: str) -> MethodInfo:
    try:
        return get_info(name)
    except UnknownNameError as error:
        raise ValueError(str(error)) from error


def _check_once(what: str, names: Iterable[str]) -> None:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise ValueError(f"{what} {listed} repeat a name; expected each once")


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `change`; mappings in both are merged in turn."""
    found = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = _merged(found[key], value) if both else value
    return found
