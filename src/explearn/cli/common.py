"""Code that all commands share: options for computing, printing, and handling of errors."""

from __future__ import annotations

import functools
import inspect
import io
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from explearn.core.compute import ComputeOptions, Precision, read_max_memory
from explearn.core.errors import ExplearnError, sentence_of
from explearn.core.escape import printable
from explearn.core.validation import LARGEST_SEED, whole_number
from explearn.core.writing import replacing

ISSUES = "https://github.com/explearn/explearn/issues"

BUG_CODE = 70
"""Exit code for a bug of the program (EX_SOFTWARE of sysexits.h)."""


DEFAULT_SEED = 13

Seed = Annotated[
    int,
    typer.Option(help="Random seed.", envvar="EXPLEARN_SEED", min=0, max=LARGEST_SEED, rich_help_panel="Computing"),
]


def printed(text: str) -> str:
    """Return external text, safe for rich to print: markup and terminal commands in it have no effect."""
    return escape(printable(text))


def tell(text: object) -> None:
    """Print a line, with terminal commands in it escaped."""
    print(printable(str(text)), flush=True)


def plain_console() -> Console:
    """Return a console that neither highlights nor wraps text."""
    return Console(highlight=False, soft_wrap=True)


def compute_options(
    device: Annotated[
        str, typer.Option(help="Where to compute: auto, cpu, cuda, cuda:N or mps.", envvar="EXPLEARN_DEVICE")
    ] = "auto",
    precision: Annotated[
        Precision,
        typer.Option(
            help="Precision of matrix products. auto: bf16 if the device supports it natively, else fp16 on CUDA, "
            "else fp32. saved: the precision of the saved weights. nf4, int8: the encoder's weights are quantised to "
            "4 or 8 bits.",
            envvar="EXPLEARN_PRECISION",
        ),
    ] = "fp32",
) -> ComputeOptions:
    """Return these two options with EXPLEARN_MAX_TOKENS, EXPLEARN_DEVICE_MAP and EXPLEARN_MAX_MEMORY.

    Raises:
        ParamsError: a variable's value is invalid.
        DeviceError: this machine has no such device.
    """
    tokens = os.environ.get("EXPLEARN_MAX_TOKENS") or "auto"
    return ComputeOptions(
        device,
        precision,
        max_tokens=whole_number(tokens) or tokens,  # type: ignore[arg-type]
        device_map=os.environ.get("EXPLEARN_DEVICE_MAP") or None,
        max_memory=read_max_memory(os.environ.get("EXPLEARN_MAX_MEMORY", "")),
    )


@dataclass(frozen=True, slots=True)
class Group:
    """Options that together make one parameter of a command, shown in help under a heading.

    Attributes:
        title: the heading.
        make: returns the parameter's value; its own parameters are the options.
        without: options that the command leaves out.
    """

    title: str
    make: Callable[..., Any]
    without: Collection[str] = ()

    def options(self) -> list[inspect.Parameter]:
        """Return the options, shown under the heading unless they name another."""
        options = []
        for name, parameter in inspect.signature(self.make, eval_str=True).parameters.items():
            if name not in self.without:
                option = parameter.annotation.__metadata__[0]
                option.rich_help_panel = option.rich_help_panel or self.title
                options.append(parameter)
        return options


Force = Annotated[
    bool,
    typer.Option("--force", help="Replace what has the output's name, even if it is yours or was changed; no input."),
]

Compute = Annotated[ComputeOptions, Group("Computing", compute_options)]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn a function into a command: it handles errors (`user_errors`) and has the options of its groups.

    A command with the parameter `out` has the option --force, too, and none replaces a file that it reads.
    """
    groups: dict[str, Group] = {}
    own = []
    shared = []
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        marker = getattr(parameter.annotation, "__metadata__", (None,))[0]
        if isinstance(marker, Group):
            groups[name] = marker
            shared += marker.options()
        else:
            own.append(parameter)
        if name == "out":
            shared.append(inspect.Parameter("force", parameter.KEYWORD_ONLY, default=False, annotation=Force))

    @functools.wraps(function)
    def run(**values: Any) -> None:
        force = values.pop("force", False)
        with user_errors(values.get("work")), replacing(values.items(), force=force):
            for name, group in groups.items():
                values[name] = group.make(**{option.name: values.pop(option.name) for option in group.options()})
            function(**values)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own + shared]
    del run.__wrapped__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@contextmanager
def user_errors(work: Path | None = None) -> Iterator[None]:
    """Exit with one sentence on standard error if the user can fix the error, else with a traceback and BUG_CODE.

    Users can fix every `ExplearnError` (exit code 2, or the error's own) and errors of the machine (`sentence_of`:
    disk, permission, memory). EXPLEARN_DEBUG=1 shows their tracebacks as well.

    Args:
        work: folder that keeps finished parts, which is named after Ctrl+C. None: nothing is kept.
    """
    if sys.stdout is None:  # closed by whoever started the command
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    # A character that the terminal's encoding lacks is written as an escape (\u2192) instead of ending the command.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
        # A full disk behind standard output is reported here, not after the end.
        sys.stdout.flush()
    except (typer.Exit, BrokenPipeError):
        raise  # BrokenPipeError: the reader of the output has gone; typer exits quietly
    except KeyboardInterrupt:
        kept = ""
        if work is not None:
            kept = f"; {work} keeps the finished parts, and the same command goes on from there"
        print(printable(f"interrupted; earlier outputs are unchanged{kept}"), file=sys.stderr)
        raise SystemExit(130) from None
    except Exception as error:
        code = 2
        if isinstance(error, ExplearnError):
            sentence: str | None = str(error)
            code = error.exit_code
        else:
            sentence = sentence_of(error)
        if sentence is None or os.environ.get("EXPLEARN_DEBUG") == "1":
            traceback.print_exc()
        if sentence is None:
            sentence = f"this is a bug in explearn; please report it, with the lines above, at {ISSUES}"
            code = BUG_CODE
        # One line, whatever a file's name or a library's message holds.
        print(f"error: {printable(' '.join(sentence.split()))}", file=sys.stderr)
        raise SystemExit(code) from error
