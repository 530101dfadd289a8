"""Weights in 4 or 8 bits, by bitsandbytes: quantised while a model is loaded, or saved quantised.

Matrix products with 4-bit weights (NF4 or FP4; Dettmers et al. 2023) use the dequantised values; those with 8-bit
weights (LLM.int8(); Dettmers et al. 2022) also round their inputs. Gradients pass through both to the inputs.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import torch
from torch import Tensor, nn

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ModelError, ParamsError, UnsupportedError
from explearn.core.extras import need

logger = logging.getLogger(__name__)

# It logs every product with rounded inputs and every missing kernel, and accelerate imports it wherever it is
# installed.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

QUANTISED = ("nf4", "int8")
"""Precisions (`core.compute`) that quantise the weights of linear maps while a model is loaded."""


def quantisation(loader: str, config: Any, name: str, compute: ComputeOptions) -> dict[str, Any]:
    """Return the options of `from_pretrained` to load a model with quantised weights, or to quantise it.

    The encoder's linear maps are quantised. The head is not, since its rounding would change the logits themselves.

    Args:
        loader: name of the transformers class.
        config: configuration of the saved model.
        name: name of the model, for messages.
        compute: device and precision.

    Raises:
        MissingExtraError: bitsandbytes or accelerate is not installed.
        ModelError: the model was quantised by another library, or `compute` would quantise it a second time.
        ParamsError: `compute` has a device_map.
    """
    precision = compute.precision
    if compute.device_map is not None:
        raise ParamsError(
            f"device-map: {name} has quantised weights, which are not divided here; load it by transformers with a "
            "device_map, and make explearn.TransformerPredictor(model, tokenizer) of it"
        )
    saved: Any = getattr(config, "quantization_config", None)
    if saved is not None:
        if not isinstance(saved, dict):
            saved = saved.to_dict()
        method = saved.get("quant_method")
        if method != "bitsandbytes":
            raise ModelError(
                f"{name}: its weights are quantised by {method!r}; expected bitsandbytes, or plain weights"
            )
        if precision in QUANTISED:
            raise ModelError(f"{name}: its weights are quantised already; expected another precision than {precision}")
    for package in ("bitsandbytes", "accelerate"):
        need(package, extra="quantized", what="a model with quantised weights")
    place = {"device_map": {"": compute.resolve_device()}}
    if saved is not None:
        return place
    import transformers

    with torch.device("meta"):
        empty = getattr(transformers, loader).from_config(config)
    head = [part for part, _ in empty.named_children() if part != empty.base_model_prefix]
    kind: dict[str, Any] = {"load_in_8bit": True}
    if precision == "nf4":
        kind = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    settings: Any = transformers.BitsAndBytesConfig
    return {**place, "quantization_config": settings(**kind, llm_int8_skip_modules=head)}


def check_loaded(model: nn.Module, name: str) -> None:
    """Raise ModelError if a model's file holds plain weights where its configuration says quantised ones."""
    for module in model.modules():
        weight: Any = getattr(module, "weight", None)
        of_library = type(module).__module__.startswith("bitsandbytes.") and isinstance(module, nn.Linear)
        if of_library and weight.is_floating_point() and getattr(weight, "quant_state", None) is None:
            raise ModelError(
                f"{name}: its config.json says that bitsandbytes has quantised its weights, and they are plain; remove "
                "quantization_config from it, and choose a precision"
            )


def is_quantised(module: nn.Module) -> bool:
    """Return whether a module is a linear map with quantised weights; works without bitsandbytes."""
    return isinstance(module, nn.Linear) and type(module.weight).__name__ in ("Params4bit", "Int8Params")


def has_quantised(model: nn.Module) -> bool:
    """Return whether a linear map of the model has quantised weights."""
    return any(is_quantised(module) for module in model.modules())


def rounds_inputs(model: nn.Module) -> bool:
    """Return whether matrix products of the model round their inputs, as those with 8-bit weights do."""
    return any(is_quantised(module) and type(module.weight).__name__ == "Int8Params" for module in model.modules())


def prepare_quantised(model: Any, dtype: torch.dtype | None, name: str) -> None:
    """Let gradients pass through a model's quantised weights, and warn about a quantised head.

    Args:
        model: the model, changed in place.
        dtype: dtype of matrix products with 4-bit weights. None: as saved.
        name: name of the model, for messages.

    Raises:
        ModelError: torch has quantised the weights, for inference without gradients.
    """
    if any(type(module).__module__.startswith("torch.ao.nn.quantized.") for module in model.modules()):
        raise ModelError(
            f"{name}: torch has quantised its weights, which pass no gradients; give the model as it was before, or a "
            "function (explearn.FunctionPredictor)"
        )
    maps = {path: module for path, module in model.named_modules() if is_quantised(module)}
    for module in maps.values():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            # On some CPUs bitsandbytes packs 4-bit weights in the first pass without gradients, after which no
            # gradients can pass.
            module.support_avx512bf16_for_cpu = False
            if dtype is not None:
                module.compute_dtype = dtype
                module.compute_type_is_set = True
    head = [path for path in maps if not path.startswith(f"{model.base_model_prefix}.")]
    if head:
        logger.warning(
            "%s: its head is quantised (%s), which changes predictions most; quantise the encoder alone "
            "(llm_int8_skip_modules)",
            name,
            ", ".join(head),
        )


def weight_of(linear: nn.Module) -> Tensor:
    """Return a linear map's weights, (d_out, d_in), dequantised if they are quantised.

    Raises:
        UnsupportedError: the map has other weights, such as those of an adapter.
    """
    if not isinstance(linear, nn.Linear):
        raise UnsupportedError(
            f"this method reads weights by themselves, and a {type(linear).__name__} has others beside them; merge "
            "adapters first (merge_and_unload)"
        )
    if not is_quantised(linear):
        return linear.weight
    from transformers.integrations.bitsandbytes import dequantize_bnb_weight

    weight: Any = linear.weight
    return cast(Tensor, dequantize_bnb_weight(weight, getattr(linear, "state", None))).float()


def dequantised(model: Any) -> Any:
    """Replace a model's quantised linear maps by dequantised ones; return the model, which is changed in place."""
    for path, module in list(model.named_modules()):
        if is_quantised(module):
            plain = nn.Linear(module.in_features, module.out_features, module.bias is not None, device="meta")
            plain.weight = nn.Parameter(weight_of(module), requires_grad=False)
            plain.bias = module.bias
            model.set_submodule(path, plain)
    return model
