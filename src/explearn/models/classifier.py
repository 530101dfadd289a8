"""The text classifier that is explained: frozen, batched by length, predicting class probabilities."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn import functional
from tqdm.auto import tqdm

from explearn.core.batching import budget_batches
from explearn.core.compute import ComputeOptions, autocast
from explearn.core.errors import DataError, ModelError, UnknownNameError, first_line
from explearn.core.records import Example, check_words
from explearn.data.alignment import NO_WORD, align, word_spans
from explearn.models.encoding import Batch, Encoding, collate

Text = str | tuple[str, str] | Example
"""What can be classified and explained: a text, a pair of segments, or an example."""

_UNBOUNDED = 100_000
"""transformers gives tokenizers without a length limit a model_max_length of 1e30."""


class Classifier:
    """A sequence classifier with its tokenizer, its parameters frozen.

    Attributes:
        model: a transformers model with a sequence classification head, in evaluation mode, without gradients on its
            parameters (gradients of its inputs can still be taken).
        tokenizer: its fast tokenizer.
        device, dtype, max_tokens: where, in which precision and in batches of how many padded sub-tokens it runs.
        labels: names of the C classes in the order of the logits.
    """

    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        compute: ComputeOptions | None = None,
        name: str = "",
    ) -> None:
        """Raises ModelError for a tokenizer without character offsets or padding, and DeviceError."""
        if not tokenizer.is_fast:
            raise ModelError(f"{name or 'the classifier'}: its tokenizer is not a fast one; word alignment needs one")
        if tokenizer.pad_token_id is None:
            raise ModelError(f"{name or 'the classifier'}: its tokenizer has no padding token; batches need one")
        compute = compute or ComputeOptions()
        self.name = name
        self.device = compute.resolve_device()
        self.dtype = compute.resolve_dtype(self.device)
        self.max_tokens = compute.resolve_max_tokens(self.device)
        self.model = model.to(self.device).eval().requires_grad_(False)  # type: ignore[arg-type]
        self.tokenizer = tokenizer
        names: Any = model.config.id2label
        self.labels = [str(names[i]) for i in range(len(names))]
        self._forward: Any = torch.compile(self.model, dynamic=True) if compute.compile else self.model

    @classmethod
    def from_pretrained(
        cls, path: str | os.PathLike[str], compute: ComputeOptions | None = None, **options: Any
    ) -> Classifier:
        """Load a classifier saved with `save_pretrained`, or by name from the hub.

        Args:
            path: local folder or hub name; of a model for question answering, a `QuestionAnswerer` comes back.
            compute: compute options; or give their fields as keyword arguments (device="cuda", precision="bf16").

        Raises ModelError when there is no such model, its head is not a trained classification head, or its weights
        do not fit its configuration; DeviceError when the device is not there.
        """
        compute = replace(compute or ComputeOptions(), **options)
        compute.resolve_device()
        name = os.fspath(path)
        # What can only be a folder is not looked up on the hub, nor is NAME/NAME where the first is a folder here.
        parent = Path(name).parent
        if not Path(name).is_dir() and (
            name.count("/") > 1 or name.startswith((".", "/", "~")) or (parent != Path() and parent.is_dir())
        ):
            raise ModelError(f"{name}: no such folder; expected a classifier saved with save_pretrained")
        quiet_transformers()
        from explearn.models.question_answering import QuestionAnswerer, answers_questions

        loader: Any = transformers.AutoModelForSequenceClassification
        try:
            config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
            if questions := answers_questions(config):
                loader = transformers.AutoModelForQuestionAnswering
            model, info = loader.from_pretrained(
                name, output_loading_info=True, dtype=torch.float32, trust_remote_code=False
            )
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError, ... here
            raise ModelError(f"{name}: cannot be loaded as a classifier ({first_line(error)})") from error
        missing = sorted(info["missing_keys"]) + sorted(str(k) for k in info.get("mismatched_keys", ()))
        if missing:
            raise ModelError(
                f"{name}: weights are missing or of the wrong shape for {', '.join(missing[:4])}; "
                "expected a fine-tuned sequence classifier"
            )
        if holds_no_words(tokenizer):
            raise ModelError(f"{name}: holds no tokenizer; expected one saved beside the model")
        known = model.get_input_embeddings().weight.shape[0]
        if len(tokenizer) > known:
            raise ModelError(
                f"{name}: its tokenizer has {len(tokenizer)} tokens, the model knows {known}; expected the model's own"
            )
        return (QuestionAnswerer.around if questions else cls)(model, tokenizer, compute, name=name)

    def with_model(self, model: transformers.PreTrainedModel) -> Classifier:
        """The same around another model of the same architecture: tokenizer, device, precision and batches stay."""
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        other.model = model.to(self.device).eval().requires_grad_(False)  # type: ignore[arg-type]
        other._forward = other.model
        return other

    # ---- what the model sees -------------------------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        """Most sub-tokens a text, special tokens included; longer texts are cut."""
        return max_length(self.model.config, self.tokenizer)

    @property
    def mask_token_id(self) -> int:
        """Id that stands for a removed sub-token: the mask token, or the unknown token where there is none."""
        for token_id in (self.tokenizer.mask_token_id, self.tokenizer.unk_token_id):
            if token_id is not None:
                return int(token_id)
        raise ModelError(f"{self.name}: its tokenizer has neither a mask nor an unknown token")

    def encode(self, texts: Sequence[Text], first: int = 1) -> list[Encoding]:
        """Tokenise texts and align sub-tokens with words; pairs are cut from the longer segment first.

        Args:
            first: number of the first text, for error messages about a part of a stream.

        Raises DataError for a text without words, or with a word that no text of natural language holds.
        """
        segments = [_as_segments(text, number) for number, text in enumerate(texts, start=first)]
        encodings: dict[int, Encoding] = {}
        for has_pair in (False, True):
            chosen = [i for i, (_, pair, _) in enumerate(segments) if (pair is not None) == has_pair]
            if chosen:
                found = encode_segments(self.tokenizer, [segments[i] for i in chosen], self.max_length)
                encodings.update(zip(chosen, found, strict=True))
        return [encodings[i] for i in range(len(segments))]

    def encode_labelled(self, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
        """Encodings to train and judge on, and the indices of the true classes.

        Raises UnknownNameError for a label that is none of the classifier's.
        """
        return self.encode(examples), [self.label_index(example.label) for example in examples]

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Sub-tokens as text, special tokens left out."""
        ids = [encoding.input_ids[i] for i in encoding.positions]
        return tuple(self.tokenizer.convert_ids_to_tokens(ids))

    # ---- prediction ----------------------------------------------------------------------------------------------

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return collate(encodings, int(self.tokenizer.pad_token_id), self.device)

    def autocast(self) -> Any:
        return autocast(self.device, self.dtype)

    def logits(self, batch: Batch) -> torch.Tensor:
        """Logits, shape (batch, C), float32 (float64 of a float64 model)."""
        with self.autocast():
            logits = cast(torch.Tensor, self._forward(**batch.model_inputs()).logits)
        return logits if logits.dtype == torch.float64 else logits.float()

    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Cross-entropy, a scalar, from logits (b, C) and classes (b,), each class with its weight, (C,)."""
        return functional.cross_entropy(logits, labels, weight=weights)

    @torch.inference_mode()
    def predict_proba(self, encodings: Sequence[Encoding], description: str | None = None) -> NDArray[np.float64]:
        """Class probabilities, shape (n, C), in the order given; shows a progress bar when `description` is set."""
        probabilities = np.empty((len(encodings), len(self.labels)))
        with tqdm(total=len(encodings), desc=description, unit="text", disable=None if description else True) as bar:
            for indices in budget_batches([len(e) for e in encodings], self.max_tokens):
                logits = self.logits(self.batch([encodings[i] for i in indices]))
                probabilities[indices] = logits.double().softmax(-1).cpu().numpy()
                bar.update(len(indices))
        return probabilities

    def predict(self, texts: Sequence[Text]) -> list[str]:
        """Name of the most probable class of each text."""
        return [self.labels[i] for i in self.predict_proba(self.encode(texts)).argmax(-1)]

    def label_index(self, target: int | str) -> int:
        """Index of a class given by name or index; raises UnknownNameError."""
        if isinstance(target, str):
            if target not in self.labels:
                raise UnknownNameError("label", target, self.labels)
            return self.labels.index(target)
        if not 0 <= target < len(self.labels):
            raise UnknownNameError("label index", str(target), map(str, range(len(self.labels))))
        return target

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the names and values of all parameters and buffers, and the labels."""
        return fingerprint(self.model, repr(self.labels))


