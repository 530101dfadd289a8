"""What a call is about: a classifier, texts, explainers, where it keeps finished parts, and where all comes from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike, text_digest
from explearn.methods.base.explainer import Explainer
from explearn.methods.finding import find_explainer
from explearn.predictors.labelled import CLASSES, Problem, check_problem
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.subject.manifest import Origin
from explearn.subject.texts import UserTexts
from explearn.subject.work import Work


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
) -> Subject:
    """Load the classifier, fit labels to its classes, and find the explainers.

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

    Raises:
        ModelError: the classifier cannot be loaded, or a label is none of its classes.
        ParamsError: an explainer cannot be used, or the working folder has other content.
        UnknownNameError: there is no such method.
        UnsupportedError: the classifier has another kind of output.
    """
    kept = Work(work)
    compute = compute or ComputeOptions()
    model = as_predictor(classifier, compute)
    check_problem(model, problems)
    texts = texts.of_classes(model.name, model.labels)
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
