"""Where the parts of a model that is spread over several devices go: the options device_map and max_memory.

What they mean is accelerate's (https://huggingface.co/docs/accelerate/concept_guides/big_model_inference).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from explearn.core.documents import kind_of, read_json
from explearn.core.errors import DataError, ParamsError

Place = str | int
"""A device by name, a GPU by its number, "cpu" or "disk"."""

DeviceMap = str | Mapping[str, Place]
"""How to divide a model, one of RULES, or its modules by name, each with its place; "" is the whole model."""

RULES = ("auto", "balanced", "balanced_low_0", "sequential")

_PLACE = re.compile(r"cpu|disk|cuda(:[0-9]{1,4})?|[0-9]{1,4}")
_HOLDER = re.compile(r"cpu|disk|[0-9]{1,4}")
_SIZE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?([KMG]i?B)")


def check_device_map(value: object) -> None:
    """Raise ParamsError unless `value` is a DeviceMap."""
    if isinstance(value, str):
        if value not in RULES:
            raise ParamsError(f"device-map: got {value!r:.60}; expected {', '.join(RULES)}, or a JSON file of modules")
        return
    if not isinstance(value, Mapping):
        raise ParamsError(f"device-map: got {kind_of(value)}; expected one of {', '.join(RULES)}, or module -> device")
    if not value:
        raise ParamsError("device-map: got no module; expected each module's device, '' for the whole model")
    for module, place in value.items():
        known = type(place) in (str, int) and _PLACE.fullmatch(str(place))
        if not isinstance(module, str) or not known:
            raise ParamsError(
                f"device-map, module {module!r:.60}: got {place!r:.40}; expected cpu, disk, cuda:N, or a GPU's number"
            )


def check_max_memory(value: object) -> None:
    """Raise ParamsError unless `value` says how much of the weights each device holds, such as {0: "20GiB"}."""
    if not isinstance(value, Mapping) or not value:
        raise ParamsError("max-memory: expected a size for each device, such as 0=20GiB,cpu=60GiB")
    for device, size in value.items():
        fits = type(size) is int and size > 0 if not isinstance(size, str) else bool(_SIZE.fullmatch(size))
        if type(device) not in (str, int) or not _HOLDER.fullmatch(str(device)) or not fits:
            raise ParamsError(
                f"max-memory: got {device!r:.40}={size!r:.40}; expected a GPU's number or cpu, and a size such as 20GiB"
            )


def read_device_map(value: str) -> DeviceMap | None:
    """The option as the command line has it: a rule, or a JSON file; nothing for an empty string.

    Raises ParamsError for what is neither, and for a file that holds no object of modules.
    """
    if not value:
        return None
    found: DeviceMap = value
    if value not in RULES and value.endswith(".json"):
        try:
            read = read_json(Path(value))
        except DataError as error:
            raise ParamsError(f"device-map: {error}") from error
        if not isinstance(read, dict):
            raise ParamsError(f"device-map, {value}: got {kind_of(read)}; expected an object, module -> device")
        found = read
    check_device_map(found)
    return found


def read_max_memory(value: str) -> dict[Place, Place] | None:
    """The option as the command line has it, `0=20GiB,cpu=60GiB`; nothing for an empty string.

    Raises ParamsError for another form, and for a device that is named twice.
    """
    if not value:
        return None
    found: dict[Place, Place] = {}
    for entry in value.split(","):
        device, _, size = (part.strip() for part in entry.partition("="))
        holder: Place = int(device) if device.isascii() and device.isdigit() and len(device) < 5 else device
        if holder in found:
            raise ParamsError(f"max-memory: names {device!r} twice; expected each device once")
        found[holder] = size
    check_max_memory(found)
    return found
