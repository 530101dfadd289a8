"""Fine-tuning an encoder into the classifier that is then frozen and explained; uses transformers' Trainer."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.compute import ComputeOptions
from explearn.core.errors import SAVED, DataError, ModelError, UnknownNameError, problem_of
from explearn.core.extras import check_installed
from explearn.core.finite import check_weights
from explearn.core.records import ANSWER_LABELS, Example
from explearn.core.seeds import seed_everything
from explearn.core.writing import atomic_folder, check_replaceable
from explearn.model.classifier import Classifier, QuestionAnswerer
from explearn.model.encoder import SCRATCH, resolve_encoder
from explearn.model.heads import head_for
from explearn.model.loading import quiet_transformers
from explearn.model.lora import merged, with_adapters
from explearn.model.params import FinetuneParams
from explearn.model.question_answering import reached
from explearn.model.reading import max_length
from explearn.model.scratch import from_scratch

if TYPE_CHECKING:
    import transformers


@dataclass(frozen=True, slots=True)
class Epoch:
    """Mean training loss of one epoch, and metrics on the validation split after it.

    For question answering, accuracy is the share of exact answers; macro_f1 and mcc need classes and are None.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    accuracy: float
    macro_f1: float | None
    mcc: float | None


def classification_metrics(truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    """Accuracy, macro-F1 over all `labels`, Matthews correlation, and the rate of the most frequent true label.

    The last is the accuracy of always giving one class; a classifier that does no better has nothing to explain.
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    return {
        "texts": len(truth),
        "accuracy": float(accuracy_score(truth, predicted)),
        "macro_f1": float(f1_score(truth, predicted, labels=list(labels), average="macro", zero_division=0)),
        "mcc": float(matthews_corrcoef(truth, predicted)),
        "majority_rate": max(Counter(truth).values()) / len(truth),
    }


def evaluate_classifier(
    classifier: Classifier, examples: Sequence[Example], description: str | None = None
) -> dict[str, Any]:
    """`classification_metrics` of a classifier on labelled examples.

    For question answering, accuracy is the share of answers with exactly the true words; the others are None.
    """
    encodings, labels = classifier.encode_labelled(examples)
    predicted = classifier.predict_proba(encodings, description).argmax(-1)
    if isinstance(classifier, QuestionAnswerer):
        exact = float(np.mean(predicted == np.array(labels)))
        return {"texts": len(labels), "accuracy": exact, "macro_f1": None, "mcc": None, "majority_rate": None}
    names = classifier.labels
    return classification_metrics([names[i] for i in labels], [names[i] for i in predicted], names)


def class_weights(labels: Sequence[int], classes: int) -> NDArray[np.float32]:
    """n / (C n_c) for each class c, shape (C,), so that every class has the same weight in the loss."""
    counts = np.bincount(labels, minlength=classes)
    return (len(labels) / (classes * np.maximum(counts, 1))).astype(np.float32)


def load_encoder(
    encoder: str, labels: Sequence[str], limit: int, revision: str | None = None
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Load pretrained weights with a new head for `labels`, and their tokenizer.

    The head classifies, or finds spans where the labels are ANSWER_LABELS.

    Args:
        encoder: `embedded`, a hub name or a local folder; not `scratch`, which has no weights to load.
        limit: most sub-tokens per text; lowered to what the position embeddings allow.

    Raises ModelError when there is no such encoder, or it lacks pretrained weights for any layer but the pooler.
    """
    source = resolve_encoder(encoder)
    quiet_transformers()
    import transformers

    try:
        model, info = head_for(labels).from_pretrained(
            source,
            revision=revision or "main",
            num_labels=len(labels),
            id2label=dict(enumerate(labels)),
            label2id={label: i for i, label in enumerate(labels)},
            # A head trained for other labels gives way to a new one; for the encoder itself, see below.
            ignore_mismatched_sizes=True,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source, revision=revision or "main", trust_remote_code=False
        )
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError, ... here
        raise ModelError(f"encoder {encoder!r} cannot be loaded ({problem_of(error)}); {SAVED}") from error
    # mismatched_keys holds (name, found shape, expected shape).
    unloaded = [*info["missing_keys"], *(entry[0] for entry in info.get("mismatched_keys", ()))]
    check_weights(
        ((name, value) for name, value in model.named_parameters() if name not in unloaded),
        f"encoder {encoder!r}: damaged",
        "download or make it again",
    )
    lost = sorted(k for k in unloaded if k.startswith(f"{model.base_model_prefix}.") and ".pooler." not in k)
    if lost:
        raise ModelError(
            f"encoder {encoder!r}: weights are missing or of the wrong shape for {', '.join(lost[:4])}; "
            "expected the pretrained weights of every layer"
        )
    tokenizer.model_max_length = min(limit, max_length(model.config, tokenizer))
    return model, tokenizer


def finetune(
    target: str | os.PathLike[str],
    examples: Sequence[Example],
    labels: Sequence[str],
    encoder: str,
    params: FinetuneParams,
    compute: ComputeOptions,
    seed: int,
    revision: str | None = None,
) -> list[Epoch]:
    """Train on the examples of split `train`, keep the epoch that is best on `validation`, save it to `target`.

    Returns the history, one entry per epoch. The folder is as `save_pretrained` writes it; it appears once it is whole,
    in the place of an earlier classifier.

    Raises ParamsError for a folder that holds anything but a classifier, DataError for an empty split, UnknownNameError
    for a label that is not in `labels`, ModelError (also where training diverged: an earlier classifier then stays),
    DeviceError.
    """
    # The Trainer needs it, and says so in a sentence of its own only once everything is loaded.
    check_installed("accelerate", extra="pipeline", what="fine-tuning")
    import transformers

    compute.check_one_device("training a classifier")
    check_replaceable(target, lambda there: any(there.glob("model*.safetensors")), "classifier")
    device = compute.resolve_device()
    dtype = compute.resolve_dtype(device)
    splits = _by_split(examples, labels)
    seed_everything(seed)
    if encoder == SCRATCH:
        texts = [" ".join(example.all_words) for example in splits["train"]]
        model, tokenizer = from_scratch(params.scratch, texts, labels, params.max_length)
    else:
        model, tokenizer = load_encoder(encoder, labels, params.max_length, revision)
    questions = tuple(labels) == ANSWER_LABELS
    classifier = (QuestionAnswerer.around if questions else Classifier)(model, tokenizer, compute)
    datasets = {split: _dataset(classifier, rows, split == "train") for split, rows in splits.items()}
    classifier.model.requires_grad_(True)
    trained: Any = classifier.model if params.lora is None else with_adapters(classifier.model, params.lora)
    weights = None
    if params.class_weights == "balanced" and not questions:
        weights = torch.tensor(class_weights([row["labels"] for row in datasets["train"]], len(labels)), device=device)

    selection = "accuracy" if questions else params.selection

    def loss(outputs: Any, targets: torch.Tensor, num_items_in_batch: object = None) -> torch.Tensor:
        return classifier.loss(outputs.logits.float(), targets, weights)

    with atomic_folder(target) as partial:
        # Checkpoints lie in the folder that is being made: a killed run leaves nothing elsewhere.
        checkpoints = partial / "checkpoints"
        trainer = transformers.Trainer(
            model=trained,
            args=_arguments(str(checkpoints), params, device, dtype, seed, compute.compile, selection),
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
            train_dataset=datasets["train"],
            eval_dataset=datasets["validation"],
            compute_loss_func=loss,
            compute_metrics=lambda prediction: _validation_metrics(prediction, labels),
            callbacks=[transformers.EarlyStoppingCallback(early_stopping_patience=params.patience)],
        )
        # Logs go to the progress bar and the history, not to standard output as dictionaries.
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        if params.lora is not None:
            merged(trained)
        check_weights(
            model.named_parameters(),
            f"{os.fspath(target)}: fine-tuning diverged",
            f"try a learning rate below {params.learning_rate:g}; what was there is as it was",
        )
        history = _history(trainer.state.log_history)
        shutil.rmtree(checkpoints)
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    return history


def _by_split(examples: Sequence[Example], labels: Sequence[str]) -> dict[str, list[Example]]:
    """Training and validation examples. Raises as `finetune` does for what is wrong with them."""
    splits = {split: [e for e in examples if e.split == split] for split in ("train", "validation")}
    for split, rows in splits.items():
        if not rows:
            raise DataError(f"split {split!r} has no example; expected some to fine-tune on")
    for example in examples:
        if example.label not in labels:
            raise UnknownNameError(f"label of example {example.id!r}:", example.label, labels)
    return splits


def _dataset(classifier: Classifier, examples: Sequence[Example], training: bool) -> list[dict[str, Any]]:
    """Rows for the Trainer; training leaves out passages that were cut before their answer."""
    encodings, labels = classifier.encode_labelled(examples)
    rows = []
    for index in reached(encodings, classifier.max_length) if training else range(len(encodings)):
        encoding, label = encodings[index], labels[index]
        row: dict[str, Any] = {
            "input_ids": list(encoding.input_ids),
            "attention_mask": [1] * len(encoding),
            "labels": label,
        }
        if encoding.token_type_ids:
            row["token_type_ids"] = list(encoding.token_type_ids)
        rows.append(row)
    return rows


def _arguments(
    folder: str,
    params: FinetuneParams,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    compile: bool,
    selection: str,
) -> transformers.TrainingArguments:
    import transformers

    if device.index is not None:
        os.environ["ACCELERATE_TORCH_DEVICE"] = str(device)
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=params.epochs,
        learning_rate=params.learning_rate,
        weight_decay=params.weight_decay,
        # A float below 1 is read as a ratio of all steps.
        warmup_steps=min(params.warmup, 0.999),
        per_device_train_batch_size=params.batch_size,
        per_device_eval_batch_size=4 * params.batch_size,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        logging_strategy="epoch",
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=True,
        metric_for_best_model=selection,
        greater_is_better=True,
        bf16=dtype is torch.bfloat16,
        fp16=dtype is torch.float16,
        torch_compile=compile,
        use_cpu=device.type == "cpu",
        disable_tqdm=not sys.stderr.isatty(),
        report_to=[],
        label_names=["labels"],
        seed=seed,
        data_seed=seed,
    )
    # One device, the one asked for; the Trainer would spread over all it sees.
    arguments._n_gpu = int(device.type == "cuda")
    return arguments


def _validation_metrics(prediction: transformers.EvalPrediction, labels: Sequence[str]) -> dict[str, float]:
    if tuple(labels) == ANSWER_LABELS:
        return {"accuracy": float(np.mean(np.argmax(prediction.predictions, -1) == prediction.label_ids))}
    names = np.asarray(labels)
    found = classification_metrics(names[prediction.label_ids], names[np.argmax(prediction.predictions, -1)], labels)
    return {key: found[key] for key in ("accuracy", "macro_f1", "mcc")}


def _history(log: Sequence[dict[str, float]]) -> list[Epoch]:
    train = {round(entry["epoch"]): entry["loss"] for entry in log if "loss" in entry}
    return [
        Epoch(
            epoch=round(entry["epoch"]),
            train_loss=float(train[round(entry["epoch"])]),
            validation_loss=float(entry["eval_loss"]),
            accuracy=float(entry["eval_accuracy"]),
            macro_f1=entry.get("eval_macro_f1"),
            mcc=entry.get("eval_mcc"),
        )
        for entry in log
        if "eval_loss" in entry
    ]
