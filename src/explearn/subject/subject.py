"""What a call is about: a classifier, texts, explainers, where it keeps finished parts, and where all comes from."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike, text_digest
from explearn.core.errors import listed
from explearn.methods.base.explainer import Explainer
from explearn.methods.finding import find_explainer
from explearn.predictors.answers import Answers
from explearn.predictors.labelled import CLASSES, Problem, check_problem
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.show.blocks import several
from explearn.subject.manifest import Origin
from explearn.subject.texts import UserTexts
from explearn.subject.work import Work
from explearn.text.rationales import marked_words
from explearn.text.sampling import texts_to_explain

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """What a call is about.

    Attributes:
        classifier: the classifier.
        texts: the texts, with labels, marks and groups if they are known; labels are names of classes.
        explainers: the methods by name.
        seed: seed of all draws.
        work: keeps finished parts.
        origin: where it comes from, with all arguments that results depend on.
    """

    classifier: Predictor
    texts: UserTexts
    explainers: Mapping[str, Explainer]
    seed: int
    work: Work
    origin: Origin


def make_subject(
    call: str,
    classifier: Any,
    texts: UserTexts,
    explainers: Sequence[PathLike | Explainer | None] | Callable[[Predictor], Mapping[str, Explainer]] = (),
    *,
    seed: int = 13,
    compute: ComputeOptions | None = None,
    work: str | Path | None = None,
    files: Sequence[object] = (),
    settings: Mapping[str, Any] | None = None,
    problems: Collection[Problem] = CLASSES,
    most: int | None = None,
) -> Subject:
    """Load the classifier, fit labels to its classes, leave out texts without an answer, and find the explainers.

    Args:
        call: what was called, such as `explearn.audit`.
        classifier: as for `explearn.explain`.
        texts: the texts (`explearn.subject.texts.given_texts`).
        explainers: as for `explearn.methods.finding.find_explainer`, None stands for the default of the classifier; or
            a function that returns them by name, for the loaded classifier.
        seed: seed of all draws.
        compute: where and how to compute.
        work: folder that keeps finished parts. None: nothing is kept.
        files: the files that were read; what is no path is left out.
        settings: further arguments that results depend on, JSON values.
        problems: kinds of output that will do.
        most: number of texts that are drawn (`explearn.text.sampling.texts_to_explain`), which alone must have answers
            if there are no labels. None: all.

    Raises:
        ModelError: the classifier cannot be loaded, or a label is none of its classes.
        ParamsError: an explainer cannot be used, or the working folder has other content.
        UnansweredError: the classifier gives no answer to any text.
        UnknownNameError: there is no such method.
        UnsupportedError: the classifier has another kind of output.
    """
    kept = Work(work)
    compute = compute or ComputeOptions()
    model = as_predictor(classifier, compute)
    check_problem(model, problems)
    texts = texts.of_classes(model.name, model.labels)
    if model.costs_money:  # such a model may refuse a text
        texts = _answered(model, texts, most, seed)
    if callable(explainers):
        by_name = explainers(model)
    else:
        found = [find_explainer(source, classifier=model, seed=seed) for source in explainers]
        by_name = {explainer.name: explainer for explainer in found}
    request = {
        "call": call,
        "classifier": model.fingerprint,
        "fingerprint": model.fingerprint_kind,
        "texts": text_digest(repr((texts.examples, texts.rationales, texts.groups))),
        "methods": {name: explainer.settings() for name, explainer in by_name.items()},
        "seed": seed,
        **(settings or {}),
    }
    origin = Origin(call, classifier, model, compute, files, request)
    return Subject(classifier=model, texts=texts, explainers=by_name, seed=seed, work=kept, origin=origin)


def _answered(model: Predictor, texts: UserTexts, most: int | None, seed: int) -> UserTexts:
    """Leave out the texts to which the classifier gives no answer, and say how many of which label.

    Raises:
        UnansweredError: it answers no text.
    """
    answers = Answers(model)
    marked = marked_words(texts.rationales)
    unanswered: dict[str, str] = {}
    new: dict[str, str] | None = None
    while new is None or new:  # others are drawn in the place of those without an answer
        asked = [example for example in texts.examples if example.id not in unanswered]
        if not texts.labels:
            asked = texts_to_explain(asked, marked, most, seed)
        rows = answers.ask(asked, gaps=True)
        new = {example.id: example.label for example, row in zip(asked, rows, strict=True) if np.isnan(row).any()}
        unanswered.update(new)
    if not unanswered:
        return texts
    if not asked:
        answers.ask(texts.examples)
    by_label = Counter(label for label in unanswered.values() if label)
    counts = ", ".join(f"{count:,} of {label}" for label, count in sorted(by_label.items()))
    note = (
        f"{len(unanswered):,} of {several(len(texts.examples), 'text')} left out, to which {model.name} gives no answer"
    )
    if counts:
        note += f": {counts}"
    note += f" ({listed(unanswered)})"
    logger.warning("%s", note)
    return texts.without(unanswered, note)
