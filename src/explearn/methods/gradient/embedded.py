"""A classifier as a function of its word embeddings, the form in which captum takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from explearn.lens.words import replaced_words
from explearn.methods.base.explainer import resolve_targets
from explearn.methods.base.outputs import Output, select_output
from explearn.model.classifier import Classifier


class EmbeddedClassifier(nn.Module):
    """The explained number of b texts as a function of their word embeddings.

    Embeddings go in where the embedding layer puts out its own, as in captum's Layer methods. The ids go in as well, so
    that all else that a model reads from them (RoBERTa counts positions by them) stays as it is.

    Args:
        classifier: what is explained.
        inputs: the model's inputs for b texts, (b, tokens) each; see `Batch.model_inputs`.
        targets: the classes explained, int64, (b,); None: the predicted ones.
        output: number of the target class that is explained.

    Attributes, set by the first forward pass, whose first b rows must be the texts as they are:
        logits: (b, C), without graph; float32, or float64 of a float64 model.
        targets: the classes explained, int64, (b,).
    And by each forward pass:
        values: what it returned, (rows,), without graph.
    """

    logits: torch.Tensor
    targets: torch.Tensor
    values: torch.Tensor

    def __init__(
        self, classifier: Classifier, inputs: Mapping[str, torch.Tensor], targets: torch.Tensor | None, output: Output
    ) -> None:
        super().__init__()
        self.model = classifier.model
        self.classifier = classifier
        self.inputs = dict(inputs)
        self.output = output
        self._wanted = targets
        self._first = True

    def embed(self) -> torch.Tensor:
        """Word embeddings of the texts, (b, tokens, d), without graph, at least float32."""
        with torch.no_grad():
            embedded: torch.Tensor = self.model.get_input_embeddings()(self.inputs["input_ids"])
        return embedded if embedded.dtype == torch.float64 else embedded.float()

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """The explained numbers, (rows,), of embeddings (rows, tokens, d).

        Rows are copies of the b texts, all of them b at a time: row r belongs to text r modulo b, which is how captum
        lays out steps and baselines.
        """
        texts = len(self.inputs["input_ids"])
        copies = len(embeddings) // texts
        inputs = {name: values.repeat(copies, 1) for name, values in self.inputs.items()}
        table: Any = self.model.get_input_embeddings()
        vectors = embeddings.to(table.weight.dtype)
        with replaced_words(self.model, inputs["input_ids"], vectors), self.classifier.autocast():
            logits = self.model(**inputs).logits
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self._first:
            self.logits = logits[:texts].detach()
            self.targets = resolve_targets(self.logits, self._wanted)
            self._first = False
        values = select_output(self.classifier, logits, self.targets.repeat(copies), self.output)
        self.values = values.detach()
        return values
