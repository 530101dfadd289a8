"""Loading fine-tuned models and their tokenizers, from a folder or from the hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.documents import check_folder, is_folder, kind_of, read_json
from explearn.core.errors import SAVED, DataError, ModelError, problem_of
from explearn.core.finite import check_weights
from explearn.core.records import label_problem
from explearn.model.architectures import word_table
from explearn.model.completion import COMPLETION_FILE, Completion, Given, read_completion, with_label_head
from explearn.model.heads import CLASSIFICATION, GENERATION, Head, head_of
from explearn.model.prompt_params import CompletionParams

if TYPE_CHECKING:
    import transformers


def holds_no_words(tokenizer: transformers.PreTrainedTokenizerBase) -> bool:
    """Whether it has special tokens only, as transformers makes one where there are no tokenizer files."""
    return len(tokenizer) <= len(tokenizer.all_special_tokens)


def quiet_transformers() -> None:
    """Keep transformers' notices out of the output, and its progress bars when nobody watches."""
    import sys

    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if not sys.stderr.isatty():
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def check_config(config: Any, name: str) -> None:
    """Raise ModelError for a configuration without classes whose names can be told apart, or without layers."""
    names: Mapping[int, Any] = config.id2label
    expected = f"expected the names of its classes, numbered from 0, in {name}'s config.json (id2label)"
    if not names:
        raise ModelError(f"{name}: has no classes; {expected}")
    numbers = list(range(len(names)))
    if sorted(names, key=str) != sorted(numbers, key=str):
        raise ModelError(f"{name}: its classes are numbered {', '.join(str(i) for i in list(names)[:20])}; {expected}")
    if (problem := label_problem([str(names[i]) for i in numbers])) is not None:
        raise ModelError(f"{name}: {problem}, in its config.json (id2label)")
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(layers, int) and layers < 1:
        raise ModelError(f"{name}: has no layers; expected an encoder with one or more")


def _check_not_quantised(config: Any, name: str) -> None:
    """Raise ModelError for weights that are quantised: they have no gradients, and precision means nothing for them."""
    found = getattr(config, "quantization_config", None)
    if found is not None:
        how = found.get("quant_method") if isinstance(found, Mapping) else getattr(found, "quant_method", None)
        how = getattr(how, "value", how)
        raise ModelError(
            f"{name}: its weights are quantised ({str(how)[:40]}): they have no precision to set, and no gradients "
            "pass them; expected weights in fp32, bf16 or fp16 (--precision saved keeps these as they are)"
        )


def _check_json(path: Path, name: str) -> None:
    """Raise ModelError for a configuration that is missing, or no JSON object within the bounds."""
    try:
        found = read_json(path)
    except DataError as error:
        raise ModelError(f"{name}: cannot be loaded as a classifier ({error})") from error
    if not isinstance(found, dict):
        raise ModelError(
            f"{name}: cannot be loaded as a classifier (config.json: got {kind_of(found)}; expected an object)"
        )


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model, its tokenizer, the kind of its head, and how it is prompted, if it is."""

    model: transformers.PreTrainedModel
    tokenizer: transformers.PreTrainedTokenizerBase
    head: Head
    completion: Completion | None


def load_trained(
    name: str, revision: str | None = None, completion: Given | None = None, as_saved: bool = False
) -> Trained:
    """A fine-tuned model, or a generative one that is prompted (`explearn.model.completion`).

    Args:
        name: local folder or hub name.
        revision: git revision of a hub name.
        completion: the prompt; None: what the folder's completion.json says, if it has one.
        as_saved: leave weights in the precision of their file; otherwise they are float32.

    Raises ModelError when there is no such model, its head is not a trained one, its weights do not fit its
    configuration or are not finite, or its tokenizer is not its own; for a generative model without a prompt, and a
    prompt that does not go with the model. ParamsError for a prompt that is none.
    """
    # What can only be a folder is not looked up on the hub, nor is NAME/NAME where the first is a folder here.
    parent = Path(name).parent
    local = is_folder(name)
    if not local and (
        name.count("/") > 1 or name.startswith((".", "/", "~")) or (parent != Path() and is_folder(parent))
    ):
        raise ModelError(f"{name}: no such folder; expected a classifier saved with save_pretrained")
    prompted = local and (Path(name) / COMPLETION_FILE).exists()
    if local:
        check_folder(name, ModelError)
        _check_json(Path(name) / "config.json", name)
        if completion is None and prompted:
            completion = Path(name) / COMPLETION_FILE
    prompt = None if completion is None else read_completion(completion)
    quiet_transformers()
    import transformers

    try:
        which: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": False}
        config = transformers.AutoConfig.from_pretrained(name, **which)
        _check_not_quantised(config, name)
        head = head_of(config)
        if head is CLASSIFICATION:
            check_config(config, name)
        if head is GENERATION and prompt is None:
            raise ModelError(
                f"{name}: is a generative model without a classification head; expected one, or a prompt with label "
                f"words, in {COMPLETION_FILE} beside it or given as completion"
            )
        if head is CLASSIFICATION and prompt is not None and not prompted:
            raise ModelError(
                f"{name}: has a classification head of its own, and reads texts without a prompt; expected a "
                "generative model, or no completion"
            )
        model, info = head.from_pretrained(name, revision=revision or "main", **({"dtype": "auto"} if as_saved else {}))
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **which)
    except ModelError:
        raise
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError, ... here
        raise ModelError(f"{name}: cannot be loaded as a classifier ({problem_of(error)}); {SAVED}") from error
    missing = sorted(info["missing_keys"]) + sorted(str(k) for k in info.get("mismatched_keys", ()))
    if missing:
        raise ModelError(
            f"{name}: weights are missing or of the wrong shape for {', '.join(missing[:4])}; "
            "expected a fine-tuned sequence classifier"
        )
    check_weights(model.named_parameters(), f"{name}: damaged, or training diverged", "train or download it again")
    if holds_no_words(tokenizer):
        raise ModelError(f"{name}: holds no tokenizer; expected one saved beside the model")
    table: Any = word_table(model)
    if table is not None and len(tokenizer) > (known := table.weight.shape[0]):
        raise ModelError(
            f"{name}: its tokenizer has {len(tokenizer)} tokens, the model knows {known}; expected the model's own"
        )
    if prompt is None:
        return Trained(model, tokenizer, head, None)
    return _prompted(model, tokenizer, head, prompt, name)


def _prompted(model: Any, tokenizer: Any, head: Head, prompt: CompletionParams, name: str) -> Trained:
    """A model with its prompt; a generative one becomes a classifier of the label words."""
    found = Completion(prompt, tokenizer, name)
    if head is GENERATION:
        return Trained(with_label_head(model, found), tokenizer, head, found)
    labels = [str(model.config.id2label[i]) for i in range(len(model.config.id2label))]
    if head is not CLASSIFICATION or labels != found.labels:
        raise ModelError(
            f"{name}: its head gives {', '.join(labels)}, the prompt has words for {', '.join(found.labels)}; expected "
            "a generative model, or a classifier that was saved with this prompt"
        )
    return Trained(model, tokenizer, head, found)
