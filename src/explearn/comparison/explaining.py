"""The texts of a comparison as the classifier reads them, and their explanations by every method.

When a method has finished, its main figures are shown at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial

from explearn.comparison.plan import Plan, Tell
from explearn.comparison.score_files import Records, match_scores
from explearn.core.attribution import Attribution
from explearn.core.documents import text_digest
from explearn.core.errors import UnansweredError, UnsupportedError
from explearn.core.examples import Example
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.timing import ForwardClock, explain_timed
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams
from explearn.metrics.runs import MethodRun
from explearn.predictors.answers import Answers
from explearn.predictors.labelled import check_use
from explearn.show.blocks import several
from explearn.subject.subject import Subject
from explearn.text.encoding import Encoding
from explearn.text.rationales import marked_words
from explearn.text.sampling import texts_to_explain
from explearn.text.units import Unit, example_in_units, in_units, marks_in_units, unit_name

CLOCKED_TEXTS = 25
"""Classify at least this many texts (or all) around each method to time it against."""

INFIDELITY_SAMPLES = 6
"""Number of word sets masked per text."""


class ComparedTexts:
    """The texts of a comparison.

    Attributes:
        classifier: the classifier that reads them.
        user_texts: all texts that the user has.
        unit: what is scored.
        examples: the texts of the comparison.
        units: example id -> the text with scored units in place of words.
        encodings: example id -> the text as the classifier reads it, by units.
        rationales: the marks, by units.
        gold: example id -> marked units, annotators merged, for all texts with marks.
        fingerprint: of the classifier; of a function of texts also of its answers.
    """

    def __init__(self, subject: Subject, count: int, unit: Unit) -> None:
        """Draw some texts; those with marked words come first.

        Args:
            subject: the classifier, all texts, and the seed of the draw.
            count: number of texts.
            unit: what is scored.
        """
        classifier = subject.classifier
        user_texts = subject.texts
        self.classifier = classifier
        self.user_texts = user_texts
        self.unit = unit
        self.rationales = user_texts.rationales
        self.examples = texts_to_explain(user_texts.examples, marked_words(self.rationales), count, subject.seed)
        self.units = {example.id: example for example in user_texts.examples}
        encodings = classifier.read(self.examples)
        if unit != "word":
            check_use(classifier, "units")
            encodings = self._in_units(encodings)
        self.encodings = {example.id: encoding for example, encoding in zip(self.examples, encodings, strict=True)}
        self.gold = marked_words(self.rationales)
        self.fingerprint = classifier.fingerprint
        if classifier.transformer is None:
            # A function may have changed where its fingerprint did not: what was kept is of use while these answers
            # stay.
            answers = classifier.predict_proba(encodings)
            self.fingerprint = text_digest(repr((self.fingerprint, answers.tolist())))

    @property
    def explained(self) -> list[Example]:
        """The texts of the comparison, with scored units in place of words."""
        return [self.units[example.id] for example in self.examples]

    def _in_units(self, encodings: Sequence[Encoding]) -> list[Encoding]:
        """Replace words by units in the texts of the comparison and in all marks; return the encodings."""
        chosen = {example.id for example in self.examples}
        marked = {rationale.example_id for rationale in self.rationales}
        others = [example for example in self.user_texts.examples if example.id in marked - chosen]
        examples = {example.id: example for example in [*self.examples, *others]}
        by_units: dict[str, Encoding] = {}
        for example, encoding in zip(examples.values(), [*encodings, *self.classifier.read(others)], strict=True):
            by_units[example.id] = in_units(encoding, self.unit, f"example {example.id!r}")
        self.units = {i: example_in_units(examples[i], encoding, self.unit) for i, encoding in by_units.items()}
        marks = []
        for rationale in self.rationales:
            i = rationale.example_id
            marks.append(replace(rationale, mask=marks_in_units(rationale.mask, examples[i], by_units[i])))
        self.rationales = []
        if marked_words(marks):
            self.rationales = marks
        return [by_units[example.id] for example in self.examples]

    def unread(self) -> str:
        """Return a sentence on the words that the classifier does not read; empty if it reads all."""
        missing = []
        for encoding in self.encodings.values():
            # The words of an answer to a question have no score, but are read.
            read = encoding.read.union(range(*(encoding.focus or (0, 0))))
            missing.append(len(encoding.words) - len(read))
        if not any(missing):
            return ""
        return (
            f"{several(sum(missing), unit_name(self.unit))} in {several(sum(map(bool, missing)), 'text')} not read, "
            f"because beyond {self.classifier.max_length:,} sub-tokens or without known characters: no method scores "
            "them"
        )

    def match(self, records: Records) -> dict[str, list[Attribution]]:
        """Return attributions of the texts from files of scores, by method.

        Raises:
            DataError: as `match_scores`.
        """
        if not records:
            return {}
        labels = self.classifier.labels
        probabilities = self.classifier.predict_proba(list(self.encodings.values()))
        predicted = {}
        read = {}
        for (i, encoding), row in zip(self.encodings.items(), probabilities, strict=True):
            predicted[i] = labels[row.argmax()], float(row.max())
            read[i] = encoding.read
        return {name: match_scores(name, rows, self.explained, predicted, read) for name, rows in records.items()}


class MethodsRun:
    """A run of all methods on the texts of a comparison.

    Attributes:
        texts: the texts.
        plan: methods and number of texts.
        params: settings of the metrics.
        predictions: predictions for shortened texts, so that evaluating all methods need not repeat them.
        runs: method -> its run on the texts.
        refused: method -> why it could not explain one of the texts, such as a long one.
        used: method -> its explainer.
    """

    def __init__(self, texts: ComparedTexts, plan: Plan, tell: Tell) -> None:
        self.texts = texts
        self.plan = plan
        self.params = EvaluateParams(infidelity_samples=INFIDELITY_SAMPLES)
        self.predictions = Answers(texts.classifier)
        self.runs: dict[str, MethodRun] = {}
        self.refused: dict[str, str] = {}
        self.used: dict[str, Explainer] = {}
        self._tell = tell
        tell(
            f"{several(len(plan.methods), 'method')} on {plan.texts} of "
            f"{several(len(texts.user_texts.examples), 'text')}, classes {', '.join(texts.classifier.labels)}\n"
            "Means over the texts; comprehensiveness: larger is better, sufficiency: smaller"
        )
        if unread := texts.unread():
            tell(unread)

    def explain(self, subject: Subject) -> None:
        """Explain the texts with every planned method that an earlier call has not finished.

        Args:
            subject: the methods, and where their runs are kept.
        """
        texts = self.texts
        for name in self.plan.methods:
            explainer = subject.explainers[name]
            self.used[name] = explainer
            source = (texts.fingerprint, texts.explained, explainer.settings())
            try:
                run, kept = subject.work.run(name, source, partial(self._timed, explainer))
                explained = len(run.attributions)
                if 2 * explained < len(texts.examples):
                    raise UnansweredError(f"explains {explained} of {len(texts.examples)} texts, for want of answers")
            except (UnansweredError, UnsupportedError) as error:
                self.refused[name] = str(error)
                self._tell(f"{name}: left out: {error}")
                continue
            note = "of an earlier run"
            if not kept and run.cost is not None:
                note = f"{run.cost.seconds:.1f} s"
            self.add(run, note)

    def leave_out_unexplained(self) -> None:
        """Leave out the texts that a method does not explain, since the classifier gives no answer without some words.

        Raises:
            UnansweredError: no text is left.
        """
        texts = self.texts
        explained = {example.id for example in texts.examples}
        for run in self.runs.values():
            explained &= {attribution.example_id for attribution in run.attributions}
        missing = len(texts.examples) - len(explained)
        if not missing:
            return
        why = f"{missing} of {several(len(texts.examples), 'text')} left out, to which there is no answer without some "
        why += f"{unit_name(texts.unit)}s that a method takes out"
        if not explained:
            raise UnansweredError(f"{texts.classifier.name}: {why}")
        self._tell(why)
        texts.examples = [example for example in texts.examples if example.id in explained]
        texts.encodings = {i: encoding for i, encoding in texts.encodings.items() if i in explained}
        texts.user_texts = replace(texts.user_texts, hint=f"{why}. {texts.user_texts.hint}".strip())
        for name, run in self.runs.items():
            attributions = [attribution for attribution in run.attributions if attribution.example_id in explained]
            self.runs[name] = replace(run, attributions=attributions)

    def _timed(self, explainer: Explainer) -> MethodRun:
        """Return a method's run, timed."""
        texts = self.texts
        options = explainer.settings()
        return explain_timed(explainer, texts.classifier, texts.examples, options, self._clock, texts.unit, warm_up=1)

    @cached_property
    def _clock(self) -> ForwardClock:
        """Times the classifier alone, around each method."""
        texts = self.texts
        return ForwardClock(texts.classifier, texts.examples, max(1, len(texts.examples) // CLOCKED_TEXTS))

    def add(self, run: MethodRun, note: str) -> None:
        """Add a method's run and report its main figures; predictions made here are kept."""
        self.runs[run.method] = run
        results = faithfulness(
            self.texts.classifier,
            self.texts.encodings,
            {run.method: run.attributions},
            self.params,
            answers=self.predictions,
        )
        figures = results[run.method].means()
        self._tell(
            f"{run.method:<22} {note:>17}  comprehensiveness {figures['aopc_comprehensiveness']:+.3f}  "
            f"sufficiency {figures['aopc_sufficiency']:+.3f}"
        )
