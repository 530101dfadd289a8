"""A whole audit: what a classifier leans on over many texts, each claim tested by changing texts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from explearn.api import default_explainer
from explearn.auditing.candidates import Candidate, excess, find_candidates, occurrences
from explearn.auditing.elements import Element, Vocabulary, positions, take_out
from explearn.auditing.findings import ErrorCause, Finding, Findings, GroupDifference, GroupFigures, number
from explearn.auditing.intervene import (
    FEWEST_VALUES,
    LEVEL,
    MOST_TEXTS,
    Array,
    Effects,
    Verdict,
    judge,
    measure,
    plan_trials,
    turned,
)
from explearn.auditing.origin import Origin, check_page
from explearn.auditing.result import Audit
from explearn.auditing.texts import AuditText, bare, compiled, pattern_matches
from explearn.auditing.work import Work
from explearn.comparison.texts import TextColumns, UserTexts, given_texts
from explearn.core.arguments import check_listed, each_text
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ParamsError, UnsupportedError, kind_of
from explearn.core.examples import Example
from explearn.core.seeds import hash_order
from explearn.core.validation import Section, Seed, check_section
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.methods.registry import get_explainer
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval
from explearn.predictors.batching import progress
from explearn.predictors.labelled import CLASSES, Problem
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.show.blocks import ExampleText, TextRow
from explearn.text.rows import read_file

FEWEST = 40
"""Fewest texts of an audit."""

CHUNK_TEXTS = 500
"""Texts that are explained before their scores are kept."""

CHUNK_ELEMENTS = 10
"""Elements that are tested before their effects are kept."""

MOST_ERRORS = 200
"""Most texts that are looked at for a cause of errors."""

MOST_GROUPS = 50
CONFIDENCE = 0.95
EXAMPLES = 2
"""Example texts for each of the three strongest findings of a class."""


class Checked(Section):
    """Arguments of an audit that are paths and numbers."""

    seed: Seed
    out: Path | None
    work: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Further settings of `explearn.audit` and `explearn.diff`.

    Attributes:
        patterns: regular expressions whose matches are looked at, too.
        columns: what the columns of a file or table hold.
        work: folder that keeps finished parts, so that a later call with the same arguments goes on with them.
        seed: seed of all draws.
        compute: where and how to compute.
        show_progress: show bars.

    Example:
        >>> import explearn
        >>> explearn.AuditOptions(patterns=["[0-9]+ dollars"]).seed
        13
    """

    patterns: Sequence[str] = ()
    columns: TextColumns | None = None
    work: str | Path | None = None
    seed: int = 13
    compute: ComputeOptions | None = None
    show_progress: bool = False


