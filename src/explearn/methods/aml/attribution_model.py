"""The attribution model G: a model that reads the text and the classifier's prediction and scores sub-tokens.

G's backbone is an encoder, or a decoder whose tokens see the whole text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import transformers
from torch import nn

from explearn.core.errors import SAVED, ModelError, ParamsError, problem_of
from explearn.model.architectures import architecture, keep_lowest, position_offset, tells_segments_apart
from explearn.model.encoding import Batch
from explearn.model.loading import holds_no_words, quiet_transformers, resolve_encoder

PREDICTION_STD = 0.02
"""Of the new embeddings z_0 .. z_C: the initial spread of BERT's own embeddings."""
SAME_STATES = 1e-2
"""Largest difference between two ways to the same states: normalised activations, in TF32 on a GPU."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What G's backbone is called with: b texts of n positions, with the prediction's place behind each last token.

    embeddings: (b, n + 1, e). The others are int64, (b, n + 1); a decoder's attention_mask is float32, (b, 1, n + 1,
    n + 1), what is added to attention's logits: row i is what token i sees.
    """

    embeddings: torch.Tensor
    attention_mask: torch.Tensor
    position_ids: torch.Tensor
    token_type_ids: torch.Tensor | None

    def keywords(self) -> dict[str, torch.Tensor]:
        found = {
            "inputs_embeds": self.embeddings,
            "attention_mask": self.attention_mask,
            "position_ids": self.position_ids,
        }
        return found if self.token_type_ids is None else {**found, "token_type_ids": self.token_type_ids}


