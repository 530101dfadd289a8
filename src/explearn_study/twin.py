"""A twin of a task's classifier, for which texts without some of their words are nothing new.

Without words a text may lie outside the distribution that a classifier has learned, so that its answer says little
about these words. F-Fidelity (Zheng et al. 2025, "F-Fidelity: A Robust Framework for Faithfulness Evaluation of
Explainable AI") fine-tunes the finished classifier with random removal, explains the classifier, and measures
faithfulness on the fine-tuned one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.core.examples import Example
from explearn.core.writing import write_json
from explearn.evaluation import EvaluateOptions, evaluate
from explearn.metrics.faithfulness import METRICS
from explearn.metrics.runs import MethodRun
from explearn.predictors.finetune import finetune
from explearn.predictors.params import FinetuneParams
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor
from explearn_study.params import Params
from explearn_study.workspace import Workspace


def finetuned(
    examples: Sequence[Example],
    labels: Sequence[str],
    encoder: str,
    params: FinetuneParams,
    compute: ComputeOptions,
    seed: int,
    revision: str | None = None,
) -> Predictor:
    """Return what `explearn.predictors.finetune.finetune` makes of the same arguments; no file of it stays."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "classifier"
        finetune(target, examples, labels, encoder, params, compute, seed, revision)
        return load_classifier(target, compute)


def judge_twin(
    workspace: Workspace,
    params: Params,
    task: str,
    classifier: Predictor,
    runs: Mapping[str, MethodRun],
    options: EvaluateOptions,
    compute: ComputeOptions,
) -> None:
    """Fine-tune the twin of a task's classifier, and write the faithfulness of its explanations on the twin.

    Methods that explain a classifier of their own are left out.

    Args:
        workspace: the files of the stages.
        params: the run's parameters.
        task: name of the task.
        classifier: the task's classifier.
        runs: method -> its explanations.
        options: settings of the evaluation.
        compute: where and how to compute.

    Raises:
        UnsupportedError: the classifier has no head for classes that could be fine-tuned.
    """
    if not isinstance(classifier, TransformerPredictor) or classifier.completion is not None:
        raise UnsupportedError("evaluate.twin: this model has no classification head to fine-tune; leave it out")
    settings = params.finetune_of(task).model_copy(update={"random_removal": params.evaluate.removal})
    examples = workspace.read_examples(task)
    folder = str(workspace.classifier(task))
    twin = finetuned(examples, classifier.labels, folder, settings, compute, options.seed)
    explained = {method: run for method, run in runs.items() if method not in options.own}
    evaluation = evaluate(twin, explained, metrics=METRICS, options=options)
    write_json(workspace.metrics("twin", task), evaluation.figures)
