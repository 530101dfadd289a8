"""A classifier as a function of its word embeddings, as captum needs it, and baseline embeddings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from explearn.core.compute import at_least_float32
from explearn.core.validation import Section
from explearn.lens.watch import content_mask
from explearn.lens.words import check_words, replaced_embeddings, word_layers
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.predictors.encoding import Batch, text_seed
from explearn.predictors.labelled import Output
from explearn.predictors.transformer import TransformerPredictor

Baseline = Literal["pad", "mask", "zero"]
"""The embedding of the padding token, that of the mask token (of the unknown token if there is no mask), or zeros."""


class OutputOptions(Section):
    output: Output = "logit"
    """The explained output: the target's `logit`, `probability` or `log_probability`."""


class BaselineOptions(OutputOptions):
    baseline: Baseline = "pad"
    """The baseline of the text: the embedding of the `pad` or `mask` token, or `zero`."""


class EmbeddedClassifier(nn.Module):
    """The explained output of b texts as a function of their word embeddings.

    The embeddings replace the output of the embedding layer, as in captum's Layer methods, or of the norm that follows
    it if only their direction counts (`lens.words.word_layers`). The ids are passed as well, since a model may read
    more from them (RoBERTa counts positions by them).

    Args:
        classifier: the classifier to explain.
        inputs: the model's inputs for b texts, (b, tokens) each; see `Batch.model_inputs`.
        targets: the classes explained, int64, (b,); None: the predicted ones.
        output: the explained output of the target class.

    Attributes:
        logits: (b, C), without graph; float32, or float64 for a float64 model. The first forward pass, whose first b
            rows must be the unchanged texts, sets it and `targets`.
        targets: the classes explained, int64, (b,).
        values: result of the last forward pass, (rows,), without graph.
    """

    logits: Tensor
    targets: Tensor
    values: Tensor

    def __init__(
        self, classifier: TransformerPredictor, inputs: Mapping[str, Tensor], targets: Tensor | None, output: Output
    ) -> None:
        super().__init__()
        self.model = classifier.model
        self.classifier = classifier
        self.inputs = dict(inputs)
        self.output = output
        self._wanted = targets

    def embed(self) -> Tensor:
        """Return word embeddings of the texts, (b, tokens, d), without graph, at least float32."""
        with torch.no_grad():
            return embed(self.classifier, self.inputs["input_ids"])

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the explained outputs, (rows,), for embeddings (rows, tokens, d).

        Row r belongs to text r modulo b, as captum arranges steps and baselines.
        """
        texts = len(self.inputs["input_ids"])
        copies = len(embeddings) // texts
        inputs = {name: values.repeat(copies, 1) for name, values in self.inputs.items()}
        table: Any = self.model.get_input_embeddings()
        vectors = embeddings.to(table.weight.dtype)
        with replaced_embeddings(self.classifier, inputs["input_ids"], vectors), self.classifier.autocast():
            logits = self.model(**inputs).logits
        logits = at_least_float32(logits)
        if not hasattr(self, "logits"):
            self.logits = logits[:texts].detach()
            self.targets = resolve_targets(self.logits, self._wanted)
        values = self.classifier.problem.outputs(logits, self.output)
        values = values.gather(-1, self.targets.repeat(copies)[:, None]).squeeze(-1)
        self.values = values.detach()
        return values


class EmbeddingExplainer(BatchExplainer):
    """Base of methods that look at the explained output as a function of the word embeddings."""

    Options: ClassVar[type[Section]] = OutputOptions

    check = staticmethod(check_words)

    def view(self, classifier: TransformerPredictor) -> TransformerPredictor:
        """Return the classifier whose output is looked at."""
        return classifier

    @abstractmethod
    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return scores, (batch, tokens), and completeness errors, (batch,), or None; `function` has been called."""

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        function = EmbeddedClassifier(self.view(classifier), batch.model_inputs(), targets, self.options.output)
        scores, error = self.attribute(function, batch)
        return BatchScores(scores, function.logits, function.targets, error)


def embed(classifier: TransformerPredictor, token_ids: Tensor) -> Tensor:
    """Return embeddings, (..., d), of token ids (...), at the place where gradients are taken; at least float32."""
    with classifier.autocast():
        vectors: Tensor = token_ids
        for layer in word_layers(classifier):
            vectors = layer(vectors)
    return at_least_float32(vectors)


CONSTANT_REFERENCES: tuple[Baseline, ...] = ("mask", "pad", "zero")
"""The first references of `reference_embeddings`; shuffled texts follow."""


def baseline_vector(classifier: TransformerPredictor, baseline: Baseline) -> Tensor:
    """Return the baseline's embedding, (d,).

    Raises:
        ModelError: the baseline is `mask`, and the tokenizer has neither a mask token nor an unknown token.
    """
    token_id = classifier.mask_token_id if baseline == "mask" else classifier.pad_token_id
    vector = embed(classifier, torch.tensor(token_id, device=classifier.device))
    if baseline == "zero":
        return torch.zeros_like(vector)
    return vector


def baseline_embeddings(
    classifier: TransformerPredictor, batch: Batch, embeddings: Tensor, baseline: Baseline
) -> Tensor:
    """Return word embeddings, (batch, tokens, d), with the baseline at every sub-token of the text.

    Special tokens and padding keep their embeddings, so the classifier still finds its [CLS] and segments.
    """
    return torch.where(content_mask(batch)[..., None], baseline_vector(classifier, baseline), embeddings)


def reference_embeddings(
    classifier: TransformerPredictor, batch: Batch, embeddings: Tensor, count: int, seed: int
) -> Iterator[Tensor]:
    """Yield `count` references for the texts of a batch, word embeddings (batch, tokens, d) each.

    The first three have no text: each sub-token gets the mask's, the padding's or a zero embedding. The others are the
    text itself with its sub-tokens in random order: the same words without their sense. Special tokens and padding keep
    their embeddings. The order depends only on the seed and the text, and reference i is the same for every `count`.
    """
    for baseline in CONSTANT_REFERENCES[:count]:
        yield baseline_embeddings(classifier, batch, embeddings, baseline)
    generators = [np.random.default_rng(text_seed(seed, encoding)) for encoding in batch.encodings]
    for _ in range(count - len(CONSTANT_REFERENCES)):
        order = torch.arange(embeddings.shape[1]).repeat(len(batch), 1)
        for row, (generator, encoding) in enumerate(zip(generators, batch.encodings, strict=True)):
            positions = torch.tensor(encoding.positions, dtype=torch.int64)
            order[row, positions] = positions[generator.permutation(len(positions))]
        yield embeddings.gather(1, order.to(embeddings.device)[..., None].expand_as(embeddings))