def audit(
    classifier: Any,
    texts: Any,
    labels: Sequence[str | int] | None = None,
    groups: str | Sequence[str] | None = None,
    method: str | Explainer | None = None,
    *,
    out: str | Path | None = None,
    options: AuditOptions | None = None,
) -> Audit:
    """Find what a classifier leans on over many texts: claims from attributions, each tested by changing texts.

    Words, phrases, pairs and their order, places, classes of words, punctuation, patterns and lengths that score high
    in one half of the texts are claims. In texts of the other half, each is taken out where it occurs, and put in where
    it does not. A claim is confirmed if the probability of its class changes by 0.01 or more on average, and
    Wilcoxon's test, corrected over all claims (Benjamini and Hochberg), does not hold the change for chance. The words
    that go with the prediction, without any explanation, are tested in the same way.

    Args:
        classifier: as for `explearn.explain`; it must have classes.
        texts: a .csv, .jsonl, .parquet or .txt file, a list of texts (or pairs of texts), or a table; at least 40.
        labels: the true labels of a list of texts; of a file or table, `options.columns.label` names their column.
        groups: the group of each text, or the column that names it.
        method: a method's name, or an explainer. None: as `explearn.explain`.
        out: a page to write (`Audit.save`).
        options: further settings.

    Returns:
        The findings, with causes of errors if there are labels, and groups.

    Raises:
        DataError: too few texts, texts with one answer only, a group of one text, or texts that cannot be used.
        ParamsError: another argument cannot be used.
        ModelError: the classifier cannot be loaded, or a label is none of its classes.
        UnsupportedError: it is a regression, or the method cannot explain it.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     rude = [0.9 if "moron" in text else 0.2 for text in texts]
        ...     return [[1 - p, p] for p in rude]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> explearn.audit(classifier, texts).findings[0].element
        '‘moron’'
    """
    options = options or AuditOptions()
    checked = check_section(Checked, {"seed": options.seed, "out": out, "work": options.work})
    if checked.out is not None:
        check_page(checked.out)
    subject = read_subject(classifier, texts, labels, groups, method, options)
    work = Work(checked.work, subject.origin.request)
    searched, held_out = halves(subject.user_texts.examples, checked.seed)
    with unread_words_known():
        read, unread = explain_texts(subject, searched, work, options.show_progress)
    known = Vocabulary.of(read)
    candidates = find_candidates([read[i] for i in searched], known, options.patterns, len(subject.model.labels))
    probabilities = np.array([text.probabilities for text in read])
    tested = Tested(subject, read, probabilities, known, searched, held_out, candidates)
    tested.run(work, "effects", options.show_progress)
    verdicts = judge([(candidate.element, candidate.target) for candidate in candidates], tested.effects)
    findings = []
    for candidate, verdict in zip(candidates, verdicts, strict=True):
        findings.append((tested.finding(candidate, verdict), candidate))
    findings.sort(key=lambda pair: rank_of(pair[0]))
    confirmed = [candidate for finding, candidate in findings if finding.confirmed]
    answers = Counter(text.predicted for text in read)
    right = [text.example.label == subject.model.labels[text.predicted] for text in read]
    result = Audit(
        findings=Findings(finding for finding, _ in findings),
        errors=tested.errors(confirmed),
        groups=group_figures(subject, read, right),
        differences=tested.differences(confirmed),
        texts=len(read),
        rates={label: answers[i] / len(read) for i, label in enumerate(subject.model.labels)},
        accuracy=float(np.mean(right)) if subject.has_labels else None,
        method=subject.explainer.name,
        unread=unread,
        examples=tested.examples(confirmed),
        origin=subject.origin,
    )
    return result if checked.out is None else result.save(checked.out)


def rank_of(finding: Finding) -> tuple[bool, float, str, str]:
    """Return the key by which findings are sorted: confirmed ones first, the largest effects first."""
    return not finding.confirmed, -(finding.effect or 0.0), finding.target, finding.element


