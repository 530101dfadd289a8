"""peft adapters: small additional weights, in a folder that names the model they belong to."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from explearn.core.errors import ModelError
from explearn.core.extras import need
from explearn.predictors.quantised import has_quantised

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

_SAVED_ONCE = re.compile("vblora_vector_bank|modules_to_save")
"""In names of weights that peft has in several places, or saves twice."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Saved adapters of any peft method that changes weights (LoRA, DoRA, IA3, ...).

    Attributes:
        folder: folder of their configuration and weights, local or in the hub's cache.
        config: their peft configuration.
        weights: names of the weights in the model -> shapes.
    """

    folder: Path
    config: Any
    weights: dict[str, list[int]]

    @property
    def classes(self) -> int | None:
        """Number of outputs of the head saved with them; None if there is none."""
        heads = ("classifier.weight", "score.weight", "out_proj.weight", "qa_outputs.weight")
        return next((shape[0] for name, shape in self.weights.items() if name.endswith(heads)), None)

    def on(self, model: Any) -> Any:
        """Return the model with the adapters merged into its weights; with quantised weights they stay separate.

        Raises:
            ModelError: a weight of the adapters has no place in the model, or the other way round.
        """
        import peft

        paths = {module: path for path, module in model.named_modules()}
        table = self.weights.get(f"{paths[model.get_input_embeddings()]}.weight")
        if table is not None:  # of a tokenizer with added tokens
            model.resize_token_embeddings(table[0], mean_resizing=False)
        with warnings.catch_warnings():
            # peft uses a deprecated name of transformers, which cannot be fixed here.
            warnings.simplefilter("ignore", FutureWarning)
            adapted: Any = peft.PeftModel.from_pretrained(model, str(self.folder), is_trainable=False)
            fit = adapted.load_adapter(str(self.folder), adapted.active_adapter)  # again, since only this tells
        if unfit := [key for key in (*fit.missing_keys, *fit.unexpected_keys) if not _SAVED_ONCE.search(key)]:
            raise ModelError(f"{self.folder}: its adapters do not fit their base model; it lacks, or they, {unfit[0]}")
        if has_quantised(model):
            return adapted.get_base_model()
        return adapted.merge_and_unload(safe_merge=True)


def find_adapters(name: str, revision: str | None) -> Adapters | None:
    """Return the adapters in a folder or a hub repository; None if there are none.

    Args:
        name: folder or hub name.
        revision: git revision of a hub name.

    Raises:
        MissingExtraError: peft is not installed.
        ModelError: they do not name their model.
    """
    from transformers.utils.hub import cached_file
    from transformers.utils.peft_utils import find_adapter_config_file

    if find_adapter_config_file(name, revision=revision) is None:
        return None
    peft = need("peft", extra="lora", what=f"{name}, a folder of adapters,")
    # peft would read a pickle if there are no safetensors.
    weights: Any = cached_file(name, WEIGHTS, revision=revision)
    folder = Path(weights).parent
    config = peft.PeftConfig.from_pretrained(str(folder))
    if not config.base_model_name_or_path:
        raise ModelError(f"{name}: its {CONFIG} names no base_model_name_or_path; expected the model it belongs to")
    from safetensors import safe_open

    with safe_open(weights, "pt") as file:
        # Names begin with those of peft's own modules.
        shapes = {key.removeprefix("base_model.model."): file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
    return Adapters(folder, config, shapes)


def put_trained_parts(model: torch.nn.Module) -> None:
    """Replace each part of a model that peft keeps twice, as it was and trained, by the one that is in use."""
    for path, module in list(model.named_modules()):
        part: Any = module
        if hasattr(part, "modules_to_save") and not part.disable_adapters:
            model.set_submodule(path, part.modules_to_save[part.active_adapter])


def active_adapters(model: torch.nn.Module) -> list[tuple[str, ...]]:
    """Return the adapters that are in use at the parts of a model that have some; none for a model without adapters."""
    active = []
    for path, module in model.named_modules():
        part: Any = module
        if hasattr(part, "active_adapters") and hasattr(part, "disable_adapters"):
            active.append((path, *([] if part.disable_adapters else part.active_adapters)))
    return active


def without_wrapper(model: torch.nn.Module, name: str) -> Any:
    """Return the model inside a `peft.PeftModel`, with its adapters in place; other models are returned unchanged.

    Args:
        model: the model.
        name: name for messages.

    Raises:
        ModelError: it has learned prompts, which are not part of the model inside.
    """
    wrapper: Any = model
    if not hasattr(wrapper, "get_base_model"):
        return model
    if wrapper.active_peft_config.is_prompt_learning:
        raise ModelError(f"{name}: has learned prompts; expected adapters such as LoRA")
    return wrapper.get_base_model()
