"""The common parts of all stages: options, parameters, seeding, and the end on an error."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from explearn.cli.common import Compute, Seed, command
from explearn.core.writing import locked

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


def stage(function: Callable[..., None]) -> Callable[[], None]:
    """Turn a function into a stage: a Typer command that reads params.yaml and takes the shared options.

    Of the function's arguments, `params` is filled with the checked parameters (option --params), `compute` with the
    compute options, `seed` with the option or else the parameter of that name. `task` is checked against the profile's
    tasks. All others are options of the stage itself. The docstring is the help.
    """
    arguments = inspect.signature(function, eval_str=True).parameters
    name_of_stage = Path(inspect.getfile(function)).stem
    own = [argument for argument in arguments.values() if argument.name not in ("params", "compute", "seed")]

    @functools.wraps(function)
    def run(**options: Any) -> None:
        from explearn_study.params import load_params

        params = load_params(options.pop("params_file"))
        seed = options.pop("seed")
        filled = {"params": params, "compute": options.pop("compute"), "seed": params.seed if seed is None else seed}
        if "task" in options:
            params.check_task(options["task"])
        with run_alone(name_of_stage, **options):
            function(**options, **{name: value for name, value in filled.items() if name in arguments})

    keyword = inspect.Parameter.KEYWORD_ONLY
    params_file = Annotated[Path, typer.Option("--params", help="File of parameters.", envvar="EXPLEARN_PARAMS")]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(argument.replace(kind=keyword) for argument in own),
            inspect.Parameter("params_file", keyword, default=Path("params.yaml"), annotation=params_file),
            inspect.Parameter("compute", keyword, annotation=Compute),
            inspect.Parameter("seed", keyword, default=None, annotation=Seed),
        ]
    )
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command(run))
    return cast(Callable[[], None], app)
