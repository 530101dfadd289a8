"""The attribution model G: it reads a text and the classifier's prediction, and scores the classifier's sub-tokens.

It is a small network on the classifier's own hidden states, or the paper's: an encoder, with its own tokenizer or the
classifier's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from explearn.core.arrays import Mask
from explearn.core.errors import ModelError
from explearn.lens.representations import read_states, spaced_layers, text_states
from explearn.methods.reader.network import StateNetwork
from explearn.predictors.architectures import architecture, max_length, position_offset, tells_segments_apart
from explearn.predictors.encoding import Batch, Encoding, collate, encode_texts
from explearn.predictors.loading import holds_no_words, load_model, quiet_transformers, resolve_encoder
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import plain_text

PREDICTION_STD = 0.02
"""Initial standard deviation of the new embeddings z_0 .. z_C, as of BERT's embeddings."""
LAYERS = 4
"""Number of layers whose hidden states a network reads, as in Reader."""
WIDTH = 192
"""Width of that network, as in Reader."""
ENCODERS = "an encoder such as BERT, ELECTRA, RoBERTa, DistilBERT, ALBERT or ModernBERT"


class ModelInput(NamedTuple):
    """What G reads of b texts.

    Attributes:
        batch: the texts in the classifier's sub-tokens, (b, n).
        logits: the classifier's, (b, C).
        source: the texts in the sub-tokens that G reads, (b, m); `batch` where both share a tokenizer.
        states: the classifier's hidden states, (b, n, inputs), for a G that reads these.
        links: bool, (b, n, m), `token_links` of each text; None where both share a tokenizer.
    """

    batch: Batch
    logits: Tensor
    source: Batch
    states: Tensor | None = None
    links: Tensor | None = None

    @property
    def unread(self) -> list[int]:
        """Number of words of each text that the classifier reads but G does not."""
        pairs = zip(self.batch.encodings, self.source.encodings, strict=True)
        return [len(set(text.word_ids) - set(source.word_ids)) for text, source in pairs]

    def to_target(self, scores: Tensor) -> Tensor:
        """Map logits at G's sub-tokens, (b, m), to the classifier's, (b, n): AML, section 3.3.

        A split source token gives its score to all its parts; merged source tokens give the target token their maximum.
        A target without a source gets the lowest logit of its text.
        """
        if self.links is None:
            return scores
        merged = scores[:, None].masked_fill(~self.links, float("-inf")).amax(-1)
        unlinked = ~self.links.any(-1)
        lowest = merged.masked_fill(unlinked, float("inf")).amin(-1, keepdim=True)
        lowest = lowest.masked_fill(lowest.isinf(), 0.0)
        return torch.where(unlinked, lowest, merged)


def token_links(target: Encoding, source: Encoding) -> Mask:
    """Return which source tokens share characters of a word with each target token, (target tokens, source tokens).

    A target token that shares none, although its word has source tokens (two normalisers may drop different
    characters), is linked to all tokens of its word. Special tokens, and words that the source does not have, have no
    links.
    """
    words = np.array(target.word_ids)[:, None]
    starts, ends = np.array(target.characters).T[..., None]
    source_starts, source_ends = np.array(source.characters).T
    same_word = (words == np.array(source.word_ids)) & (words != NO_WORD)
    shared = same_word & (source_starts < ends) & (starts < source_ends)
    links: Mask = np.where(shared.any(axis=1, keepdims=True), shared, same_word)
    return links


# ---- G ---------------------------------------------------------------------------------------------------------------


class StatesModel(nn.Module):
    """G as a small network on the hidden states of the pass that classifies (`StateNetwork`, which is Reader's, too).

    It scores each sub-token for every class; the logit of an attribution is sum_c y_c s_ic. The paper's G is a second
    encoder, which must first learn what the classifier already knows.

    Args:
        inputs: numbers read of a sub-token.
        classes: C.
        layers: the layers whose hidden states are read.
    """

    def __init__(self, inputs: int, classes: int, layers: Sequence[int]) -> None:
        super().__init__()
        self.layers = list(layers)
        self.network = StateNetwork(inputs, classes, WIDTH)

    @classmethod
    @torch.no_grad()
    def start(cls, classifier: TransformerPredictor, encodings: Sequence[Encoding]) -> StatesModel:
        """Return one with new weights, whose inputs are standardised over some texts.

        Raises:
            UnsupportedError: the model does not give its hidden states.
        """
        layers = spaced_layers(classifier, LAYERS)
        states = torch.cat(text_states(classifier, encodings, layers)).float()
        model = cls(states.shape[1], len(classifier.labels), layers)
        model.network.fit_inputs(states)
        return model

    @torch.no_grad()
    def prepare(self, classifier: TransformerPredictor, batch: Batch) -> ModelInput:
        """Classify a batch, and return what G reads of it."""
        logits, states = read_states(classifier, batch, self.layers)
        return ModelInput(batch, logits, batch, states=states)

    def forward(self, classifier: TransformerPredictor, inputs: ModelInput, predictions: Tensor) -> Tensor:
        """Return the logits of the attributions at the classifier's sub-tokens, (b, n), float32; y: (b, C)."""
        by_class = self.network(inputs.states, inputs.batch.attention_mask.bool()).scores
        scores: Tensor = (by_class * predictions[:, None]).sum(-1)
        return scores


