"""`explearn export-onnx`: a classifier and its trained explainer as one ONNX file."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike, public_name
from explearn.core.errors import ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.extras import check_installed
from explearn.core.writing import atomic_path, check_place
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.methods.finding import find_explainer
from explearn.predictors.labelled import check_use
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.predictors.pretrained import as_predictor
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.encoding import Text
from explearn_apps.onnx.graphs import Graph, graph_of
from explearn_apps.onnx.metadata import METADATA, TOKENIZER, Input, Metadata
from explearn_apps.onnx.runtime import OnnxExplainer

TOLERANCE = 1e-4
"""Largest accepted difference from PyTorch's scores and probabilities."""

WHAT = "an output of explearn export-onnx"

OPSET = 20
"""Version of ONNX's operations; `ScatterElements` with a maximum needs 18, `Gelu` 20."""

LARGEST = 1_900_000_000
"""Most bytes of weights in one file: the format is limited to 2 GiB, including the tokenizer."""

_SENTENCE = "Our guide was friendly , but the unbelievably slow delivery of a broken box ruined the afternoon"
_LONGEST = 300
"""Words of the longest text on which a file is tested."""

TRIED: tuple[Text, ...] = ("slow", _SENTENCE, "a warm , funny film", (_SENTENCE, "the box was broken"))
"""Texts on which a file is tested, in addition to a long one."""


@inputs_left_as_they_came
def export_onnx(
    path: PathLike,
    *,
    explainer: PathLike | Explainer,
    classifier: PathLike | Predictor | None = None,
) -> Path:
    """Write one graph of a classifier and its explainer, whole or not at all, after a comparison with PyTorch.

    Inputs, int64: see `explearn_apps.onnx.metadata.Input`; batch size and length are dynamic. Outputs, float32:
    `logits`, (batch, C), and `token_scores`, (batch, tokens); for Reader also `certificate`, (batch, 3).
    `OnnxExplainer` reads the file.

    Args:
        path: the file; an earlier one of ours is replaced.
        explainer: a trained Marker, ExpNet or Reader: its folder, a bundle (folder or hub name), or an `Explainer`.
        classifier: folder or hub name, or the classifier, on the CPU in float32. None: the bundle's.

    Returns:
        The file.

    Raises:
        UnsupportedError: the method or classifier cannot be exported, or its graph gives other scores.
        ModelError: the explainer or the classifier cannot be used, or they do not belong together.
        ParamsError: there is no classifier, or it is not on the CPU in float32.
        MissingExtraError: packages of the extra `onnx` are not installed.

    Example:
        >>> from explearn_apps.onnx import export_onnx
        >>> path = export_onnx("marker.onnx", explainer="my-marker", classifier="my-classifier")  # two folders
        >>> path.name
        'marker.onnx'
    """
    check_installed("onnx", "onnxscript", "onnxruntime", extra="onnx", what="an export to ONNX")
    check_place(path, WHAT)
    source, model = _pair(explainer, classifier)
    graph = graph_of(model, source)
    size = sum(tensor.numel() * tensor.element_size() for tensor in graph.state_dict().values())
    if size > LARGEST:
        raise UnsupportedError(f"{model.name}: has {size:,} bytes of weights; expected at most {LARGEST:,}, for ONNX")
    # One text exceeds the classifier's maximum length, unless that is very long.
    words = (_SENTENCE.split() * _LONGEST)[: min(_LONGEST, 2 * model.max_length)]
    texts: list[Text] = [" ".join(words), *TRIED]
    # No warning that the longest text is cut: it is not the user's.
    with unread_words_known():
        expected = source.explain(model, texts)
    proto = model_proto(graph, model)
    proto.metadata_props.add(key=METADATA, value=_metadata(source, model, graph).model_dump_json())
    proto.metadata_props.add(key=TOKENIZER, value=_tokenizer(model))
    with atomic_path(path, WHAT) as partial:
        partial.write_bytes(proto.SerializeToString(deterministic=True))
        _compare(partial, texts, expected, f"{source.name} of {model.name}")
    return Path(path)


def _pair(explainer: Any, classifier: Any) -> tuple[Explainer, TransformerPredictor]:
    """Return the explainer, and the classifier that it explains, on the CPU in float32."""
    explainer = find_explainer(explainer)
    classifier = classifier or explainer.classifier_folder
    if classifier is None:
        raise ParamsError(
            "got no classifier; expected its folder or hub name (--classifier), or a bundle that contains it"
        )
    classifier = as_predictor(classifier, ComputeOptions("cpu", "fp32"))
    check_use(classifier, "onnx")
    transformer = transformer_of(classifier)
    transformer.check_plain("export to ONNX")
    dtypes = {transformer.dtype, *(parameter.dtype for parameter in transformer.model.parameters())}
    if classifier.device.type != "cpu" or dtypes != {torch.float32}:
        raise ParamsError(f"{classifier.name}: is not on the CPU in float32; expected device='cpu', precision='fp32'")
    explainer.check_explains(classifier)
    return explainer, transformer


