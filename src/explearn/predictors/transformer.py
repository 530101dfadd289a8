"""A transformer that classifies texts, with its tokenizer."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import torch
from torch import Tensor
from torch.nn import functional

from explearn.core.compute import ComputeOptions, at_least_float32, autocast
from explearn.core.errors import ModelError, ParamsError, UnsupportedError
from explearn.core.writing import atomic_folder
from explearn.predictors.adapters import active_adapters, without_wrapper
from explearn.predictors.architectures import (
    architecture,
    keep_attention_type,
    max_length,
    shortest_input,
    switches_attention,
)
from explearn.predictors.checks import check_config, check_ends, check_runs, padding_shows, with_padding
from explearn.predictors.encoding import Batch, Encoding, collate, encode_texts
from explearn.predictors.heads.completion import Completion
from explearn.predictors.heads.names import CLASSIFICATION
from explearn.predictors.labelled import Problem, Use
from explearn.predictors.predictor import Predictor
from explearn.predictors.problems import (
    OutputFunction,
    not_compiled,
    problem_of,
    sharing_copy,
    with_both_classes,
    with_values,
)
from explearn.predictors.quantised import QUANTISED, has_quantised, prepare_quantised
from explearn.predictors.spread import OFFLOADED, OnOneDevice, spread, spread_of
from explearn.text.encoding import PlainText, Text, read_texts

if TYPE_CHECKING:
    import transformers

UNFINGERPRINTED = (
    "_name_or_path",
    "architectures",
    "dtype",
    "id2label",
    "label2id",
    "torch_dtype",
    "transformers_version",
)
"""Fields of a configuration that do not change predictions, or that the fingerprint has elsewhere."""

SAVED_CLASSIFIER = "a saved classifier"
"""What `save_pretrained` of a classifier writes."""


class WrappedModel(torch.nn.Module):
    """Base of models with another head that give the logits of a sequence classifier.

    It takes the model's own inputs, by keyword, and the marks of positions (`Encoding.MARKS`).
    Attributes that it does not have are those of the model inside.

    Args:
        config: the model's configuration.
        model: the model. None: a new one with random weights.
    """

    loader: ClassVar[str]
    """Class of transformers that loads models with the head."""
    marks: ClassVar[tuple[str, ...]] = ()
    """Its inputs that mark positions."""
    no_head: ClassVar[str] = ""
    """Why methods that need a classification head cannot explain it; empty: they can."""
    own_head: ClassVar[str] = ""
    """Why methods that take a classification head apart cannot explain it."""
    no_attention: ClassVar[str] = ""
    """Why methods that look at attention or hidden states cannot explain it."""
    reads: str = ""
    """The token that its head reads, as `architectures.reads` names it; empty: as the table says."""

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        super().__init__()
        if model is None:
            import transformers

            model = getattr(transformers, self.loader).from_config(config)
        self.model: Any = model
        self.base_model_prefix = f"model.{self.model.base_model_prefix}"

    def __getattr__(self, name: str) -> Any:
        parts = self.__dict__.get("_modules", {})
        if name in parts or "model" not in parts:
            return super().__getattr__(name)
        return getattr(parts["model"], name)


class TransformerPredictor(Predictor):
    """A transformer that classifies texts, with its tokenizer.

    Args:
        model: a transformers model with a sequence classification head. It is put into evaluation mode, and its
            parameters need no gradients from here on (gradients of its inputs can still be taken).
        tokenizer: its fast tokenizer.
        compute: device, precision and batch size.
        name: name for messages. Empty: "the classifier".
        completion: prompt around each text, for a generative model (`explearn.predictors.heads.completion`).

    Attributes:
        model: the model. One logit gets a second class, whose logit is minus the first
            (`explearn.predictors.problems`).
        tokenizer: the tokenizer.
        dtype: precision of the computation.
        completion: the prompt around each text, for a generative model.
        spread: how the model is spread over several devices (`explearn.predictors.spread`), of which `device` is the
            main one; None if it is on one device. A model already spread by accelerate is not changed.

    Raises:
        ModelError: a tokenizer without character offsets or padding, or classes that cannot be told apart.
        DeviceError: the device is not available.

    Example:
        >>> from explearn.testing import make_classifier
        >>> predictor = make_classifier()
        >>> predictor.labels
        ['no', 'yes']
        >>> predictor.predict_proba(["the quick brown fox"]).shape
        (1, 2)
    """

    refuses: Mapping[Use, str] = {}
    fingerprint_kind = "SHA-256 of its weights, configuration, tokenizer, labels and prompt"
    wrapper: ClassVar[type[WrappedModel] | None] = None
    """Module that gives a model with another head the logits of a classifier."""
    task_labels: ClassVar[tuple[str, ...]] = ()
    """The labels of a task that this class is for; empty: any others."""
    only_accuracy: ClassVar[bool] = False
    """Whether a labelled text is right or wrong, whatever its class: classes have no figures and no weights."""
    marks_answers: ClassVar[bool] = False
    """Whether `read` marks the model's own answer in a text, and of labelled texts the true one."""

    @torch.inference_mode(False)
    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        compute: ComputeOptions | None = None,
        name: str = "",
        completion: Completion | None = None,
    ) -> None:
        name = name or "the classifier"
        if not tokenizer.is_fast:
            raise ModelError(f"{name}: its tokenizer is not a fast one; word alignment needs one")
        model = without_wrapper(not_compiled(model), name)
        check_config(model.config, name)
        compute = compute or ComputeOptions()
        self.name = name
        self.completion: Completion | None = completion
        if completion is not None:
            self.refuses = {"onnx": "classifies by a prompt; expected a sequence classifier"}
        self.tokenizer = with_padding(model, tokenizer, name)
        saved_dtype = model.dtype
        self.model: Any = with_both_classes(model, name).eval().requires_grad_(False)
        if switches_attention(self.model):
            self.model = sharing_copy(self.model)
            keep_attention_type(self.model)
        self._shortest = shortest_input(self.model.config)
        self.spread = spread_of(self.model)
        if self.spread is None:
            check_runs(self.model, tokenizer, name)
        self.problem = problem_of(self.model.config)
        if compute.precision in QUANTISED and not has_quantised(self.model):
            raise ParamsError(
                f"precision: got {compute.precision!r} for a model in memory; weights are quantised while they are "
                "loaded (explearn.load_classifier)"
            )
        self.labels = names_of(self.model.config)
        self._fingerprint = ""
        self._adapters: list[tuple[str, ...]] = []
        if self.spread is None and compute.device_map is not None:
            # Offloaded weights cannot be read later.
            self._fingerprint = self.fingerprint
            self.spread = spread(self.model, compute, name)
        if self.spread is not None:
            devices = self.spread.devices
        elif compute.device_map is not None:
            devices = (self.model.device,)
        else:
            devices = (compute.resolve_device(),)
            self.model.to(devices[0])
        self.device = devices[0]
        self.dtype = compute.resolve_dtype(self.device)
        matmul_dtype: torch.dtype | None = self.dtype
        if compute.precision == "saved":
            matmul_dtype = None
            if saved_dtype in (torch.bfloat16, torch.float16):
                self.dtype = saved_dtype
        prepare_quantised(self.model, matmul_dtype, name)
        self.max_tokens = min(compute.resolve_max_tokens(device) for device in devices)

    @classmethod
    def head(cls) -> str:
        """Return the class of transformers that loads models with the head that this class is for."""
        if cls.wrapper is None:
            return CLASSIFICATION
        return cls.wrapper.loader

    @classmethod
    def around(
        cls,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        compute: ComputeOptions | None = None,
        name: str = "",
    ) -> Self:
        """Return a predictor for a loaded transformers model with the head that this class is for.

        Args:
            model: the model.
            tokenizer: its fast tokenizer.
            compute: device, precision and batch size.
            name: name for messages.
        """
        wrapped: Any = model
        if cls.wrapper is not None:
            wrapped = cls.wrapper(model.config, model)
        return cls(wrapped, tokenizer, compute, name)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Save model, tokenizer and any prompt, for `explearn.load_classifier`.

        Args:
            folder: a new folder, or that of an earlier classifier, which is replaced.

        Raises:
            ParamsError: the folder holds a file that is not ours, or that was changed.
        """
        with atomic_folder(folder, SAVED_CLASSIFIER) as partial:
            self.write_files(partial)

    def write_files(self, folder: Path) -> None:
        """Write the files of `save_pretrained`.

        Args:
            folder: an existing folder.
        """
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        if self.completion is not None:
            self.completion.save(folder)

    def with_model(self, model: transformers.PreTrainedModel) -> Self:
        """Return a copy with another model of the same architecture.

        Tokenizer, device, precision and batch size are kept.

        Args:
            model: the other model.
        """
        changed: Any = model
        if self.spread is None:
            changed = changed.to(self.device)
        return self._copy(changed.eval().requires_grad_(False))

    def with_outputs(
        self, labels: list[str], classes: list[str], change: OutputFunction, rows: Tensor | None = None
    ) -> Self:
        """Return a view that gives values instead of logits (`explearn.predictors.views`).

        Args:
            labels: names of the values.
            classes: the class of each value.
            change: from logits, (texts, C), to values.
            rows: the matrix, (values, C), by which `change` multiplies. None: it does something else.

        Raises:
            UnsupportedError: the model is spread over several devices.
        """
        if self.spread is not None:
            raise UnsupportedError(f"{self.name}: is spread over several devices; other outputs are of a model on one")
        view = self._copy(with_values(self.model, len(self.labels), labels, change, rows))
        view.labels = labels
        view.problem = Problem.REGRESSION
        view.classes = classes
        return view

    def _copy(self, model: Any) -> Self:
        other = copy.copy(self)
        other.model = model
        other._fingerprint = ""
        return other

    @property
    def transformer(self) -> Self:
        """This predictor."""
        return self

    def check_plain(self, what: str) -> None:
        """Raise UnsupportedError, naming `what`, unless the weights are on one device and not quantised.

        Args:
            what: what needs such weights, for the message.
        """
        if self.spread is not None:
            raise UnsupportedError(f"{what} needs a model on one device, but this one is spread over several")
        if has_quantised(self.model):
            raise UnsupportedError(f"{what} needs a model whose weights are not quantised, but these are")

    def check_readable(self, reader: str) -> None:
        """Raise UnsupportedError, naming what reads weights directly, if some are offloaded.

        Args:
            reader: what reads weights directly, for the message.
        """
        if self.spread is not None and self.spread.offloaded:
            raise UnsupportedError(f"{reader}: {OFFLOADED}")

    def gathered(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which tensors of several layers can be combined, whatever devices they are on."""
        if self.spread is None:
            return contextlib.nullcontext()
        return OnOneDevice()

    # ---- the model's input -----------------------------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        """Most sub-tokens per text, including special tokens; longer texts are cut."""
        return max_length(self.model.config, self.tokenizer)

    @property
    def mask_token_id(self) -> int:
        """Id that replaces a removed sub-token: the mask token, or the unknown token if there is none."""
        candidates = [self.tokenizer.mask_token_id, self.tokenizer.unk_token_id]
        if self.completion is not None:
            candidates.insert(0, self.completion.mask_token_id)
        for token_id in candidates:
            if token_id is not None:
                return int(token_id)
        raise ModelError(f"{self.name}: its tokenizer has neither a mask nor an unknown token")

    @property
    def pad_token_id(self) -> int:
        """Id that pads the shorter texts of a batch."""
        return int(cast(int, self.tokenizer.pad_token_id))

    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        """Tokenise texts and align sub-tokens with words; pairs are cut from the longer segment first.

        Args:
            texts: strings, or pairs of strings.
        """
        return self.encode_within(self.max_length, texts)

    def encode_within(self, limit: int | None, texts: Sequence[PlainText]) -> list[Encoding]:
        """Do as `encode` for another limit than `max_length`.

        Args:
            limit: most sub-tokens of a text. None: texts are not cut.
            texts: strings, or pairs of strings.
        """
        if self.completion is not None:
            return self.completion.encode(texts, limit)
        encodings = encode_texts(self.tokenizer, texts, limit)
        check_ends(self.model.config, encodings)
        return encodings

    def read(
        self, texts: Iterable[Text] | Iterable[Encoding], first: int = 1, whole: bool = False, labelled: bool = False
    ) -> list[Encoding]:
        if not whole:
            return super().read(texts, first)
        return read_texts(partial(self.encode_within, None), list(texts), first, self.name)  # type: ignore[arg-type]

    def read_samples(self, *texts: str) -> list[Encoding]:
        """Encode short sample texts, for any kind of model.

        Args:
            texts: the texts.
        """
        if self.completion is not None and self.completion.params.takes_pairs:
            return self.read([(text, text) for text in texts])
        return self.read(list(texts))

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        """Pad encodings to one length, at least the shortest that the model reads, on the predictor's device.

        Args:
            encodings: texts as this predictor encodes them.
        """
        return self.batch_on(self.device, encodings)

    def batch_on(self, device: torch.device, encodings: Sequence[Encoding]) -> Batch:
        """Do as `batch` on another device.

        Args:
            device: the device.
            encodings: texts as this predictor encodes them.
        """
        return collate(encodings, self.pad_token_id, device, self._shortest)

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Return the sub-tokens as text, without special tokens.

        Args:
            encoding: the text as this predictor encodes it.
        """
        ids = [encoding.input_ids[position] for position in encoding.positions]
        return tuple(self.tokenizer.convert_ids_to_tokens(ids))

    # ---- prediction ------------------------------------------------------------------------------------------------

    @cached_property
    def same_length(self) -> bool:  # type: ignore[override]
        """Whether a batch must hold texts of one length, because padding changes the prediction.

        It does not for attention listed in `explearn.predictors.architectures`. Other models are tried with two texts:
        convolutions and landmarks read padding (ConvBERT, MobileBERT, Nystromformer), and so may heads (XLNet).
        """
        if switches_attention(self.model):
            return True
        listed = architecture(self.model.config).attention is not None
        named = type(self.model).__name__.endswith("ForSequenceClassification")
        if listed and (named or type(self.model).__module__.startswith("explearn.")):
            return False
        shows = padding_shows(self)  # also finds a model that is no classifier
        return shows and not listed

    def autocast(self) -> Any:
        """Return the context in which the model computes in `dtype`."""
        return autocast(self.device, self.dtype)

    def logits(self, batch: Batch) -> Tensor:
        """Return logits, shape (batch, C), float32 (float64 of a float64 model).

        Args:
            batch: texts encoded to one length, as `batch` returns them.
        """
        with self.autocast():
            logits = cast(Tensor, self.model(**batch.model_inputs()).logits)
        return at_least_float32(logits)

    def loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the weighted cross-entropy, a scalar.

        Args:
            logits: (batch, C).
            labels: indices of the true classes, (batch,).
            weights: weight of each class, (C,). None: all 1.
        """
        return functional.cross_entropy(self.problem.softmax_logits(logits), labels, weight=weights)

    def trainable(self, encodings: Sequence[Encoding]) -> list[int]:
        """Return the indices of the labelled texts that can be learned from.

        Args:
            encodings: the texts, read with their labels.
        """
        return list(range(len(encodings)))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights, configuration, tokenizer, labels, prompt, and which adapters are in use."""
        adapters = active_adapters(self.model)
        if not self._fingerprint or adapters != self._adapters:
            self._adapters = adapters
            prompt = ""
            if self.completion is not None:
                prompt = self.completion.fingerprint
            labels = names_of(self.model.config)
            settings = {"labels": labels, "prompt": prompt, "problem": self.problem, "max_length": self.max_length}
            settings |= {"config": settings_of(self.model.config), "tokenizer": tokenizer_settings(self.tokenizer)}
            if adapters:
                settings["adapters"] = adapters
            self._fingerprint = fingerprint(self.model, json.dumps(settings, sort_keys=True, default=str))
        return self._fingerprint

    def weights_changed(self) -> None:
        """Forget the fingerprint, after the model was trained in place."""
        self._fingerprint = ""


def names_of(config: transformers.PretrainedConfig) -> list[str]:
    """Return the names of a model's classes, in the order of its outputs."""
    return [str(label) for _, label in sorted((config.id2label or {}).items())]


def settings_of(config: transformers.PretrainedConfig) -> dict[str, Any]:
    """Return the fields of a configuration that differ from its class's defaults and can change predictions."""
    settings: dict[str, Any] = config.to_diff_dict()
    return {name: value for name, value in settings.items() if name not in UNFINGERPRINTED}


def tokenizer_settings(tokenizer: transformers.PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return what decides how a fast tokenizer reads a text, without the lengths that each call sets."""
    backend: Any = tokenizer
    settings: dict[str, Any] = json.loads(backend.backend_tokenizer.to_str())
    del settings["truncation"], settings["padding"]
    return settings | {"truncation_side": tokenizer.truncation_side}


def fingerprint(model: torch.nn.Module, start: str = "") -> str:
    """Return SHA-256 over `start`, and the names and values of all parameters and buffers of a model."""
    digest = hashlib.sha256(start.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
