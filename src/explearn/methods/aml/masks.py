"""What stands in for a masked token, and how hard a mask is: AML, section 3, one strategy behind one name.

All of them combine embeddings as eq. 3 does, x'_i = g(a_i) x_i + (1 - g(a_i)) m_i, and leave special tokens alone. The
last option of the paper, leaving tokens out, has no gradient; it is how the metrics take words away (`removal`). In a
decoder it can be given one (`left_out`).
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

from explearn.core.errors import SAVED, ModelError, UnsupportedError, problem_of
from explearn.lens.gradients import content_mask
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding, text_seed
from explearn.model.loading import quiet_transformers, resolve_encoder


class Masking:
    """`soft`: a convex combination with the embedding of the mask token, or with a fitted one where there is none."""

    embedding: torch.Tensor | None = None
    """The stand-in, (e,), where it is not a token's embedding: a fitted or a learned one."""
    removes = False
    """Whether masked words are left out (`left_out`), and nothing stands in for them."""

    def fits(self, classifier: Classifier) -> bool:
        """Whether a stand-in has to be fitted before the first mask is made (`fitted_stand_in`)."""
        return not has_mask_token(classifier)

    def gate(self, attributions: torch.Tensor) -> torch.Tensor:
        """g(a), (b, n), from attributions in [0, 1]."""
        return attributions

    def stand_in(self, classifier: Classifier, batch: Batch, draw: int) -> torch.Tensor:
        """m, (e,) or (b, n, e), in the classifier's embedding space.

        Args:
            draw: number that a random choice starts from, with the text.
        """
        if self.embedding is not None:
            return self.embedding.to(classifier.device)
        return _embed(classifier, torch.tensor(classifier.mask_token_id))


class UnknownMasking(Masking):
    """`unknown`: as `soft`, with the unknown token's embedding where there is no mask token, as in the paper."""

    def fits(self, classifier: Classifier) -> bool:
        return False


class FittedMasking(Masking):
    """`fitted`: as `soft`, with a fitted stand-in for every classifier."""

    def fits(self, classifier: Classifier) -> bool:
        return True


class HardMasking(Masking):
    """`hard`: a token is replaced where a <= 1/2, kept elsewhere; gradients pass as if the mask were soft."""

    def gate(self, attributions: torch.Tensor) -> torch.Tensor:
        return (attributions > 0.5).to(attributions.dtype) + attributions - attributions.detach()


class RemovedMasking(HardMasking):
    """`removed`: a token is left out where a <= 1/2, kept elsewhere; decoders alone (`left_out`)."""

    removes = True

    def fits(self, classifier: Classifier) -> bool:
        return False


class RandomMasking(Masking):
    """`random`: each position's stand-in is a token of the vocabulary, drawn anew for each epoch."""

    def fits(self, classifier: Classifier) -> bool:
        return False

    def stand_in(self, classifier: Classifier, batch: Batch, draw: int) -> torch.Tensor:
        special = set(classifier.tokenizer.all_special_ids)
        ordinary = torch.tensor([i for i in range(len(classifier.tokenizer)) if i not in special])
        ids = torch.full(batch.input_ids.shape, int(ordinary[0]))
        for row, encoding in enumerate(batch.encodings):
            generator = torch.Generator().manual_seed(text_seed(draw, encoding))
            ids[row, : len(encoding)] = ordinary[torch.randint(len(ordinary), (len(encoding),), generator=generator)]
        return _embed(classifier, ids)


