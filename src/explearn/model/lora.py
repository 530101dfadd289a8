"""Fine-tuning by low-rank adapters (LoRA, Hu et al. 2022), merged into the weights at the end.

Each chosen linear map W of the encoder's blocks gets W + (alpha / r) B A, with B A of rank r; W itself, embeddings and
norms stay as they are. What no pretraining has seen (the head, the pooler) is trained whole. Merged, the classifier is
one like any other, and nothing that loads or explains it needs peft.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torch import nn

from explearn.core.errors import ParamsError, UnsupportedError
from explearn.core.extras import check_installed

if TYPE_CHECKING:
    from explearn.model.params import LoraParams


def with_adapters(model: Any, params: LoraParams) -> Any:
    """The model with adapters, the only weights that are trained with those of its head.

    Raises MissingExtraError where peft is not installed, ParamsError where a target names no linear map,
    UnsupportedError for a model that is none of transformers' classifiers.
    """
    check_installed("peft", extra="lora", what="finetune.lora")
    import peft

    base = getattr(model, "base_model_prefix", "")
    encoder = getattr(model, base, None)
    if encoder is None or not hasattr(model, "num_labels"):
        raise UnsupportedError("finetune.lora: is for classifiers, and this model is none; leave it out")
    new = [name for name, part in model.named_children() if name != base and any(True for _ in part.parameters())]
    if getattr(encoder, "pooler", None) is not None:
        new.append(f"{base}.pooler")
    linear = [
        f"{base}.{path}" for path, part in encoder.named_modules() if _is_linear(part) and not path.startswith("pooler")
    ]
    known = sorted({path.rpartition(".")[2] for path in linear})
    for name in params.targets:
        if name not in known:
            raise ParamsError(f"finetune.lora.targets: got {name!r}; expected linear maps of the encoder: {known}")
    targets = [path for path in linear if not params.targets or path.rpartition(".")[2] in params.targets]
    transposed = any(type(model.get_submodule(path)).__name__ == "Conv1D" for path in targets)
    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS,
        r=params.rank,
        lora_alpha=params.alpha,
        target_modules=targets,
        modules_to_save=new,
        # GPT-2 keeps its maps transposed.
        fan_in_fan_out=transposed,
    )
    with warnings.catch_warnings():
        # peft asks transformers by a name that has become an old one; nobody here can mend that.
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(model, config)


def merged(model: Any) -> Any:
    """The plain model, with the adapters added to its weights."""
    return model.merge_and_unload()


def _is_linear(part: nn.Module) -> bool:
    return isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"
