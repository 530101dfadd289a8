"""Classification by completion: a generative model, a prompt and label words in the place of a classifier (AML, 3).

The prompt goes before and behind each text; the logits of the classes are those of the label words' first tokens as the
next token, and their softmax is the probabilities. That is a sequence classifier that reads the last token: its head
has the rows of the language model's output layer that belong to the label words. So it is made into one, and all that
is known of decoders with a classification head applies. Only the text's own words are masked and scored: all of the
prompt's tokens count as special.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from torch import nn

from explearn.core.documents import kind_of, read_json, read_yaml
from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.records import Example
from explearn.core.settings import problems_sentence
from explearn.core.writing import write_json
from explearn.model.encoding import Encoding
from explearn.model.prompt_params import CompletionParams
from explearn.model.reading import Text, as_segments
from explearn.text.alignment import NO_WORD, Span, align, word_spans

if TYPE_CHECKING:
    import transformers

COMPLETION_FILE = "completion.json"
"""Where a model's folder says how it is prompted."""

Given = CompletionParams | Mapping[str, Any] | str | os.PathLike[str]
"""A prompt as a section, as values, or in a file (JSON or YAML)."""

SAME_LOGITS, SAME_LOGITS_HALF = 1e-3, 2e-2
"""Largest difference, by the largest logit, between the head made here and the language model itself; of weights with
half the bits of float32."""

_SAMPLE = "a text"
"""What stands for the text where the prompt is tried."""

_TRIED = 16
"""Tokens of it on which the classifier is compared with the language model."""


def read_completion(given: Given) -> CompletionParams:
    """Raises ParamsError, naming file and field, for what is no prompt; DataError for a file that cannot be read."""
    if isinstance(given, CompletionParams):
        return given
    where, values = "", given
    if isinstance(given, str | os.PathLike):
        where = f"{os.fspath(given)}, "
        values = read_json(given) if Path(given).suffix == ".json" else read_yaml(given)
    if not isinstance(values, Mapping):
        raise ParamsError(f"{where}completion: got {kind_of(values)}; expected a template and label words")
    try:
        return CompletionParams.model_validate(dict(values))
    except ValidationError as error:
        raise ParamsError(problems_sentence(error, CompletionParams, where)) from error


