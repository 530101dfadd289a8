"""The attribution model G: it reads a text and the classifier's prediction, and scores the classifier's sub-tokens.

G's backbone is an encoder, or a decoder whose tokens see the whole text; it may have a tokenizer of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import transformers
from torch import nn

from explearn.core.errors import ModelError, first_line
from explearn.model.architectures import architecture, position_offset, tells_segments_apart
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding, collate, encode_segments, max_length
from explearn.model.loading import holds_no_words, load_model, quiet_transformers, resolve_encoder
from explearn.text.alignment import NO_WORD

PREDICTION_STD = 0.02
"""Initial standard deviation of the new embeddings z_0 .. z_C, as of BERT's embeddings."""


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
    """A batch of b texts in the classifier's sub-tokens, (b, n), and in those of G's backbone, (b, n').

    source is target, and linked is None, where the two share a tokenizer. Else linked: `links` of each text, int64,
    (b, n, most links), -1 where there is none.
    """

    target: Batch
    source: Batch
    linked: torch.Tensor | None = None

    @property
    def unread(self) -> list[int]:
        """Count the words of each text that the classifier reads but the backbone does not."""
        pairs = zip(self.target.encodings, self.source.encodings, strict=True)
        return [len(set(text.word_ids) - set(source.word_ids)) for text, source in pairs]

    def to_target(self, scores: torch.Tensor) -> torch.Tensor:
        """Map logits at the backbone's sub-tokens, (b, n'), to the classifier's, (b, n): AML, section 3.3.

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


class AttributionModel(nn.Module):
    """G of AML, section 3.3: backbone, Linear(d, d) - tanh - Linear(d, 1) on each token's last state, sigmoid outside.

    The prediction enters as one more embedding, z = z_0 + sum_j y_j z_j, behind the last separator. Where the text
    fills all of the backbone's positions, z shares the last one.

    A decoder's causal mask is opened: every token sees the whole text and the prediction, as in an encoder. The paper
    has no such backbone: its G is an encoder, RoBERTa for the decoders, too. LLM2Vec (BehnamGhader et al., 2024) makes
    text encoders of decoders in this way.

    Args:
        backbone: an encoder or decoder without a head (transformers' AutoModel).
        classes: C.
        by_class: whether the head gives each token a score s_ic for every class; its score is then sum_c y_c s_ic, and
            z need not be understood first. Not in the paper.
        bridge: reads texts where the backbone's tokenizer is not the classifier's.

    Attributes:
        prediction: z_0 .. z_C, (C + 1, e), e the width of the backbone's word embeddings.
    """

    def __init__(
        self,
        backbone: transformers.PreTrainedModel,
        classes: int,
        by_class: bool = False,
        bridge: Bridge | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        config: Any = backbone.config
        width = int(config.hidden_size)
        self.dense = nn.Linear(width, width)
        self.output = nn.Linear(width, classes if by_class else 1)
        self.by_class = by_class
        self.bridge = bridge
        table: Any = backbone.get_input_embeddings()
        self.prediction = nn.Parameter(torch.randn(classes + 1, table.weight.shape[1]) * PREDICTION_STD)
        self.causal = architecture(config).causal

    def read(self, classifier: Classifier, encodings: Sequence[Encoding]) -> Reading:
        """Batch some of the classifier's texts for both models."""
        target = classifier.batch(encodings)
        if self.bridge is None:
            return Reading(target, target)
        sources = self.bridge.read(encodings)
        all_links = [links(text, source) for text, source in zip(encodings, sources, strict=True)]
        most = max(1, *(len(of_one) for of_text in all_links for of_one in of_text))
        table = torch.full((*target.input_ids.shape, most), -1)
        for row, of_text in enumerate(all_links):
            for position, of_one in enumerate(of_text):
                table[row, position, : len(of_one)] = torch.tensor(of_one, dtype=torch.int64)
        device = classifier.device
        return Reading(target, collate(sources, int(self.bridge.tokenizer.pad_token_id), device), table.to(device))

    def inputs(self, batch: Batch, predictions: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the backbone's arguments for b texts of n positions, with the prediction behind each last token.

        inputs_embeds: (b, n + 1, e). position_ids, token_type_ids, attention_mask: int64, (b, n + 1); a decoder's
        attention_mask is (b, 1, n + 1, n + 1), what is added to attention's logits: row i is what token i sees.

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
        if self.causal:
            # Added to attention's logits. Finite, so that a row that sees nothing has a softmax, too.
            added = torch.where(mask > 0, 0.0, torch.finfo(embeddings.dtype).min).to(embeddings.dtype)
            mask = added[:, None, None].expand(-1, 1, ids.shape[1], -1)
        inputs = {"inputs_embeds": embeddings, "attention_mask": mask, "position_ids": positions.expand_as(ids)}
        # An encoder of fewer types does not distinguish segments: its separators show a pair.
        if batch.token_type_ids is not None and tells_segments_apart(config):
            last = batch.token_type_ids.gather(1, place - 1)
            inputs["token_type_ids"] = torch.where(here, last, torch.cat([batch.token_type_ids, column], dim=1))
        return inputs

    def score(self, states: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
        """Return the logits of the attributions at the backbone's sub-tokens, (b, n'); a = sigmoid of them.

        Args:
            states: the backbone's last, (b, n' + 1, d).
            predictions: y, (b, C).
        """
        scores = cast(torch.Tensor, self.output(torch.tanh(self.dense(states[:, :-1])))).float()
        if not self.by_class:
            return scores.squeeze(-1)
        return (scores * predictions.to(scores)[:, None]).sum(-1)

    def forward(self, classifier: Classifier, reading: Reading, predictions: torch.Tensor) -> torch.Tensor:
        """Return the logits of the attributions at the classifier's sub-tokens, (b, n), float32; y: (b, C)."""
        with classifier.autocast():
            states = self.backbone(**self.inputs(reading.source, predictions)).last_hidden_state
            scores = self.score(states, predictions)
        return reading.to_target(scores)

    @torch.no_grad()
    def verify(self, name: str, batch: Batch) -> None:
        """Raise ModelError, naming the backbone, where it cannot be called with embeddings and positions on a batch."""
        inputs = self.inputs(batch, self.prediction.new_zeros(len(batch), len(self.prediction) - 1))
        try:
            self.backbone(**inputs)
        except Exception as error:  # whatever an architecture that was not made for this raises
            config: Any = self.backbone.config
            raise ModelError(
                f"backbone {name!r}: a {config.model_type!r} model cannot be called with embeddings and positions "
                f"({first_line(error)}); expected an encoder such as BERT, ELECTRA, RoBERTa, DistilBERT, ALBERT or "
                "ModernBERT, or a decoder such as GPT-2, Llama, Mistral, Qwen2 or Gemma"
            ) from error


# ---- backbones -------------------------------------------------------------------------------------------------------


def classifier_backbone(classifier: Classifier) -> transformers.PreTrainedModel:
    """Return a copy of the classifier's model without its head, in float32 if the model is in half precision."""
    classifier.check_plain("paml with backbone 'classifier'")
    whole: Any = classifier.model
    backbone: Any = without_pooler(copy.deepcopy(getattr(whole, whole.base_model_prefix)))
    if backbone.dtype in (torch.bfloat16, torch.float16):
        # AdamW's steps are too small for half precision.
        backbone.float()
        backbone.config.dtype = torch.float32
    return cast(transformers.PreTrainedModel, backbone)


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
