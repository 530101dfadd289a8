"""A classifier and its explainer as one module, in operations that ONNX has.

Each returns `logits`, (batch, C), and `token_scores`, (batch, tokens), as the explainer's `score_batch` does; Reader
also returns `certificate`, (batch, 2).
b = batch, n = tokens, h = heads.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from explearn.core.errors import UnsupportedError
from explearn.lens.attention import layer_count
from explearn.lens.features import TokenFeatures
from explearn.methods.base.explainer import Explainer
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.marker.explainer import Marker
from explearn.methods.marker.network import log_attention
from explearn.methods.reader.explainer import Reader, aimed
from explearn.predictors.architectures import reads
from explearn.predictors.labelled import Problem
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import NO_WORD
from explearn_apps.onnx.metadata import CERTIFICATE, OUTPUTS, Input


class Graph(nn.Module):
    """Base: the classifier, further inputs that the explainer needs, and the outputs."""

    more: tuple[Input, ...] = ()
    outputs: tuple[str, ...] = OUTPUTS

    def __init__(self, classifier: TransformerPredictor) -> None:
        super().__init__()
        self.model = classifier.model

    def _classify(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None, **options: Any
    ) -> Any:
        if token_type_ids is not None:
            options["token_type_ids"] = token_type_ids
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **options)


class _Attending(Graph):
    """Base of graphs that read attention from and to the first token."""

    def __init__(self, classifier: TransformerPredictor) -> None:
        super().__init__(classifier)
        self.layers = layer_count(classifier.model)
        read = reads(classifier.model)
        if read != "first":
            tokens = {"last": "the last token", "mean": "the mean of all tokens"}
            raise UnsupportedError(
                f"{classifier.name}: its head reads {tokens[read]}; expected a classifier that reads the first token, "
                "whose attention an ONNX graph holds"
            )

    def _attended(self, layers: list[int], *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, the last hidden states, and for each layer A[h, 0, j] then A[h, j, 0], (b, n, layers 2h)."""
        output = self._classify(*inputs, output_attentions=True, output_hidden_states=True)
        if len(output.attentions) != self.layers:
            raise UnsupportedError(f"a {self.model.config.model_type!r} model that does not give its attention")
        parts: list[Tensor] = []
        for layer in layers:
            attention = output.attentions[layer]  # (b, h, n, n)
            parts += [attention[:, :, 0], attention[..., 0]]
        return output.logits, output.hidden_states[-1], torch.cat(parts, 1).transpose(1, 2)


class MarkerGraph(_Attending):
    """Marker, which joins the sub-tokens of a word before its network and so needs to know the words."""

    more = ("word_ids",)

    def __init__(self, classifier: TransformerPredictor, explainer: Marker) -> None:
        super().__init__(classifier)
        assert explainer.network is not None
        self.network = explainer.network
        self.attended = list(explainer.layers)
        self.slope, self.offset = explainer.calibration

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        word_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        assert word_ids is not None
        logits, _, values = self._attended(self.attended, input_ids, attention_mask, token_type_ids)
        ranks, words = word_ranks(word_ids)
        # An extra row collects sub-tokens of no word. The maximum starts at 0, since attention is never below.
        rows = values.new_zeros(values.shape[0], values.shape[1] + 1, values.shape[2])
        targets = ranks[..., None].expand(-1, -1, values.shape[2])
        pooled = rows.scatter_reduce(1, targets, values, "amax")[:, :-1]
        real = torch.arange(ranks.shape[1], device=ranks.device) < words[:, None]
        raw = self.network(log_attention(pooled), partial(_shifted, real))
        scores = (self.slope * raw + self.offset).sigmoid()
        return logits, functional.pad(scores, (0, 1)).gather(1, ranks)