class Completion:
    """A prompt in the sub-tokens of a model.

    Args:
        params: the prompt. tokenizer: the model's fast tokenizer. name: of the model, for messages.

    Attributes:
        labels: the classes, in the order of their words.
        ids: the first token of each class's word, where it goes on behind the prompt.
        mask_token_id: what stands for a masked token; None: the tokenizer's mask or unknown token.

    Raises ModelError for label words that share a first token or join with the template's end, and for a mask that is
    not one token.
    """

    def __init__(
        self, params: CompletionParams, tokenizer: transformers.PreTrainedTokenizerBase, name: str = ""
    ) -> None:
        if not tokenizer.is_fast:
            raise ModelError(f"{name}: its tokenizer is not a fast one; word alignment needs one")
        self.params, self.tokenizer, self.name = params, tokenizer, name
        self.labels = list(params.label_words)
        self.ids = [self._first_token(word) for word in params.label_words.values()]
        for (one, first), (other, second) in combinations(zip(self.labels, self.ids, strict=True), 2):
            if first == second:
                words = params.label_words
                raise ModelError(
                    f"{name}: the label words {words[one]!r} and {words[other]!r} share their first token "
                    f"{tokenizer.convert_ids_to_tokens(first)!r}; expected words that the next token tells apart"
                )
        self.mask_token_id = None if params.mask is None else self._only_token(params.mask)
        self._check_end()

    def prompt(self, text: str, pair: str | None = None) -> str:
        """What the model reads of a text that is not too long."""
        between, after = self.params.behind()
        return f"{self.params.before()}{text}{between}{pair or ''}{after}"

    def encode(self, texts: Sequence[Text], limit: int | None, first: int = 1) -> list[Encoding]:
        """Texts within their prompts; what is too long is cut from the end of the text, the longer one of a pair.

        Args:
            limit: most sub-tokens, the prompt's with them. None: any.
            first: number of the first text, for messages.

        Raises DataError for a text without words, a pair where the template takes none or the other way round, and
        where the prompt leaves no room; UnsupportedError for an example where the shots are scored, too.
        """
        if self.params.score_shots and any(isinstance(text, Example) for text in texts):
            raise UnsupportedError(
                f"{self.name}: score_shots scores words that are not the example's own; expected free texts, or "
                "score_shots: false"
            )
        segments = [as_segments(text, number) for number, text in enumerate(texts, start=first)]
        for number, (_, pair, example_id) in enumerate(segments, start=first):
            if (pair is not None) != self.params.takes_pairs:
                where = f"example {example_id!r}" if example_id else f"text {number}"
                expected = "a pair, as the template has {pair}" if pair is None else "one segment, or {pair} in it"
                raise DataError(f"{where}: does not fit the template {self.params.template!r}; expected {expected}")
        read = self.tokenizer(
            [self.prompt(text, pair) for text, pair, _ in segments],
            truncation=False,
            verbose=False,
            return_offsets_mapping=True,
        )
        found = []
        for row, (text, pair, example_id) in enumerate(segments):
            encoding = self._encoding(read, row, text, pair, example_id)
            where = f"example {example_id!r}" if example_id else f"text {row + first}"
            found.append(encoding if limit is None else self._cut(encoding, limit, where))
        return found

    def renamed(self, labels: Sequence[str]) -> Completion:
        """The same prompt with other names for its classes, in their order."""
        names = dict(zip(self.labels, labels, strict=True))
        words = {names[label]: word for label, word in self.params.label_words.items()}
        shots = [shot.model_copy(update={"label": names[shot.label]}) for shot in self.params.shots]
        params = self.params.model_copy(update={"label_words": words, "shots": shots})
        return Completion(params, self.tokenizer, self.name)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the prompt beside the model."""
        write_json(Path(folder) / COMPLETION_FILE, self.params.model_dump(mode="json"))

    def _encoding(self, read: Any, row: int, text: str, pair: str | None, example_id: str) -> Encoding:
        ids, offsets, sequence = read["input_ids"][row], read["offset_mapping"][row], read.sequence_ids(row)
        # A tokenizer may end each text with a token; the next token is that behind the prompt.
        end = max(i for i, part in enumerate(sequence) if part is not None) + 1
        ids, offsets, sequence = ids[:end], offsets[:end], sequence[:end]
        between, _ = self.params.behind()
        before = self.params.before()
        parts = [*self._shot_texts(), (len(before), text)]
        if pair is not None:
            parts.append((len(before) + len(text) + len(between), pair))
        spans: list[Span] = [(at + a, at + b) for at, segment in parts for a, b in word_spans(segment)]
        own: list[Span] = [span for _, segment in parts for span in word_spans(segment)]
        words = [segment[a:b] for _, segment in parts for a, b in word_spans(segment)]
        real = [i for i, part in enumerate(sequence) if part is not None]
        owners = [NO_WORD] * end
        for place, owner in zip(real, align([offsets[i] for i in real], spans), strict=True):
            owners[place] = owner
        areas = [(at, at + len(segment)) for at, segment in parts]
        characters, special = [], []
        for owner, (start, stop), part in zip(owners, offsets, sequence, strict=True):
            # A token that holds something of a text and of the prompt is the text's.
            inside = part is not None and any(start < b and a < stop for a, b in areas)
            special.append(not inside)
            a, b = spans[owner] if owner != NO_WORD else (0, 0)
            characters.append((max(start, a) - a, min(stop, b) - a) if owner != NO_WORD else (0, 0))
        return Encoding(
            input_ids=tuple(ids),
            token_type_ids=(),
            special=tuple(special),
            word_ids=tuple(owners),
            words=tuple(words),
            example_id=example_id,
            characters=tuple(characters),
            pair_start=None if pair is None else len(word_spans(text)),
            # Of shots there is no segment in whose characters a span could be told.
            spans=() if self.params.score_shots else tuple(own),
        )

    def _shot_texts(self) -> list[tuple[int, str]]:
        """Where in the prompt the shots' texts begin, and they; none unless they are scored."""
        found, place = [], 0
        for piece, is_text in self.params.pieces():
            if is_text and self.params.score_shots:
                found.append((place, piece))
            place += len(piece)
        return found

    def _cut(self, encoding: Encoding, limit: int, where: str) -> Encoding:
        over = len(encoding) - limit
        if over <= 0:
            return encoding
        shots = sum(len(word_spans(text)) for _, text in self._shot_texts())
        split = len(encoding.words) if encoding.pair_start is None else encoding.pair_start
        # Positions of the text and of its second segment; pieces of no word go with the word before them.
        segments: tuple[list[int], list[int]] = ([], [])
        owner = NO_WORD
        for place, (special, word) in enumerate(zip(encoding.special, encoding.word_ids, strict=True)):
            owner = word if word != NO_WORD else owner
            if not special and owner >= shots:
                segments[int(owner >= split)].append(place)
        prompt = len(encoding) - sum(map(len, segments))
        for _ in range(over):
            longer = max(segments, key=len)
            if len(longer) < 2:
                raise DataError(
                    f"{where}: the prompt takes {prompt} of the {limit} sub-tokens that {self.name} reads; expected "
                    "room for the text, with fewer or shorter shots"
                )
            longer.pop()
        kept = {*segments[0], *segments[1]}
        return encoding.select(
            [
                i
                for i, (special, word) in enumerate(zip(encoding.special, encoding.word_ids, strict=True))
                if special or i in kept or (0 <= word < shots)
            ]
        )

    def _first_token(self, word: str) -> int:
        """The token with which a word begins behind the prompt."""
        prompt = self._ids(self.prompt(_SAMPLE, _SAMPLE))
        longer = self._ids(self.prompt(_SAMPLE, _SAMPLE) + word)
        if len(longer) <= len(prompt) or longer[: len(prompt)] != prompt:
            raise ModelError(
                f"{self.name}: the label word {word!r} joins with the end of the template "
                f"{self.params.template!r} in a token; expected the blank between them in the word, not in the template"
            )
        return longer[len(prompt)]

    def _only_token(self, text: str) -> int:
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise ModelError(f"{self.name}: the mask {text!r} is {len(ids)} tokens; expected a text of one token")
        return int(ids[0])

    def _ids(self, text: str) -> list[int]:
        read = self.tokenizer([text], truncation=False, verbose=False)
        sequence = read.sequence_ids(0)
        end = max(i for i, part in enumerate(sequence) if part is not None) + 1
        return list(read["input_ids"][0][:end])

    def _check_end(self) -> None:
        """Raise ModelError where a masked word at the prompt's end would be taken for padding by the head."""
        tokenizer = self.tokenizer
        masks = (self.mask_token_id, tokenizer.mask_token_id, tokenizer.unk_token_id)
        mask = next((i for i in masks if i is not None), None)
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        if mask is None:
            raise ModelError(f"{self.name}: its tokenizer has neither a mask nor an unknown token; name one as `mask`")
        if mask == pad and not self.params.behind()[1].strip():
            raise ModelError(
                f"{self.name}: the template ends with the text, and {tokenizer.convert_ids_to_tokens(mask)!r}, which "
                "stands for masked words, is also padding; expected words behind the text, or another `mask`"
            )