class EncoderModel(nn.Module):
    """G of AML, section 3.3: encoder, Linear(d, d) - tanh - Linear(d, 1) on each token's last state, sigmoid outside.

    The prediction enters as one more embedding, z = z_0 + sum_j y_j z_j, behind the last separator. Where the text
    fills all of the encoder's positions, z shares the last one.

    Args:
        backbone: an encoder without a head (transformers' AutoModel).
        classes: C.
        tokenizer: the backbone's, fast, where it is not the classifier's.

    Attributes:
        prediction: z_0 .. z_C, (C + 1, e), e the width of the backbone's word embeddings.

    Raises:
        ModelError: the backbone is a decoder, whose tokens do not see the prediction behind them.
    """

    def __init__(
        self,
        backbone: transformers.PreTrainedModel,
        classes: int,
        tokenizer: transformers.PreTrainedTokenizerBase | None = None,
    ) -> None:
        super().__init__()
        self.config: Any = backbone.config
        if architecture(self.config).causal:
            raise ModelError(f"a {self.config.model_type!r} model reads from left to right; expected {ENCODERS}")
        self.backbone = backbone
        self.tokenizer = tokenizer
        width = int(self.config.hidden_size)
        self.dense = nn.Linear(width, width)
        self.output = nn.Linear(width, 1)
        table: Any = backbone.get_input_embeddings()
        self.prediction = nn.Parameter(torch.randn(classes + 1, table.weight.shape[1]) * PREDICTION_STD)

    @torch.no_grad()
    def prepare(self, classifier: TransformerPredictor, batch: Batch) -> ModelInput:
        """Classify a batch, and return what G reads of it."""
        logits = classifier.logits(batch)
        if self.tokenizer is None:
            return ModelInput(batch, logits, batch)
        limit = max_length(self.config, self.tokenizer)
        encodings = []
        for encoding in batch.encodings:
            (own,) = encode_texts(self.tokenizer, [plain_text(encoding.segments)], limit)
            encodings.append(own.with_words(encoding.segments))
        source = collate(encodings, int(self.tokenizer.pad_token_id), classifier.device)
        links = torch.zeros(*batch.input_ids.shape, source.input_ids.shape[1], dtype=torch.bool)
        for table, text, read in zip(links, batch.encodings, encodings, strict=True):
            table[: len(text), : len(read)] = torch.from_numpy(token_links(text, read))
        return ModelInput(batch, logits, source, links=links.to(classifier.device))

    def backbone_inputs(self, batch: Batch, predictions: Tensor) -> dict[str, Tensor]:
        """Return the backbone's arguments for b texts of m positions, with the prediction behind each last token.

        Args:
            batch: texts in the backbone's own sub-tokens, (b, m).
            predictions: y, (b, C), rows on the simplex.

        Returns:
            inputs_embeds, (b, m + 1, e); position_ids, token_type_ids and attention_mask, int64, (b, m + 1).
        """
        table: Any = self.backbone.get_input_embeddings()
        lengths = batch.attention_mask.sum(1, keepdim=True)
        ids = nn.functional.pad(batch.input_ids, (0, 1))
        positions = torch.arange(ids.shape[1], device=ids.device)
        behind = positions == lengths
        z = self.prediction[0] + predictions.to(self.prediction.dtype) @ self.prediction[1:]
        positions = positions + position_offset(self.config)
        if self.config.max_position_embeddings > 0:
            positions = positions.clamp(max=self.config.max_position_embeddings - 1)
        inputs = {
            "inputs_embeds": torch.where(behind[..., None], z[:, None], table(ids)),
            "attention_mask": nn.functional.pad(batch.attention_mask, (0, 1)) | behind.long(),
            "position_ids": positions.expand_as(ids),
        }
        # An encoder of fewer types does not distinguish segments: its separators show a pair.
        if batch.token_type_ids is not None and tells_segments_apart(self.config):
            last = batch.token_type_ids.gather(1, lengths - 1)
            inputs["token_type_ids"] = torch.where(behind, last, nn.functional.pad(batch.token_type_ids, (0, 1)))
        return inputs

    def forward(self, classifier: TransformerPredictor, inputs: ModelInput, predictions: Tensor) -> Tensor:
        """Return the logits of the attributions at the classifier's sub-tokens, (b, n), float32; y: (b, C)."""
        with classifier.autocast():
            states = self.backbone(**self.backbone_inputs(inputs.source, predictions)).last_hidden_state
            scores: Tensor = self.output(torch.tanh(self.dense(states[:, :-1])))
        return inputs.to_target(scores.float().squeeze(-1))


# ---- backbones -------------------------------------------------------------------------------------------------------


AttributionModel = StatesModel | EncoderModel
"""G: from a text and the prediction y, (b, C), to the logits of the attributions, a = sigmoid of them."""


def load_backbone(
    name: str, revision: str | None = None
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Load a pretrained model without its head, and its tokenizer.

    Args:
        name: `embedded`, a hub name or a local folder.
        revision: git revision of a hub name.

    Raises:
        ModelError: there is no such model, it lacks weights, or its tokenizer does not give character offsets.
    """
    quiet_transformers()
    model, tokenizer, missing = load_model("AutoModel", resolve_encoder(name), revision, "a backbone")
    missing = [weight for weight in missing if "pooler" not in weight]
    if missing:
        raise ModelError(
            f"backbone {name!r}: weights are missing for {', '.join(missing[:4])}; expected a complete encoder"
        )
    check_tokenizer(tokenizer, name)
    return without_pooler(model), tokenizer


def check_tokenizer(tokenizer: transformers.PreTrainedTokenizerBase, name: str) -> None:
    """Raise ModelError if a tokenizer lacks words, padding or character offsets."""
    if holds_no_words(tokenizer) or not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise ModelError(
            f"backbone {name!r}: expected a fast tokenizer with a padding token in the model's folder, as alignment "
            "needs it"
        )


def without_pooler(encoder: Any) -> transformers.PreTrainedModel:
    """Remove the encoder's pooler, which G does not use, and return the encoder."""
    if hasattr(encoder, "pooler"):
        encoder.pooler = None
    return encoder  # type: ignore[no-any-return]
