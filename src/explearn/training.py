"""Training a classifier, or an explainer for one, on a user's texts in one call: no project, no DVC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ParamsError, UnknownNameError, listed
from explearn.core.examples import Example, Split
from explearn.core.seeds import hash_order, seed_everything
from explearn.core.validation import check_section
from explearn.core.writing import check_place
from explearn.methods.base.learned import TRAINED, LearnedExplainer
from explearn.methods.finding import seeded
from explearn.methods.info import MethodInfo
from explearn.methods.registry import get_explainer, get_info, known_infos
from explearn.predictors.finetune import FinetuneEpoch
from explearn.predictors.finetune import finetune as run_finetune
from explearn.predictors.params import FinetuneParams
from explearn.show.blocks import several
from explearn.subject.subject import make_subject
from explearn.subject.texts import TextColumns, UserTexts, given_texts
from explearn.text.equal import split_texts
from explearn.text.rationales import marked_words

MOST_VALIDATION = 400
"""Most validation texts; a fifth of the texts is set aside if that is fewer."""

MARKS = "training_rationales"


@inputs_left_as_they_came
def train(
    method: str,
    classifier: Any,
    texts: Any,
    *,
    labels: Sequence[str | int] | None = None,
    columns: TextColumns | None = None,
    out: str | Path | None = None,
    seed: int = 13,
    compute: ComputeOptions | None = None,
    description: str | None = None,
    **options: Any,
) -> LearnedExplainer:
    """Train a learned method for a classifier on some texts.

    `reader` and `paml` learn from the classifier's predictions for the texts; `paml` needs `backbone`, the encoder that
    the classifier was fine-tuned from. `marker` learns from marked words if the texts have some, else from the
    consensus that comes with the package. `ivra` and `smat` need labels, because they add their criteria to the task's
    loss.

    Args:
        method: name of a learned method.
        classifier: hub name or folder of a sequence classifier, or a loaded one (`explearn.explain`).
        texts: a .csv, .jsonl, .parquet or .txt file, a list of texts (or pairs of texts), or a table of pandas or
            datasets.
        labels: the true labels of a list of texts, by name or number; for a file, `columns.label` names their column.
        columns: what the columns of a file hold.
        out: folder to save the explainer to, for `load(out)`. An earlier explainer there is replaced when training has
            finished. None: it is not saved.
        seed: random seed.
        compute: device and precision, for the name or folder of a classifier.
        description: text of a progress bar. None: no bar.
        options: the method's options (`explearn methods NAME` lists them).

    Returns:
        The trained explainer.

    Raises:
        DataError: the texts, labels or marks cannot be used; like all others, raised before training starts.
        ParamsError: an argument or option cannot be used.
        UnknownNameError: there is no such learned method, or no such label.
        ModelError: the classifier cannot be loaded.
        UnsupportedError: the method cannot explain the classifier.
        DeviceError: the device cannot be used.

    Example:
        >>> from explearn import train
        >>> from explearn.testing import make_classifier
        >>> texts = ["a warm funny sequel", "slow delivery and a broken box", "the lazy dog sleeps"] * 4
        >>> reader = train("reader", make_classifier("bert"), texts, epochs=1, samples=4, width=8)
        >>> reader.texts
        {'training': 12, 'held_out': 0}
    """
    info = _trainable(method)
    user_texts = given_texts(texts, labels, columns)
    info = _checked(info, user_texts, options)
    if out is not None:
        check_place(out, TRAINED, folder=True)
    explainer = get_explainer(info.name, **seeded(info.name, options, seed))
    assert isinstance(explainer, LearnedExplainer)
    seed_everything(seed)
    problems = explainer.problems
    subject = make_subject("explearn.train", classifier, user_texts, seed=seed, compute=compute, problems=problems)
    explainer.check_problem(subject.classifier)
    marks = marked_words(user_texts.rationales)
    if MARKS in info.needs:
        # These methods need no validation texts.
        train = [replace(example, split="train") for example in subject.texts.examples]
        validation: list[Example] = []
    else:
        train, validation = _split(subject.texts.examples, seed)
    explainer.fit(subject.classifier, train, marks, validation, name=user_texts.name, description=description)
    if out is not None:
        explainer.save_pretrained(out)
    return explainer


@inputs_left_as_they_came
def finetune(
    encoder: str,
    texts: Any,
    out: str | Path,
    *,
    labels: Sequence[str | int] | None = None,
    columns: TextColumns | None = None,
    seed: int = 13,
    compute: ComputeOptions | None = None,
    **options: Any,
) -> list[FinetuneEpoch]:
    """Fine-tune a classifier on labelled texts, and save the epoch that is best on a held-out fifth of them.

    Args:
        encoder: `embedded`, a hub name or a folder.
        texts: texts, as for `train`.
        out: folder to save the classifier to.
        labels: the true labels of a list of texts.
        columns: what the columns of a file or table hold; its labels are in the column `label` unless this says
            otherwise.
        seed: random seed.
        compute: device and precision.
        options: fields of `explearn.predictors.params.FinetuneParams`: epochs, learning_rate, ...

    Returns:
        The history, one entry per epoch.

    Raises:
        DataError: there are fewer than five different texts or two labels.
        ParamsError: there are no labels, or an argument or option cannot be used.
        ModelError: the encoder cannot be loaded, or training diverged.
        MissingExtraError: `explearn[finetune]` is not installed.

    Example:
        >>> from explearn import finetune
        >>> from explearn.testing import make_classifier
        >>> make_classifier().save_pretrained("encoder")
        >>> texts = ["a warm funny sequel", "no refund", "friendly guide", "slow delivery", "a broken box"]
        >>> labels = ["yes", "no", "yes", "no", "no"]
        >>> history = finetune("encoder", texts * 2, "classifier", labels=labels * 2, epochs=1)
        >>> len(history)
        1
    """
    if labels is None:
        columns = columns or TextColumns()
        columns = replace(columns, label=columns.label or "label")
    user_texts = given_texts(texts, labels, columns)
    _check_labelled(user_texts)
    train, validation = _split(user_texts.examples, seed)
    if not validation or len(user_texts.labels) < 2:
        count = f"{several(len(user_texts.examples), 'text')} with {several(len(user_texts.labels), 'label')}"
        raise DataError(f"{user_texts.name}: got {count}; expected 5 different texts, with 2 labels at least")
    params = check_section(FinetuneParams, options)
    compute = compute or ComputeOptions()
    return run_finetune(out, [*train, *validation], user_texts.labels, encoder, params, compute, seed)


def _trainable(name: str) -> MethodInfo:
    """Return a method's facts, or raise UnknownNameError or ParamsError if it cannot be trained on one task's texts."""
    try:
        info = get_info(name)
    except UnknownNameError:
        trained = [info.name for info in known_infos() if info.trained]
        raise UnknownNameError("method", name, trained) from None
    if info.base:
        raise ParamsError(f"method: {name!r} has nothing to train; it starts from a trained {info.base}")
    if not info.trained:
        raise ParamsError(f"method: {name!r} has nothing to train; it needs no training")
    if "other_tasks" in info.needs:
        raise ParamsError(
            f"method: {name!r} learns from the marks of other tasks, but these texts are one task; it is ready to use "
            "without training, or can be trained with fit(..., others=...)"
        )
    return info


def _checked(info: MethodInfo, texts: UserTexts, options: Mapping[str, Any]) -> MethodInfo:
    """Return the method, or its variant that learns from marks.

    Raises:
        ParamsError: the texts lack something that the method needs, or have marks that it does not learn from.
    """
    if info.own_model:
        if not texts.labels:
            raise ParamsError(f"labels: got none; {info.name!r} adds its criteria to the task's loss, which needs them")
        _check_labelled(texts)
    if not texts.rationales:
        return info
    if MARKS not in info.needs and options.get("marked") is None:
        raise ParamsError(f"rationales: {info.name!r} does not learn from marked words; leave them out")
    if not texts.labels:
        raise ParamsError(
            "rationales: got marks without labels (--label-column); marks are only used for texts whose label the "
            "classifier predicts"
        )
    if info.name == "marker" and "protocol" not in options:
        return get_info("marker_in_domain")
    return info


def _check_labelled(texts: UserTexts) -> None:
    """Raise DataError if a text has no label, which it needs to be learned from."""
    missing = [example.id for example in texts.examples if not example.label]
    if missing:
        counts = f"{len(missing):,} of {several(len(texts.examples), 'text')}"
        raise DataError(f"labels: {counts} have none ({listed(missing)}); expected one for each text")


def _split(examples: Sequence[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """Draw a fifth of each label's different texts, at most MOST_VALIDATION in all, for validation.

    Returns:
        The examples of split `train` and of split `validation`.
    """
    by_id = {example.id: example for example in examples}

    def draw(different: Sequence[str]) -> dict[str, Split]:
        by_label = sorted(hash_order(different, seed), key=lambda name: by_id[name].label)
        sides: dict[str, Split] = dict.fromkeys(different, "train")
        return sides | dict.fromkeys(hash_order(by_label[4::5], seed)[:MOST_VALIDATION], "validation")

    splits = split_texts(by_id, draw)
    split = [replace(example, split=splits[example.id]) for example in examples]
    train = [example for example in split if example.split == "train"]
    return train, [example for example in split if example.split == "validation"]
