"""What of G is fine-tuned for a single text, alone or for many texts at once (AML, section 3.1, fAML).

Fine-tuning a copy of all of G for each text is the paper's form; copies of a whole encoder do not batch well. Small
changes to G's uppermost blocks do: the blocks below run once, the frozen weights serve all texts, and each text adds
changes of its own to the outputs of the linear maps.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import nn

from explearn.lens.anatomy import Block, Encoder, dissect_encoder, trace_block
from explearn.lens.threads import here_only
from explearn.methods.aml.attribution_model import AttributionModel
from explearn.methods.aml.two_tokenizers import Reading, attribution_logits
from explearn.model.classifier import Classifier

Scope = Literal["full", "last_block", "low_rank"]

ADAM_EPSILON = 1e-6
"""Larger than torch's, so that gradients which are but rounding (those of key biases) move nothing."""


class Tuning(ABC):
    """Weights that change for the b texts of a batch, and the attributions that G gives with them."""

    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """What the optimizer changes."""

    @abstractmethod
    def scores(self) -> torch.Tensor:
        """Logits of the attributions at the classifier's sub-tokens, (b, n)."""


class FullTuning(Tuning):
    """A copy of all of G but the prediction's embeddings, for one text."""

    def __init__(
        self, model: AttributionModel, classifier: Classifier, reading: Reading, predictions: torch.Tensor
    ) -> None:
        assert len(reading.target) == 1
        self._model = copy.deepcopy(model).requires_grad_(True).eval()
        self._model.prediction.requires_grad_(False)
        if self._model.mask_embedding is not None:
            self._model.mask_embedding.requires_grad_(False)
        self._classifier, self._reading, self._predictions = classifier, reading, predictions

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def scores(self) -> torch.Tensor:
        return attribution_logits(self._model, self._classifier, self._reading, self._predictions)


@dataclass(frozen=True, slots=True)
class Change:
    """What each text adds to the output of a linear map: x down up + bias, or x up + bias where down is None.

    down: (b, in, r). up: (b, r, out), or (b, in, out). bias: (b, out).
    """

    layer: nn.Linear
    down: nn.Parameter | None
    up: nn.Parameter
    bias: nn.Parameter

    def parameters(self) -> list[nn.Parameter]:
        return [p for p in (self.down, self.up, self.bias) if p is not None]

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        narrow = inputs if self.down is None else inputs @ self.down.to(inputs.dtype)
        return narrow @ self.up.to(inputs.dtype) + self.bias.to(inputs.dtype)[:, None]


def changed_layers(
    model: AttributionModel, scope: Literal["last_block", "low_rank"], blocks: int
) -> tuple[list[nn.Linear], Encoder, int]:
    """The linear maps that change but the head's last, the backbone's parts, and how many of its blocks change.

    Raises UnsupportedError for a backbone that cannot be taken apart (see `anatomy.dissect_encoder`).
    """
    parts = dissect_encoder(model.backbone)
    count = min(1 if scope == "last_block" else blocks, len(parts.blocks))
    upper = parts.blocks[len(parts.blocks) - count :]
    maps = dict.fromkeys(layer for block in upper for layer in _linear_maps(block))
    return [*maps, model.dense], parts, count


def bytes_per_text(model: AttributionModel, scope: Literal["last_block", "low_rank"], rank: int, blocks: int) -> int:
    """Memory that a text's changes take: the weights, their gradients and AdamW's two moments, float32."""
    layers, _, _ = changed_layers(model, scope, blocks)
    numbers = (model.output.in_features + 1) * model.output.out_features
    for layer in layers:
        height, width = layer.in_features, layer.out_features
        numbers += width + (height * width if scope == "last_block" else rank * (height + width))
    return 4 * 4 * numbers


