"""What a comparison found about each method, as JSON in its manifest, for records of single decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.validation import Count, Figures, Name, Seed, Shape, check
from explearn.evaluation import best_method
from explearn.methods.results import RunFacts, TaskReport
from explearn.report.caveats import find_caveats
from explearn.report.verdict import MODEL, QUESTIONS, better_than_random
from explearn.show.blocks import BOLD_END, BOLD_START, several


class MethodFindings(Shape):
    """What was found about a method.

    Attributes:
        options: its options in the comparison.
        figures: metrics that the page's first screen names -> figure.
        better: whether it finds words the classifier depends on significantly better than random scores do; None if
            this was not tested.
    """

    options: dict[str, Any]
    figures: Figures
    better: bool | None


class FoundCaveat(Shape):
    """A reason not to trust something: a sentence, and the methods concerned, none for all."""

    text: str
    methods: list[str]


class Findings(Shape):
    """What a comparison found.

    Attributes:
        task: name of the texts.
        texts: number of texts.
        seed: seed of all draws.
        classifier: SHA-256 of the classifier.
        best: the method that finds the words the classifier depends on best; None if no figure says so.
        methods: name -> what was found.
        caveats: reasons not to trust it.
    """

    task: str
    texts: Count
    seed: Seed
    classifier: str
    best: Name | None
    methods: dict[str, MethodFindings]
    caveats: list[FoundCaveat]

    def sentences(self, method: str) -> list[str]:
        """Say how good a method is on the texts of the comparison."""
        found = self.methods.get(method)
        if found is None or found.figures.get(MODEL) is None:
            return [f"The comparison did not judge {method}: how good it is on texts of this kind is not known."]
        chance = ""
        if "random" in self.methods and self.methods["random"].figures.get(MODEL) is not None:
            chance = f"; without words at random, by {self.methods['random'].figures[MODEL]:.3f}"
        said = [
            f"On {several(self.texts, 'text')} of {self.task}, the probability of the answer falls by "
            f"{found.figures[MODEL]:.3f} on average without the words that {method} ranks first{chance}."
        ]
        if found.better is not None:
            known = "significantly better" if found.better else "not significantly better"
            said.append(f"By this figure {method} is {known} than random scores.")
        return said

    def caveats_of(self, method: str) -> list[str]:
        """Return the caveats that concern a method."""
        return [caveat.text for caveat in self.caveats if not caveat.methods or method in caveat.methods]


def findings_of(run: RunFacts, task: TaskReport, request: dict[str, Any]) -> Findings:
    """Return what a comparison found.

    Args:
        run: facts about the methods and their evaluation.
        task: its figures.
        request: the arguments that the figures depend on.
    """
    better = better_than_random(run, [task], MODEL)
    methods = {}
    for name, figures in task.methods.items():
        outcomes = better.get(name)
        methods[name] = MethodFindings(
            options=dict(request["methods"].get(name, {})),
            figures={metric: figures.get(metric) for metric in QUESTIONS},
            better=outcomes[0] if outcomes else None,
        )
    ranked = {}
    for name, figures in task.methods.items():
        if name in request["methods"] and name not in run.chance and run.comparable(name, MODEL):
            ranked[name] = figures
    best = None
    if any(figures.get(MODEL) is not None for figures in ranked.values()):
        best = best_method(ranked, MODEL)
    caveats = []
    for caveat in find_caveats(run, [task]):
        if not caveat.machine:
            text = caveat.text.replace(BOLD_START, "").replace(BOLD_END, "")
            caveats.append(FoundCaveat(text=text, methods=list(caveat.methods)))
    return Findings(
        task=task.task,
        texts=max((int(figures.get("texts") or 0) for figures in task.methods.values()), default=0),
        seed=run.seed,
        classifier=request["classifier"],
        best=best,
        methods=methods,
        caveats=caveats,
    )


def read_findings(path: Path) -> Findings:
    """Read the findings from the JSON next to a comparison's page.

    Raises:
        DataError: the file is another one.
    """
    document = read_json(path)
    if not isinstance(document, dict) or "findings" not in document:
        raise DataError(f"{path}: has no findings; expected the JSON that explearn compare writes next to its page")
    findings: Findings = check(Findings, document["findings"], before=f"{path}, findings, ")
    return findings
