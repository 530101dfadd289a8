"""The classifier of an ONNX file as a predictor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from explearn.core.documents import file_digest
from explearn.predictors.encoding import Batch, Encoding, collate
from explearn.predictors.predictor import Predictor
from explearn.text.encoding import PlainText
from explearn_apps.onnx.runtime import PREDICTED, OnnxExplainer


class OnnxPredictor(Predictor):
    """The classifier of an ONNX file, for methods and metrics that need only predictions.

    Its probabilities are the graph's, for texts with or without some sub-tokens: what is left out is deleted, or
    replaced by the mask token.

    Args:
        graph: the file, opened. Its batches have at most `max_tokens` of it.

    Example:
        >>> import explearn
        >>> from explearn_apps.onnx import OnnxExplainer, OnnxPredictor
        >>> predictor = OnnxPredictor(OnnxExplainer("marker.onnx"))  # as `export_onnx` writes it
        >>> explearn.explain(predictor, "a lazy fox", "occlusion").words
        ('a', 'lazy', 'fox')
    """

    fingerprint_kind = "SHA-256 of the file"

    def __init__(self, graph: OnnxExplainer) -> None:
        self.graph = graph
        self.name = graph.name
        self.labels = graph.labels
        self.problem = graph.problem
        self.max_tokens = graph.max_tokens
        self._fingerprint = file_digest(graph.path)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return self._fingerprint

    @property
    def max_length(self) -> int:
        """Most sub-tokens per text, including special tokens; longer texts are cut."""
        return self.graph.metadata.max_length

    @property
    def mask_token_id(self) -> int:
        token_id = self.graph.metadata.mask_token_id
        if token_id is None:
            return super().mask_token_id
        return token_id

    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        return self.graph.encode(texts)

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        return self.graph.tokens(encoding)

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return collate(encodings, self.graph.metadata.pad_token_id, self.device)

    def logits(self, batch: Batch) -> Tensor:
        inputs = {name: tensor.numpy() for name, tensor in batch.model_inputs().items()}
        inputs["word_ids"] = batch.word_ids().numpy()
        inputs["target"] = np.full(len(batch), PREDICTED)
        inputs["aim"] = np.ones(len(batch), np.float32)
        return torch.from_numpy(self.graph.run(inputs)[0])
