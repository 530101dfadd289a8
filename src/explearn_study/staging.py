"""The common parts of all stages: options, parameters, seeding, and the end on an error."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from explearn.cli.common import Group, Seed, command
from explearn.core.writing import locked, replacing

if TYPE_CHECKING:
    from explearn_study.params import Params

RUN_OPTIONS = ("task", "method", "teacher", "study")
"""Options of a stage that say which of its outputs a run writes."""

TaskOption = Annotated[
    str, typer.Option(help="Task of the profile, one of `tasks` in the params file.", envvar="EXPLEARN_TASK")
]


@contextmanager
def run_alone(stage: str, **options: object) -> Iterator[None]:
    """Let one run at a time do a stage's work for the same options (task, method, ...); a second one waits.

    The several files that a stage writes are then of one run. Raises as `explearn.core.writing.locked` does.
    """
    # It loads pyarrow, which `explearn --help` need not wait for.
    from explearn_study.workspace import Workspace

    named = [re.sub(r"[^\w.-]", "_", str(value)) for name, value in options.items() if name in RUN_OPTIONS]
    with locked(Workspace().root / "data" / "-".join([stage, *named]), what=f"stage {' '.join([stage, *named])}"):
        yield


class Run(NamedTuple):
    """The parameters of a run, and the seed of its draws."""

    params: Params
    seed: int


def run_options(
    params_file: Annotated[Path, typer.Option("--params", help="File of parameters.", envvar="EXPLEARN_PARAMS")] = Path(
        "params.yaml"
    ),
    seed: Seed = None,  # type: ignore[assignment]
) -> Run:
    """Return the checked parameters, and the seed or else the parameter of that name.

    Raises as `explearn_study.params.load_params` does.
    """
    from explearn_study.params import load_params

    params = load_params(params_file)
    return Run(params, params.seed if seed is None else seed)


RunOptions = Annotated[Run, Group("Run", run_options)]


def stage(function: Callable[..., None]) -> Callable[[], None]:
    """Turn a function into a stage: a Typer command, of which one runs at a time for the same options.

    `task` is checked against the profile's tasks. The docstring is the help.

    Args:
        function: its argument `run` is `RunOptions`; all others are options of the stage itself.
    """
    name = Path(inspect.getfile(function)).stem

    @functools.wraps(function)
    def run_stage(**options: Any) -> None:
        if "task" in options:
            options["run"].params.check_task(options["task"])
        with run_alone(name, **options), replacing(stage=True):
            function(**options)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command(run_stage))
    return cast(Callable[[], None], app)