def with_label_head(model: Any, completion: Completion) -> Any:
    """A sequence classifier from a causal language model: its head are the output layer's rows of the label words.

    The model's own weights are shared. Raises ModelError for a model that transformers has no sequence classifier of,
    or whose next-token logits are not a linear map of the last state.
    """
    import transformers

    name, kind = completion.name, model.config.model_type
    config = copy.deepcopy(model.config)
    config.id2label = dict(enumerate(completion.labels))
    config.label2id = {label: index for index, label in enumerate(completion.labels)}
    config.problem_type = "single_label_classification"
    loader: Any = transformers.AutoModelForSequenceClassification
    try:
        with torch.device("meta"):
            made = loader.from_config(config)
    except ValueError as error:
        raise ModelError(f"{name}: a {kind!r} model cannot be made a classifier ({first_line(error)})") from error
    output = model.get_output_embeddings()
    if not isinstance(output, nn.Linear) or not isinstance(getattr(made, "score", None), nn.Linear):
        raise ModelError(f"{name}: a {kind!r} model has no linear output layer; expected one, for the label words")
    setattr(made, made.base_model_prefix, getattr(model, model.base_model_prefix))
    rows = torch.tensor(completion.ids, device=output.weight.device)
    head = nn.Linear(output.in_features, len(rows), bias=output.bias is not None, device="meta")
    head.weight = nn.Parameter(output.weight.detach()[rows].clone())
    if output.bias is not None:
        head.bias = nn.Parameter(output.bias.detach()[rows].clone())
    made.score = head
    if left := [path for path, value in made.named_parameters() if value.is_meta]:
        raise ModelError(f"{name}: a {kind!r} classifier has weights that its language model lacks: {left[0]}")
    _check_same(model.eval(), made.eval(), completion)
    return made


@torch.inference_mode()
def _check_same(model: Any, made: Any, completion: Completion) -> None:
    """Raise ModelError unless the classifier gives the language model's own logits of the label words."""
    (encoding,) = completion.encode([(_SAMPLE, _SAMPLE) if completion.params.takes_pairs else _SAMPLE], None)
    # The end is enough, and is not too long.
    ids = torch.tensor([encoding.input_ids[-_TRIED:]], device=model.device)
    expected = model(input_ids=ids).logits[0, -1, completion.ids].float()
    found = made(input_ids=ids).logits[0].float()
    allowed = SAME_LOGITS if model.dtype in (torch.float32, torch.float64) else SAME_LOGITS_HALF
    if not bool(((found - expected).abs() <= allowed * expected.abs().max().clamp_min(1.0)).all()):
        raise ModelError(
            f"{completion.name}: the next-token logits of a {model.config.model_type!r} model are not a linear map of "
            "its last state; expected a model such as GPT-2, Llama, Mistral, Qwen2 or Gemma"
        )
