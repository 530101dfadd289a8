"""The methods of a comparison, one after the other, each judged as it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explearn.comparison.choice import within_budget
from explearn.comparison.given import match_scores
from explearn.comparison.texts import OwnTexts
from explearn.comparison.work import Plan, add_cost, predictions_of, read_done, write_given
from explearn.core.errors import UnsupportedError
from explearn.core.records import Attribution
from explearn.judge.faithfulness import faithfulness
from explearn.judge.predictions import Predictions
from explearn.judge.runs import write_run
from explearn.lens.first_token import first_token_alone
from explearn.methods.base.timing import ForwardClock, explain_timed, untrained_method
from explearn.methods.registry import get_info
from explearn.model.classifier import Classifier
from explearn.text.alignment import NO_WORD
from explearn.text.choice import texts_to_explain
from explearn_study.params import Params
from explearn_study.workspace import Workspace

TIMED_TEXTS, TIMED_TEXTS_COSTLY = 4, 2
"""Texts on which a method's speed is measured; of one that takes tens of passes or more."""

CLOCKED_TEXTS = 25
"""At least so many texts, if there are, are classified round about each method, to compare its time with."""

MOST_NAMED = 3
"""Methods that were not timed are named up to this many; the first line names all."""

Tell = Callable[[str], None]