class AttributionModel(nn.Module):
    """G of AML, section 3.3: backbone, Linear(d, d) - tanh - Linear(d, 1) on each token's last state, sigmoid outside.

    The prediction enters as one more embedding, z = z_0 + sum_j y_j z_j, behind the last separator. Where the text
    fills all of the backbone's positions, z shares the last one.

    A decoder's causal mask is opened: every token sees the whole text and the prediction, as in an encoder. Otherwise a
    token's score would come from what stands before it alone, and no token would see the prediction. The paper has no
    such backbone: its G is an encoder, RoBERTa for the decoders, too. LLM2Vec (BehnamGhader et al., 2024) makes text
    encoders of decoders in this way.

    Args:
        backbone: an encoder or decoder without a head (transformers' AutoModel).
        classes: C.
        by_class: whether the head gives each token a score s_ic for every class; its score is then sum_c y_c s_ic, and
            z need not be understood first. Not in the paper.

    Attributes:
        prediction: z_0 .. z_C, (C + 1, e), e the width of the backbone's word embeddings.
        mask_embedding: the learned stand-in for masked tokens, in the classifier's embedding space; None where the
            masking strategy learns none.
        stand_in: one that was fitted before training and stays as it is (`fitted_stand_in`), or None.
    """

    stand_in: torch.Tensor | None

    def __init__(self, backbone: transformers.PreTrainedModel, classes: int, by_class: bool = False) -> None:
        super().__init__()
        self.backbone = backbone
        config: Any = backbone.config
        width = int(config.hidden_size)
        self.dense = nn.Linear(width, width)
        self.output = nn.Linear(width, classes if by_class else 1)
        self.by_class = by_class
        table: Any = backbone.get_input_embeddings()
        self.prediction = nn.Parameter(torch.randn(classes + 1, table.weight.shape[1]) * PREDICTION_STD)
        self.mask_embedding: nn.Parameter | None = None
        self.register_buffer("stand_in", None)

    @property
    def config(self) -> Any:
        return self.backbone.config

    @property
    def causal(self) -> bool:
        """Whether the backbone is a decoder."""
        return architecture(self.config).causal

    def inputs(self, batch: Batch, predictions: torch.Tensor) -> Inputs:
        """Put the prediction behind each text.

        Args:
            batch: texts in the backbone's own sub-tokens, (b, n).
            predictions: y, (b, C), rows on the simplex.
        """
        table: Any = self.backbone.get_input_embeddings()
        place = batch.attention_mask.sum(1, keepdim=True)
        column = torch.zeros_like(place)
        ids = torch.cat([batch.input_ids, column], dim=1)
        here = torch.arange(ids.shape[1], device=ids.device) == place
        z = self.prediction[0] + predictions.to(self.prediction.dtype) @ self.prediction[1:]
        embeddings = torch.where(here[..., None], z[:, None], table(ids))
        config: Any = self.config
        positions = torch.arange(ids.shape[1], device=ids.device) + position_offset(config)
        if (known := int(config.max_position_embeddings)) > 0:
            positions = positions.clamp(max=known - 1)
        types = None
        # An encoder of fewer types does not tell segments apart: a pair is told by its separators.
        if batch.token_type_ids is not None and tells_segments_apart(config):
            types = torch.cat([batch.token_type_ids, batch.token_type_ids.gather(1, place - 1)], dim=1)
            types = torch.where(here, types[:, -1:], torch.cat([batch.token_type_ids, column], dim=1))
        mask = torch.cat([batch.attention_mask, column], dim=1) | here.long()
        if self.causal:
            mask = _added_to_logits(mask[:, None].expand(-1, ids.shape[1], -1), embeddings.dtype)
        return Inputs(embeddings, mask, positions.expand_as(ids), types)

    @torch.no_grad()
    def verify(self, name: str, batch: Batch) -> None:
        """Make sure that the backbone can be called with embeddings and positions, as G does.

        Args:
            name: of the backbone, for the error.
            batch: some texts of one segment in the backbone's own sub-tokens, of two tokens or more.

        Raises ModelError where it cannot, or where, with the prediction left out, it then sees other texts than it does
        when it is called with token ids. Of a decoder this is tried on the first two tokens, while each sees those
        before it alone; one whose first token does not see the others when it may is refused as well.
        """
        backbone: Any = self.backbone
        mask, kind = batch.attention_mask, self.config.model_type
        expected = (
            "expected an encoder such as BERT, ELECTRA, RoBERTa, DistilBERT, ALBERT, DeBERTa or ModernBERT, "
            "or a decoder such as GPT-2, Llama, Mistral, Qwen2 or Gemma"
        )
        training = backbone.training
        backbone.eval()
        try:
            inputs = self.inputs(batch, torch.zeros(len(mask), len(self.prediction) - 1, device=mask.device))
            alone = torch.cat([mask, torch.zeros_like(mask[:, :1])], dim=1)
            if self.causal:
                whole = alone[:, None].expand(-1, alone.shape[1], -1)
                alone = _added_to_logits(whole.tril(), inputs.embeddings.dtype)
            seen = backbone(**{**inputs.keywords(), "attention_mask": alone}).last_hidden_state[:, :-1]
            plain = backbone(input_ids=batch.input_ids, attention_mask=mask).last_hidden_state
            if self.causal:
                opened = _added_to_logits(whole, inputs.embeddings.dtype)
                ahead = backbone(**{**inputs.keywords(), "attention_mask": opened}).last_hidden_state[:, :-1]
        except Exception as error:  # whatever an architecture that was not made for this raises
            raise ModelError(
                f"backbone {name!r}: a {kind!r} model cannot be called with embeddings and positions "
                f"({problem_of(error)}); {expected}"
            ) from error
        finally:
            backbone.train(training)
        # A decoder's window, of which a prepared mask knows nothing, is wider than two tokens.
        compared = 2 if self.causal else len(mask[0])
        difference = float((seen - plain)[:, :compared][mask[:, :compared].bool()].abs().max())
        if not difference < SAME_STATES:
            raise ModelError(
                f"backbone {name!r}: called with embeddings and positions, a {kind!r} model comes to other states "
                f"(by {difference:.2g}) than with token ids; {expected}"
            )
        if self.causal and torch.equal(ahead[:, 0], seen[:, 0]):
            raise ModelError(
                f"backbone {name!r}: the first token of a {kind!r} model does not see what stands behind it when it "
                f"may; {expected}"
            )

    def new_parameters(self) -> list[nn.Parameter]:
        """Those that no pretraining has seen: the head, the prediction's embeddings, the learned stand-in."""
        found = [*self.dense.parameters(), *self.output.parameters(), self.prediction]
        return found if self.mask_embedding is None else [*found, self.mask_embedding]

    def score(self, states: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
        """Logits of the attributions, (b, n); a = sigmoid of them.

        Args:
            states: the backbone's last, (b, n + 1, d).
            predictions: y, (b, C).
        """
        found = cast(torch.Tensor, self.output(torch.tanh(self.dense(states[:, :-1])))).float()
        if not self.by_class:
            return found.squeeze(-1)
        return (found * predictions.to(found)[:, None]).sum(-1)

    def forward(self, batch: Batch, predictions: torch.Tensor) -> torch.Tensor:
        """Logits of the attributions of a batch in the backbone's sub-tokens, (b, n); meaningless at padding."""
        states = self.backbone(**self.inputs(batch, predictions).keywords()).last_hidden_state
        return self.score(states, predictions)


def _added_to_logits(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to attention's logits, (b, 1, n, n), so that row i sees where `seen`, (b, n, n), is above 0.

    A finite number stands for minus infinity: a row that sees nothing has a softmax, too.
    """
    lowest = torch.finfo(dtype).min
    return torch.where(seen > 0, 0.0, lowest).to(dtype)[:, None]


def load_backbone(name: str, layers: int | None, revision: str | None = None) -> transformers.PreTrainedModel:
    """Pretrained weights of an encoder without its head, its lowest `layers` blocks (None: all).

    Args:
        name: `embedded`, a hub name or a local folder.

    Raises ModelError when there is no such encoder, it lacks weights or cannot be cut, ParamsError for more layers than
    it has.
    """
    quiet_transformers()
    try:
        model, info = transformers.AutoModel.from_pretrained(
            resolve_encoder(name),
            revision=revision or "main",
            dtype=torch.float32,
            output_loading_info=True,
            trust_remote_code=False,
        )
    except ModelError:
        raise
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError, ... here
        raise ModelError(f"backbone {name!r} cannot be loaded ({problem_of(error)}); {SAVED}") from error
    lost = sorted(key for key in info["missing_keys"] if "pooler" not in key)
    if lost:
        raise ModelError(f"backbone {name!r}: weights are missing for {', '.join(lost[:4])}; expected a whole encoder")
    return trimmed(model, layers)


def load_tokenizer(name: str, revision: str | None = None) -> transformers.PreTrainedTokenizerBase:
    """The tokenizer of an encoder, `embedded`, a hub name or a local folder.

    Raises ModelError where there is none, or none that tells which characters a sub-token comes from and can pad.
    """
    try:
        tokenizer: transformers.PreTrainedTokenizerBase = transformers.AutoTokenizer.from_pretrained(
            resolve_encoder(name), revision=revision or "main", trust_remote_code=False
        )
    except ModelError:
        raise
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, ... here
        raise ModelError(f"backbone {name!r}: its tokenizer cannot be loaded ({problem_of(error)}); {SAVED}") from error
    if holds_no_words(tokenizer):
        raise ModelError(f"backbone {name!r}: holds no tokenizer; expected one saved beside the model")
    if not tokenizer.is_fast or tokenizer.pad_token_id is None:
        raise ModelError(f"backbone {name!r}: expected a fast tokenizer with a padding token, which alignment needs")
    return tokenizer


def trimmed(model: transformers.PreTrainedModel, layers: int | None) -> transformers.PreTrainedModel:
    """The encoder with its lowest `layers` blocks alone, and without a pooler, which G does not use.

    Changes `model`. Raises ParamsError for more layers than it has, ModelError where its blocks cannot be found.
    """
    config: Any = model.config
    encoder: Any = model
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    if layers is None or layers == config.num_hidden_layers:
        return model
    if layers > config.num_hidden_layers:
        raise ParamsError(
            f"layers: got {layers}; expected at most {config.num_hidden_layers}, as many as the encoder has"
        )
    if not keep_lowest(model, layers):
        raise ModelError(f"layers: got {layers}, but a {config.model_type!r} backbone cannot be cut; expected null")
    return model
