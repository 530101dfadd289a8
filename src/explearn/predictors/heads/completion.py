"""Classification by completion: a generative model with a prompt and label words as a classifier (AML, section 3).

The prompt surrounds each text; the class logits are the next-token logits of the label words' first tokens, and their
softmax gives the probabilities. This equals a sequence classifier that reads the last token, whose head consists of the
label words' rows of the language model's output layer. So it is converted to one, and everything for decoders with a
classification head applies. Only the text's words are masked and scored: all tokens of the prompt count as special.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from explearn.core.documents import PathLike, read_json, read_yaml
from explearn.core.errors import DataError, ModelError, ParamsError, first_line, kind_of
from explearn.core.validation import check
from explearn.core.words import Segment, Span
from explearn.core.writing import write_json
from explearn.predictors.checks import same_logits
from explearn.predictors.encoding import Encoding
from explearn.predictors.heads.chat import around_in_chat
from explearn.predictors.params import CandidateLabels, CompletionParams, Prompt
from explearn.predictors.problems import changed_linear, label_maps, with_values
from explearn.text.encoding import PlainText, align_words, segments_in

if TYPE_CHECKING:
    import transformers

COMPLETION_FILE = "completion.json"
"""File in a model's folder with its prompt, or its candidate labels."""

_SAMPLE = "a text"
"""Replaces the text when the prompt is tested."""

_TRIED = 16
"""Number of its last tokens on which the classifier is compared with the language model."""


def read_completion(prompt: Prompt) -> CompletionParams | CandidateLabels:
    """Read a prompt.

    Raises:
        ParamsError: the prompt is invalid; the message names file and field.
        DataError: the file cannot be read.
    """
    where = ""
    if isinstance(prompt, str | os.PathLike):
        where = f"{os.fspath(prompt)}, "
        read: Callable[[Any], Any] = read_yaml
        if Path(prompt).suffix == ".json":
            read = read_json
        prompt = read(prompt)
    if isinstance(prompt, CompletionParams | CandidateLabels):
        return prompt
    if not isinstance(prompt, Mapping):
        raise ParamsError(f"{where}completion: got {kind_of(prompt)}; expected a template and label words, or labels")
    section: type[CompletionParams | CandidateLabels] = CompletionParams
    if "labels" in prompt:
        section = CandidateLabels
    params: CompletionParams | CandidateLabels = check(section, dict(prompt), ParamsError, where)
    return params


def _first_id(*candidates: Any) -> int | None:
    """Return the first id that is not None."""
    return next((candidate for candidate in candidates if candidate is not None), None)


def part_at(offset: Span | None, parts: Sequence[tuple[int, Segment]]) -> int | None:
    """Return the number of the part that a sub-token overlaps; None if there is none.

    Args:
        offset: [start, end) of the sub-token's characters; None for a special one.
        parts: the texts in the prompt, each after the position where it starts.
    """
    if offset is None:
        return None
    for number, (start, segment) in enumerate(parts):
        if offset[0] < start + len(segment.text) and start < offset[1]:
            return number
    return None


