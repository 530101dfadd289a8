"""The attribution model G: it reads a text and the classifier's prediction, and scores the classifier's sub-tokens.

It is a small network on the classifier's own hidden states, or the paper's: an encoder, with its own tokenizer or the
classifier's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

from explearn.core.errors import ModelError, first_line
from explearn.lens.representations import read_states, spaced_layers, text_states
from explearn.methods.l2e.reader import Reader
from explearn.predictors.architectures import architecture, position_offset, tells_segments_apart
from explearn.predictors.encoding import Batch, Encoding, collate, encode_segments, max_length
from explearn.predictors.loading import holds_no_words, load_model, quiet_transformers, resolve_encoder
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import NO_WORD

PREDICTION_STD = 0.02
"""Initial standard deviation of the new embeddings z_0 .. z_C, as of BERT's embeddings."""
LAYERS, WIDTH = 4, 192
"""Layers whose hidden states are read, and the network's width, as in L2E."""
ENCODERS = "an encoder such as BERT, ELECTRA, RoBERTa, DistilBERT, ALBERT or ModernBERT"


# ---- two tokenizers --------------------------------------------------------------------------------------------------


class Bridge:
    """A reader of a classifier's texts with the tokenizer of G's backbone.

    Args:
        tokenizer: a fast one. config: the backbone's configuration.
    """

    def __init__(self, tokenizer: transformers.PreTrainedTokenizerBase, config: transformers.PreTrainedConfig) -> None:
        self.tokenizer = tokenizer
        self.limit = max_length(config, tokenizer)

    def __deepcopy__(self, memo: object) -> Bridge:
        """Return itself: copies of G that are fine-tuned share the tokenizer."""
        return self

    def read(self, encodings: Sequence[Encoding]) -> list[Encoding]:
        """Encode the words of some texts in the sub-tokens of this tokenizer, cut at its own limit."""
        return encode_segments(self.tokenizer, [(e.segments, e.example_id) for e in encodings], self.limit)


def links(target: Encoding, source: Encoding) -> list[list[int]]:
    """Return for each target position the source positions that share characters of a word with it.

    A target piece that shares none, although its word has source tokens (two normalisers may drop different
    characters), is linked to all tokens of its word. Special tokens, and words that the source does not have, have no
    links.
    """
    of_word: dict[int, list[int]] = {}
    for position, word in enumerate(source.word_ids):
        if word != NO_WORD:
            of_word.setdefault(word, []).append(position)
    linked: list[list[int]] = []
    for word, (start, end) in zip(target.word_ids, target.characters, strict=True):
        whole = of_word.get(word, []) if word != NO_WORD else []
        shared = [j for j in whole if source.characters[j][0] < end and start < source.characters[j][1]]
        linked.append(shared or whole)
    return linked


@dataclass(frozen=True, slots=True)
class Reading:
    """A batch of b texts, and what G reads of them.

    batch: in the classifier's sub-tokens, (b, n). logits: the classifier's, (b, C).
    states: the classifier's hidden states, (b, n, inputs), for a G that reads these.
    source: the texts in the sub-tokens of G's encoder, (b, n'). linked: `links` of each text, int64, (b, n, most
    links), -1 where there is none; None where both share a tokenizer.
    """

    batch: Batch
    logits: torch.Tensor
    states: torch.Tensor | None = None
    source: Batch | None = None
    linked: torch.Tensor | None = None

    @property
    def unread(self) -> list[int]:
        """Count the words of each text that the classifier reads but G does not."""
        pairs = zip(self.batch.encodings, (self.source or self.batch).encodings, strict=True)
        return [len(set(text.word_ids) - set(source.word_ids)) for text, source in pairs]

    def to_target(self, scores: torch.Tensor) -> torch.Tensor:
        """Map logits at the encoder's sub-tokens, (b, n'), to the classifier's, (b, n): AML, section 3.3.

        A split source token gives its score to all its parts; merged source tokens give the target token their maximum.
        A target without a source gets the lowest logit of its text.
        """
        if self.linked is None:
            return scores
        known = self.linked >= 0
        rows = torch.arange(len(scores), device=scores.device)[:, None, None]
        merged = scores[rows, self.linked.clamp(min=0)].masked_fill(~known, float("-inf")).amax(-1)
        alone = ~known.any(-1)
        lowest = merged.masked_fill(alone, float("inf")).amin(-1, keepdim=True)
        return torch.where(alone, torch.where(lowest.isfinite(), lowest, 0.0), merged)


