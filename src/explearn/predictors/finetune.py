"""Fine-tuning an encoder into the classifier that is then frozen and explained, with transformers' Trainer.

Training starts from pretrained weights, or from scratch (`encoder: scratch`): GPT-2's architecture with random weights,
and byte-level BPE learned from the texts, so that the model knows only the language of a task's training texts.

With `lora`, each chosen linear map W of the encoder's blocks becomes W + (alpha / r) B A, with B A of rank r (LoRA, Hu
et al. 2022); W itself, embeddings and norms are frozen. Weights without pretraining (the head, the pooler) are trained
in full. The adapters are merged into the weights at the end, so loading or explaining the classifier does not need
peft.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from explearn.core.compute import ComputeOptions, check_weights
from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError
from explearn.core.examples import Example
from explearn.core.extras import check_installed
from explearn.core.seeds import seed_everything
from explearn.core.writing import atomic_folder, check_place
from explearn.predictors.architectures import max_length
from explearn.predictors.encoding import Encoding
from explearn.predictors.heads.wrapped import kind_for
from explearn.predictors.labelled import check_use
from explearn.predictors.loading import (
    SCRATCH,
    check_size,
    load_model,
    quiet_transformers,
    resolve_encoder,
)
from explearn.predictors.params import FinetuneParams, LoraParams, ScratchParams
from explearn.predictors.predictor import Predictor, read_labelled
from explearn.predictors.problems import label_maps
from explearn.predictors.transformer import SAVED_CLASSIFIER, TransformerPredictor
from explearn.text.encoding import Removal

if TYPE_CHECKING:
    import transformers

SHORTENED = 0.5
"""Share of training texts that lose words at random, if any do (Madsen et al. 2024)."""


@dataclass(frozen=True, slots=True)
class FinetuneEpoch:
    """The mean training loss of one epoch, and metrics on the validation split after it.

    Attributes:
        epoch: its number, from 1.
        train_loss: mean loss on the training split.
        validation_loss: mean loss on the validation split.
        accuracy: share of right answers.
        macro_f1: mean F1 of the classes; None where a text is only right or wrong.
        mcc: Matthews correlation, likewise.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    accuracy: float
    macro_f1: float | None
    mcc: float | None


def classification_metrics(
    truth: NDArray[Any], predicted: NDArray[Any], labels: int, only_accuracy: bool = False
) -> dict[str, Any]:
    """Return accuracy, macro-F1 over all classes, Matthews correlation, and the rate of the most frequent true class.

    The rate is the accuracy of always predicting one class; a classifier that is no better has nothing to explain.

    Args:
        truth: indices of the true classes, (n,).
        predicted: indices of the predicted classes, (n,).
        labels: number of the classes.
        only_accuracy: whether a text is only right or wrong (`TransformerPredictor.only_accuracy`): others are None.

    Example:
        >>> metrics = classification_metrics(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 2)
        >>> metrics["accuracy"], metrics["majority_rate"], round(metrics["mcc"], 3)
        (0.75, 0.75, 0.577)
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    values = {"texts": len(truth), "accuracy": float(accuracy_score(truth, predicted))}
    if only_accuracy:
        return values | {"macro_f1": None, "mcc": None, "majority_rate": None}
    classes = range(labels)
    return values | {
        "macro_f1": float(f1_score(truth, predicted, labels=classes, average="macro", zero_division=0)),
        "mcc": float(matthews_corrcoef(truth, predicted)),
        "majority_rate": float(np.bincount(truth).max() / len(truth)),
    }


def evaluate_classifier(
    classifier: Predictor, examples: Sequence[Example], description: str | None = None
) -> dict[str, Any]:
    """Return `classification_metrics` of a classifier on labelled examples."""
    encodings, truth = read_labelled(classifier, examples)
    predicted = classifier.predict_proba(encodings, description).argmax(-1)
    only_accuracy = isinstance(classifier, TransformerPredictor) and classifier.only_accuracy
    return classification_metrics(np.array(truth), predicted, len(classifier.labels), only_accuracy)


def class_weights(labels: Sequence[int], classes: int) -> NDArray[np.float32]:
    """Return n / (C n_c) for each class c, shape (C,), so that every class has the same weight in the loss."""
    counts = np.bincount(labels, minlength=classes)
    return (len(labels) / (classes * np.maximum(counts, 1))).astype(np.float32)


# ---- where training starts -------------------------------------------------------------------------------------------


def load_encoder(
    encoder: str, labels: Sequence[str], limit: int, revision: str | None = None
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Load pretrained weights with a new head for `labels`, and their tokenizer.

    The head is that of the class of predictors for these labels (`explearn.predictors.heads.wrapped.kind_for`).

    Args:
        encoder: `embedded`, a hub name or a local folder; not `scratch`, which has no weights to load.
        labels: the classes.
        limit: most sub-tokens per text; lowered if the position embeddings allow fewer.
        revision: git revision of a hub name.

    Raises:
        ModelError: there is no such encoder, or it lacks pretrained weights for a layer other than the pooler.
    """
    folder = resolve_encoder(encoder)
    kind = "an encoder"
    quiet_transformers()
    check_size(folder, revision, kind, folder)
    model, tokenizer, unloaded = load_model(
        kind_for(labels).head(),
        folder,
        revision,
        kind,
        num_labels=len(labels),
        # A head trained for other labels is replaced by a new one; for the encoder itself, see below.
        ignore_mismatched_sizes=True,
    )
    lost = [name for name in unloaded if name.startswith(f"{model.base_model_prefix}.") and ".pooler." not in name]
    if lost:
        raise ModelError(
            f"encoder {encoder!r}: weights are missing or of the wrong shape for {', '.join(lost[:4])}; "
            "expected the pretrained weights of every layer"
        )
    # A head for these classes keeps its order of them.
    if set(model.config.id2label.values()) != set(labels):
        model.config.update(label_maps(labels))
    tokenizer.model_max_length = min(limit, max_length(model.config, tokenizer))
    return model, tokenizer