class Completion:
    """A prompt in the sub-tokens of a model.

    Args:
        params: the prompt.
        tokenizer: the model's fast tokenizer.
        name: the model's name, for messages.

    Attributes:
        labels: the classes, in the order of their words.
        around: the prompt before a text, between it and its pair, and after both.
        ids: the first token of each class's word when it continues the prompt.
        mask_token_id: id of the token that replaces a masked one; None: the tokenizer's mask or unknown token.

    Raises:
        ModelError: label words share a first token or join with the template's end, the mask is not one token, or there
            is no chat template for a chat.
    """

    def __init__(
        self, params: CompletionParams, tokenizer: transformers.PreTrainedTokenizerBase, name: str = ""
    ) -> None:
        if not tokenizer.is_fast:
            raise ModelError(f"{name}: its tokenizer is not a fast one; word alignment needs one")
        self.params = params
        self.tokenizer = tokenizer
        self.name = name
        self.labels = list(params.label_words)
        self.around = params.around()
        if params.chat is not None:
            self.around = around_in_chat(params, params.chat, tokenizer, name)
        self.ids: list[int] = []
        words: dict[int, str] = {}
        for word in params.label_words.values():
            token = self._first_token(word)
            if token in words:
                raise ModelError(
                    f"{name}: the label words {words[token]!r} and {word!r} share their first token "
                    f"{tokenizer.convert_ids_to_tokens(token)!r}; expected words with different first tokens"
                )
            words[token] = word
            self.ids.append(token)
        self.mask_token_id = None
        if params.mask is not None:
            ids = tokenizer(params.mask, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise ModelError(f"{name}: the mask {params.mask!r} is {len(ids)} tokens; expected a text of one token")
            self.mask_token_id = int(ids[0])
        # A masked word at the prompt's end must not be taken for padding by the head.
        mask = _first_id(self.mask_token_id, tokenizer.mask_token_id, tokenizer.unk_token_id)
        if mask is None:
            raise ModelError(f"{name}: its tokenizer has neither a mask nor an unknown token; name one as `mask`")
        pad = _first_id(tokenizer.pad_token_id, tokenizer.eos_token_id)
        last = self.around[1 + params.takes_pairs]
        if mask == pad and not last.strip():
            raise ModelError(
                f"{name}: the template ends with the text, and {tokenizer.convert_ids_to_tokens(mask)!r}, which "
                "stands for masked words, is also padding; expected words behind the text, or another `mask`"
            )

    def prompt(self, text: str, pair: str | None = None) -> str:
        """Return the string that the model reads for a text that is not too long."""
        before, between, behind = self.around
        return before + text + between + (pair or "") + behind

    def encode(self, texts: Sequence[PlainText], limit: int | None) -> list[Encoding]:
        """Tokenise texts within their prompts; a long text is cut from its end, for a pair the longer segment.

        Args:
            texts: strings, or pairs of strings.
            limit: most sub-tokens, the prompt included. None: no limit.

        Raises:
            DataError: a text is a pair and the template takes none or the other way round, or the prompt leaves no room
                for it.
        """
        encodings = []
        for number, text in enumerate(texts, start=1):
            segments = segments_in(text)
            where = f"text {number}"
            expected = "a pair, as the prompt has {pair}"
            if not self.params.takes_pairs:
                expected = "one segment, or {pair} in it"
            if (len(segments) == 2) != self.params.takes_pairs:
                raise DataError(f"{where}: does not fit the template {self.params.template!r}; expected {expected}")
            encodings.append(self._encode(segments, limit, where))
        return encodings

    def renamed(self, labels: Sequence[str]) -> Completion:
        """Return the same prompt with new names for its classes, in order."""
        names = dict(zip(self.labels, labels, strict=True))
        words = {names[label]: word for label, word in self.params.label_words.items()}
        shots = [shot.model_copy(update={"label": names[shot.label]}) for shot in self.params.shots]
        params = self.params.model_copy(update={"label_words": words, "shots": shots})
        return Completion(params, self.tokenizer, self.name)

    @property
    def fingerprint(self) -> str:
        """The prompt, with what surrounds a text, which a chat template may change from day to day."""
        return self.params.model_dump_json() + repr(self.around)

    def save(self, folder: PathLike) -> None:
        """Write the prompt into the model's folder."""
        write_json(Path(folder) / COMPLETION_FILE, self.params.model_dump(mode="json"))

    def _encode(self, segments: Sequence[Segment], limit: int | None, where: str) -> Encoding:
        texts = [segment.text for segment in segments]
        ids, offsets = self._read(self.prompt(*texts))
        before, between, _ = self.around
        starts = (len(before), len(before) + len(texts[0]) + len(between))
        parts = list(zip(starts, segments, strict=False))
        # Positions of each part; a token that spans a text and the prompt belongs to the text.
        pieces: list[list[int]] = [[] for _ in parts]
        for position, offset in enumerate(offsets):
            number = part_at(offset, parts)
            if number is not None:
                pieces[number].append(position)
        scored = set(chain.from_iterable(pieces))
        encoding = Encoding(
            input_ids=tuple(ids),
            token_type_ids=(),
            special=tuple(position not in scored for position in range(len(ids))),
            segments=tuple(segments),
            **align_words(offsets, parts),
        )
        if limit is None or len(ids) <= limit:
            return encoding
        dropped: set[int] = set()
        while len(ids) - len(dropped) > limit:
            longer = max(pieces, key=len)
            if len(longer) < 2:
                raise DataError(
                    f"{where}: the prompt takes {len(ids) - len(scored)} of the {limit} sub-tokens that {self.name} "
                    "reads; expected room for the text, with fewer or shorter shots"
                )
            dropped.add(longer.pop())
        return encoding.select([i for i in range(len(ids)) if i not in dropped])

    def _read(self, text: str) -> tuple[list[int], list[tuple[int, int] | None]]:
        """Return ids and characters of a text's sub-tokens, None for special ones.

        A token that the tokenizer appends to each text is left out, since the prompt's next token is predicted. A chat
        template writes special tokens itself.
        """
        added = self.params.chat is None
        read = self.tokenizer(
            [text], truncation=False, verbose=False, return_offsets_mapping=True, add_special_tokens=added
        )
        offsets = list(read["offset_mapping"][0])
        end = 0
        for position, segment in enumerate(read.sequence_ids(0)):
            if segment is None:
                offsets[position] = None
            else:
                end = position + 1
        return read["input_ids"][0][:end], offsets[:end]

    def _first_token(self, word: str) -> int:
        """Return the first token of a word after the prompt."""
        sample = self.prompt(_SAMPLE)
        if self.params.takes_pairs:
            sample = self.prompt(_SAMPLE, _SAMPLE)
        prompt, _ = self._read(sample)
        longer, _ = self._read(sample + word)
        if len(longer) <= len(prompt) or longer[: len(prompt)] != prompt:
            raise ModelError(
                f"{self.name}: the label word {word!r} joins with the end of the template "
                f"{self.params.template!r} in a token; expected the blank between them in the word, not in the template"
            )
        return longer[len(prompt)]


def with_label_head(model: Any, completion: Completion) -> Any:
    """Make a sequence classifier from a causal language model: its head consists of the label words' output rows.

    The model's weights are shared.

    Raises:
        ModelError: transformers has no sequence classifier of this type, or the next-token logits are not a linear
            function of the last state.
    """
    import transformers

    name = completion.name
    kind = model.config.model_type
    config = copy.deepcopy(model.config)
    config.update({**label_maps(completion.labels), "problem_type": "single_label_classification"})
    loader: Any = transformers.AutoModelForSequenceClassification
    try:
        with torch.device("meta"):
            classifier = loader.from_config(config)
    except ValueError as error:
        raise ModelError(f"{name}: a {kind!r} model cannot be made a classifier ({first_line(error)})") from error
    output = model.get_output_embeddings()
    if not isinstance(output, nn.Linear) or not isinstance(getattr(classifier, "score", None), nn.Linear):
        raise ModelError(f"{name}: a {kind!r} model has no linear output layer; expected one, for the label words")
    setattr(classifier, classifier.base_model_prefix, getattr(model, model.base_model_prefix))
    classifier.score = changed_linear(output, lambda value: value[completion.ids])
    classifier = capped(classifier, completion)
    _check_same(model.eval(), classifier.eval(), completion)
    return classifier


def capped(classifier: Any, completion: Completion) -> Any:
    """Return a classifier with the soft cap that its language model puts on next-token logits (Gemma 2), if any.

    c tanh(z / c), for the logit z and the cap c (Gemma Team 2024, "Gemma 2", section 2).
    """
    cap = getattr(classifier.config, "final_logit_softcapping", None)
    if cap is None:
        return classifier
    labels = completion.labels
    return with_values(classifier, len(labels), labels, lambda logits: cap * torch.tanh(logits / cap), None)


@torch.inference_mode()
def _check_same(model: Any, classifier: Any, completion: Completion) -> None:
    """Raise ModelError unless the classifier gives the language model's logits of the label words."""
    sample: PlainText = _SAMPLE
    if completion.params.takes_pairs:
        sample = (_SAMPLE, _SAMPLE)
    (encoding,) = completion.encode([sample], None)
    ids = torch.tensor([encoding.input_ids[-_TRIED:]], device=model.device)
    expected = model(input_ids=ids).logits[0, -1, completion.ids].float()
    logits = classifier(input_ids=ids).logits[0].float()
    if not same_logits(model, logits, expected):
        raise ModelError(
            f"{completion.name}: the next-token logits of a {model.config.model_type!r} model are not a linear map of "
            "its last state; expected a model such as GPT-2, Llama, Mistral, Qwen2 or Gemma"
        )