# ---- G ---------------------------------------------------------------------------------------------------------------


class AttributionModel(nn.Module, ABC):
    """G: from a text and the prediction y, (b, C), to the logits of the attributions, a = sigmoid of them."""

    def pretrained(self) -> list[nn.Parameter]:
        """Return the parameters that were pretrained on other tasks."""
        return []

    @abstractmethod
    def read(self, classifier: TransformerPredictor, batch: Batch) -> Reading:
        """Return the classifier's answers to a batch, and what G reads of it."""

    @abstractmethod
    def forward(self, classifier: TransformerPredictor, reading: Reading, predictions: torch.Tensor) -> torch.Tensor:
        """Return the logits of the attributions at the classifier's sub-tokens, (b, n), float32; y: (b, C)."""


class StatesModel(AttributionModel):
    """G as a small network on the hidden states of the pass that classifies (`Reader`, which is L2E's, too).

    It scores each sub-token for every class; the logit of an attribution is sum_c y_c s_ic. The paper's G is a second
    encoder, which must first learn what the classifier already knows.

    Args:
        inputs: numbers read of a sub-token. classes: C. layers: whose hidden states are read.
    """

    def __init__(self, inputs: int, classes: int, layers: Sequence[int]) -> None:
        super().__init__()
        self.layers = list(layers)
        self.reader = Reader(inputs, classes, WIDTH)

    @classmethod
    @torch.no_grad()
    def start(cls, classifier: TransformerPredictor, encodings: Sequence[Encoding]) -> StatesModel:
        """Return one with new weights, whose inputs are standardised over some texts.

        Raises UnsupportedError for a model that does not give its hidden states.
        """
        layers = spaced_layers(classifier, LAYERS)
        states = torch.cat(text_states(classifier, encodings, layers)).float()
        model = cls(states.shape[1], len(classifier.labels), layers)
        model.reader.standardise(states)
        return model

    @torch.no_grad()
    def read(self, classifier: TransformerPredictor, batch: Batch) -> Reading:
        logits, states = read_states(classifier, batch, self.layers)
        return Reading(batch, logits, states=states)

    def forward(self, classifier: TransformerPredictor, reading: Reading, predictions: torch.Tensor) -> torch.Tensor:
        of_classes = self.reader(reading.states, reading.batch.attention_mask.bool()).scores
        scores: torch.Tensor = (of_classes * predictions[:, None]).sum(-1)
        return scores