class RestrictedTuning(Tuning):
    """Changes to the linear maps of G's uppermost blocks and head, a set for each text of a batch.

    The changes start at zero, whatever else is in the batch; `down` starts with the same random values for every text.

    Args:
        scope: `last_block`: a full matrix for each map of the last block; `low_rank`: a product of rank `rank` for
            each map of the last `blocks` blocks. The head's last map always changes in full.
        rank, blocks: of `low_rank`.
        seed: of the first values of `down`.

    Raises UnsupportedError for a backbone that cannot be taken apart (see `anatomy.dissect_encoder`).
    """

    def __init__(
        self,
        model: AttributionModel,
        classifier: Classifier,
        reading: Reading,
        predictions: torch.Tensor,
        scope: Literal["last_block", "low_rank"],
        rank: int,
        blocks: int,
        seed: int,
    ) -> None:
        layers, parts, count = changed_layers(model, scope, blocks)
        self._model, self._classifier, self._reading = model, classifier, reading
        self._predictions = predictions
        self._upper = parts.blocks[len(parts.blocks) - count :]
        inputs = model.inputs(reading.source, predictions)
        self._mask = inputs.attention_mask.bool()
        keywords = {key: value for key, value in inputs.keywords().items() if key != "attention_mask"}
        with torch.no_grad(), classifier.autocast():
            hidden: torch.Tensor = parts.embeddings(input_ids=None, **keywords)
            if parts.projection is not None:
                hidden = parts.projection(hidden)
            for block in parts.blocks[: len(parts.blocks) - count]:
                hidden = trace_block(block, hidden, self._mask).result
        self._hidden = hidden.detach()
        generator = torch.Generator().manual_seed(seed)
        narrow = rank if scope == "low_rank" else None
        texts = len(reading.target)
        self._changes = [_change(layer, texts, narrow, generator) for layer in layers]
        self._changes.append(_change(model.output, texts, None, generator))

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for change in self._changes for parameter in change.parameters()]

    def scores(self) -> torch.Tensor:
        with ExitStack() as stack, self._classifier.autocast():
            for change in self._changes:
                stack.enter_context(_added(change))
            hidden = self._hidden
            for block in self._upper:
                hidden = trace_block(block, hidden, self._mask).result
            scores = self._model.score(hidden, self._predictions)
        return self._reading.to_target(scores)

    def keep(self, rows: Sequence[int], reading: Reading) -> dict[nn.Parameter, nn.Parameter]:
        """Go on with some of the texts alone, whose reading is `reading`; returns old parameter -> new one."""
        index = torch.tensor(rows, device=self._hidden.device)
        self._reading, self._predictions = reading, self._predictions[index]
        # The batch may have become narrower: its padding is cut.
        width = reading.source.input_ids.shape[1] + 1
        self._hidden, self._mask = self._hidden[index][:, :width], self._mask[index][:, :width]
        renewed: dict[nn.Parameter, nn.Parameter] = {}
        for change in self._changes:
            for parameter in change.parameters():
                renewed[parameter] = nn.Parameter(parameter.detach()[index])
        self._changes = [
            Change(c.layer, None if c.down is None else renewed[c.down], renewed[c.up], renewed[c.bias])
            for c in self._changes
        ]
        return renewed


def make_optimizer(parameters: Sequence[nn.Parameter], learning_rate: float) -> torch.optim.AdamW:
    return torch.optim.AdamW(parameters, lr=learning_rate, eps=ADAM_EPSILON, weight_decay=0.0, fused=True)


def narrowed_optimizer(
    optimizer: torch.optim.AdamW, renewed: dict[nn.Parameter, nn.Parameter], rows: Sequence[int]
) -> torch.optim.AdamW:
    """The optimizer of the texts that go on, with what it knows of them."""
    narrowed = make_optimizer(list(renewed.values()), cast(float, optimizer.defaults["lr"]))
    for old, new in renewed.items():
        state = optimizer.state[old]
        narrowed.state[new] = {
            name: value[torch.tensor(rows, device=value.device)] if value.shape == old.shape else value
            for name, value in state.items()
        }
    return narrowed


def _linear_maps(block: Block) -> tuple[nn.Linear, ...]:
    return block.query, block.key, block.value, block.output, block.expand, block.contract


def _change(layer: nn.Linear, texts: int, rank: int | None, generator: torch.Generator) -> Change:
    device, dtype = layer.weight.device, layer.weight.dtype
    down = None
    if rank is not None:
        start = torch.randn(layer.in_features, rank, generator=generator) * layer.in_features**-0.5
        down = nn.Parameter(start.to(device, dtype).repeat(texts, 1, 1))
    up = nn.Parameter(
        torch.zeros(texts, layer.in_features if rank is None else rank, layer.out_features, device=device, dtype=dtype)
    )
    return Change(layer, down, up, nn.Parameter(torch.zeros(texts, layer.out_features, device=device, dtype=dtype)))


@contextmanager
def _added(change: Change) -> Iterator[None]:
    """Let a linear map put out what each text's change adds to it, inside the block."""
    handle = change.layer.register_forward_hook(here_only(lambda _layer, inputs, output: output + change(inputs[0])))
    try:
        yield
    finally:
        handle.remove()