def model_proto(graph: Graph, classifier: TransformerPredictor) -> Any:
    """Return the graph as ONNX, traced on a batch, with dynamic batch size and length."""
    inputs = classifier.batch(classifier.encode(["slow", _SENTENCE])).model_inputs()
    ids = inputs["input_ids"]
    for name in graph.more:
        inputs[name] = torch.zeros_like(ids[:, 0] if name in ("target", "aim") else ids)
    if "aim" in inputs:
        inputs["aim"] = inputs["aim"].float()
    axes = {name: ("batch", "tokens")[: value.ndim] for name, value in inputs.items()}
    model: Any = classifier.model
    attention = model.config._attn_implementation
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        # Attention as products and softmax, which ONNX has, instead of a fused kernel.
        model.set_attn_implementation("eager")
        logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(action="ignore"):
            program: Any = torch.onnx.export(
                graph.eval(),
                (),
                kwargs=inputs,
                dynamo=True,
                dynamic_shapes=axes,
                output_names=list(graph.outputs),
                opset_version=OPSET,
                verbose=False,
            )
            proto = program.model_proto
    except UnsupportedError:
        raise
    except Exception as error:  # tracing fails in many ways, none of which the user can fix
        kind = model.config.model_type
        raise UnsupportedError(
            f"{classifier.name}: a {kind!r} model cannot be exported to ONNX ({first_line(error)[:200]})"
        ) from error
    finally:
        model.set_attn_implementation(attention)
        logger.setLevel(level)
    # Tracing records positions in source files, which reveal paths and make files differ.
    parts = proto.graph
    for part in (parts, *parts.node, *parts.input, *parts.output, *parts.value_info, *parts.initializer):
        part.doc_string = ""
        del part.metadata_props[:]
    proto.producer_name = "explearn"
    proto.producer_version = metadata.version("explearn")
    return proto


def _metadata(explainer: Explainer, classifier: TransformerPredictor, graph: Graph) -> Metadata:
    tokenizer: Any = classifier.tokenizer
    config: Any = classifier.model.config
    inputs: list[Input] = ["input_ids", "attention_mask"]
    if "token_type_ids" in tokenizer.model_input_names:
        inputs.append("token_type_ids")
    mask = None
    with suppress(ModelError):  # a tokenizer with neither a mask nor an unknown token
        mask = classifier.mask_token_id
    name = public_name(classifier.name)
    architecture = str(config.model_type)
    return Metadata(
        explearn=metadata.version("explearn"),
        method=explainer.name,
        aggregation=explainer.aggregation,
        signed=explainer.signed,
        output=explainer.output,
        classifier={"name": name, "architecture": architecture, "fingerprint": classifier.fingerprint},
        labels=classifier.labels,
        problem=classifier.problem.value,
        inputs=[*inputs, *graph.more],
        aim=getattr(explainer.options, "aim", 1.0),
        max_length=classifier.max_length,
        truncation_side=tokenizer.truncation_side,
        pad_token_id=classifier.pad_token_id,
        mask_token_id=mask,
        split_special_tokens=bool(getattr(tokenizer, "split_special_tokens", False)),
    )


def _tokenizer(classifier: TransformerPredictor) -> str:
    """Return tokenizer.json, without the padding and truncation that earlier calls left in it."""
    from tokenizers import Tokenizer

    source: Any = classifier.tokenizer
    tokenizer = Tokenizer.from_str(source.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return str(tokenizer.to_str())


def _compare(path: Path, texts: Sequence[Text], expected: Sequence[Attribution], what: str) -> None:
    """Raise UnsupportedError unless onnxruntime and PyTorch give the same explanations, in a batch and one by one."""
    try:
        reader = OnnxExplainer(path, threads=1)
        together = reader.explain(texts)
        alone = list(chain.from_iterable(reader.explain([text]) for text in texts))
    except ModelError as error:
        raise UnsupportedError(f"{what} cannot be exported to ONNX: its graph does not run ({error})") from error
    for run in (together, alone):
        # For a multi-label classifier the classes may differ.
        if list(map(_exact, run)) != list(map(_exact, expected)):
            raise UnsupportedError(f"{what} cannot be exported to ONNX: its graph gives other words or classes")
        far = max(float(np.abs(_numbers(a) - _numbers(b)).max()) for a, b in zip(run, expected, strict=True))
        if not far <= TOLERANCE:
            raise UnsupportedError(
                f"{what} cannot be exported to ONNX: its graph's scores differ by {far:.2g} from PyTorch's; expected "
                f"at most {TOLERANCE}"
            )


_exact = attrgetter("words", "tokens", "target", "predicted", "spans", "pair_start", "unaligned", "signed")


def _numbers(attribution: Attribution) -> NDArray[np.float64]:
    answer = attribution.probability if attribution.value is None else attribution.value
    numbers = [*attribution.filled(0.0), *attribution.token_scores, answer]
    certificate = attribution.certificate
    if certificate is not None:
        # The bound is an exponential, which magnifies rounding: its differences count one tenth.
        numbers.append(certificate.bound / 10)
    return np.array(numbers, dtype=np.float64)