def _shifted(real: Tensor, numbers: Tensor, by: int) -> Tensor:
    """Shift word features by `by` words within each text, padding with 0, (b, n, ...).

    Args:
        real: whether there is a word, (b, n).
        numbers: the features, (b, n, ...).
        by: number of words, negative for a shift to the right.
    """
    tokens = numbers.shape[1]
    sides = abs(by)
    padded = functional.pad(numbers * real[..., None], (0, 0, sides, sides))
    return padded[:, sides + by : sides + by + tokens]


def word_ranks(word_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rank of each position's word among its text's words with a sub-token, and the number of these words.

    Args:
        word_ids: int64, (b, n), NO_WORD where there is no word.

    Returns:
        int64, (b, n), n where there is no word; int64, (b,).
    """
    tokens = word_ids.shape[1]
    positions = torch.arange(tokens, device=word_ids.device)
    in_word = word_ids != NO_WORD
    same = word_ids[:, :, None] == word_ids[:, None, :]
    earlier = positions[None, :] < positions[:, None]
    begins = in_word & ~(same & earlier).any(-1)
    before = begins[:, None, :] & (word_ids[:, None, :] < word_ids[:, :, None])
    return torch.where(in_word, before.long().sum(-1), tokens), begins.long().sum(-1)


class ExpNetGraph(_Attending):
    """ExpNet, which scores each sub-token by itself."""

    def __init__(self, classifier: TransformerPredictor, explainer: ExpNet) -> None:
        super().__init__(classifier)
        self.explainer = explainer
        self.network = explainer.network

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        layer = self.explainer.encoder["layer"]
        logits, hidden, attention = self._attended([layer], input_ids, attention_mask, token_type_ids)
        return logits, self.explainer.score(TokenFeatures(attention, hidden, logits))


class ReaderGraph(Graph):
    """Reader, which reads the classifier's hidden states, with its certificate."""

    more: tuple[Input, ...] = ("word_ids", "target")

    def __init__(self, classifier: TransformerPredictor, explainer: Reader) -> None:
        super().__init__(classifier)
        assert explainer.network is not None and explainer.certifier is not None
        self.explainer = explainer
        self.network = explainer.network
        self.certifier = explainer.certifier
        self.layers = explainer.layers
        self.problem = classifier.problem
        if explainer.options.marked is not None:
            self.more = (*self.more, "aim")
        if explainer.texts["held_out"]:
            self.outputs = (*OUTPUTS, CERTIFICATE)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        word_ids: Tensor | None = None,
        target: Tensor | None = None,
        aim: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        assert word_ids is not None and target is not None
        output = self._classify(input_ids, attention_mask, token_type_ids, output_hidden_states=True)
        logits = output.logits
        chosen = torch.where(target < 0, logits.argmax(-1), target)
        states = torch.cat([output.hidden_states[layer] for layer in self.layers], -1)
        read = self.network(states, attention_mask != 0)
        wanted = chosen[:, None, None].expand(-1, read.scores.shape[1], 1)
        scores = read.scores.gather(-1, wanted)[..., 0]
        token_scores = scores
        if aim is not None:
            token_scores = aimed(scores, self.explainer.marked(read.marks, word_ids), aim[:, None])
        if CERTIFICATE not in self.outputs:
            return logits, token_scores
        answers = logits
        if self.problem is not Problem.REGRESSION:
            answers = self.problem.probabilities(logits)
        answer = answers.gather(-1, chosen[:, None])[:, 0]
        features = self.certifier.features(read.units, word_ids != NO_WORD, scores, answer)
        return logits, token_scores, self.certifier(features)


def graph_of(classifier: TransformerPredictor, explainer: Explainer) -> Graph:
    """Return the module to export.

    Raises:
        UnsupportedError: the method or the classifier has none.
    """
    if isinstance(explainer, Marker):
        return MarkerGraph(classifier, explainer)
    if isinstance(explainer, ExpNet):
        return ExpNetGraph(classifier, explainer)
    if isinstance(explainer, Reader):
        return ReaderGraph(classifier, explainer)
    raise UnsupportedError(f"{explainer.name}: cannot be exported to ONNX; expected a trained Marker, ExpNet or Reader")
