"""The model that is explained: a text classifier, or a model that answers questions in the place of one."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from tqdm.auto import tqdm

from explearn.core.arguments import (
    FLAG,
    PATH,
    SEVERAL,
    TENSOR,
    TEXT,
    WHOLE,
    arguments,
    having,
    list_of,
    one_of,
    or_none,
    shown,
)
from explearn.core.compute import ComputeOptions, autocast
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.core.extras import check_installed
from explearn.core.finite import check_logits
from explearn.core.records import Example
from explearn.model.architectures import architecture
from explearn.model.batching import budget_batches, run_batches
from explearn.model.completion import Completion, Given
from explearn.model.encoding import Batch, Encoding, collate
from explearn.model.fingerprint import fingerprint
from explearn.model.heads import QUESTION_ANSWERING
from explearn.model.loading import check_config, load_trained
from explearn.model.padding import check_ends, padding_shows, with_padding
from explearn.model.problems import Answers, problem_of, with_both_classes
from explearn.model.question_answering import SpanScorer, best_places, mark_answer, mark_words
from explearn.model.reading import Text, TokenNames, encode_texts, max_length
from explearn.model.spread import OnOneDevice, Spread, spread, spread_of

if TYPE_CHECKING:
    import transformers


_ENCODINGS = list_of(Encoding, "a list of encodings, as encode gives them")


class Classifier(Answers):
    """A sequence classifier with its tokenizer, its parameters frozen.

    Attributes:
        model: a transformers model with a sequence classification head, in evaluation mode, without gradients on its
            parameters (gradients of its inputs can still be taken).
        tokenizer: its fast tokenizer.
        device, dtype: where and in which precision it runs.
        spread: how it is spread over several devices (`explearn.model.spread`), of which `device` is the main one;
            None where it is on one. A model that accelerate has spread already stays as it is.
        max_tokens: most padded sub-tokens in a batch.
        labels: names of the C classes in the order of the logits.
        problem: how logits become probabilities. A model with one logit has been given a second class, whose logit is
            minus the first (`explearn.model.problems`).
        completion: the prompt around each text, of a generative model (`explearn.model.completion`).
    """

    has_model: ClassVar[bool] = True
    """Whether there is a model to look into, with its tokenizer; not of a function (`explearn.model.callable`)."""

    completion: Completion | None = None
    spread: Spread | None = None

    @arguments(
        model=having("config", "a model of transformers"),
        tokenizer=having("is_fast", "a tokenizer of transformers"),
        compute=or_none(one_of(ComputeOptions, "ComputeOptions")),
        name=TEXT,
    )
    @torch.inference_mode(False)
    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        compute: ComputeOptions | None = None,
        name: str = "",
        completion: Completion | None = None,
    ) -> None:
        """Raises ModelError for a tokenizer without character offsets or padding, classes that cannot be told apart,
        or weights that no gradient can pass, and DeviceError."""
        if any(weight.is_inference() for weight in model.parameters()):
            raise ModelError(f"{name or 'the model'}: made inside torch.inference_mode(); expected one made outside")
        if not tokenizer.is_fast:
            raise ModelError(f"{name or 'the classifier'}: its tokenizer is not a fast one; word alignment needs one")
        check_config(model.config, name or "the classifier")
        tokenizer = with_padding(model, tokenizer, name)
        compute = compute or ComputeOptions()
        self.name = name
        saved = model.dtype if compute.precision == "saved" else None
        model = with_both_classes(model, name)
        self.problem = problem_of(model.config)
        self.model = cast(Any, model).eval().requires_grad_(False)
        self.completion = completion
        names: Any = model.config.id2label
        self.labels = [str(names[i]) for i in range(len(names))]
        self.device, self.spread = self._place(compute)
        self.dtype = compute.resolve_dtype(self.device)
        if saved in (torch.bfloat16, torch.float16):
            self.dtype = saved
        everywhere = (self.device,) if self.spread is None else self.spread.devices
        self.max_tokens = min(compute.resolve_max_tokens(device) for device in everywhere)
        self.tokenizer, self._token_names = tokenizer, TokenNames(tokenizer)
        self._forward: Any = torch.compile(self.model, dynamic=True) if compute.compile else self.model

    def _place(self, compute: ComputeOptions) -> tuple[torch.device, Spread | None]:
        """Put the model where it is to compute; (main device, how it is spread if it is)."""
        found = spread_of(self.model)
        if found is None and compute.device_map is not None:
            # Of weights that are offloaded it could not be told later.
            self.__dict__["fingerprint"] = self.fingerprint
            found = spread(self.model, compute, self.name)
            device = self.model.device if found is None else found.devices[0]
        else:
            device = compute.resolve_device() if found is None else found.devices[0]
        if found is None:
            self.model = self.model.to(device)
        return device, found

    @classmethod
    @arguments(path=PATH, compute=or_none(one_of(ComputeOptions, "ComputeOptions")), revision=or_none(TEXT))
    @torch.inference_mode(False)
    def from_pretrained(
        cls,
        path: str | os.PathLike[str],
        compute: ComputeOptions | None = None,
        revision: str | None = None,
        completion: Given | None = None,
        **options: Any,
    ) -> Classifier:
        """Load a classifier saved with `save_pretrained`, or by name from the hub.

        Args:
            path: local folder or hub name; for a question-answering model, a `QuestionAnswerer` is returned.
            compute: compute options; or give their fields as keyword arguments (device="cuda", precision="bf16").
            revision: git revision of a hub name.
            completion: of a generative model, its prompt and label words: a section, its values, or a file with them
                (default: completion.json in the folder).

        Raises ModelError when there is no such model, its head is not a trained one, or its weights do not fit its
        configuration or are not finite; DeviceError when the device is not there.
        """
        compute = replace(compute or ComputeOptions(), **options)
        if compute.device_map is None:
            compute.resolve_device()
        else:
            check_installed("accelerate", extra="large", what="device-map")
        name = os.fspath(path)
        found = load_trained(name, revision, completion, as_saved=compute.precision == "saved")
        if found.head is QUESTION_ANSWERING:
            return QuestionAnswerer.around(found.model, found.tokenizer, compute, name=name)
        return cls(found.model, found.tokenizer, compute, name, found.completion)

    @arguments(folder=PATH)
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write what `from_pretrained` reads: model, tokenizer, and the prompt where there is one."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        if self.completion is not None:
            self.completion.save(folder)

    @arguments(model=having("config", "a model of transformers"))
    def with_model(self, model: transformers.PreTrainedModel) -> Classifier:
        """A copy with another model of the same architecture; tokenizer, device, precision and batch size stay."""
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        model = with_both_classes(model, self.name)
        if self.spread is None:
            model = model.to(self.device)  # type: ignore[arg-type]
        other.model = cast(Any, model).eval().requires_grad_(False)
        other._forward = other.model
        return other

    def check_one_device(self, what: str) -> None:
        """Raise UnsupportedError for a model that is spread over several devices, where only one will do."""
        if self.spread is not None:
            raise UnsupportedError(f"{what} takes a model on one device, and this one is spread over several")

    def gathered(self) -> contextlib.AbstractContextManager[object]:
        """In what it gives, tensors of several layers may be put together though the layers are on several devices."""
        return contextlib.nullcontext() if self.spread is None else OnOneDevice()

    # ---- what the model sees -------------------------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        """Most sub-tokens per text, special tokens included; longer texts are cut."""
        return max_length(self.model.config, self.tokenizer)

    @property
    def mask_token_id(self) -> int:
        """Id that replaces a removed sub-token: the mask token, or the unknown token where there is none."""
        own = None if self.completion is None else self.completion.mask_token_id
        for token_id in (own, self.tokenizer.mask_token_id, self.tokenizer.unk_token_id):
            if token_id is not None:
                return int(token_id)
        raise ModelError(f"{self.name}: its tokenizer has neither a mask nor an unknown token")

    @property
    def pad_token_id(self) -> int:
        """Id that fills up the shorter texts of a batch."""
        return int(self.tokenizer.pad_token_id)

    @arguments(texts=SEVERAL, first=WHOLE, whole=FLAG)
    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        """Tokenise texts and align sub-tokens with words; pairs are cut from the longer segment first.

        Args:
            first: number of the first text, for error messages where `texts` is part of a longer stream.
            whole: do not cut; what is longer than `max_length` is for `explearn.model.windows`.

        Raises DataError for a text without words or with an unusable word (see `records.check_words`).
        """
        limit = None if whole else self.max_length
        if self.completion is not None:
            return self.completion.encode(texts, limit, first)
        encodings = encode_texts(self.tokenizer, texts, limit, first)
        check_ends(self, encodings, first)
        return encodings

    @arguments(examples=list_of(Example, "a list of explearn.Example"))
    def encode_labelled(self, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
        """Encodings to train and judge on, and the indices of the true classes.

        Raises UnknownNameError for a label that is none of the classifier's.
        """
        return self.encode(examples), [self.label_index(example.label) for example in examples]

    @arguments(encoding=one_of(Encoding, "an encoding, as encode gives them"))
    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Sub-tokens as text, special tokens left out."""
        return self._token_names.of(encoding)

    # ---- prediction ----------------------------------------------------------------------------------------------

    @cached_property
    def same_length(self) -> bool:
        """Whether a batch must hold texts of one length, for padding changes what the model says of a text.

        It changes nothing where `models.architectures` knows the attention. Others are tried with two texts:
        convolutions and landmarks see padding (ConvBERT, MobileBERT, Nystromformer), and heads may read it (XLNet).
        """
        return architecture(self.model.config).attention is None and padding_shows(self)

    @arguments(encodings=_ENCODINGS)
    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return collate(encodings, self.pad_token_id, self.device)

    def autocast(self) -> Any:
        return autocast(self.device, self.dtype)

    @arguments(batch=one_of(Batch, "a batch, as the method batch makes it"))
    def logits(self, batch: Batch) -> torch.Tensor:
        """Logits, shape (batch, C), float32 (float64 of a float64 model)."""
        with self.autocast():
            logits = cast(torch.Tensor, self._forward(**batch.model_inputs()).logits)
        return logits if logits.dtype == torch.float64 else logits.float()

    @arguments(logits=TENSOR, labels=TENSOR, weights=or_none(TENSOR))
    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Cross-entropy, a scalar, from logits (b, C) and classes (b,), each class with its weight, (C,)."""
        return functional.cross_entropy(self.softmax_logits(logits), labels, weight=weights)

    @arguments(encodings=_ENCODINGS, description=or_none(TEXT))
    @torch.inference_mode()
    def predict_proba(self, encodings: Sequence[Encoding], description: str | None = None) -> NDArray[np.float64]:
        """Class probabilities, shape (n, C), in the order given; shows a progress bar when `description` is set.

        Raises ModelError where the model gives a logit that is not finite.
        """
        probabilities = np.empty((len(encodings), len(self.labels)))
        with tqdm(total=len(encodings), desc=description, unit="text", disable=None if description else True) as bar:

            def predict(indices: list[int]) -> None:
                logits = self.logits(self.batch([encodings[i] for i in indices]))
                found = self.probabilities(logits.double()).cpu().numpy()
                # Of a logit that is NaN or plus infinity, the probabilities are NaN.
                check_logits(found, self.name)
                probabilities[indices] = found
                bar.update(len(indices))

            run_batches([len(e) for e in encodings], self, predict)
        return probabilities

    def predict(self, texts: Sequence[Text]) -> list[str]:
        """Name of the most probable class of each text. Raises UnsupportedError for a regression."""
        return [self.labels[i] for i in self.predict_proba(self.encode(texts)).argmax(-1)]

    def label_index(self, target: int | str) -> int:
        """Index of a class given by name or index; raises UnknownNameError."""
        if isinstance(target, str):
            if target not in self.labels:
                raise UnknownNameError("label", target, self.labels)
            return self.labels.index(target)
        if isinstance(target, bool) or not isinstance(target, int | np.integer):
            raise ParamsError(f"target: got {shown(target)}; expected the name of a class or its number")
        if not 0 <= target < len(self.labels):
            raise UnknownNameError("label index", str(target), map(str, range(len(self.labels))))
        return target

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the names and values of all parameters and buffers, the labels, and the prompt if any."""
        prompt = "" if self.completion is None else self.completion.params.model_dump_json()
        return fingerprint(self.model, repr(self.labels) + prompt)


