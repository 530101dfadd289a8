"""Importing a trained classifier from a folder or the hub into the workspace, checked against a task's labels."""

from __future__ import annotations

import os
from collections.abc import Sequence

from explearn.predictors.pretrained import load_classifier

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ModelError
from explearn.core.writing import atomic_folder
from explearn.predictors.labels import check_labels
from explearn_study.sections import ClassifierParams


def import_classifier(
    target: str | os.PathLike[str],
    given: ClassifierParams,
    task: str,
    labels: Sequence[str],
    compute: ComputeOptions,
) -> None:
    """Load a trained classifier, check that it knows the task's labels, and save it to the folder `target`.

    Its classes are renamed to the task's labels by `given.labels`. Its weights are saved in float32, in which all
    methods compute.

    Raises ModelError if it cannot be loaded or its classes are not the task's labels, UnknownNameError and ParamsError
    for invalid names, DeviceError.
    """
    classifier = load_classifier(given.name, compute, given.revision, given.completion, precision="fp32")
    if classifier.nli is not None:
        raise ModelError(f"{given.name}: has candidate labels; expected a classifier whose labels are its own")
    classes = classifier.renamed(given.labels).labels
    check_labels(given.name, classes, labels, f"map them under classifiers.{task}.labels, CLASS: LABEL")
    config = classifier.model.config
    config.id2label = dict(enumerate(classes))
    config.label2id = {label: index for index, label in enumerate(classes)}
    if classifier.completion is not None:
        classifier.completion = classifier.completion.renamed(classes)
    with atomic_folder(target) as folder:
        classifier.save_pretrained(folder)
