"""Stage sanity: do the methods' scores depend on the classifier, and how steady are they?"""

import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from explearn.core.compute import ComputeOptions
from explearn.core.records import Example
from explearn.core.storage import write_json
from explearn.methods.base.registry import get_info
from explearn.metrics.sanity import SanityResult, check_methods
from explearn.models.classifier import Classifier
from explearn.models.finetune import finetune
from explearn.pipeline.attribute import group_methods, texts_to_explain
from explearn.pipeline.params import LEARNED, Params
from explearn.pipeline.staging import TaskOption, stage
from explearn.pipeline.workspace import Workspace


@stage()
def sanity(task: TaskOption, params: Params, compute: ComputeOptions, seed: int) -> None:
    """Explain some test texts anew on classifiers with random weights and with noise on their embeddings.

    Writes reports/metrics/sanity/TASK.json: texts, and for each method random_model (part of the model -> spearman,
    overlap), random_labels, max_sensitivity and skipped.
    """
    workspace = Workspace()
    chosen = params.sanity.methods
    if chosen is None:
        chosen = [*params.explainers, *params.baselines.quick]
    own = [name for name in chosen if get_info(name).own_model]
    groups = {group: group_methods(group, task, params, workspace, seed) for group in map(params.group_of, chosen)}
    found = {name: next(e for e, _ in groups[params.group_of(name)] if e.name == name) for name in chosen}
    examples = texts_to_explain(
        workspace.read_examples(task, "test"), workspace.read_gold(task, params), params.sanity.texts, seed
    )
    other_labels = None
    if params.sanity.random_labels:
        other_labels = _finetuned_on_permuted_labels(workspace, task, params, compute, seed)
    # A method with a classifier of its own is checked on copies of that one.
    checked = {LEARNED: [name for name in chosen if name not in own], **{params.group_of(name): [name] for name in own}}
    results: dict[str, SanityResult] = {}
    for group, names in checked.items():
        model = Classifier.from_pretrained(workspace.explained(task, group), compute)
        explainers = [found[name] for name in names]
        for explainer in explainers:
            explainer.any_classifier = True
        results |= check_methods(
            explainers, model, examples, params.sanity, seed, params.evaluate.headline_percent, other_labels
        )
    document = {"texts": len(examples), "methods": {name: asdict(result) for name, result in results.items()}}
    write_json(workspace.metrics("sanity", task), document)


def _finetuned_on_permuted_labels(
    workspace: Workspace, task: str, params: Params, compute: ComputeOptions, seed: int
) -> Classifier:
    """The task's encoder, fine-tuned as in the stage finetune on labels dealt out at random within each split."""
    rng = np.random.default_rng(seed)
    permuted: list[Example] = []
    for split in ("train", "validation"):
        rows = workspace.read_examples(task, split)
        labels = [rows[i].label for i in rng.permutation(len(rows))]
        permuted.extend(replace(row, label=label) for row, label in zip(rows, labels, strict=True))
    with tempfile.TemporaryDirectory(prefix="explearn-sanity-") as folder:
        target = Path(folder) / "classifier"
        finetune(
            target,
            permuted,
            workspace.read_labels(task),
            params.encoder,
            params.finetune,
            compute,
            seed,
            params.encoder_revision,
        )
        return Classifier.from_pretrained(target, compute)


if __name__ == "__main__":
    sanity()
