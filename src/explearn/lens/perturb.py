"""Copies of a classifier with new random or slightly changed weights, to check what explanations depend on."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from typing import Any

import torch

from explearn.lens.words import table_weight
from explearn.predictors.architectures import UNKNOWN, architecture
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.predictors.quantised import dequantised

_ANY_BLOCK = re.compile(r"\.(?:layers?|h|blocks?)\.(\d+)\.")
"""Common names of blocks, for model types without an entry in the table."""


def parts(classifier: Predictor) -> dict[str, list[str]]:
    """Return part -> names of its parameters, from the output down: head, layer N .. layer 1, embeddings.

    The pooler belongs to the head; ALBERT's layers share their weights and are one part.
    """
    model: Any = transformer_of(classifier).model
    prefix = f"{model.base_model_prefix}."
    entry = architecture(model.config)
    pattern = _ANY_BLOCK
    if entry is not UNKNOWN:
        pattern = re.compile(rf"^{re.escape(prefix + entry.blocks)}\.(\d+)\.")
    blocks: dict[int, list[str]] = {}
    head: list[str] = []
    embeddings: list[str] = []
    for name, _ in model.named_parameters():
        block = pattern.search(name)
        if not name.startswith(prefix) or ".pooler." in name:
            head.append(name)
        elif block:
            blocks.setdefault(int(block[1]), []).append(name)
        else:
            embeddings.append(name)
    layers = {f"layer {index + 1}": blocks[index] for index in sorted(blocks, reverse=True)}
    return {"head": head, **layers, "embeddings": embeddings}


def randomised(classifier: Any, seed: int, chosen: Collection[str] | None = None) -> Any:
    """Return a copy with new weights, as the model's class initialises them for the same configuration.

    Args:
        classifier: is not changed.
        seed: seed of the new weights; a part's new weights do not depend on which other parts are chosen.
        chosen: names of the `parts` to change. None: all.

    Raises:
        UnsupportedError: some of its weights are offloaded.
    """
    named = parts(classifier)
    if chosen is None:
        chosen = named
    names: set[str] = set()
    for part in chosen:
        names.update(named[part])
    transformer_of(classifier).check_readable("a copy with changed weights")
    model: Any = transformer_of(classifier).model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = dict(type(model)(copy.deepcopy(model.config)).named_parameters())
    changed = dequantised(copy.deepcopy(model))
    with torch.no_grad():
        for name, parameter in changed.named_parameters():
            if name in names:
                parameter.copy_(fresh[name])
    return classifier.with_model(changed)


def noisy_embeddings(classifier: Any, radius: float, seed: int) -> Any:
    """Return a copy with uniform noise from [-radius, radius] added to each entry of the word embeddings.

    All occurrences of a sub-token get the same noise, in all passes of a method. `classifier` is not changed.

    Raises:
        UnsupportedError: the model has no table of word embeddings, or some of its weights are offloaded.
    """
    transformer_of(classifier).check_readable("a copy with changed weights")
    changed = copy.deepcopy(transformer_of(classifier).model)
    weight = table_weight(changed)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(weight.shape, generator=generator, dtype=torch.float64) * (2 * radius) - radius
    with torch.no_grad():
        weight += noise.to(weight)
    return classifier.with_model(changed)
