"""The paths of every stage's files, and readers for files that several stages share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explearn.core.documents import read_json
from explearn.core.examples import SPLITS, Example, Rationale
from explearn.text.rationales import marked_words
from explearn_study.example_files import read_examples, read_rationales
from explearn_study.params import Params

REFUSAL = "refused.json"
"""The file, in the folder of what could not be made, with the reason."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Paths below a root folder (the project's, by default the current one)."""

    root: Path = Path()

    def examples(self, task: str) -> Path:
        """Folder: train.parquet, validation.parquet, test.parquet, native.parquet (the source's rationales),
        task.json."""
        return self.root / f"data/examples/{task}"

    def annotations(self, task: str) -> Path:
        """Folder of what people and language models add (see `explearn_study.annotate.task`)."""
        return self.root / f"data/annotations/{task}"

    def rationales(self, task: str) -> Path:
        return self.root / f"data/rationales/{task}.parquet"

    def agreement(self, task: str) -> Path:
        """JSON: all that `explearn.text.agreement.agreement_metrics` gives."""
        return self.root / f"data/rationales/{task}.json"

    def classifier(self, task: str) -> Path:
        return self.root / f"data/classifiers/{task}"

    def features(self, task: str) -> Path:
        """Folder: one Parquet file a split."""
        return self.root / f"data/features/{task}"

    def signals(self, task: str) -> Path:
        """Folder: train.parquet and validation.parquet; see `explearn_study.feature_files`."""
        return self.root / f"data/signals/{task}"

    def teacher(self, task: str, name: str) -> Path:
        """Folder of what a method says of training and validation texts; see `explearn_study.teacher_files`."""
        return self.root / f"data/teachers/{task}/{name}"

    def explainer(self, task: str, name: str) -> Path:
        """Folder of a trained explainer."""
        return self.root / f"data/explainers/{task}/{name}"

    def explained(self, params: Params, task: str, method: str) -> Path:
        """The folder of the classifier that a method explains: its own, where it trained one, or else the task's."""
        if params.methods[method] in params.with_own_model:
            return self.explainer(task, method) / "classifier"
        return self.classifier(task)

    def attributions(self, task: str) -> Path:
        """Folder of METHOD.parquet files."""
        return self.root / f"data/attributions/{task}"

    def costs(self, task: str) -> Path:
        """JSON: method -> `runs.Cost`, as measured here. No output of a stage, for times never repeat."""
        return self.root / f"data/costs/{task}/methods.json"

    def refusal(self, task: str, method: str) -> str:
        """Return why a learned method was not trained for a task; empty if it was."""
        path = self.explainer(task, method) / REFUSAL
        return str(read_json(path)["reason"]) if path.is_file() else ""

    def training_cost(self, task: str, method: str) -> Path:
        """JSON: training_seconds, the processor time that a learned method took here. No output of a stage."""
        return self.root / f"data/costs/{task}/training-{method}.json"

    def student_costs(self, task: str, teacher: str) -> Path:
        """JSON: formulation -> what teacher, students and classifier cost in the study `students`."""
        return self.root / f"data/costs/{task}/students-{teacher}.json"

    def code(self, name: str) -> Path:
        """Fingerprint of a stage's code, or methods/NAME of a method's; see `explearn_study.code`."""
        return self.root / f"data/code/{name}.txt"

    def classifier_figures(self, task: str) -> Path:
        """JSON: how good the classifier is on each split."""
        return self.root / f"data/classifiers/{task}.json"

    def metrics(self, task: str) -> Path:
        """Folder of the `explearn.Evaluation` of a task."""
        return self.root / f"reports/metrics/{task}"

    def twin(self, task: str) -> Path:
        """Folder of the evaluation on the classifier's twin."""
        return self.metrics(task) / "twin"

    def marks_curve(self, task: str) -> Path:
        """JSON of the study `marks_curve`."""
        return self.reports / f"metrics/studies/marks_curve/{task}.json"

    def students(self, task: str, teacher: str, formulation: str) -> Path:
        """Folder of the evaluation of a teacher's students, in the study `students`."""
        return self.reports / f"metrics/studies/students/{task}/{teacher}/{formulation}"

    @property
    def own_classifier(self) -> Path:
        """Folder of evaluations on the classifiers that the explainer under study trained, one for each task."""
        return self.reports / "metrics/own_classifier"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    def read_examples(self, task: str, split: str | None = None) -> list[Example]:
        examples: list[Example] = []
        for name in SPLITS if split is None else (split,):
            examples += read_examples(self.examples(task) / f"{name}.parquet")
        return examples

    def read_task(self, task: str) -> dict[str, Any]:
        """Return labels, dropped (reason -> rows) and unused_ids (of texts subsampled away)."""
        facts: dict[str, Any] = read_json(self.examples(task) / "task.json")
        return facts

    def read_labels(self, task: str) -> list[str]:
        return list(self.read_task(task)["labels"])

    def read_rationales(self, task: str) -> list[Rationale]:
        return read_rationales(self.rationales(task))

    def read_gold(self, task: str, params: Params) -> dict[str, tuple[bool, ...]]:
        """Return example id -> word mask, annotators merged; texts where no word remains are left out."""
        return marked_words(self.read_rationales(task), params.rationale_agreement)


def read_costs(path: Path) -> dict[str, Any]:
    """Return a JSON document of costs, empty where nothing was measured here."""
    return dict(read_json(path)) if path.exists() else {}
