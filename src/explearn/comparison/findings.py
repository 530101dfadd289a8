"""What a comparison found about each method, as JSON in its manifest, for records of single decisions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.validation import Name, Seed, Shape, check
from explearn.evaluation import best_method
from explearn.methods.base.explainer import Explainer
from explearn.methods.results import RunFacts, TaskReport
from explearn.report.caveats import find_caveats
from explearn.report.verdict import MODEL, better_than_random
from explearn.show.blocks import plain, several


class MethodFindings(Shape):
    """What was found about a method.

    Attributes:
        options: its options in the comparison; of a trained one also the SHA-256 of its weights.
        sentences: how good it is, in words.
        caveats: reasons not to trust that.
    """

    options: dict[str, Any]
    sentences: list[str]
    caveats: list[str]


class Findings(Shape):
    """What a comparison found.

    Attributes:
        seed: seed of all draws.
        classifier: SHA-256 of the classifier.
        best: the method that finds the words the classifier depends on best; None if no figure says so.
        methods: name -> what was found.
    """

    seed: Seed
    classifier: str
    best: Name | None
    methods: dict[str, MethodFindings]

    def about(self, explainer: Explainer) -> MethodFindings:
        """Return what was found about a method, which may be nothing.

        Raises:
            DataError: a trained one of this name was judged, with other weights.
        """
        unknown = f"The comparison did not judge {explainer.name}: how good it is on texts of this kind is not known."
        found = self.methods.get(explainer.name, MethodFindings(options={}, sentences=[unknown], caveats=[]))
        weights = found.options.get("weights")
        if weights is not None and weights != explainer.settings().get("weights"):
            raise DataError(
                f"the comparison judged another {explainer.name}, with other weights; compare this one first"
            )
        return found


def findings_of(run: RunFacts, task: TaskReport, request: Mapping[str, Any]) -> Findings:
    """Return what a comparison found.

    Args:
        run: facts about the methods and their evaluation.
        task: its figures.
        request: the arguments that the figures depend on.
    """
    better = better_than_random(run, [task], MODEL)
    ranked = {}
    methods = {}
    for name, figures in task.methods.items():
        value = figures.get(MODEL)
        sentences = []
        if value is not None:
            texts = several(int(figures["texts"] or 0), "text")
            sentences.append(
                f"On {texts} of {task.task}, the probability of the answer falls by {value:.3f} on average without the "
                f"words that {name} ranks first."
            )
            if name in request["methods"] and name not in run.chance and run.comparable(name, MODEL):
                ranked[name] = figures
        for outcome in better.get(name, []):
            known = "significantly better" if outcome else "not significantly better"
            sentences.append(f"By this figure {name} is {known} than random scores.")
        methods[name] = MethodFindings(options=dict(request["methods"].get(name, {})), sentences=sentences, caveats=[])
    for caveat in find_caveats(run, [task]):
        if not caveat.machine:
            text = plain(caveat.text)
            for name in caveat.methods or methods:
                methods[name].caveats.append(text)
    best = None
    if ranked:
        best = best_method(ranked, MODEL)
    return Findings(seed=run.seed, classifier=request["classifier"], best=best, methods=methods)


def read_findings(path: Path) -> Findings:
    """Read the findings from the JSON next to a comparison's page.

    Raises:
        DataError: the file is another one, or damaged.
    """
    document = read_json(path)
    if not isinstance(document, dict) or "findings" not in document:
        raise DataError(f"{path}: has no findings; expected the JSON that explearn compare writes next to its page")
    findings: Findings = check(Findings, document["findings"], before=f"{path}, findings, ")
    if findings.best is not None and findings.best not in findings.methods:
        raise DataError(f"{path}, findings, field 'best': got {findings.best!r}; expected one of the field 'methods'")
    return findings
