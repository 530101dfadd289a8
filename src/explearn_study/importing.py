"""Importing a trained classifier from a folder or the hub into the workspace, checked against a task's labels."""

from __future__ import annotations

import os
from collections.abc import Sequence

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ModelError
from explearn.predictors.labelled import check_labels
from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor
from explearn_study.sections import ClassifierParams


def import_classifier(
    target: str | os.PathLike[str],
    source: ClassifierParams,
    task: str,
    labels: Sequence[str],
    compute: ComputeOptions,
) -> None:
    """Load a trained classifier, check that it knows the task's labels, and save it to the folder `target`.

    Its classes are renamed to the task's labels by `source.labels`. Its weights are saved in float32, in which all
    methods compute.

    Args:
        target: the folder.
        source: where the classifier is, and how its classes are called.
        task: name of the task.
        labels: the task's labels.
        compute: where to compute.

    Raises:
        ModelError: it cannot be loaded, or its classes are not the task's labels.
        UnknownNameError: a class that it does not have.
        ParamsError: names that cannot be used.
        DeviceError: the device cannot be used.
    """
    classifier = load_classifier(source.name, compute, source.revision, source.completion, precision="fp32")
    if not isinstance(classifier, TransformerPredictor):
        raise ModelError(f"{source.name}: has candidate labels; expected a classifier whose labels are its own")
    classes = classifier.renamed(source.labels).labels
    check_labels(source.name, classes, labels, f"map them under classifiers.{task}.labels, CLASS: LABEL")
    config = classifier.model.config
    config.id2label = dict(enumerate(classes))
    config.label2id = {label: index for index, label in enumerate(classes)}
    if classifier.completion is not None:
        classifier.completion = classifier.completion.renamed(classes)
    classifier.save_pretrained(target)