def fingerprint(model: torch.nn.Module, start: str = "") -> str:
    """SHA-256 over `start`, and the names and values of all parameters and buffers of a model."""
    digest = hashlib.sha256(start.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def holds_no_words(tokenizer: transformers.PreTrainedTokenizerBase) -> bool:
    """Whether it is one of special tokens alone, as transformers makes where there are no tokenizer files."""
    return len(tokenizer) <= len(tokenizer.all_special_tokens)


def encode_segments(
    tokenizer: transformers.PreTrainedTokenizerBase, segments: Sequence[tuple[str, str | None, str]], limit: int
) -> list[Encoding]:
    """Tokenise texts, all of one segment or all pairs, and align sub-tokens with words.

    Args:
        segments: text, second segment or None, id of the example.
        limit: most sub-tokens a text, special ones included; pairs are cut from the longer segment first.
    """
    first = [text for text, _, _ in segments]
    second = [pair for _, pair, _ in segments if pair is not None]
    encoded = tokenizer(
        first,
        second or None,
        truncation=True,
        max_length=limit,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    use_types = "token_type_ids" in tokenizer.model_input_names
    result = []
    for row, (text, pair, example_id) in enumerate(segments):
        spans = word_spans(text)
        pair_spans = word_spans(pair) if pair is not None else []
        sequence = encoded.sequence_ids(row)
        offsets = encoded["offset_mapping"][row]
        word_ids = [NO_WORD] * len(sequence)
        characters = [(0, 0)] * len(sequence)
        for segment, words, shift in ((0, spans, 0), (1, pair_spans, len(spans))):
            positions = [i for i, s in enumerate(sequence) if s == segment]
            owners = align([offsets[i] for i in positions], words)
            for position, owner in zip(positions, owners, strict=True):
                if owner != NO_WORD:
                    start, end = words[owner]
                    word_ids[position] = owner + shift
                    characters[position] = (
                        max(offsets[position][0], start) - start,
                        min(offsets[position][1], end) - start,
                    )
        result.append(
            Encoding(
                input_ids=tuple(encoded["input_ids"][row]),
                token_type_ids=tuple(encoded["token_type_ids"][row]) if use_types else (),
                special=tuple(s is None for s in sequence),
                word_ids=tuple(word_ids),
                words=tuple(text[a:b] for a, b in spans) + tuple((pair or "")[a:b] for a, b in pair_spans),
                example_id=example_id,
                characters=tuple(characters),
                pair_start=None if pair is None else len(spans),
            )
        )
    return result


def max_length(config: transformers.PreTrainedConfig, tokenizer: transformers.PreTrainedTokenizerBase) -> int:
    """Most sub-tokens that both the position embeddings and the tokenizer allow."""
    limits = []
    if tokenizer.model_max_length < _UNBOUNDED:
        limits.append(int(tokenizer.model_max_length))
    positions = getattr(config, "max_position_embeddings", None)
    # Encoders of relative positions say -1: they read texts of any length.
    if positions is not None and positions > 0:
        # RoBERTa-like models count positions from the padding index + 1.
        offset = config.pad_token_id + 1 if "roberta" in config.model_type or config.model_type == "camembert" else 0
        limits.append(int(positions) - offset)
    return min(limits, default=512)


def quiet_transformers() -> None:
    """Keep transformers' notices out of the output, and its progress bars when nobody watches."""
    import sys

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if not sys.stderr.isatty():
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def _as_segments(text: Text, number: int) -> tuple[str, str | None, str]:
    if isinstance(text, Example):
        return text.text, text.pair_text, text.id
    first, second = text if isinstance(text, tuple) else (text, None)
    for segment in (first, second):
        if segment is not None:
            try:
                check_words(tuple(segment.split()), "text")
            except DataError as error:
                raise DataError(f"text {number}: {error}") from error
    return first, second, ""