# ---- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A classifier and its texts, before anything is computed.

    Attributes:
        model: the classifier.
        explainer: the method.
        user_texts: the texts with their labels.
        groups: group of each text; empty without groups.
        programs: the compiled patterns.
        origin: where it comes from.
    """

    model: Predictor
    explainer: Explainer
    user_texts: UserTexts
    groups: Sequence[str]
    programs: Mapping[str, Any]
    origin: Origin

    @property
    def has_labels(self) -> bool:
        """Whether the true labels are known."""
        return bool(self.user_texts.labels)


def read_subject(
    classifier: Any,
    texts: Any,
    labels: Sequence[str | int] | None,
    groups: str | Sequence[str] | None,
    method: str | Explainer | None,
    options: AuditOptions,
    call: str = "explearn.audit",
) -> Subject:
    """Read the texts and load the classifier; see `audit` for arguments and errors."""
    programs = compiled(options.patterns)
    if not isinstance(texts, str | Path):
        texts = texts if hasattr(texts, "columns") or hasattr(texts, "features") else list(each_text(texts))
    user_texts = given_texts(texts, labels, options.columns)
    count = len(user_texts.examples)
    if count < FEWEST:
        raise DataError(f"texts: got {count}; expected at least {FEWEST}, half to search and half to test")
    of_texts = _groups(texts, groups, count)
    columns = options.columns or TextColumns()
    compute = options.compute or ComputeOptions()
    model = columns.renamed(as_predictor(classifier, compute))
    if model.problem is Problem.REGRESSION:
        raise UnsupportedError(model.why_not(CLASSES))
    user_texts = user_texts.of_classes(model.name, model.labels)
    explainer = _explainer(method, model)
    request = {
        "call": call,
        "classifier": model.fingerprint,
        "texts": hashlib.sha256(repr((user_texts.examples, of_texts)).encode()).hexdigest(),
        "method": explainer.name,
        "options": explainer.options.model_dump(mode="json"),
        "weights": explainer.content_hash() if hasattr(explainer, "content_hash") else "",
        "patterns": list(options.patterns),
        "seed": options.seed,
    }
    origin = Origin(call, classifier, model, compute, [texts], request)
    return Subject(model, explainer, user_texts, of_texts, programs, origin)


def _explainer(method: str | Explainer | None, model: Predictor) -> Explainer:
    if method is None:
        return default_explainer(model)
    explainer = get_explainer(method) if isinstance(method, str) else method
    if not isinstance(explainer, Explainer):
        raise ParamsError(f"method: got {kind_of(method)}; expected a name or an explainer")
    explainer.check_explains(model)
    return explainer


def _groups(texts: Any, groups: str | Sequence[str] | None, count: int) -> list[str]:
    """Return the group of each text."""
    if groups is None:
        return []
    values: Iterable[Any] = groups
    if isinstance(groups, str):
        if isinstance(texts, str | Path):
            values = [row.value(groups)[1] for row in read_file(texts)]
        else:
            rows = list(each_text(texts))
            if not all(isinstance(row, Mapping) and groups in row for row in rows):
                raise DataError(f"groups: got {groups!r}; expected a column of the table, or a group for each text")
            values = [row[groups] for row in rows]
    else:
        check_listed("groups", groups)
    names = [str(value) for value in values]
    if len(names) != count:
        raise ParamsError(f"groups: got {len(names)} for {count} texts; expected one for each")
    sizes = Counter(names)
    for name, size in sizes.items():
        if size == 1:
            raise DataError(f"groups: {name!r} has one text; expected at least 2 in each, so merge or leave it out")
    if not 2 <= len(sizes) <= MOST_GROUPS:
        raise DataError(f"groups: got {len(sizes)}; expected 2 to {MOST_GROUPS}")
    return names


def explain_texts(
    subject: Subject, explained: Collection[int], work: Work, show_progress: bool
) -> tuple[list[AuditText], int]:
    """Return the texts with answers and, for some, scores; and the number of words in these that were not read.

    Raises:
        DataError: the classifier answers all texts alike.
    """
    examples = subject.user_texts.examples
    wanted = set(explained)
    read: list[AuditText] = []
    unread = 0
    with progress("explain" if show_progress else None, len(examples)) as bar:
        for start in range(0, len(examples), CHUNK_TEXTS):
            numbers = range(start, min(start + CHUNK_TEXTS, len(examples)))

            def explain(numbers: Sequence[int] = numbers) -> Any:
                answers = subject.model.predict_proba([examples[i] for i in numbers])
                chosen = [i for i in numbers if i in wanted]
                targets = [int(answers[i - numbers[0]].argmax()) for i in chosen]
                scored = subject.explainer.explain(subject.model, [examples[i] for i in chosen], targets)
                scores = [attribution.to_dict()["scores"] for attribution in scored]
                return {"answers": answers.tolist(), "scores": dict(zip(map(str, chosen), scores, strict=True))}

            made = work.part(f"{subject.model.fingerprint[:12]}-scores-{start}", explain)
            for i, answer in zip(numbers, made["answers"], strict=True):
                scores = made["scores"].get(str(i))
                read.append(_audit_text(subject, i, answer, scores))
                unread += (scores or []).count(None)
            bar.update(len(numbers))
    answers = {text.predicted for text in read}
    if len(answers) == 1:
        (only,) = answers
        raise DataError(
            f"{subject.model.name}: answers {subject.model.labels[only]!r} for all {len(read)} texts; expected texts "
            "with at least two answers"
        )
    return read, unread


def _audit_text(subject: Subject, number: int, answer: list[float], scores: list[float | None] | None) -> AuditText:
    example = subject.user_texts.examples[number]
    shares = None
    if scores is not None:
        shares = np.array(scores, dtype=np.float64)  # None becomes NaN
        shares = np.nan_to_num(shares)
        shares /= np.abs(shares).sum() or 1.0
    words = example.all_words
    return AuditText(
        example=example,
        words=words,
        keys=tuple(bare(word).casefold() for word in words),
        matches=pattern_matches(example, subject.programs),
        probabilities=np.array(answer),
        shares=shares,
        group=subject.groups[number] if subject.groups else "",
    )


def halves(texts: Sequence[Example], seed: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the texts that are searched and of those that are changed, in random order.

    The same texts are in the same half, so that none is in both.
    """
    numbers: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        numbers.setdefault(repr(text.all_words), []).append(i)
    order = [numbers[words] for words in hash_order(numbers, seed)]
    searched = [i for same in order[::2] for i in same]
    held_out = [i for same in order[1::2] for i in same]
    return searched, held_out