class EncoderModel(AttributionModel):
    """G of AML, section 3.3: encoder, Linear(d, d) - tanh - Linear(d, 1) on each token's last state, sigmoid outside.

    The prediction enters as one more embedding, z = z_0 + sum_j y_j z_j, behind the last separator. Where the text
    fills all of the encoder's positions, z shares the last one.

    Args:
        backbone: an encoder without a head (transformers' AutoModel).
        classes: C.
        bridge: reads texts where the backbone's tokenizer is not the classifier's.

    Attributes:
        prediction: z_0 .. z_C, (C + 1, e), e the width of the backbone's word embeddings.

    Raises ModelError for a decoder, whose tokens do not see the prediction behind them.
    """

    def __init__(self, backbone: transformers.PreTrainedModel, classes: int, bridge: Bridge | None = None) -> None:
        super().__init__()
        config: Any = backbone.config
        if architecture(config).causal:
            raise ModelError(f"a {config.model_type!r} model reads from left to right; expected {ENCODERS}")
        self.backbone = backbone
        width = int(config.hidden_size)
        self.dense = nn.Linear(width, width)
        self.output = nn.Linear(width, 1)
        self.bridge = bridge
        table: Any = backbone.get_input_embeddings()
        self.prediction = nn.Parameter(torch.randn(classes + 1, table.weight.shape[1]) * PREDICTION_STD)

    def pretrained(self) -> list[nn.Parameter]:
        return list(self.backbone.parameters())

    @torch.no_grad()
    def read(self, classifier: TransformerPredictor, batch: Batch) -> Reading:
        logits = classifier.logits(batch)
        if self.bridge is None:
            return Reading(batch, logits, source=batch)
        sources = self.bridge.read(batch.encodings)
        all_links = [links(text, source) for text, source in zip(batch.encodings, sources, strict=True)]
        most = max(1, *(len(of_one) for of_text in all_links for of_one in of_text))
        table = torch.full((*batch.input_ids.shape, most), -1)
        for row, of_text in enumerate(all_links):
            for position, of_one in enumerate(of_text):
                table[row, position, : len(of_one)] = torch.tensor(of_one, dtype=torch.int64)
        device = classifier.device
        source = collate(sources, int(self.bridge.tokenizer.pad_token_id), device)
        return Reading(batch, logits, source=source, linked=table.to(device))

    def inputs(self, batch: Batch, predictions: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the backbone's arguments for b texts of n positions, with the prediction behind each last token.

        inputs_embeds: (b, n + 1, e). position_ids, token_type_ids, attention_mask: int64, (b, n + 1).

        Args:
            batch: texts in the backbone's own sub-tokens, (b, n).
            predictions: y, (b, C), rows on the simplex.
        """
        table: Any = self.backbone.get_input_embeddings()
        config: Any = self.backbone.config
        place = batch.attention_mask.sum(1, keepdim=True)
        column = torch.zeros_like(place)
        ids = torch.cat([batch.input_ids, column], dim=1)
        here = torch.arange(ids.shape[1], device=ids.device) == place
        z = self.prediction[0] + predictions.to(self.prediction.dtype) @ self.prediction[1:]
        embeddings = torch.where(here[..., None], z[:, None], table(ids))
        positions = torch.arange(ids.shape[1], device=ids.device) + position_offset(config)
        if (known := int(config.max_position_embeddings)) > 0:
            positions = positions.clamp(max=known - 1)
        mask = torch.cat([batch.attention_mask, column], dim=1) | here.long()
        inputs = {"inputs_embeds": embeddings, "attention_mask": mask, "position_ids": positions.expand_as(ids)}
        # An encoder of fewer types does not distinguish segments: its separators show a pair.
        if batch.token_type_ids is not None and tells_segments_apart(config):
            last = batch.token_type_ids.gather(1, place - 1)
            inputs["token_type_ids"] = torch.where(here, last, torch.cat([batch.token_type_ids, column], dim=1))
        return inputs

    def forward(self, classifier: TransformerPredictor, reading: Reading, predictions: torch.Tensor) -> torch.Tensor:
        assert reading.source is not None
        with classifier.autocast():
            states = self.backbone(**self.inputs(reading.source, predictions)).last_hidden_state
            scores: torch.Tensor = self.output(torch.tanh(self.dense(states[:, :-1])))
        return reading.to_target(scores.float().squeeze(-1))

    @torch.no_grad()
    def verify(self, name: str, classifier: TransformerPredictor) -> None:
        """Raise ModelError, naming the backbone, where it cannot be called with embeddings and positions."""
        batch = self.read(classifier, classifier.batch(classifier.encode(["one text"]))).source
        assert batch is not None
        inputs = self.inputs(batch, self.prediction.new_zeros(len(batch), len(self.prediction) - 1))
        try:
            self.backbone(**inputs)
        except Exception as error:  # whatever an architecture that was not made for this raises
            config: Any = self.backbone.config
            raise ModelError(
                f"backbone {name!r}: a {config.model_type!r} model cannot be called with embeddings and positions "
                f"({first_line(error)}); expected {ENCODERS}"
            ) from error


# ---- backbones -------------------------------------------------------------------------------------------------------


def load_backbone(
    name: str, revision: str | None = None
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Load a pretrained model without its head, and its tokenizer.

    Args:
        name: `embedded`, a hub name or a local folder. revision: git revision of a hub name.

    Raises ModelError if there is none, it lacks weights, or its tokenizer does not give character offsets.
    """
    quiet_transformers()
    model, tokenizer, missing = load_model("AutoModel", resolve_encoder(name), revision, "a backbone")
    lost = [weight for weight in missing if "pooler" not in weight]
    if lost:
        raise ModelError(
            f"backbone {name!r}: weights are missing for {', '.join(lost[:4])}; expected a complete encoder"
        )
    return without_pooler(model), check_tokenizer(tokenizer, name)


def check_tokenizer(tokenizer: transformers.PreTrainedTokenizerBase, name: str) -> transformers.PreTrainedTokenizerBase:
    """Return the tokenizer; raise ModelError if it lacks words, padding or character offsets."""
    if holds_no_words(tokenizer) or not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise ModelError(
            f"backbone {name!r}: expected a fast tokenizer with a padding token in the model's folder, as alignment "
            "needs it"
        )
    return tokenizer


def without_pooler(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Remove the encoder's pooler, which G does not use, and return it."""
    encoder: Any = model
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return model
