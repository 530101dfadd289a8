"""Training a classifier, or an explainer for one, on a user's texts in one call: no project, no DVC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from explearn.comparison.texts import TextColumns, UserTexts, given_texts
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ParamsError, UnknownNameError
from explearn.core.examples import Example
from explearn.core.seeds import hash_order, seed_everything
from explearn.core.validation import check_section
from explearn.methods.base.learned import LearnedExplainer, check_explainer_place, text_hashes
from explearn.methods.info import MethodInfo
from explearn.methods.listed_task import ListedTask
from explearn.methods.registry import get_info, known_infos, make_explainer, with_seed
from explearn.predictors.finetune import FinetuneEpoch
from explearn.predictors.finetune import finetune as run_finetune
from explearn.predictors.labels import check_labels
from explearn.predictors.params import FinetuneParams
from explearn.predictors.pretrained import as_predictor
from explearn.text.rationales import merge_annotators

MOST_VALIDATION = 400
"""Most validation texts; a fifth of the texts is set aside if that is fewer."""

MARKS = "training_rationales"


def train(
    method: str,
    classifier: Any,
    texts: Any,
    *,
    labels: Sequence[str] | None = None,
    columns: TextColumns | None = None,
    out: str | Path | None = None,
    seed: int = 13,
    compute: ComputeOptions | None = None,
    description: str | None = None,
    **options: Any,
) -> LearnedExplainer:
    """Train a learned method for a classifier on some texts.

    `l2e` and `paml` learn from the classifier's predictions for the texts. `expnet` learns from marked words if the
    texts have some, else from the consensus that comes with the package. `ivra` and `smat` need labels, because they
    add their criteria to the task's loss.

    Args:
        method: name of a learned method.
        classifier: hub name or folder of a sequence classifier, or a loaded one (`explearn.explain`).
        texts: a .csv, .jsonl, .parquet or .txt file, a list of texts (or pairs of texts), or a table of pandas or
            datasets.
        labels: the true labels of a list of texts; for a file, `columns.label` names their column.
        columns: what the columns of a file hold.
        out: folder to save the explainer to, for `get_explainer(method, path=out)` (default: it is not saved). An
            earlier explainer there is replaced when training has finished.
        seed: random seed.
        description: text of a progress bar (default: no bar).
        options: the method's options (`explearn methods NAME` lists them).

    Raises DataError, ParamsError, UnknownNameError, ModelError, UnsupportedError or DeviceError, before training
    starts, for arguments that cannot be used.
    """
    info = _trainable(method)
    user_texts = given_texts(texts, labels, columns)
    info = _checked(info, user_texts, options)
    if out is not None:
        check_explainer_place(out)
    explainer = make_explainer(info, with_seed(info.name, options, seed))
    assert isinstance(explainer, LearnedExplainer)
    seed_everything(seed)
    model = (columns or TextColumns()).renamed(as_predictor(classifier, compute))
    check_labels(model.name, model.labels, user_texts.labels, "map the texts' labels with --label-name VALUE=CLASS")
    explainer.check_problem(model)
    marks = {i: mask for i, mask in merge_annotators(user_texts.rationales).items() if any(mask)}
    # Methods that learn from marks, or from all texts, need no validation texts.
    train, validation = (list(user_texts.examples), []) if MARKS in info.needs else _split(user_texts.examples, seed)
    task = ListedTask(
        model,
        [replace(one, split="train") for one in train],
        [replace(one, split="validation") for one in validation],
        gold=marks,
        name=user_texts.name,
        seed=seed,
    )
    explainer.fit(task, description=description)
    explainer.trained_texts = frozenset(text_hashes(user_texts.examples).values())
    if out is not None:
        explainer.save_pretrained(out)
    return explainer


def finetune(
    encoder: str,
    texts: Any,
    out: str | Path,
    *,
    labels: Sequence[str] | None = None,
    columns: TextColumns | None = None,
    seed: int = 13,
    compute: ComputeOptions | None = None,
    **options: Any,
) -> list[FinetuneEpoch]:
    """Fine-tune a classifier on labelled texts, and save the epoch that is best on a held-out fifth of them.

    Args:
        encoder: `embedded`, a hub name or a folder.
        texts, labels, columns: as for `train`; without `columns`, a table's labels are in its column `label`.
        out: folder to save the classifier to.
        options: fields of `explearn.predictors.params.FinetuneParams`: epochs, learning_rate, ...

    Returns the history, one entry per epoch. Raises what `explearn.predictors.finetune.finetune` raises, ParamsError
    without labels, DataError for fewer than five texts or two labels, MissingExtraError without `explearn[finetune]`.
    """
    if labels is None:
        columns = replace(columns or TextColumns(), label=(columns and columns.label) or "label")
    user_texts = given_texts(texts, labels, columns)
    train, validation = _split(user_texts.examples, seed)
    if not validation or len(user_texts.labels) < 2:
        count = f"{len(user_texts.examples):,} texts with {len(user_texts.labels)} labels"
        raise DataError(f"{user_texts.name}: got {count}; expected 5 texts at least, with 2 labels at least")
    examples = [replace(one, split="train") for one in train] + [replace(one, split="validation") for one in validation]
    params = check_section(FinetuneParams, options)
    return run_finetune(out, examples, user_texts.labels, encoder, params, compute or ComputeOptions(), seed)


def _trainable(name: str) -> MethodInfo:
    """Return a method's facts. Raises UnknownNameError or ParamsError for a method that cannot be trained this way."""
    try:
        info = get_info(name)
    except UnknownNameError:
        raise UnknownNameError("method", name, (one.name for one in known_infos() if one.trained)) from None
    if not info.trained:
        begins = f"it starts from a trained {info.base}" if info.base else "it needs no training"
        raise ParamsError(f"method: {name!r} has nothing to train; {begins}")
    if "other_tasks" in info.needs:
        raise ParamsError(
            f"method: {name!r} learns from the marks of other tasks, but these texts are one task; it is ready to use "
            "without training, or can be trained with explearn.ListedTask(others=...)"
        )
    return info


def _checked(info: MethodInfo, texts: UserTexts, options: Mapping[str, Any]) -> MethodInfo:
    """Return the method, or its variant that learns from marks. Raises ParamsError if the texts lack something that it
    needs, or have marks that it does not learn from."""
    if info.own_model and not texts.labels:
        raise ParamsError(f"labels: got none; {info.name!r} adds its criteria to the task's loss, which needs them")
    if not texts.rationales:
        return info
    if MARKS not in info.needs and options.get("people") is None:
        raise ParamsError(f"rationales: {info.name!r} does not learn from marked words; leave them out")
    if not texts.labels:
        raise ParamsError(
            "rationales: got marks without labels (--labels COLUMN); marks are only used for texts whose label the "
            "classifier predicts"
        )
    return get_info("expnet_in_domain") if info.name == "expnet" and "protocol" not in options else info


def _split(examples: Sequence[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """Draw a fifth of each label's texts, at most MOST_VALIDATION in all, for validation; return (training,
    validation)."""
    labels = {one.id: one.label for one in examples}
    by_label = sorted(hash_order(labels, seed), key=lambda name: labels[name])
    drawn = set(hash_order(by_label[4::5], seed)[:MOST_VALIDATION])
    return [one for one in examples if one.id not in drawn], [one for one in examples if one.id in drawn]
