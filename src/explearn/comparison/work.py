"""The folder of a comparison: laid out as a project's, so that the pipeline's own functions judge and report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from explearn.comparison.choice import JUDGING_PASSES, Choice
from explearn.comparison.texts import OwnTexts
from explearn.core.errors import DataError
from explearn.core.finite import is_score
from explearn.core.records import SPLITS, Attribution, Example, Rationale
from explearn.core.storage import (
    ATTRIBUTION_SCHEMA,
    attribution_row,
    read_attributions,
    read_json,
    read_metadata,
    write_examples,
    write_json,
    write_rationales,
    write_table,
    write_text,
)
from explearn.judge.runs import Cost
from explearn.methods.registry import get_info
from explearn.model.classifier import Classifier
from explearn.model.finetune import evaluate_classifier
from explearn.text.agreement import agreement_metrics
from explearn_study.params import Params
from explearn_study.workspace import Workspace

PROFILE = "compare"

PLAN = "plan.json"
"""Written first into the folder of a comparison."""


def make_params(
    texts: OwnTexts,
    classifier: str,
    methods: Mapping[str, Mapping[str, Any]],
    count: int,
    remarks: Sequence[str],
    seed: int,
) -> Params:
    """The parameters of a comparison: no training, all metrics, no explainer under study.

    Args:
        methods: method -> options. count: texts to compare on. remarks: for the report's first page.
    """
    parts: dict[str, dict[str, Any]] = {"quick": {}, "costly": {}}
    for name, options in methods.items():
        parts["costly" if get_info(name).costly else "quick"][name] = dict(options)
    return Params.of(
        {
            "profile": PROFILE,
            "seed": seed,
            "tasks": [texts.name],
            "sources": {texts.name: texts.source.model_dump()},
            "classifiers": {texts.name: classifier},
            "explainer": None,
            "explainers": [],
            "baselines": parts,
            "attribute": {"max_texts": count},
            "evaluate": {"infidelity_samples": INFIDELITY_SAMPLES},
            "sanity": {"texts": min(SANITY_TEXTS, count)},
            "report": {"remarks": list(remarks)},
        }
    )


def with_remark(params: Params, remark: str) -> Params:
    """The parameters with one more remark for the report's first page."""
    report = params.report.model_copy(update={"remarks": [*params.report.remarks, remark]})
    return params.model_copy(update={"report": report})


SANITY_TEXTS, INFIDELITY_SAMPLES = 5, 6
"""Texts explained again on perturbed models, sets of words masked in each text; as in conf/profile/embedded.yaml."""


def write_inputs(workspace: Workspace, texts: OwnTexts, classifier: Classifier, params: Params) -> None:
    """Write what the stages prepare, rationalise and finetune would have."""
    folder = workspace.examples(texts.name)
    for split in SPLITS:
        write_examples(folder / f"{split}.parquet", [e for e in texts.examples if e.split == split])
    write_rationales(folder / "native.parquet", texts.rationales)
    write_json(folder / "task.json", {"labels": classifier.labels, "dropped": {}, "unused_ids": []})
    write_rationales(workspace.rationales(texts.name), texts.rationales)
    # There is no training: K and the share of marked words are those of the texts themselves.
    agreement = agreement_metrics(texts.rationales, texts.examples, "test", params.rationale_agreement)
    write_json(workspace.agreement(texts.name), agreement)
    known = evaluate_classifier(classifier, texts.examples) if texts.labels else None
    write_json(workspace.metrics("classifier", texts.name), {"validation": None, "test": known})
    write_text(workspace.root / "params.yaml", yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False))


def texts_hash(texts: OwnTexts) -> str:
    """SHA-256 of texts, labels and marks."""
    digest = hashlib.sha256()
    records: tuple[Example | Rationale, ...] = (*texts.examples, *texts.rationales)
    for record in records:
        digest.update(json.dumps(asdict(record), sort_keys=True).encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice and the speeds that it rests on: method -> seconds a text, where timed, and those to classify one."""

    choice: Choice
    seconds: Mapping[str, float]
    forward: float

    def without(self, refused: Mapping[str, str]) -> Plan:
        """The plan less some methods, each with the reason why it is left out."""
        methods = [name for name in self.choice.methods if name not in refused]
        return replace(self, choice=replace(self.choice, methods=methods, left_out={**self.choice.left_out, **refused}))

    def expected(self, name: str) -> float | None:
        """Seconds that a method takes on all texts, to explain and to be judged; None where it was not timed."""
        if name not in self.seconds:
            return None
        return self.choice.texts * (self.seconds[name] + JUDGING_PASSES * self.forward)


def read_plan(workspace: Workspace, request: Mapping[str, Any]) -> Plan | None:
    """The plan of an earlier run that was asked the same; None where there was none.

    Raises DataError for one that is damaged.

    What was chosen by speed stays chosen, so that a comparison which was interrupted goes on as it began.
    """
    path = workspace.root / PLAN
    if not path.exists():
        return None
    found = read_json(path)
    if not isinstance(found, dict) or found.get("request") != request:
        return None
    try:
        plan = Plan(Choice(**found["choice"]), dict(found["seconds"]), float(found["forward"]))
        texts, methods = plan.choice.texts, set(plan.choice.methods)
        if type(texts) is not int or texts < 1 or not methods or not methods <= set(request["methods"]):
            raise ValueError
        if not all(is_score(seconds) for seconds in plan.seconds.values()) or not isinstance(
            plan.choice.left_out, dict
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: damaged; remove it, or work in another folder") from error
    return plan


def write_plan(workspace: Workspace, request: Mapping[str, Any], plan: Plan) -> None:
    write_json(workspace.root / PLAN, {"request": request, **asdict(plan)})


def read_done(
    path: Path, classifier: Classifier, examples: Sequence[Example], options: Mapping[str, Any]
) -> list[Attribution] | None:
    """The attributions of an earlier run, where they are of this classifier, these texts and options; else None."""
    if not path.exists():
        return None
    try:
        metadata, found = read_metadata(path), read_attributions(path)
    except DataError:  # damaged: it is computed again
        return None
    same = (metadata.get("classifier"), metadata.get("options")) == (classifier.fingerprint, dict(options))
    texts = [(a.example_id, a.words) for a in found]
    return found if same and texts == [(e.id, e.all_words) for e in examples] else None


def write_given(path: Path, method: str, attributions: Sequence[Attribution], classifier: Classifier) -> None:
    """Write scores from a file as the stage attribute writes those of a method; what they cost is not known."""
    metadata: dict[str, object] = {
        "method": method,
        "options": {},
        "classifier": classifier.fingerprint,
        "threshold": None,
        "notes": {},
        "texts": len(attributions),
        "forward_passes": None,
        "backward_passes": None,
    }
    write_table(path, [attribution_row(a) for a in attributions], ATTRIBUTION_SCHEMA, metadata)


def add_cost(workspace: Workspace, task: str, group: str, method: str, cost: Cost) -> None:
    """Keep what a method cost beside what the others of its group did."""
    path = workspace.costs(task, group)
    known: dict[str, Any] = read_json(path) if path.exists() else {}
    write_json(path, {**known, method: asdict(cost)})


def predictions_of(classifier: Classifier, examples: Sequence[Example]) -> dict[str, tuple[str, float]]:
    """Example id -> the class given and its probability."""
    found = classifier.predict_proba(classifier.encode(examples))
    best = np.argmax(found, axis=1)
    return {
        example.id: (classifier.labels[index], float(row[index]))
        for example, index, row in zip(examples, best, found, strict=True)
    }
