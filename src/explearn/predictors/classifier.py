"""The model that is explained: a text classifier with its tokenizer."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from explearn.core.arguments import each_text, path_of
from explearn.core.compute import ComputeOptions, at_least_float32, autocast
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError, UnsupportedError, shown
from explearn.core.examples import Example, label_problem
from explearn.core.numeric_checks import check_logits
from explearn.core.words import lay_out, word_number
from explearn.core.writing import write_json
from explearn.predictors.adapters import without_wrapper
from explearn.predictors.architectures import architecture
from explearn.predictors.batching import run_batches
from explearn.predictors.checks import check_config, check_runs
from explearn.predictors.encoding import Batch, Encoding, Text, collate, encode_texts, max_length
from explearn.predictors.heads.completion import COMPLETION_FILE, Completion
from explearn.predictors.heads.question_answering import ENDS, STARTS, SpanScorer, mark_answer, span_scores
from explearn.predictors.heads.token_classification import WordReader, mark_word, read_positions
from explearn.predictors.heads.zero_shot import CONTRADICTION, ENTAILMENT, Hypotheses, index_of
from explearn.predictors.padding import check_ends, padding_shows, with_padding
from explearn.predictors.params import CandidateLabels, Prompt, prompt_of
from explearn.predictors.pretrained import load_trained, newest_checkpoint
from explearn.predictors.problems import Answers, OutputFunction, Problem, problem_of, with_both_classes
from explearn.predictors.quantised import QUANTISED, has_quantised, prepare_quantised
from explearn.predictors.spread import OnOneDevice, Spread, spread, spread_of
from explearn.predictors.wrapped import WrappedModel
from explearn.text.encoding import name_of

if TYPE_CHECKING:
    import transformers

LISTED_WORDS = 60
"""Most words of a text listed in the error if none was chosen for classification."""


class TransformerPredictor(Answers):
    """A sequence classifier with its tokenizer, its parameters frozen.

    Attributes:
        model: a transformers model with a sequence classification head, in evaluation mode, without gradients on its
            parameters (gradients of its inputs can still be taken).
        tokenizer: its fast tokenizer.
        device, dtype: where and in which precision it runs.
        spread: how it is spread over several devices (`explearn.predictors.spread`), of which `device` is the main one;
            None if it is on one device. A model already spread by accelerate is not changed.
        max_tokens: most padded sub-tokens in a batch.
        labels: names of the C classes in the order of the logits.
        problem: how logits become probabilities. A model with one logit gets a second class, whose logit is minus the
            first (`explearn.predictors.problems`).
        completion: the prompt around each text, for a generative model (`explearn.predictors.heads.completion`).
    """

    has_model: ClassVar[bool] = True
    """Whether there is a model to look into, with its tokenizer; not of a function (`explearn.predictors.function`)."""

    does: ClassVar[str] = "classifies texts"
    """What the model does, as errors say it of one that is of another kind than is needed."""

    wrapper: ClassVar[type[WrappedModel] | None] = None
    """What gives a model with another head the logits of a classifier."""

    completion: Completion | None = None
    nli: TransformerPredictor | None = None
    """Classifier of pairs that answers for each label, of a `ZeroShotPredictor`."""
    spread: Spread | None = None
    file_labels: Mapping[str, str] = MappingProxyType({})
    """Name of a class -> its name in the model's file, where `renamed` gave another."""
    word_layers: tuple[str, ...] = ()
    """Paths of the layers that make a text's words what gradients are taken at, once `lens.words` has measured them."""

    @torch.inference_mode(False)
    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        compute: ComputeOptions | None = None,
        name: str = "",
        completion: Completion | None = None,
    ) -> None:
        """Raise ModelError for a tokenizer without character offsets or padding and for indistinguishable classes, and
        DeviceError."""
        if not tokenizer.is_fast:
            raise ModelError(f"{name or 'the classifier'}: its tokenizer is not a fast one; word alignment needs one")
        model = without_wrapper(model, name)
        check_config(model.config, name or "the classifier")
        compute = compute or ComputeOptions()
        self.name, self.completion = name, completion
        self.tokenizer = with_padding(model, tokenizer, name)
        weights = model.dtype
        model = with_both_classes(model, name)
        if spread_of(model) is None:
            check_runs(model, tokenizer, name or "the classifier")
        self.problem = problem_of(model.config)
        self.model = cast(Any, model).eval().requires_grad_(False)
        if compute.precision in QUANTISED and not has_quantised(self.model):
            raise ParamsError(
                f"precision: got {compute.precision!r} for a model in memory; weights are quantised while they are "
                "loaded (load_classifier)"
            )
        self.labels = [str(label) for _, label in sorted(self.model.config.id2label.items())]
        self.spread = spread_of(self.model)
        if self.spread is None and compute.device_map is not None:
            # Offloaded weights cannot be read later.
            self.__dict__["fingerprint"] = self.fingerprint
            self.spread = spread(self.model, compute, name)
        if self.spread is not None:
            self.device = self.spread.devices[0]
        else:
            self.device = self.model.device if compute.device_map is not None else compute.resolve_device()
            self.model = self.model.to(self.device)
        self.dtype = compute.resolve_dtype(self.device)
        if compute.precision == "saved" and weights in (torch.bfloat16, torch.float16):
            self.dtype = weights
        prepare_quantised(self.model, None if compute.precision == "saved" else self.dtype, name or "the classifier")
        devices = (self.device,) if self.spread is None else self.spread.devices
        self.max_tokens = min(compute.resolve_max_tokens(device) for device in devices)

    @classmethod
    @torch.inference_mode(False)
    def from_pretrained(
        cls,
        path: str | os.PathLike[str],
        compute: ComputeOptions | None = None,
        revision: str | None = None,
        completion: Prompt | None = None,
        labels: Sequence[str] | None = None,
        hypothesis: str | None = None,
        multi_label: bool = False,
        **options: Any,
    ) -> TransformerPredictor:
        """Load a classifier saved with `save_pretrained`, or by name from the hub.

        Args:
            path: local folder or hub name. A question-answering model gives a `QuestionPredictor`, a token
            classification model a `TokenPredictor`. In a Trainer's output folder, the newest checkpoint is used.
            compute: compute options; or pass their fields as keyword arguments (device="cuda", precision="bf16").
            revision: git revision of a hub name. completion: prompt and label words of a generative model: a section,
            its values, or a file (default: completion.json in the folder). labels: names of the classes, for a
            natural-language inference model (a `ZeroShotPredictor` is returned) or a generative model (instead of
            `completion`). hypothesis: sentence with `{}` for the label (default: "This example is {}."). multi_label:
            whether each label applies or not, independently of the others.

        Raises ModelError if there is no such model, its head is not trained, or its weights do not fit its
        configuration or are not finite; DeviceError if the device is not available.
        """
        prompt = prompt_of(completion, labels, hypothesis, multi_label)
        compute = replace(compute or ComputeOptions(), **options)
        if compute.device_map is None:
            compute.resolve_device()
        name = newest_checkpoint(path_of("path", path))
        model, tokenizer, head, reads = load_trained(name, revision, prompt, compute)
        if head in PREDICTORS:
            return PREDICTORS[head].around(model, tokenizer, compute, name)
        if isinstance(reads, CandidateLabels):
            return ZeroShotPredictor(cls(model, tokenizer, compute, name), reads)
        return cls(model, tokenizer, compute, name, reads)

    @classmethod
    def around(
        cls,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        compute: ComputeOptions | None = None,
        name: str = "",
    ) -> Self:
        """Return a classifier for a loaded transformers model with the head that this class is for."""
        wrapped: Any = model if cls.wrapper is None else cls.wrapper(model.config, model)
        return cls(wrapped, tokenizer, compute, name)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Save model, tokenizer and any prompt, for `from_pretrained`."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        if self.completion is not None:
            self.completion.save(folder)

    def with_model(self, model: transformers.PreTrainedModel) -> TransformerPredictor:
        """Copy the classifier with another model of the same architecture.

        Tokenizer, device, precision and batch size are kept.
        """
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        changed: Any = with_both_classes(model, self.name)
        if self.spread is None:
            changed = changed.to(self.device)
        other.model = changed.eval().requires_grad_(False)
        return other

    def renamed(self, names: Mapping[str, str]) -> TransformerPredictor:
        """Copy the classifier with new names for some classes (class -> name), such as LABEL_0 -> negative.

        The fingerprint does not change. Raises UnknownNameError for an unknown class, ParamsError for duplicate names.
        """
        for label in names:
            if label not in self.labels:
                raise UnknownNameError("class", label, self.labels)
        labels = [names.get(label, label) for label in self.labels]
        if problem := label_problem(labels):
            raise ParamsError(f"names of classes: {problem}")
        other = copy.copy(self)
        other.labels = labels
        before = {new: self.file_labels.get(old, old) for old, new in zip(self.labels, labels, strict=True)}
        other.file_labels = MappingProxyType(before)
        return other

    def inside(self, encodings: Sequence[Encoding]) -> tuple[TransformerPredictor, Sequence[Encoding]]:
        """Return the classifier whose model reads the texts, and its input for them."""
        return self, encodings

    def check_plain(self, what: str) -> None:
        """Raise UnsupportedError for a model that is spread over several devices, or has quantised weights."""
        if self.spread is not None:
            raise UnsupportedError(f"{what} needs a model on one device, but this one is spread over several")
        if has_quantised(self.model):
            raise UnsupportedError(f"{what} needs a model whose weights are not quantised, but these are")

    def gathered(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which tensors of several layers can be combined, whatever devices they are on."""
        return contextlib.nullcontext() if self.spread is None else OnOneDevice()

    # ---- the model's input ---------------------------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        """Most sub-tokens per text, including special tokens; longer texts are cut."""
        return max_length(self.model.config, self.tokenizer)

    @property
    def mask_token_id(self) -> int:
        """Id that replaces a removed sub-token: the mask token, or the unknown token if there is none."""
        prompted = None if self.completion is None else self.completion.mask_token_id
        for token_id in (prompted, self.tokenizer.mask_token_id, self.tokenizer.unk_token_id):
            if token_id is not None:
                return int(token_id)
        raise ModelError(f"{self.name}: its tokenizer has neither a mask nor an unknown token")

    @property
    def pad_token_id(self) -> int:
        """Id that pads the shorter texts of a batch."""
        return int(self.tokenizer.pad_token_id)

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        """Tokenise texts and align sub-tokens with words; pairs are cut from the longer segment first.

        Args:
            first: number of the first text, for error messages if `texts` is part of a longer stream.
            whole: do not cut texts longer than `max_length`, for `explearn.predictors.windows`.

        Raises DataError for a text without words or with an unusable word (see `records.check_words`).
        """
        limit = None if whole else self.max_length
        if self.completion is not None:
            return self.completion.encode(texts, limit, first)
        encodings = encode_texts(self.tokenizer, texts, limit, first)
        check_ends(self.model.config, encodings, first)
        return encodings

    def encode_samples(self, *texts: str) -> list[Encoding]:
        """Encode short texts that the model is tried on, whatever it is for."""
        return self.encode(texts)

    def at(self, token: int | str) -> TransformerPredictor:
        """Return a view that classifies one word of each text; of a `TokenPredictor` alone.

        Raises UnsupportedError for another classifier.
        """
        raise UnsupportedError(
            f"{self.name or 'the classifier'}: {self.does}; a token is for models that classify tokens"
        )

    def encode_labelled(self, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
        """Return encodings to train and judge on, and the indices of the true classes.

        Raises UnknownNameError for a label that is none of the classifier's.
        """
        return self.encode(examples), [self.label_index(example.label) for example in examples]

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Return the sub-tokens as text, special tokens left out."""
        ids = [encoding.input_ids[position] for position in encoding.positions]
        return tuple(self.tokenizer.convert_ids_to_tokens(ids))

    # ---- prediction ----------------------------------------------------------------------------------------------

    @cached_property
    def same_length(self) -> bool:
        """Return whether a batch must hold texts of one length, for padding changes what the model says of a text.

        It changes nothing where `model.architectures` knows the attention. Others are tried with two texts:
        convolutions and landmarks see padding (ConvBERT, MobileBERT, Nystromformer), and heads may read it (XLNet).
        """
        return architecture(self.model.config).attention is None and padding_shows(self)

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return collate(encodings, self.pad_token_id, self.device)

    def autocast(self) -> Any:
        return autocast(self.device, self.dtype)

    def logits(self, batch: Batch) -> torch.Tensor:
        """Return logits, shape (batch, C), float32 (float64 of a float64 model)."""
        with self.autocast():
            logits = cast(torch.Tensor, self.model(**batch.model_inputs()).logits)
        return at_least_float32(logits)

    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Return the cross-entropy, a scalar, of logits (b, C) and classes (b,), each class with its weight, (C,)."""
        return functional.cross_entropy(self.softmax_logits(logits), labels, weight=weights)

    @torch.inference_mode()
    def predict_proba(
        self, texts: Iterable[Encoding] | Iterable[Text], description: str | None = None
    ) -> NDArray[np.float64]:
        """Return class probabilities, shape (n, C), with a progress bar when `description` is set.

        Args:
            texts: encoded or not, in a list; a tuple of two strings is one pair, as for `explearn.explain`.

        Raises ModelError where the model gives a logit that is not finite; ParamsError and DataError for other texts,
        and ParamsError for a single one.
        """
        encodings = self._encoded(texts)

        def predict(indices: list[int]) -> NDArray[np.float64]:
            logits = self.logits(self.batch([encodings[i] for i in indices]))
            rows: NDArray[np.float64] = self.probabilities(logits.double()).cpu().numpy()
            # Of a logit that is NaN or plus infinity, the probabilities are NaN.
            check_logits(rows, self.name)
            return rows

        probabilities = run_batches([len(e) for e in encodings], self, predict, description=description)
        return np.array(probabilities).reshape(len(encodings), len(self.labels))

    def _encoded(self, texts: Iterable[Encoding] | Iterable[Text]) -> Sequence[Encoding]:
        listed = list(each_text(texts))
        encoded = [text for text in listed if isinstance(text, Encoding)]
        return encoded if len(encoded) == len(listed) else self.encode(cast("Sequence[Text]", listed))

    def predict(self, texts: Iterable[Encoding] | Iterable[Text]) -> list[str]:
        """Return the name of each text's most probable class. Raises UnsupportedError for a regression."""
        return [self.labels[i] for i in self.predict_proba(texts).argmax(-1)]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the names and values of all parameters and buffers, the labels, and the prompt if any."""
        prompt = "" if self.completion is None else self.completion.params.model_dump_json()
        labels = [self.file_labels.get(label, label) for label in self.labels]
        return fingerprint(self.model, repr(labels) + prompt)


def fingerprint(model: torch.nn.Module, start: str = "") -> str:
    """Return SHA-256 over `start`, and the names and values of all parameters and buffers of a model."""
    digest = hashlib.sha256(start.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class QuestionPredictor(TransformerPredictor):
    """A model for extractive question answering in the place of a classifier.

    Texts are pairs of a question and a passage. `encode` marks the model's own answer, so that the class explained by
    default is "answer". `encode_labelled` marks the true answer; the model is right where it gives the same words
    (exact match).
    """

    does = "answers questions"
    wrapper = SpanScorer
    same_length = False
    """A question's batch is made as any; its model's padding is not tried."""

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        if whole:
            raise UnsupportedError(f"{self.name}: questions are not read window by window; cut the passages instead")
        plain = self._plain(texts, first)
        return [mark_answer(e, span) for e, span in zip(plain, self.best_spans(plain), strict=True)]

    def encode_samples(self, *texts: str) -> list[Encoding]:
        return self.encode([(text, text) for text in texts])

    def encode_labelled(self, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
        encodings = []
        for example, encoding in zip(examples, self._plain(examples, 1), strict=True):
            if example.answer is None:
                raise DataError(f"example {example.id!r} has no answer; expected the words of its passage that are one")
            encodings.append(mark_answer(encoding, example.answer))
        return encodings, [0] * len(encodings)

    def loss(self, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """-log p of the answer's start and end, mean over the texts (Devlin et al. 2019)."""
        return -logits[:, 0].mean()

    def answer(self, text: Text) -> str:
        """Return the words of the passage that the model gives as its answer."""
        (encoding,) = self.encode([text])
        first, end = encoding.answer or (0, 0)
        return lay_out(encoding.words[first:end], encoding.joined, first).text

    @torch.inference_mode()
    def best_spans(self, encodings: Sequence[Encoding]) -> list[tuple[int, int]]:
        """Return the [first, end) words of the model's answer to each question, whose answer is not marked yet."""

        def answers(indices: list[int]) -> Iterator[tuple[int, int]]:
            inputs = self.batch([encodings[i] for i in indices]).model_inputs()
            with self.autocast():
                start, end, _ = self.model.bounds(**inputs)
            best = span_scores(start, end, inputs["token_type_ids"]).flatten(1).argmax(1).tolist()
            for index, place in zip(indices, best, strict=True):
                first, last = divmod(place, start.shape[1])
                words = encodings[index].word_ids
                yield words[first], words[last] + 1

        return run_batches([len(e) for e in encodings], self, answers)

    def _plain(self, texts: Sequence[Text], first: int) -> list[Encoding]:
        """Encode questions, with the bits STARTS and ENDS at the pieces of the passage's words."""
        encodings = []
        for number, encoding in enumerate(super().encode(texts, first), start=first):
            where = name_of(encoding.example_id, number)
            if encoding.pair_start is None:
                raise DataError(f"{where} has one segment; expected a question and a passage")
            places: dict[int, list[int]] = {}
            for place, word in enumerate(encoding.word_ids):
                if word >= encoding.pair_start:
                    places.setdefault(word, []).append(place)
            if not places:
                raise DataError(f"{where}: nothing of its passage is within {self.max_length} sub-tokens")
            types = list(encoding.token_type_ids or [0] * len(encoding))
            for pieces in places.values():
                types[pieces[0]] |= STARTS
                types[pieces[-1]] |= ENDS
            encodings.append(replace(encoding, token_type_ids=tuple(types)))
        return encodings


class TokenPredictor(TransformerPredictor):
    """A model for token classification (named entities, parts of speech) in the place of a classifier.

    `at` says which word of a text is classified; `predict_words` classifies all. `encode`, and with it all that takes
    texts, raises DataError where no word was named, and lists the text's words with their classes.

    Attributes:
        token: the word that is classified in every text, by its number from 0 or by itself; None: none is named.
            An example's `answer` goes before.
    """

    does = "classifies tokens"
    wrapper = WordReader
    token: int | str | None = None

    def at(self, token: int | str) -> TokenPredictor:
        """Return a view that classifies one word of each text.

        Args:
            token: the word's number from 0, or the word, which must stand once in the text; punctuation around it may
                be left out.

        Raises ParamsError for anything else; texts without that word raise DataError once they are read.
        """
        view = copy.copy(self)
        try:
            view.token = token if isinstance(token, str) else operator.index(token)
        except TypeError:
            raise ParamsError(f"token: got {shown(token)}; expected a word or its number, from 0") from None
        return view

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        if whole:
            raise UnsupportedError(f"{self.name}: words are not classified window by window; cut the texts instead")
        encodings = []
        for text, number, encoding in zip(texts, count(first), super().encode(texts, first), strict=False):
            where = name_of(encoding.example_id, number)
            token = text.answer[0] if isinstance(text, Example) and text.answer else self.token
            if token is None:
                raise DataError(
                    f"{where}: token: got none; expected the word to classify, itself or its number: "
                    f"{self._listed(encoding)}"
                )
            word = word_number(encoding.words, token, where)
            positions = read_positions(encoding)
            if word not in positions:
                raise DataError(
                    f"{where}: token: got {token!r}, which the model does not read: it is not within "
                    f"{self.max_length} sub-tokens, or has no known characters"
                )
            encodings.append(mark_word(encoding, positions[word]))
        return encodings

    def encode_samples(self, *texts: str) -> list[Encoding]:
        return self.at(0).encode(texts)

    def predict_words(self, text: Text) -> NDArray[np.float64]:
        """Return the class probabilities of each word of a text, (words, C), NaN for words that are not read.

        It takes one pass. Raises UnsupportedError for a view whose values are none of classes.
        """
        (encoding,) = super().encode([text])
        return self._of_words(encoding)

    @torch.inference_mode()
    def _of_words(self, encoding: Encoding) -> NDArray[np.float64]:
        positions = read_positions(encoding)
        inputs = self.batch([mark_word(encoding, min(positions.values()))]).model_inputs()
        with self.autocast():
            logits = self.model.outputs(**inputs).logits[0, [*positions.values()]]
        rows = self.probabilities(logits.double()).cpu().numpy()
        check_logits(rows, self.name)
        probabilities = np.full((len(encoding.words), len(self.labels)), np.nan)
        probabilities[[*positions]] = rows
        return probabilities

    def _listed(self, encoding: Encoding) -> str:
        """List the first words of a text by their numbers, with their classes where there are some."""
        classes = [""] * len(encoding.words)
        if self.problem is not Problem.REGRESSION:
            rows = self._of_words(encoding)
            classes = ["not read" if np.isnan(row).any() else self.labels[int(row.argmax())] for row in rows]
        words = zip(encoding.words, classes, strict=True)
        named = [f"{number} {word} {of}".rstrip() for number, (word, of) in enumerate(islice(words, LISTED_WORDS))]
        more = len(classes) - len(named)
        return ", ".join(named) + (f" and {more:,} more" if more else "")


class ZeroShotPredictor(TransformerPredictor):
    """A model of natural-language inference as a classifier for labels given at call time.

    Texts are single ones. Methods that leave words out, and metrics, see the answer among the labels. Methods that look
    inside the model explain the entailment output for the pair of the text and the hypothesis of the target label.

    Args:
        nli: the classifier of pairs.
        params: labels and hypothesis.

    Raises ModelError where no class of `nli` stands for entailment, or, with several labels that hold, contradiction,
    and for a hypothesis that leaves no room for a text.
    """

    nli: TransformerPredictor

    def __init__(self, nli: TransformerPredictor, params: CandidateLabels) -> None:
        self.__dict__.update(nli.__dict__)
        self.nli, self.params, self.labels = nli, params, list(params.labels)
        self.problem = Problem.MULTI_LABEL if params.multi_label else Problem.SINGLE_LABEL
        self.entailment = index_of(nli.labels, ENTAILMENT, nli.name)
        self.contradiction = index_of(nli.labels, CONTRADICTION, nli.name) if params.multi_label else None
        self.hypotheses = Hypotheses(params, nli.tokenizer, nli.max_length, nli.name)
        start = nli.fingerprint + params.model_dump_json()
        self.__dict__["fingerprint"] = hashlib.sha256(start.encode()).hexdigest()

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        super().save_pretrained(folder)
        write_json(Path(folder) / COMPLETION_FILE, self.params.model_dump(mode="json"))

    def with_model(self, model: transformers.PreTrainedModel) -> TransformerPredictor:
        return ZeroShotPredictor(self.nli.with_model(model), self.params)

    def inside(self, encodings: Sequence[Encoding]) -> tuple[TransformerPredictor, Sequence[Encoding]]:
        """Return the classifier of pairs, and each text with the hypothesis of its predicted label."""
        return self.nli, self.pairs(encodings, self.logits_of(encodings).argmax(-1).tolist())

    def pairs(self, encodings: Sequence[Encoding], labels: Sequence[int]) -> list[Encoding]:
        """Return each text with the hypothesis of a label."""
        return [self.hypotheses.behind(e, label) for e, label in zip(encodings, labels, strict=True)]

    @torch.inference_mode()
    def logits_of(self, encodings: Sequence[Encoding]) -> NDArray[np.float64]:
        """Return the labels' logits, (n, C)."""

        def answer(indices: list[int]) -> NDArray[np.float64]:
            rows: NDArray[np.float64] = self.logits(self.batch([encodings[i] for i in indices])).double().cpu().numpy()
            return rows

        logits = run_batches([len(e) for e in encodings], self, answer)
        return np.array(logits).reshape(len(encodings), len(self.labels))

    def _view(
        self, labels: list[str], classes: list[str], change: OutputFunction, rows: torch.Tensor | None = None
    ) -> ZeroShotPredictor:
        # No one pass through the model gives such a value.
        answers = copy.copy(self)
        answers.__dict__["has_model"] = False
        return super(ZeroShotPredictor, answers)._view(labels, classes, change, rows)

    @property
    def max_length(self) -> int:
        return super().max_length - self.hypotheses.room

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        encodings = super().encode(texts, first, whole)
        for number, encoding in enumerate(encodings, start=first):
            if encoding.pair_start is not None:
                where = name_of(encoding.example_id, number)
                raise DataError(f"{where}: is a pair; expected one text, which is paired with each label's hypothesis")
        return encodings

    def logits(self, batch: Batch) -> torch.Tensor:
        pairs = (self.pairs(batch.encodings, [label] * len(batch)) for label in range(len(self.labels)))
        of_labels = torch.stack([self.nli.logits(self.nli.batch(of_label)) for of_label in pairs], 1)
        entailed = of_labels[..., self.entailment]
        return entailed if self.contradiction is None else entailed - of_labels[..., self.contradiction]


PREDICTORS: dict[str, type[TransformerPredictor]] = {
    SpanScorer.loader: QuestionPredictor,
    WordReader.loader: TokenPredictor,
}
"""Head -> class of the models that have it."""
