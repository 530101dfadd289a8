"""The folder of a trained explainer: config.json, one safetensors file, and what a method puts beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from explearn.core.documents import check_regular, read_json
from explearn.core.errors import DataError, ModelError, problem_of
from explearn.core.finite import check_weights
from explearn.core.shapes import Shape, check_shape
from explearn.core.writing import atomic_folder, check_replaceable, write_json

CONFIG = "config.json"
DIVERGED = "try a lower learning rate; what was there is as it was"
"""What to do about weights that are not finite after training."""


class _Config(Shape):
    explainer: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class State:
    """All that training made of an explainer.

    tensors: by name. record: JSON values, the rest of config.json beside `explainer` and `options`.
    """

    tensors: Mapping[str, torch.Tensor]
    record: Mapping[str, Any]


def write_trained(
    folder: str | os.PathLike[str],
    weights: str,
    explainer: str,
    options: Mapping[str, Any],
    state: State,
    beside: Callable[[Path], None],
) -> None:
    """Write an explainer, atomically, in the place of a trained one that is there.

    Raises, before anything is replaced, ModelError for weights that are not finite, and ParamsError for a folder that
    holds anything but a trained explainer.

    Args:
        weights: name of the safetensors file.
        explainer: name of the class. options: what to make it with.
        beside: writes what a method keeps beside the two files.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
    check_weights(tensors.items(), f"{folder}: {explainer} diverged in training", DIVERGED)
    check_replaceable(folder, lambda there: (there / weights).exists() or _holds_explainer(there), "trained explainer")
    with atomic_folder(folder) as partial:
        save_file(tensors, partial / weights)
        beside(partial)
        write_json(partial / CONFIG, {"explainer": explainer, "options": dict(options), **state.record})


def _holds_explainer(folder: Path) -> bool:
    try:
        found = read_json(folder / CONFIG)
    except DataError:
        return False
    return isinstance(found, dict) and isinstance(found.get("explainer"), str)


def read_trained(folder: Path, weights: str, explainer: str) -> tuple[dict[str, Any], State]:
    """The options of an explainer, and its state.

    Raises ModelError for another explainer's folder or a tensor that is not finite; what is missing or damaged raises
    whatever it may, for `told_as_model_error`.
    """
    config = check_shape(read_json(folder / CONFIG), _Config, folder / CONFIG, "train it again")
    if config["explainer"] != explainer:
        raise ModelError(f"holds a {config['explainer']}")
    check_regular(folder / weights)
    tensors = load_file(folder / weights)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(f"{weights}: {name} holds values of kind {kind}; expected floating-point numbers")
        if not tensor.isfinite().all():
            raise ModelError(f"{weights}: {name} holds a value that is not finite")
    options = dict(config["options"])
    return options, State(tensors, {key: config[key] for key in config if key not in ("explainer", "options")})


@contextmanager
def told_as_model_error(folder: Path, title: str) -> Iterator[None]:
    """Turn whatever a missing or damaged file raises inside the block into one sentence.

    Args:
        title: of the explainer, for readers.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # safetensors, transformers and huggingface_hub have errors of their own
        raise ModelError(
            f"{folder}: not a trained {title} ({problem_of(error)}); expected the folder that its training wrote"
        ) from error
