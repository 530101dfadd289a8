"""What all commands share: the compute options, and how they end on an error."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NoReturn

import typer

from explearn.core.compute import ComputeOptions, Precision
from explearn.core.device_map import read_device_map, read_max_memory
from explearn.core.errors import ExplearnError, sentence_of
from explearn.core.settings import LARGEST_SEED, whole_number
from explearn.core.visible import visible


def _max_tokens(value: str) -> str:
    if value != "auto" and not whole_number(value):
        raise typer.BadParameter(f"got {value[:40]!r}; expected a positive number of sub-tokens, or auto")
    return value


COMPUTE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "device": (
        Annotated[
            str,
            typer.Option(help="Where to compute: auto, cpu, cuda, cuda:N or mps.", envvar="EXPLEARN_DEVICE"),
        ],
        "auto",
    ),
    "precision": (
        Annotated[
            Precision,
            typer.Option(
                help="Precision of matrix products. auto: bf16 where the device computes it natively, else fp16 on "
                "CUDA, else fp32. saved: weights stay in the precision of their file.",
                envvar="EXPLEARN_PRECISION",
            ),
        ],
        "fp32",
    ),
    "max_tokens": (
        Annotated[
            str,
            typer.Option(
                help="Most sub-tokens in a batch of predictions, padding included, or auto: by the device and its free "
                "memory.",
                envvar="EXPLEARN_MAX_TOKENS",
                callback=_max_tokens,
            ),
        ],
        "auto",
    ),
    "compile": (
        Annotated[
            bool,
            typer.Option(
                "--compile/--no-compile",
                help="Run plain predictions (and training) through torch.compile; passes that look inside the model "
                "are not compiled.",
                envvar="EXPLEARN_COMPILE",
            ),
        ],
        False,
    ),
    "device_map": (
        Annotated[
            str,
            typer.Option(
                help="Spread the classifier over all GPUs, and what they cannot hold over memory and disk: auto, "
                "balanced, balanced_low_0, sequential, or a JSON file, module -> device. In the place of --device.",
                envvar="EXPLEARN_DEVICE_MAP",
                show_default="one device",
            ),
        ],
        "",
    ),
    "max_memory": (
        Annotated[
            str,
            typer.Option(
                help="With --device-map: most weights on each device, such as 0=20GiB,1=20GiB,cpu=60GiB.",
                envvar="EXPLEARN_MAX_MEMORY",
                show_default="what is free",
            ),
        ],
        "",
    ),
    "seed": (
        Annotated[
            int | None,
            typer.Option(
                help="Seed of everything random; by default the parameter `seed`. Overriding it here is for trials "
                "outside DVC, which does not see it.",
                envvar="EXPLEARN_SEED",
                min=0,
                max=LARGEST_SEED,
                show_default="params.yaml",
            ),
        ],
        None,
    ),
}
"""Name -> (annotation, default) of the options that every stage and `explearn explain` take."""


def compute_options(
    device: str, precision: Precision, max_tokens: str, compile: bool, device_map: str = "", max_memory: str = ""
) -> ComputeOptions:
    """Options as they come from the command line; raises ParamsError or DeviceError."""
    tokens: int | Literal["auto"] = "auto" if max_tokens == "auto" else int(max_tokens)
    spread = read_device_map(device_map), read_max_memory(max_memory)
    return ComputeOptions(device, precision, tokens, compile, *spread)


@contextmanager
def user_errors() -> Iterator[None]:
    """End with one sentence on standard error and exit code 2 (or the error's own) where the user can mend it.

    That is so for every `ExplearnError` and for errors of the machine (`sentence_of`): disk, memory, terminal.
    """
    _write_anything()
    try:
        yield
        if sys.stdout is not None:
            # A full disk behind standard output shows here, not after the end.
            sys.stdout.flush()
    except ExplearnError as error:
        _end(str(error), error.exit_code, error)
    except KeyboardInterrupt:
        print("interrupted; earlier outputs are as they were", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise  # whoever read the output has gone; typer ends quietly
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        _end(sentence, ExplearnError.exit_code, error)


def _end(sentence: str, code: int, error: Exception) -> NoReturn:
    # One line, whatever a file's name or a library's message holds.
    print(f"error: {visible(' '.join(sentence.split()))}", file=sys.stderr)
    raise SystemExit(code) from error


def _write_anything() -> None:
    """Let a character that the terminal's encoding lacks be written as an escape (\\u2192), not end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
