"""Where every stage's files lie, and readers for those that several stages share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explearn.core.errors import UnknownNameError
from explearn.core.records import Example, Rationale
from explearn.core.shapes import Count, Shape, read_document
from explearn.core.storage import read_examples, read_rationales, read_task_examples
from explearn.methods.registry import is_variant, known_infos
from explearn.text.rationales import merge_annotators
from explearn_study.params import ON_MODEL, Params


class TaskFacts(Shape):
    """What the stage prepare notes of a task beside its texts."""

    labels: list[str]
    dropped: dict[str, Count]
    unused_ids: list[str]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Paths below a root folder (the project's, by default the current one)."""

    root: Path = Path()

    def examples(self, task: str) -> Path:
        """Folder: train.parquet, validation.parquet, test.parquet, native.parquet (the source's rationales),
        task.json."""
        return self.root / "data" / "examples" / task

    def annotations(self, task: str) -> Path:
        """Folder of what people and language models add (see `explearn_study.annotate.store`)."""
        return self.root / "data" / "annotations" / task

    def rationales(self, task: str) -> Path:
        return self.root / "data" / "rationales" / f"{task}.parquet"

    def agreement(self, task: str) -> Path:
        """JSON: all that `explearn.text.agreement.agreement_metrics` gives."""
        return self.root / "data" / "rationales" / f"{task}.json"

    def classifier(self, task: str) -> Path:
        return self.root / "data" / "classifiers" / task

    def features(self, task: str) -> Path:
        """Folder: one Parquet file a split."""
        return self.root / "data" / "features" / task

    def signals(self, task: str) -> Path:
        """Folder: train.parquet and validation.parquet; see `explearn.lens.word_signals`."""
        return self.root / "data" / "signals" / task

    def teacher(self, task: str, name: str) -> Path:
        """Folder of what a method says of training and validation texts; see `explearn_study.teacher_files`."""
        return self.root / "data" / "teachers" / task / name

    def explainers(self, task: str) -> Path:
        """Folder of a task's trained explainers."""
        return self.root / "data" / "explainers" / task

    def explainer(self, task: str, name: str) -> Path:
        """Folder of a trained explainer. What belongs to a variant of the run lies in a folder of its own."""
        if is_variant(name):
            return self.root / "data" / "variants" / task / name / "explainer"
        return self.explainers(task) / name

    def explained(self, task: str, group: str) -> Path:
        """The classifier that a group's methods explain: an explainer's own, where it trains one, or the task's.

        Raises UnknownNameError for a group `on_NAME` of an explainer that trains no classifier.
        """
        trainers = {f"{ON_MODEL}{info.name}": info.name for info in known_infos() if info.own_model}
        # A variant is a group of its own.
        trainers |= {info.name: info.name for info in known_infos() if info.own_model and is_variant(info.name)}
        if group in trainers:
            return self.explainer(task, trainers[group]) / "classifier"
        if group.startswith(ON_MODEL):
            raise UnknownNameError("group", group, trainers)
        return self.classifier(task)

    def study(self, task: str, name: str) -> Path:
        """Journal of the search for an explainer's parameters: scratch that lets it go on; no stage reads it."""
        return self.root / "data" / "studies" / task / f"{name}.log"

    def attributions(self, task: str, group: str) -> Path:
        """Folder of METHOD.parquet files; groups: see `explearn_study.attribute.group_methods`."""
        if is_variant(group):
            return self.root / "data" / "variants" / task / group / "attributions"
        return self.root / "data" / "attributions" / task / group

    def costs(self, task: str, group: str) -> Path:
        """JSON: method -> `runs.Cost`, as measured here. No output of a stage, for times never repeat."""
        return self.root / "data" / "costs" / task / f"{group}.json"

    def distillation(self, task: str, teacher: str) -> Path:
        """JSON: what `explearn_study.distil.compare_with_students` gives."""
        return self.root / "reports" / "metrics" / "l2e" / task / f"{teacher}.json"

    def transfer(self, explainer: str) -> Path:
        """JSON: what `explearn_study.transfer.transfer` gives."""
        return self.root / "reports" / "metrics" / "transfer" / f"{explainer}.json"

    def metrics(self, kind: str, task: str) -> Path:
        """JSON of a kind: agreement, classifier, explanations, comparisons, sanity or curve."""
        return self.root / "reports" / "metrics" / kind / f"{task}.json"

    def metrics_table(self, kind: str, task: str) -> Path:
        """Parquet of a kind: texts (a metric's value on every text) or pairs (of methods, in a metric)."""
        return self.root / "reports" / "metrics" / kind / f"{task}.parquet"

    def plot(self, kind: str, task: str) -> Path:
        """CSV of a kind: finetune (training curve), f1, auroc, faithfulness or curve."""
        return self.root / "reports" / "plots" / kind / f"{task}.csv"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    def read_examples(self, task: str, split: str | None = None) -> list[Example]:
        folder = self.examples(task)
        return read_task_examples(folder) if split is None else read_examples(folder / f"{split}.parquet")

    def read_task(self, task: str) -> dict[str, Any]:
        """labels, dropped (reason -> rows) and unused_ids (of texts subsampled away)."""
        found: dict[str, Any] = read_document(self.examples(task) / "task.json", TaskFacts, "prepare")
        return found

    def read_labels(self, task: str) -> list[str]:
        return [str(label) for label in self.read_task(task)["labels"]]

    def read_rationales(self, task: str) -> list[Rationale]:
        return read_rationales(self.rationales(task), self.read_examples(task))

    def read_gold(self, task: str, params: Params) -> dict[str, tuple[bool, ...]]:
        """Example id -> word mask, annotators merged; texts where no word remains are left out."""
        merged = merge_annotators(self.read_rationales(task), params.rationale_agreement)
        return {example_id: mask for example_id, mask in merged.items() if any(mask)}

    def attribution_files(self, params: Params, task: str) -> dict[str, Path]:
        """Method -> its file, for every method of the run."""
        return {name: self.attributions(task, params.group_of(name)) / f"{name}.parquet" for name in params.methods}

    def own_model_files(self, params: Params, task: str, explainer: str) -> dict[str, Path]:
        """Method -> its file, for an explainer with a classifier of its own and the baselines run on that."""
        folder = self.attributions(task, params.group_of(explainer))
        return {name: folder / f"{name}.parquet" for name in (explainer, *params.baselines.own_model)}
