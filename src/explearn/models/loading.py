"""Loading fine-tuned models and their tokenizers, from a folder or from the hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.errors import ModelError, first_line
from explearn.models.heads import Head, head_of

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


def load_trained(
    name: str, revision: str | None = None
) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase, Head]:
    """A fine-tuned model, its tokenizer and the kind of its head.

    Args:
        name: local folder or hub name.
        revision: git revision of a hub name.

    Raises ModelError when there is no such model, its head is not a trained one, its weights do not fit its
    configuration, or its tokenizer is not its own.
    """
    # What can only be a folder is not looked up on the hub, nor is NAME/NAME where the first is a folder here.
    parent = Path(name).parent
    if not Path(name).is_dir() and (
        name.count("/") > 1 or name.startswith((".", "/", "~")) or (parent != Path() and parent.is_dir())
    ):
        raise ModelError(f"{name}: no such folder; expected a classifier saved with save_pretrained")
    quiet_transformers()
    import transformers

    try:
        which: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": False}
        head = head_of(transformers.AutoConfig.from_pretrained(name, **which))
        model, info = head.from_pretrained(name, revision=revision or "main")
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **which)
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError, ... here
        raise ModelError(f"{name}: cannot be loaded as a classifier ({first_line(error)})") from error
    missing = sorted(info["missing_keys"]) + sorted(str(k) for k in info.get("mismatched_keys", ()))
    if missing:
        raise ModelError(
            f"{name}: weights are missing or of the wrong shape for {', '.join(missing[:4])}; "
            "expected a fine-tuned sequence classifier"
        )
    if holds_no_words(tokenizer):
        raise ModelError(f"{name}: holds no tokenizer; expected one saved beside the model")
    table: Any = model.get_input_embeddings()
    known = table.weight.shape[0]
    if len(tokenizer) > known:
        raise ModelError(
            f"{name}: its tokenizer has {len(tokenizer)} tokens, the model knows {known}; expected the model's own"
        )
    return model, tokenizer, head
