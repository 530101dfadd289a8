"""BERT written out in a few lines, whose parts a test replaces, and whose biases are tensors of their own."""

import torch
from torch import nn


def half(x):
    """x, with half its gradient."""
    return (x + x.detach()) / 2


class HandWritten:
    """The forward pass of a BERT for one text, with constant deviations in its layer norms.

    Args:
        model: the classifier.
        softmax: of the attention.
        product: of two activations.
        activation: (function, x) -> f(x).
    """

    def __init__(self, model, softmax, product, activation):
        self.model = model
        self.softmax = softmax
        self.product = product
        self.activation = activation
        self.biases = []
        self.inputs = []

    def bias(self, part, like):
        """A part's bias at every token."""
        self.biases.append(part.bias.detach().expand_as(like).clone().requires_grad_())
        return self.biases[-1]

    def linear(self, part, x):
        moved = x @ part.weight.T
        return moved + self.bias(part, moved)

    def norm(self, part, x):
        moved = x - x.mean(-1, keepdim=True)
        deviation = (moved.pow(2).mean(-1, keepdim=True) + part.eps).sqrt().detach()
        moved = moved / deviation * part.weight
        return moved + self.bias(part, moved)

    def heads(self, part, x):
        return self.linear(part, x).unflatten(-1, (self.model.config.num_attention_heads, -1)).transpose(0, 1)

    def logits(self, words):
        """Logits, (C,), of word embeddings, (n, d)."""
        tables = self.model.bert.embeddings
        x = words + tables.position_embeddings.weight[: len(words)] + tables.token_type_embeddings.weight[0]
        x = self.norm(tables.LayerNorm, x)
        self.biases.clear()
        for block in self.model.bert.encoder.layer:
            self.inputs.append(x)
            own = block.attention.self
            query, key, value = (self.heads(part, x) for part in (own.query, own.key, own.value))
            scores = self.product(query, key.transpose(-1, -2)) / query.shape[-1] ** 0.5
            context = self.product(self.softmax(scores), value).transpose(0, 1).flatten(1)
            x = self.norm(block.attention.output.LayerNorm, self.linear(block.attention.output.dense, context) + x)
            wide = self.activation(nn.functional.gelu, self.linear(block.intermediate.dense, x))
            x = self.norm(block.output.LayerNorm, self.linear(block.output.dense, wide) + x)
        pooled = self.activation(torch.tanh, self.linear(self.model.bert.pooler.dense, x[0]))
        return self.linear(self.model.classifier, pooled)