class PredictedMasking(Masking):
    """`mlm`: each position's stand-in is the likeliest other token in its context, by a masked language model.

    Every position is masked by itself, so a text of n sub-tokens costs n passes of that model, once.

    Args:
        name: a masked language model with the classifier's vocabulary: a hub name or a local folder.
        revision: git revision of it (None: the main branch).
    """

    def __init__(self, name: str, revision: str | None = None) -> None:
        self.name, self.revision = name, revision
        self._model: transformers.PreTrainedModel | None = None
        self._found: dict[object, torch.Tensor] = {}

    def fits(self, classifier: Classifier) -> bool:
        return False

    def stand_in(self, classifier: Classifier, batch: Batch, draw: int) -> torch.Tensor:
        model = self._load(classifier)
        ids = torch.full(batch.input_ids.shape, int(classifier.tokenizer.pad_token_id))
        for row, encoding in enumerate(batch.encodings):
            if encoding.key not in self._found:
                self._found[encoding.key] = self._predict(model, classifier, encoding)
            ids[row, : len(encoding)] = self._found[encoding.key]
        return _embed(classifier, ids)

    @torch.no_grad()
    def _predict(self, model: transformers.PreTrainedModel, classifier: Classifier, encoding: Encoding) -> torch.Tensor:
        """Likeliest ordinary token but the text's own at each position, int64, (n,)."""
        ids = torch.tensor(encoding.input_ids, device=classifier.device)
        rows = torch.arange(len(ids), device=classifier.device)
        masked = ids.repeat(len(ids), 1)
        masked[rows, rows] = classifier.mask_token_id
        types = {}
        if encoding.token_type_ids:
            types["token_type_ids"] = torch.tensor(encoding.token_type_ids, device=classifier.device).expand_as(masked)
        step = max(1, classifier.max_tokens // len(ids))
        parts = []
        for i in range(0, len(ids), step):
            cut = {name: value[i : i + step] for name, value in types.items()}
            with classifier.autocast():
                logits = model(
                    input_ids=masked[i : i + step], attention_mask=torch.ones_like(masked[i : i + step]), **cut
                ).logits
            here = rows[i : i + step]
            chosen = logits[torch.arange(len(here)), here].float()
            chosen[:, classifier.tokenizer.all_special_ids] = float("-inf")
            chosen[torch.arange(len(here)), ids[here]] = float("-inf")
            parts.append(chosen.argmax(-1))
        return torch.cat(parts).cpu()

    def _load(self, classifier: Classifier) -> transformers.PreTrainedModel:
        if self._model is not None:
            return self._model
        quiet_transformers()
        try:
            place, revision = resolve_encoder(self.name), self.revision or "main"
            model, info = transformers.AutoModelForMaskedLM.from_pretrained(
                place, revision=revision, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, revision=revision, trust_remote_code=False)
        except ModelError:
            raise
        except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError, ... here
            raise ModelError(f"masked_lm {self.name!r} cannot be loaded ({problem_of(error)}); {SAVED}") from error
        if info["missing_keys"]:
            raise ModelError(
                f"masked_lm {self.name!r}: weights are missing for {', '.join(sorted(info['missing_keys'])[:4])}; "
                "expected a trained masked language model, such as google-bert/bert-base-uncased"
            )
        if tokenizer.get_vocab() != classifier.tokenizer.get_vocab():
            raise UnsupportedError(
                f"masked_lm {self.name!r} has another vocabulary than the classifier; expected the same one"
            )
        self._model = model.to(classifier.device).eval().requires_grad_(False)
        return self._model


class LearnedMasking(Masking):
    """`learned`: one stand-in for all, trained with G. It starts as the one of `soft`."""

    def begin(self, classifier: Classifier) -> nn.Parameter:
        """The parameter to train; where there is no mask token a fitted value has to be put in."""
        self.embedding = nn.Parameter(first_stand_in(classifier).clone())
        return self.embedding


def make_masking(name: str, masked_lm: str | None, revision: str | None = None) -> Masking:
    """The strategy of a name; `masked_lm` names the model of `mlm`, `revision` its git revision."""
    if name == "mlm":
        assert masked_lm is not None
        return PredictedMasking(masked_lm, revision)
    kinds: dict[str, type[Masking]] = {
        "soft": Masking,
        "unknown": UnknownMasking,
        "fitted": FittedMasking,
        "hard": HardMasking,
        "removed": RemovedMasking,
        "random": RandomMasking,
        "learned": LearnedMasking,
    }
    return kinds[name]()


def has_mask_token(classifier: Classifier) -> bool:
    """Whether a token stands for masked words because it was trained, or named, for that."""
    named = classifier.completion is not None and classifier.completion.mask_token_id is not None
    return named or classifier.tokenizer.mask_token_id is not None


def first_stand_in(classifier: Classifier) -> torch.Tensor:
    """Embedding of the mask token or the unknown token, (e,), or the mean of all where there is neither."""
    if has_mask_token(classifier) or classifier.tokenizer.unk_token_id is not None:
        return _embed(classifier, torch.tensor(classifier.mask_token_id))
    table: Any = classifier.model.get_input_embeddings()
    mean: torch.Tensor = table.weight.detach().mean(0)
    return mean


def gates(batch: Batch, gate: torch.Tensor) -> torch.Tensor:
    """What is kept of each position, (b, n): the gate at sub-tokens of the text, 1 at special tokens and padding."""
    return torch.where(content_mask(batch), gate, 1.0)


def _embed(classifier: Classifier, ids: torch.Tensor) -> torch.Tensor:
    table: Any = classifier.model.get_input_embeddings()
    with torch.no_grad():
        found: torch.Tensor = table(ids.to(classifier.device))
    return found
