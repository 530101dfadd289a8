"""Students that predict the classifier, and the pilot update that trains its explanations (IvRA 2.2.1, B.1-2)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from explearn.lens.capture import capture_attention
from explearn.lens.gradients import content_mask
from explearn.methods.ivra.attention import AttentionModule
from explearn.model.encoding import Batch

Parameters = dict[str, torch.Tensor]


class BagStudent(nn.Module):
    """Reads a text as a bag of word pieces: a = softmax(E u), logits = W (a E) + b, as the metric's student does.

    E holds principal components of the classifier's word embeddings, scaled to unit variance in the mean, and is not
    trained.

    Args:
        table: word embeddings, (vocabulary, width).
        ids: pieces of the texts that the components are taken over, with repetition, int64, (pieces,).
        classes, dimensions: number of classes, of components.
        seed: of u; W and b start at 0.
    """

    table: torch.Tensor

    def __init__(self, table: torch.Tensor, ids: torch.Tensor, classes: int, dimensions: int, seed: int) -> None:
        super().__init__()
        seen = table[ids].double()
        centred = seen - seen.mean(0)
        variances, axes = torch.linalg.eigh(centred.T @ centred / len(ids))
        kept = axes.flip(1)[:, :dimensions]
        scale = variances.flip(0)[:dimensions].mean().clamp_min(1e-12).sqrt()
        reduced = ((table.double() - seen.mean(0)) @ kept / scale).float()
        self.register_buffer("table", reduced, persistent=False)
        width = reduced.shape[1]
        self.query = nn.Parameter(self._query(torch.Generator().manual_seed(seed), width))
        self.weight = nn.Parameter(torch.zeros(classes, width))
        self.bias = nn.Parameter(torch.zeros(classes))

    @staticmethod
    def _query(generator: torch.Generator, width: int) -> torch.Tensor:
        drawn: torch.Tensor = torch.randn(width, generator=generator) / width**0.5
        return drawn

    def beginning(self, generator: torch.Generator) -> Parameters:
        """Parameters of a student that knows nothing, with a u drawn anew."""
        query = self._query(generator, len(self.query)).to(self.query)
        return {**trainable(self), "query": query.requires_grad_()}

    def forward(self, batch: Batch, content: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (b, C) and log-attention (b, n), -inf outside the text."""
        words = self.table[batch.input_ids]
        attention = (words @ self.query).masked_fill(~content, float("-inf")).log_softmax(-1)
        pooled = torch.einsum("bn,bnd->bd", attention.exp(), words)
        return pooled @ self.weight.T + self.bias, attention


class EncoderStudent(nn.Module):
    """An encoder that was not fine-tuned, with a new head and an attention module of its own (the paper's student)."""

    def __init__(self, model: nn.Module, attention: AttentionModule) -> None:
        super().__init__()
        # Dropout would make a pilot update and the update itself differ.
        self.model = copy.deepcopy(model).eval()
        self.attention = copy.deepcopy(attention)
        embeddings: Any = self.model
        embeddings.get_input_embeddings().weight.requires_grad_(False)

    def beginning(self, generator: torch.Generator) -> Parameters:
        """Parameters of a student that knows nothing: the encoder's before fine-tuning, and its head's first ones."""
        return trainable(self)

    def forward(self, batch: Batch, content: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (b, C) and log r of the student (b, n), -inf outside the text, its zeros raised to 1e-4."""
        reduce, parts = self.attention.reader(content)
        # Fused attention kernels have no second derivative.
        with sdpa_kernel(SDPBackend.MATH), capture_attention(self.model, reduce, keep_graph=True):
            logits = self.model(**batch.model_inputs()).logits
        r = self.attention.combine(parts, content)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return logits, r.clamp_min(1e-4).log().masked_fill(~content, float("-inf"))


Student = BagStudent | EncoderStudent


def trainable(student: nn.Module) -> Parameters:
    """Its learned parameters, by name, as leaves of no graph."""
    return {name: p.detach().clone().requires_grad_() for name, p in student.named_parameters() if p.requires_grad}


def simulation_loss(
    student: nn.Module,
    parameters: Mapping[str, torch.Tensor],
    batch: Batch,
    predicted: torch.Tensor,
    r: torch.Tensor,
    weight: float,
) -> torch.Tensor:
    """CE(student, y^) + weight KL(r || r_student), mean over a batch (eq. 7).

    Args:
        predicted: classes that the explained model gives, int64, (b,). r: its explanations, (b, n).
    """
    content = content_mask(batch)
    logits, attention = functional_call(student, dict(parameters), (batch, content))
    known = r * (r.clamp_min(1e-12).log() - attention.masked_fill(~content, 0.0))
    loss: torch.Tensor = functional.cross_entropy(logits, predicted) + weight * known.sum(1).mean()
    return loss


def pilot(
    loss: Callable[[Parameters], torch.Tensor], parameters: Parameters, learning_rate: float, steps: int = 1
) -> Parameters:
    """The student after steps of SGD, one in the paper, as a function of all that `loss` depends on (eq. 14).

    The steps stay in the graph: what is then computed from their result has exact gradients with respect to the
    explanations that the student was shown (eq. 15).
    """
    for _ in range(steps):
        gradients = torch.autograd.grad(loss(parameters), list(parameters.values()), create_graph=True)
        parameters = {
            name: value - learning_rate * gradient
            for (name, value), gradient in zip(parameters.items(), gradients, strict=True)
        }
    return parameters
