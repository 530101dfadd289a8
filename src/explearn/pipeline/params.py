"""Every parameter of the pipeline, with its type, unit, range and default.

`conf/` composes `params.yaml` (Hydra, through DVC); the stages read `params.yaml` through `load_params`. What only says
where or how fast to compute is not here but in `explearn.core.compute`: it must not invalidate a cache.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, model_validator

from explearn.annotation.params import RationaleParams
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.settings import Fraction, PositiveInt, Section, problem_sentence
from explearn.data.params import SourceParams
from explearn.introspection.params import AttendParams
from explearn.methods.aml.params import FAMLParams, PAMLParams
from explearn.methods.base.info import MethodInfo
from explearn.methods.base.registry import get_info
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.ivra.params import IvRAParams, SMaTParams
from explearn.methods.l2e.params import DistilParams, L2EParams, TeachParams, members
from explearn.metrics.params import EvaluateParams, SanityParams
from explearn.models.params import FinetuneParams

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def _known(name: str) -> MethodInfo:
    try:
        return get_info(name)
    except UnknownNameError as error:
        raise ValueError(str(error)) from error


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
            leaves_one_out = (info.of or name) == "expnet" and info.defaults.get("protocol") != "in_domain"
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
    def baseline_names(self) -> list[str]:
        """Names of the methods compared that are not learned."""
        return [*self.baselines.quick, *self.baselines.costly]

    @property
    def learned(self) -> list[str]:
        """Names of the learned methods: those trained, then those that refine them."""
        return [*self.explainers, *self.refiners]

    def group_of(self, method: str) -> str:
        """The group that explains by this method of the run; see `explearn.pipeline.attribute.group_methods`.

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

    def options_of(self, name: str) -> dict[str, Any]:
        """The options of a learned explainer: the section with its name, or, of a variant without a section, those of
        the method that it is a variant of, with its own.

        Raises UnknownNameError, and ParamsError for a baseline.
        """
        info = get_info(name)
        if not info.learned:
            raise ParamsError(f"explainer {name!r} is not trained; name it under baselines, not under explainers")
        sections = type(self).model_fields
        if name in sections:
            section: dict[str, Any] = getattr(self, name).model_dump()
            return section
        base = getattr(self, info.of).model_dump() if info.of in sections else {}
        return {**base, **info.defaults}

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
        raise ParamsError(
            "; ".join(f"{path}, {problem_sentence(problem, Params)}" for problem in error.errors())
        ) from error