# ---- testing ---------------------------------------------------------------------------------------------------------


class Tested:
    """Candidates and what interventions on the held-out texts do.

    Args:
        subject: the classifier that is asked.
        texts: all texts.
        answers: its probabilities for them, (texts, C).
        known: what is known of all texts.
        searched: numbers of the texts in which the candidates were found.
        held_out: numbers of those that are changed.
        candidates: the claims.

    Attributes:
        effects: element -> its effects.
        where: element -> numbers of the texts that have it.
    """

    def __init__(
        self,
        subject: Subject,
        texts: Sequence[AuditText],
        answers: Array,
        known: Vocabulary,
        searched: Sequence[int],
        held_out: Sequence[int],
        candidates: Sequence[Candidate],
    ) -> None:
        self.subject = subject
        self.texts = texts
        self.known = known
        self.searched = set(searched)
        self.held_out = held_out
        self.answers = answers
        self.elements = sorted({candidate.element for candidate in candidates})
        self.where = occurrences(self.elements, texts, known)
        self.effects: dict[Element, Effects] = {}

    def run(self, work: Work, name: str, show_progress: bool) -> None:
        """Measure the effects of all elements."""
        with progress("change texts" if show_progress else None, len(self.elements)) as bar:
            for start in range(0, len(self.elements), CHUNK_ELEMENTS):
                chunk = self.elements[start : start + CHUNK_ELEMENTS]

                def measured(chunk: Sequence[Element] = chunk) -> Any:
                    planned = [self._trials(element) for element in chunk]
                    rows = []
                    for effects in measure(planned, self.subject.model, self.answers):
                        out = [list(effects.out_texts), effects.out.tolist()]
                        rows.append([out, [list(effects.put_texts), effects.put.tolist()]])
                    return rows

                kept = work.part(f"{self.subject.model.fingerprint[:12]}-{name}-{start}", measured)
                for element, (out, put) in zip(chunk, kept, strict=True):
                    self.effects[element] = Effects(out[0], self._array(out[1]), put[0], self._array(put[1]))
                bar.update(len(chunk))

    def _array(self, rows: Sequence[Sequence[float]]) -> Array:
        return np.array(rows, dtype=np.float64).reshape(-1, self.answers.shape[1])

    def _trials(self, element: Element) -> Any:
        having = self.where[element]
        donors = [i for i in having if i in self.searched] or having
        return plan_trials(element, self.texts, self.held_out, having, donors, self.known)

    def finding(self, candidate: Candidate, verdict: Verdict) -> Finding:
        """Return a finding as it is shown."""
        element = candidate.element
        scored = []
        for i in self.where[element]:
            if i in self.searched and self.texts[i].predicted == candidate.target and element.kind != "length":
                scored.append(excess(element, self.texts[i], self.known))
        low, high = mean_interval(scored, CONFIDENCE, -1, 1) if scored else (None, None)
        effect_low, effect_high = mean_interval(verdict.values, CONFIDENCE, -1, 1)
        return Finding(
            element=str(element),
            kind=element.kind,
            target=self.subject.model.labels[candidate.target],
            source=" and ".join(candidate.sources),
            texts=len(self.where[element]),
            score=float(np.mean(scored)) if scored else None,
            score_low=low,
            score_high=high,
            taken_out=number(verdict.taken_out),
            put_in=number(verdict.put_in),
            effect=float(verdict.values.mean()) if len(verdict.values) else None,
            low=effect_low,
            high=effect_high,
            changed=len(verdict.values),
            p_value=verdict.p_value,
            corrected=verdict.corrected,
            confirmed=verdict.confirmed,
        )

    def errors(self, confirmed: Sequence[Candidate]) -> list[ErrorCause]:
        """Return the findings without which wrong answers become right, those that mend most first."""
        if not self.subject.has_labels:
            return []
        labels = self.subject.model.labels
        causes = []
        for candidate in confirmed:
            element = candidate.element
            answered = [i for i in self.where[element] if self.texts[i].predicted == candidate.target]
            wrong = [i for i in answered if self.texts[i].example.label != labels[candidate.target]][:MOST_ERRORS]
            right = [i for i in answered if self.texts[i].example.label == labels[candidate.target]][: len(wrong)]
            new = dict(turned(element, self.texts, [*wrong, *right], self.subject.model, self.known))
            mended = sum(i in new and labels[new[i]] == self.texts[i].example.label for i in wrong)
            lost = sum(i in new and new[i] != candidate.target for i in right)
            if mended:
                target = labels[candidate.target]
                causes.append(ErrorCause(str(element), element.kind, target, len(wrong), mended, lost, len(right)))
        return sorted(causes, key=lambda cause: (-cause.mended, cause.wrong, cause.element))

    def differences(self, confirmed: Sequence[Candidate]) -> list[GroupDifference]:
        """Compare the effect of taking an element out between each group and the other texts."""
        from scipy.stats import false_discovery_control, mannwhitneyu

        groups = sorted(set(self.subject.groups))
        if len(groups) == 2:
            groups = groups[:1]  # the other comparison is the same
        compared = []
        p_values = []
        for candidate in confirmed:
            values = self._by_group(candidate) if groups else {}
            for group in groups:
                inside = values.get(group, [])
                outside = [value for other in values if other != group for value in values[other]]
                if min(len(inside), len(outside)) >= FEWEST_VALUES:
                    p_values.append(float(mannwhitneyu(inside, outside).pvalue))
                    compared.append((candidate, group, float(np.mean(inside)), float(np.mean(outside))))
        if not compared:
            return []
        found = []
        for (candidate, group, mean, elsewhere), corrected in zip(
            compared, false_discovery_control(p_values).tolist(), strict=True
        ):
            element = candidate.element
            target = self.subject.model.labels[candidate.target]
            differs = corrected <= LEVEL
            found.append(
                GroupDifference(group, str(element), element.kind, target, mean, elsewhere, corrected, differs)
            )
        return sorted(found, key=lambda row: (row.corrected, row.group, row.element))

    def _by_group(self, candidate: Candidate) -> dict[str, list[float]]:
        """Return group -> effects of taking the element out, on at most MOST_TEXTS held-out texts each."""
        having = set(self.where[candidate.element])
        trials: dict[str, list[Any]] = {}
        for i in self.held_out:
            of_group = trials.setdefault(self.texts[i].group, [])
            if i in having and len(of_group) < MOST_TEXTS:
                intervention = take_out(candidate.element, self.texts[i], self.known)
                if all(version is not None for _, version in intervention):
                    of_group.append((i, intervention))
        planned: list[Any] = [(of_group, []) for of_group in trials.values()]
        effects = measure(planned, self.subject.model, self.answers)
        return {group: e.out[:, candidate.target].tolist() for group, e in zip(trials, effects, strict=True)}

    def examples(self, confirmed: Sequence[Candidate]) -> list[ExampleText]:
        """Return texts with the words of the three strongest findings of each class marked."""
        labels = self.subject.model.labels
        counts: Counter[int] = Counter()
        shown = []
        for candidate in confirmed:
            if counts[candidate.target] == 3 or candidate.element.kind == "length":
                continue
            counts[candidate.target] += 1
            having = [i for i in self.where[candidate.element] if self.texts[i].predicted == candidate.target]
            for i in having[:EXAMPLES]:
                text = self.texts[i]
                at = positions(candidate.element, text, self.known)
                marked = [position in at for position in range(len(text.words))]
                right = None
                if self.subject.has_labels:
                    right = text.example.label == labels[text.predicted]
                answer = f"answer {labels[text.predicted]} (probability {text.probabilities.max():.2f})"
                pair_start = len(text.example.words) if text.example.pair else None
                row = TextRow("", "", marked)
                title = f"{candidate.element} counts for {labels[candidate.target]}."
                shown.append(ExampleText(title, answer, text.words, [row], pair_start, right, text.example.joined))
        return shown


def group_figures(subject: Subject, texts: Sequence[AuditText], right: Sequence[bool]) -> list[GroupFigures]:
    """Return the figures of each group, by name."""
    figures = []
    for group in sorted(set(subject.groups)):
        numbers = [i for i, text in enumerate(texts) if text.group == group]
        answers = Counter(texts[i].predicted for i in numbers)
        rates = {label: answers[i] / len(numbers) for i, label in enumerate(subject.model.labels)}
        accuracy = low = high = None
        if subject.has_labels:
            hits = [float(right[i]) for i in numbers]
            accuracy = float(np.mean(hits))
            low, high = mean_interval(hits, CONFIDENCE, 0, 1)
        figures.append(GroupFigures(group, len(numbers), rates, accuracy, low, high, len(numbers) < FEWEST_TEXTS))
    return figures