@dataclass(slots=True)
class PartClock:
    """What took how long: name of the part -> seconds."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        self.parts[name] = self.parts.get(name, 0.0) + seconds


class HeadPredictions(Predictions):
    """Predictions of passes that compute no more than what the head reads; logits differ in their last digits."""

    def evaluate(self, description: str) -> None:
        with first_token_alone(self.classifier.model) if self.classifier.has_model else nullcontext():
            super().evaluate(description)


def make_plan(
    classifier: Classifier,
    own: OwnTexts,
    methods: Mapping[str, Mapping[str, Any]],
    count: int,
    budget: float | None,
    seed: int,
) -> Plan:
    """Time every method on a few texts, and choose.

    Without a budget there is nothing to choose, and the costly methods, which come last, are not timed: loading their
    packages alone would keep the first result waiting.

    Args:
        methods: method -> options. count: most texts. budget: seconds that are left, None: no end.

    Raises UnsupportedError where no method can explain the classifier.
    """
    start = time.perf_counter()
    sample = own.examples[:TIMED_TEXTS]
    encodings = classifier.encode(sample)
    classifier.predict_proba(encodings)  # first calls load kernels and allocate buffers
    forward = _timed(lambda: classifier.predict_proba(encodings)) / len(sample)
    seconds: dict[str, float] = {}
    unsupported: dict[str, str] = {}
    untimed: list[str] = []
    for name, options in methods.items():
        explainer, _ = untrained_method(name, options, seed)
        try:
            if budget is None and get_info(name).costly:
                explainer.check_explains(classifier)
                untimed.append(name)
                continue
            few = sample[:TIMED_TEXTS_COSTLY] if get_info(name).costly else sample
            list(explainer.explain(classifier, sample[:1]))  # first calls load packages
            begun = time.perf_counter()
            list(explainer.explain(classifier, few))
        except UnsupportedError as error:
            unsupported[name] = str(error)
        else:
            seconds[name] = (time.perf_counter() - begun) / len(few)
    if not seconds and not untimed:
        raise UnsupportedError(f"{classifier.name}: no method can explain it ({'; '.join(unsupported.values())})")
    left = None if budget is None else max(0.0, budget - (time.perf_counter() - start))
    choice = within_budget(seconds, forward, count, left)
    taken = replace(choice, methods=[*choice.methods, *untimed], left_out={**unsupported, **choice.left_out})
    return Plan(taken, seconds, forward)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class MethodsRun:
    """Explains the chosen texts by all methods, and says each one's main figures as soon as it has them.

    Attributes:
        examples: the texts that are compared on.
        predictions: what the classifier has been asked, so that the judgement of all methods need not ask again.
        found: method -> its attributions of the texts.
        refused: method -> why it could not explain one of the texts, as some do with long ones.
    """

    def __init__(
        self,
        workspace: Workspace,
        params: Params,
        own: OwnTexts,
        classifier: Classifier,
        plan: Plan,
        clock: PartClock,
        tell: Tell,
    ) -> None:
        self.workspace, self.params, self.task, self.classifier = workspace, params, own.name, classifier
        self.plan, self.clock, self.tell = plan, clock, tell
        marked = workspace.read_gold(own.name, params)
        self.examples = texts_to_explain(own.examples, marked, params.attribute.max_texts, params.seed)
        encodings = classifier.encode(self.examples)
        self.encodings = {e.id: encoding for e, encoding in zip(self.examples, encodings, strict=True)}
        self.predictions = HeadPredictions(classifier)
        self.left = {name: plan.expected(name) for name in plan.choice.methods}
        self.begun, self.expected = time.perf_counter(), 0.0
        self.found: dict[str, list[Attribution]] = {}
        self.refused: dict[str, str] = {}

    def explain(self, methods: Mapping[str, Mapping[str, Any]]) -> None:
        """Explain the texts with every method (method -> options) that has not done so in an earlier run."""
        self._explain(methods)

    def _explain(self, methods: Mapping[str, Mapping[str, Any]]) -> None:
        forward: ForwardClock | None = None
        for name, given in methods.items():
            explainer, options = untrained_method(name, given, self.params.seed)
            path = self._file(name)
            found = read_done(path, self.classifier, self.examples, options)
            note = "of an earlier run"
            if found is None:
                self.expected += self.plan.expected(name) or 0.0
                begun, own = time.perf_counter(), 0.0
                try:
                    # What a process imports and compiles once is no part of what explaining a text costs.
                    explainer.prepare()
                    own = time.perf_counter() - begun
                    share = max(1, len(self.examples) // CLOCKED_TEXTS)
                    forward = forward or ForwardClock(self.classifier, self.examples, share)
                    run = explain_timed(explainer, self.classifier, self.examples, options, forward)
                    write_run(path, run)
                    cost = run.cost
                    assert cost is not None
                    own += cost.seconds
                except UnsupportedError as error:
                    self.refused[name] = str(error)
                    self.tell(f"{name}: left out: {error}")
                    continue
                finally:
                    self.clock.add("explain", own)
                    self.clock.add("time", time.perf_counter() - begun - own)
                add_cost(self.workspace, self.task, self.params.group_of(name), name, cost)
                found = read_done(path, self.classifier, self.examples, options) or []
                note = f"{own:.1f} s"
            self._judge(name, found, note)

    def match(self, given: Mapping[str, Sequence[tuple[str, dict[str, Any]]]]) -> dict[str, list[Attribution]]:
        """Somebody else's scores of the texts: method -> attributions; given: method -> records with their places.

        Raises DataError as `match_scores` does.
        """
        if not given:
            return {}
        predicted = predictions_of(self.classifier, self.examples)
        read = {name: set(encoding.word_ids) - {NO_WORD} for name, encoding in self.encodings.items()}
        return {
            name: match_scores(name, records, self.examples, predicted, self.classifier.labels, read)
            for name, records in given.items()
        }

    def take(self, matched: Mapping[str, list[Attribution]]) -> None:
        """Take in what `match` found."""
        for name, found in matched.items():
            write_given(self._file(name), name, found, self.classifier)
            self._judge(name, found, "from a file")

    def tell_unread(self) -> None:
        """Say how many words of the texts the classifier does not read, if any."""
        lost = [
            # The words of an answer are read, and have no score.
            len(e.words) - len(set(e.word_ids) - {NO_WORD}) - (e.answer[1] - e.answer[0] if e.answer else 0)
            for e in self.encodings.values()
        ]
        cut = sum(count > 0 for count in lost)
        if cut:
            self.tell(
                f"{counted(sum(lost), 'word')} of {counted(cut, 'text')} not read, being beyond "
                f"{self.classifier.max_length:,} sub-tokens or of no known characters: no method scores them"
            )

    def _judge(self, name: str, found: list[Attribution], note: str) -> None:
        """Ask the classifier about this method's words, and say the main figures; the later judgement asks no more."""
        self.found[name] = found
        with self.clock.part("judge"):
            figures = faithfulness(
                self.classifier, self.encodings, {name: found}, self.params.evaluate, None, self.predictions
            )[name].means()
        self.left.pop(name, None)
        comp, suff = figures["aopc_comprehensiveness"], figures["aopc_sufficiency"]
        # The speed so far, beside the one that a few texts promised, tells more than that alone.
        so_far = time.perf_counter() - self.begun
        pace = so_far / self.expected if self.expected else 1.0
        left = time_left(self.left, pace) if self.left else "then the page"
        self.tell(f"{name:<22} {note:>17}  comprehensiveness {comp:+.3f}  sufficiency {suff:+.3f}  {left}")

    def _file(self, name: str) -> Path:
        return self.workspace.attributions(self.task, self.params.group_of(name)) / f"{name}.parquet"


def counted(count: int, thing: str) -> str:
    """3 texts; 1 text."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def time_left(left: Mapping[str, float | None], pace: float = 1.0, most: int = MOST_NAMED) -> str:
    """What is left to do: method -> seconds, or None for one that was not timed; those are named, `most` at most.

    pace: by how much the methods so far took longer than was expected.
    """
    names = [name for name, seconds in left.items() if seconds is None]
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    untimed = ", ".join(names)
    seconds = pace * sum(found for found in left.values() if found is not None)
    if untimed and not seconds:
        return f"left: {untimed}"
    known = f"about {int(seconds // 60)}:{int(seconds % 60):02d} left"
    return f"{known}, then {untimed}" if untimed else known