def from_scratch(
    params: ScratchParams, texts: Sequence[str], labels: Sequence[str], limit: int
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Make a decoder with random weights, drawn from torch's global generator, and its tokenizer.

    Args:
        params: size of the decoder and of its vocabulary.
        texts: the texts from which the tokenizer's pieces are learned.
        labels: the classes.
        limit: most sub-tokens per text.

    Raises:
        ModelError: the labels need another head than a classifier's.
    """
    import tokenizers
    import transformers

    if kind_for(labels) is not TransformerPredictor:
        raise ModelError(f"encoder 'scratch' is made for classes; expected pretrained weights for {', '.join(labels)}")
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    # With few texts, words are learned sooner if neither case nor position in the text makes a difference.
    bpe = tokenizers.ByteLevelBPETokenizer(add_prefix_space=True, lowercase=True)
    bpe.train_from_iterator(
        texts, vocab_size=params.vocabulary, min_frequency=2, show_progress=False, special_tokens=list(special.values())
    )
    fast: Any = transformers.PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=tokenizers.Tokenizer.from_str(bpe.to_str()), model_max_length=limit, **special)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=limit,
        n_embd=params.width,
        n_layer=params.layers,
        n_head=params.heads,
        resid_pdrop=params.dropout,
        embd_pdrop=params.dropout,
        attn_pdrop=params.dropout,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **label_maps(labels),
    )
    return transformers.GPT2ForSequenceClassification(config), tokenizer


def with_adapters(model: Any, params: LoraParams) -> Any:
    """Add adapters to a model; only they and the head will be trained.

    Raises:
        MissingExtraError: peft is not installed.
        ParamsError: a target names no linear map.
        UnsupportedError: the model is not one of transformers' classifiers.
    """
    check_installed("peft", extra="lora", what="finetune.lora")
    import peft

    base = model.base_model_prefix
    encoder = getattr(model, base, None)
    if encoder is None:
        raise UnsupportedError("finetune.lora: LoRA is supported for classifiers only; leave it out")
    new = []
    for name, part in model.named_children():
        if name != base and list(part.parameters()):
            new.append(name)
    if getattr(encoder, "pooler", None) is not None:
        new.append(f"{base}.pooler")
    maps = set()
    for path, part in encoder.named_modules():
        if type(part).__name__ in ("Linear", "Conv1D"):
            maps.add(path.rpartition(".")[2])
    for name in params.targets:
        if name not in maps:
            raise ParamsError(
                f"finetune.lora.targets: got {name!r}; expected linear maps of the encoder: {sorted(maps)}"
            )
    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS,
        r=params.rank,
        lora_alpha=params.alpha,
        target_modules=params.targets or "all-linear",
        exclude_modules=rf"(?!{base}\.).*|{base}\.pooler\..*",
        modules_to_save=new,
    )
    with warnings.catch_warnings():
        # peft uses a deprecated name of transformers, and says that GPT-2's linear maps are transposed.
        warnings.simplefilter("ignore")
        return peft.get_peft_model(model, config)


# ---- training --------------------------------------------------------------------------------------------------------


def remove_random_words(
    encoding: Encoding, removal: Removal, mask_token_id: int, generator: np.random.Generator
) -> Encoding:
    """Delete or mask a share of a text's words that is drawn uniformly from 0 to 1 (Madsen et al. 2024).

    Args:
        encoding: the text.
        removal: whether sub-tokens are deleted, or each is replaced by the mask token.
        mask_token_id: id of the mask token.
        generator: draws the share and the words.

    Example:
        >>> from explearn.testing import make_classifier
        >>> [encoding] = make_classifier("bert").encode(["a warm funny sequel"])
        >>> removed = remove_random_words(encoding, "delete", 0, np.random.default_rng(1))
        >>> sorted(encoding.read), sorted(removed.read)
        ([0, 1, 2, 3], [0, 1])
    """
    words = sorted(encoding.read.difference(encoding.fixed_words))
    count = round(generator.random() * len(words))
    removed = generator.permutation(words)[:count].tolist()
    if removal == "delete":
        return encoding.delete(removed)
    return encoding.mask(removed, mask_token_id)


def finetune(
    target: str | os.PathLike[str],
    examples: Sequence[Example],
    labels: Sequence[str],
    encoder: str,
    params: FinetuneParams,
    compute: ComputeOptions,
    seed: int,
    revision: str | None = None,
) -> list[FinetuneEpoch]:
    """Train on the examples of split `train`, keep the epoch that is best on `validation`, save it to `target`.

    Args:
        target: folder for the classifier, as `save_pretrained` writes it; once complete, it replaces an earlier one.
        examples: labelled texts of both splits.
        labels: the classes.
        encoder: `embedded`, `scratch`, a hub name or a local folder.
        params: settings of the training.
        compute: device and precision.
        seed: random seed.
        revision: git revision of a hub name.

    Returns:
        The history, one entry per epoch.

    Raises:
        ParamsError: the folder has other content than a classifier, or is the encoder's own.
        DataError: a split is empty.
        UnknownNameError: a label is not in `labels`.
        ModelError: the encoder cannot be loaded, or training diverged; an earlier classifier then stays.
        DeviceError: the device cannot be used.
        UnsupportedError: words are to be removed at random, and texts with these labels would lose their meaning.
    """
    # The Trainer needs accelerate, but would only say so after everything is loaded.
    check_installed("accelerate", extra="finetune", what="fine-tuning")
    import transformers

    compute.check_one_device("training a classifier")
    check_place(target, SAVED_CLASSIFIER, folder=True)
    device = compute.resolve_device()
    train = _split(examples, "train")
    validation = _split(examples, "validation")
    seed_everything(seed)
    if encoder == SCRATCH:
        texts = [f"{example.text} {example.pair_text or ''}".strip() for example in train]
        model, tokenizer = from_scratch(params.scratch, texts, labels, params.max_length)
    else:
        model, tokenizer = load_encoder(encoder, labels, params.max_length, revision)
    kind = kind_for(labels)
    classifier = kind.around(model, tokenizer, compute)
    if params.random_removal:
        check_use(classifier, "removal")
    selection: str = params.selection
    if kind.only_accuracy:
        selection = "accuracy"
    classifier.check_plain("training a classifier")
    train_rows = _dataset(classifier, train, training=True)
    validation_rows = _dataset(classifier, validation, training=False)
    collator = _Collator(classifier, params.random_removal, np.random.default_rng(seed))
    validation_rows += collator.shortened(validation_rows)
    classifier.model.requires_grad_(True)
    trained: Any = classifier.model
    if params.lora is not None:
        trained = with_adapters(classifier.model, params.lora)
    weights = None
    if params.class_weights == "balanced" and not kind.only_accuracy:
        weights = torch.tensor(class_weights([row["labels"] for row in train_rows], len(labels)), device=device)

    def loss(outputs: Any, targets: torch.Tensor, num_items_in_batch: object = None) -> torch.Tensor:
        return classifier.loss(outputs.logits.float(), targets, weights)

    def metrics(prediction: transformers.EvalPrediction) -> dict[str, Any]:
        predicted: Any = np.argmax(prediction.predictions, -1)
        return classification_metrics(np.asarray(prediction.label_ids), predicted, len(labels), kind.only_accuracy)

    with atomic_folder(target, SAVED_CLASSIFIER) as partial:
        # Checkpoints are inside the unfinished folder, so a killed run leaves nothing elsewhere.
        checkpoints = partial / "checkpoints"
        arguments = _arguments(str(checkpoints), params, compute, seed, selection)
        trainer = transformers.Trainer(
            model=trained,
            args=arguments,
            data_collator=collator,
            train_dataset=train_rows,
            eval_dataset=validation_rows,
            compute_loss_func=loss,
            compute_metrics=metrics,
            callbacks=[
                transformers.EarlyStoppingCallback(early_stopping_patience=params.patience),
                _progress_callback(selection),
            ],
        )
        # It prints logs as dictionaries.
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        if params.lora is not None:
            trained.merge_and_unload()
        check_weights(
            model.named_parameters(),
            f"{os.fspath(target)}: fine-tuning diverged",
            f"try a learning rate below {params.learning_rate:g}; what was there is as it was",
        )
        shutil.rmtree(checkpoints)
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    return _history(trainer.state.log_history)


def _progress_callback(selection: str) -> transformers.TrainerCallback:
    """Return a callback that shows one bar over all steps, with the figures of the last epoch.

    Args:
        selection: name of the figure by which the best epoch is chosen.
    """
    import transformers

    class Progress(transformers.TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.bar = tqdm(total=state.max_steps, desc="fine-tune", unit="step", disable=None)

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.bar.update()

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **more: Any) -> None:
            *_, loss = (entry["loss"] for entry in state.log_history if "loss" in entry)
            self.bar.set_postfix(
                {"loss": f"{loss:.3f}", f"validation {selection}": f"{metrics[f'eval_{selection}']:.3f}"}
            )

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.bar.close()

    return Progress()


def _history(log: Sequence[Mapping[str, Any]]) -> list[FinetuneEpoch]:
    """Read the Trainer's log, which has an entry for the training and one for the validation of each epoch."""
    losses = [entry["loss"] for entry in log if "loss" in entry]
    validated = [entry for entry in log if "eval_loss" in entry]
    history = []
    for epoch, (loss, figures) in enumerate(zip(losses, validated, strict=True), start=1):
        measured = FinetuneEpoch(
            epoch=epoch,
            train_loss=float(loss),
            validation_loss=float(figures["eval_loss"]),
            accuracy=float(figures["eval_accuracy"]),
            macro_f1=figures.get("eval_macro_f1"),
            mcc=figures.get("eval_mcc"),
        )
        history.append(measured)
    return history


def _split(examples: Sequence[Example], split: str) -> list[Example]:
    rows = [example for example in examples if example.split == split]
    if not rows:
        raise DataError(f"split {split!r} has no example; expected some to fine-tune on")
    return rows


@dataclass(frozen=True, slots=True)
class _Collator:
    """Pads the rows of a batch; of training rows, about half lose words at random if `removal` says how."""

    classifier: TransformerPredictor
    removal: Removal | None
    generator: np.random.Generator

    def shortened(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return copies of rows without random words; none without `removal`."""
        copies = []
        if self.removal:
            for row in rows:
                encoding = row["encoding"]
                encoding = remove_random_words(encoding, self.removal, self.classifier.mask_token_id, self.generator)
                copies.append({**row, "encoding": encoding})
        return copies

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        chosen = list(rows)
        for index, row in enumerate(rows):
            if row["training"] and self.removal and self.generator.random() < SHORTENED:
                [chosen[index]] = self.shortened([row])
        batch = self.classifier.batch_on(torch.device("cpu"), [row["encoding"] for row in chosen])
        return {**batch.model_inputs(), "labels": torch.tensor([row["labels"] for row in rows])}


def _dataset(classifier: TransformerPredictor, examples: Sequence[Example], training: bool) -> list[dict[str, Any]]:
    """Make rows for the Trainer; training skips what cannot be learned from."""
    encodings, labels = read_labelled(classifier, examples)
    used: Iterable[int] = range(len(encodings))
    if training:
        used = classifier.trainable(encodings)
    rows = []
    for index in used:
        encoding = encodings[index]
        # The Trainer groups texts of similar length by their `input_ids`.
        row = {"input_ids": encoding.input_ids, "encoding": encoding, "labels": labels[index], "training": training}
        rows.append(row)
    return rows


def _arguments(
    folder: str, params: FinetuneParams, compute: ComputeOptions, seed: int, selection: str
) -> transformers.TrainingArguments:
    import transformers

    device = compute.resolve_device()
    dtype = compute.resolve_dtype(device)
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
        use_cpu=device.type == "cpu",
        disable_tqdm=True,  # see `_progress_callback`
        report_to=[],
        remove_unused_columns=False,
        label_names=["labels"],
        seed=seed,
        data_seed=seed,
    )
    # Only the chosen device; the Trainer would use all that it sees.
    arguments._n_gpu = int(device.type == "cuda")
    return arguments