class QuestionAnswerer(Classifier):
    """A model for extractive question answering in the place of a classifier; see `question_answering`.

    Texts are pairs of a question and a passage. `encode` marks the model's own answer, so that the class explained by
    default is "answer". `encode_labelled` marks the true answer; the model is right where it gives the same words
    (exact match).
    """

    @classmethod
    def around(
        cls,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        compute: ComputeOptions | None = None,
        name: str = "",
    ) -> QuestionAnswerer:
        """Wrap a transformers model that has a head for question answering."""
        scorer: Any = SpanScorer(model.config, model)
        return cls(scorer, tokenizer, compute, name)

    same_length = False
    """A question's batch is made as any; its model's padding is not tried."""

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        if whole:
            raise UnsupportedError(f"{self.name}: questions are not read window by window; cut the passages instead")
        plain = self._plain(texts, first)
        return [mark_answer(e, span) for e, span in zip(plain, self.best_spans(plain), strict=True)]

    def encode_labelled(self, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
        found = []
        for example, encoding in zip(examples, self._plain(examples, 1), strict=True):
            if example.answer is None:
                raise DataError(f"example {example.id!r} has no answer; expected the words of its passage that are one")
            found.append(mark_answer(encoding, example.answer))
        return found, [0] * len(found)

    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """-log p of the answer's start and end, mean over the texts (Devlin et al. 2019)."""
        return -logits[:, 0].mean()

    def answer(self, text: Text) -> str:
        """The words of the passage that the model gives as its answer."""
        (encoding,) = self.encode([text])
        first, end = encoding.answer or (0, 0)
        return " ".join(encoding.words[first:end])

    @torch.inference_mode()
    def best_spans(self, encodings: Sequence[Encoding]) -> list[tuple[int, int]]:
        """[first, end) word of the model's answer to each question; expects encodings without a marked answer."""
        scorer: Any = self.model
        found: list[tuple[int, int]] = [(0, 0)] * len(encodings)
        for indices in budget_batches([len(e) for e in encodings], self.max_tokens):
            batch = self.batch([encodings[i] for i in indices])
            with self.autocast():
                start, end, _ = scorer.bounds(**batch.model_inputs())
            for index, place in zip(indices, best_places(start, end, batch), strict=True):
                owner = encodings[index].word_ids
                found[index] = owner[place[0]], owner[place[1]] + 1
        return found

    def _plain(self, texts: Sequence[Text], first: int) -> list[Encoding]:
        found = []
        for number, encoding in enumerate(super().encode(texts, first), start=first):
            where = f"example {encoding.example_id!r}" if encoding.example_id else f"text {number}"
            if encoding.pair_start is None:
                raise DataError(f"{where} has one segment; expected a question and a passage")
            if not any(word >= encoding.pair_start for word in encoding.word_ids):
                raise DataError(f"{where}: nothing of its passage is within {self.max_length} sub-tokens")
            found.append(mark_words(encoding))
        return found
