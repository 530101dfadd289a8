"""From a model's answers to rationales: what is kept, what is dropped and why (ExpNet, appendix A.1, stage 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.records import Example, Rationale
from explearn_study.annotate.llm.answers import InvalidAnswerError, ParsedAnswer, parse_answer
from explearn_study.annotate.llm.asking import Question
from explearn_study.annotate.llm.cache import CachedAnswer, read_answers
from explearn_study.annotate.llm.prompts import BoundPrompt, Shot, bind_prompt, choose_shots
from explearn_study.annotate.llm.quotes import Alignment, align_quotes
from explearn_study.annotate.store import Store, Verdict
from explearn_study.sections import LLMParams
from explearn_study.sources.splits import subsample

Fate = Literal[
    "kept", "unanswered", "invalid", "other_label", "empty", "all_words", "diffuse", "hallucinated", "rejected"
]
FATES: tuple[Fate, ...] = get_args(Fate)


@dataclass(frozen=True, slots=True)
class Annotated:
    """What a model said of one text.

    Attributes:
        example: the text.
        fate: kept, or why not. unanswered: not asked yet; invalid: the answer cannot be read (`problem` says why);
            other_label: it is for another label than gold; empty: no word of the text; all_words: every word; diffuse:
            more than the share `max_share` of them; hallucinated: more than the share `max_hallucinated` of its words
            is not in the text; rejected: a person said no. The first that holds, in this order except that
            `hallucinated` goes before `empty`.
        answer, alignment: where there are any.
        problem: what is wrong with an invalid answer.
    """

    example: Example
    fate: Fate
    answer: ParsedAnswer | None = None
    alignment: Alignment | None = None
    problem: str = ""

    @property
    def mask(self) -> tuple[bool, ...]:
        """The words marked, whatever the fate; none where the answer cannot be read."""
        return self.alignment.mask if self.alignment else (False,) * len(self.example.all_words)


def annotator_name(model: str) -> str:
    """Under which a model's rationales are filed."""
    return f"llm:{model}"


def read_shots(store: Store, examples: Sequence[Example], unused: Iterable[str]) -> list[Shot]:
    """The seed set: marked examples in the order of their file."""
    by_id = {example.id: example for example in examples}
    return [Shot(by_id[r.example_id], r.mask) for r in store.read(store.seeds, examples, unused)]


def bound_prompt(
    name: str, task: str, labels: Sequence[str], seeds: Sequence[Shot], settings: LLMParams
) -> BoundPrompt:
    """A prompt with the task's shots; raises as `bind_prompt` does."""
    return bind_prompt(name, task, labels, choose_shots(seeds, labels, settings.shots), settings)


def texts_to_annotate(
    examples: Sequence[Example], settings: LLMParams, labels: Sequence[str], marked: Collection[str], seed: int
) -> list[Example]:
    """The texts that a model is to mark: of the splits and labels asked for, not marked by people, at most `max_texts`.

    Raises UnknownNameError for a label that the task does not have.
    """
    for label in settings.labels or ():
        if label not in labels:
            raise UnknownNameError("label under llm.labels", label, labels)
    chosen: set[str] = set()
    for split in settings.splits:
        open_texts = {
            example.id: example.label
            for example in examples
            if example.split == split
            and example.id not in marked
            and (settings.labels is None or example.label in settings.labels)
        }
        chosen |= subsample(open_texts, settings.max_texts, False, seed)
    return [example for example in examples if example.id in chosen]


def collect(
    questions: Sequence[Question],
    path: Path,
    settings: LLMParams,
    verdicts: Iterable[Verdict] = (),
) -> list[Annotated]:
    """Read the answers to questions from the cache file and say what becomes of each, in the questions' order.

    Raises DataError when the file is broken.
    """
    by_key: dict[str, list[int]] = {}
    for number, question in enumerate(questions):
        by_key.setdefault(question.key, []).append(number)
    rejected = {(verdict.example_id, verdict.mask) for verdict in verdicts if verdict.verdict == "reject"}
    found = [Annotated(question.example, "unanswered") for question in questions]
    for answer in read_answers(path):
        for number in by_key.get(answer.key, ()):
            question = questions[number]
            found[number] = _annotated(question.example, question.prompt.labels, answer, settings, rejected)
    return found


def _annotated(
    example: Example,
    labels: Sequence[str],
    cached: CachedAnswer,
    settings: LLMParams,
    rejected: Collection[tuple[str, tuple[bool, ...]]],
) -> Annotated:
    try:
        answer = parse_answer(cached.content, cached.finish, labels)
    except InvalidAnswerError as error:
        return Annotated(example, "invalid", problem=str(error))
    alignment = align_quotes(answer.quotes, example.all_words, settings.fuzzy_threshold)
    fate = _fate(example, answer, alignment, settings)
    if fate == "kept" and (example.id, alignment.mask) in rejected:
        fate = "rejected"
    return Annotated(example, fate, answer, alignment)


def _fate(example: Example, answer: ParsedAnswer, alignment: Alignment, settings: LLMParams) -> Fate:
    if answer.label != example.label:
        return "other_label"
    given = sum(len(quote.text.split()) for quote in answer.quotes)
    if given and alignment.hallucinated_words > settings.max_hallucinated * given:
        return "hallucinated"
    if not any(alignment.mask):
        return "empty"
    if all(alignment.mask):
        return "all_words"
    if sum(alignment.mask) > settings.max_share * len(alignment.mask):
        return "diffuse"
    return "kept"


def to_rationales(annotated: Iterable[Annotated], model: str) -> list[Rationale]:
    """The kept ones, by the annotator `llm:MODEL`."""
    name = annotator_name(model)
    return [Rationale(item.example.id, name, "llm", item.mask) for item in annotated if item.fate == "kept"]


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures on one model's answers with one prompt: texts by fate, quotes by how they were found, words marked.

    `mean_length` is the mean number of words a kept rationale marks.
    """

    model: str
    prompt: str
    version: str
    shots: int
    texts: int
    fates: Mapping[str, int]
    repaired: int
    quotes: Mapping[str, int]
    hallucinated_words: int
    mean_length: float | None

    def to_record(self) -> dict[str, object]:
        return asdict(self)


def summarise(annotated: Sequence[Annotated], model: str, prompt: BoundPrompt) -> Summary:
    fates = Counter(item.fate for item in annotated)
    aligned = [item.alignment for item in annotated if item.alignment]
    kept = [sum(item.mask) for item in annotated if item.fate == "kept"]
    return Summary(
        model=model,
        prompt=prompt.name,
        version=prompt.version,
        shots=len(prompt.shots),
        texts=len(annotated),
        fates={fate: fates[fate] for fate in FATES},
        repaired=sum(item.answer.repaired for item in annotated if item.answer),
        quotes={
            "exact": sum(alignment.exact for alignment in aligned),
            "insensitive": sum(alignment.insensitive for alignment in aligned),
            "fuzzy": sum(alignment.fuzzy for alignment in aligned),
            "repeated": sum(alignment.repeated for alignment in aligned),
            "hallucinated": sum(len(alignment.hallucinated) for alignment in aligned),
        },
        hallucinated_words=sum(alignment.hallucinated_words for alignment in aligned),
        mean_length=sum(kept) / len(kept) if kept else None,
    )


def require_model(settings: LLMParams, default: str | None) -> str:
    """The model's name, from the parameters or else the environment; raises ParamsError where neither names one."""
    model = settings.model or default
    if not model:
        raise ParamsError("no model named; expected llm.model in the parameters, --model, or EXPLEARN_LLM_MODEL")
    return model
