"""`explearn export --onnx`: a classifier and its trained explainer as one ONNX file."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from explearn.bundle.loading import check_trained_for, find_explainer
from explearn.bundle.manifest import is_bundle
from explearn.core.documents import is_folder
from explearn.core.errors import ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.extras import check_installed
from explearn.core.records import Attribution
from explearn.core.storage import atomic_path, json_text
from explearn.core.version import explearn_version
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.model.classifier import Classifier
from explearn.model.question_answering import QuestionAnswerer
from explearn_apps.onnx.facts import FACTS, FORMAT, OUTPUTS, TOKENIZER, WORDS
from explearn_apps.onnx.graphs import Graph, graph_of
from explearn_apps.onnx.runtime import OnnxExplainer, Text

TOLERANCE = 1e-4
"""Largest difference from PyTorch's scores and probabilities with which a file is written."""

OPSET = 20
"""Version of ONNX's operations; `ScatterElements` with a maximum needs 18, `Gelu` 20."""

LARGEST = 1_900_000_000
"""Bytes of weights in one file: the format ends at 2 GiB, and the tokenizer is in it, too."""

_SENTENCE = "Our guide was friendly , but the unbelievably slow delivery of a broken box ruined the afternoon"
_LONGEST = 300
"""Words of the longest text that a file is tried on."""

TRIED: tuple[Text, ...] = ("slow", _SENTENCE, "a warm , funny film", (_SENTENCE, "the box was broken"))
"""Texts that a file is tried on, beside a long one."""


def export_onnx(
    path: str | os.PathLike[str],
    *,
    explainer: str | os.PathLike[str] | Explainer,
    classifier: str | os.PathLike[str] | Classifier | None = None,
) -> Path:
    """Write one graph of a classifier and its explainer, whole or not at all, after a comparison with PyTorch.

    Inputs, int64: see `explearn_apps.onnx.facts.Input`; batch and length are free. Outputs, float32: `logits`,
    (batch, C), and `token_scores`, (batch, tokens). `OnnxExplainer` reads the file.

    Args:
        path: of the file; one that is there is replaced.
        explainer: a trained ExpNet or L2E: its folder, a bundle (folder or hub name), or an `Explainer`.
        classifier: folder or hub name, or the classifier, on the CPU in float32
            (default: the bundle's).

    Raises:
        UnsupportedError: a method or classifier that is not exported, or whose graph gives other scores.
        ModelError: an explainer or a classifier that cannot be used, or do not belong together.
        ParamsError: no classifier, or one elsewhere. MissingExtraError: packages of the extra `onnx` are not installed.
    """
    check_installed("onnx", "onnxscript", "onnxruntime", extra="onnx", what="an export to ONNX")
    found, of = _both(explainer, classifier)
    graph = graph_of(of, found)
    size = sum(tensor.numel() * tensor.element_size() for tensor in graph.state_dict().values())
    if size > LARGEST:
        raise UnsupportedError(f"{of.name}: has {size:,} bytes of weights; expected at most {LARGEST:,}, for ONNX")
    texts = _texts(of)
    # That the longest of them is cut is no news: nobody gave it.
    with unread_words_known():
        expected = list(found.explain(of, texts))
    encoded = of.batch(of.encode([text for text in texts if isinstance(text, str)][:2]))
    model = _model_proto(graph, of, encoded.model_inputs())
    for key, value in ((FACTS, json_text(_facts(found, of, graph))), (TOKENIZER, _tokenizer(of))):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    with atomic_path(path) as partial:
        partial.write_bytes(model.SerializeToString(deterministic=True))
        _compare(partial, texts, expected, f"{found.name or found.about.name} of {of.name}")
    return Path(path)


def _both(explainer: Any, classifier: Any) -> tuple[Explainer, Classifier]:
    """The explainer, and the classifier that it explains, on the CPU in float32."""
    bundle, folder = None, None
    if isinstance(explainer, Explainer):
        found = explainer
    else:
        found, bundle = find_explainer(explainer)
        path = Path(explainer)
        folder = path if is_folder(path) and not is_bundle(path) else None
    if classifier is None:
        own = None if bundle is None else bundle.classifier_folder
        if own is None:
            raise ParamsError(
                "got no classifier; expected its folder or hub name (--classifier), or a bundle that holds it"
            )
        classifier = own
    if not isinstance(classifier, Classifier):
        classifier = Classifier.from_pretrained(classifier, device="cpu", precision="fp32")
    if isinstance(classifier, QuestionAnswerer):
        raise UnsupportedError(f"{classifier.name}: answers questions; expected a classifier, for ONNX")
    if classifier.completion is not None:
        raise UnsupportedError(f"{classifier.name}: classifies by a prompt, which is not exported to ONNX")
    kinds = {classifier.dtype, *(one.dtype for one in classifier.model.parameters())}
    classifier.check_one_device("export to ONNX")
    if classifier.device.type != "cpu" or kinds != {torch.float32}:
        raise ParamsError(f"{classifier.name}: is not on the CPU in float32; expected device='cpu', precision='fp32'")
    if bundle is not None:
        bundle.check_classifier(classifier)
    if folder is not None:
        check_trained_for(folder, classifier)
    found.check_explains(classifier)
    return found, classifier


def _texts(classifier: Classifier) -> list[Text]:
    """TRIED, and one beyond the classifier's length unless that is very long."""
    words = (_SENTENCE.split() * _LONGEST)[: min(_LONGEST, 2 * classifier.max_length)]
    return [" ".join(words), *TRIED]


def _model_proto(graph: Graph, classifier: Classifier, inputs: dict[str, torch.Tensor]) -> Any:
    """The graph as ONNX, traced on a batch; batch and length are free in what comes out."""
    ids = inputs["input_ids"]
    for name in graph.more:
        inputs[name] = torch.zeros_like(ids[:, 0] if name == "target" else ids)
    axes = {name: {0: "batch", 1: "tokens"} if value.ndim == 2 else {0: "batch"} for name, value in inputs.items()}
    config: Any = classifier.model.config
    try:
        with _written_out(classifier.model), _quiet():
            program: Any = torch.onnx.export(
                graph.eval(),
                (),
                kwargs=inputs,
                dynamo=True,
                dynamic_shapes=axes,
                output_names=list(OUTPUTS),
                opset_version=OPSET,
                verbose=False,
            )
            model = program.model_proto
    except UnsupportedError:
        raise
    except Exception as error:  # tracing fails in many ways, none of which is the reader's to mend
        raise UnsupportedError(
            f"{classifier.name}: a {config.model_type!r} model that is not exported to ONNX ({first_line(error)[:200]})"
        ) from error
    _strip(model.graph)
    model.producer_name, model.producer_version = "explearn", explearn_version()
    return model


def _strip(graph: Any) -> None:
    """Remove what tracing notes of places in source files: it tells of this machine, and makes no two files alike."""
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]


@contextlib.contextmanager
def _written_out(model: Any) -> Iterator[None]:
    """Attention as products and softmax, which ONNX has, instead of a fused kernel."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch.onnx prints, warns of and logs."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _facts(explainer: Explainer, classifier: Classifier, graph: Graph) -> dict[str, Any]:
    config: Any = classifier.model.config
    tokenizer: Any = classifier.tokenizer
    types = ["token_type_ids"] if "token_type_ids" in tokenizer.model_input_names else []
    return {
        "format": FORMAT,
        "explearn": explearn_version(),
        "method": explainer.name or explainer.about.name,
        "aggregation": explainer.aggregation,
        "signed": explainer.signed,
        "classifier": {
            # Of a folder the last part: where it is on this machine is nobody's business.
            "name": Path(classifier.name).resolve().name if is_folder(classifier.name) else classifier.name,
            "architecture": str(config.model_type),
            "fingerprint": classifier.fingerprint,
        },
        "labels": list(classifier.labels),
        "problem": str(classifier.problem),
        "inputs": ["input_ids", "attention_mask", *types, *graph.more],
        "max_length": classifier.max_length,
        "truncation_side": tokenizer.truncation_side,
        "pad_token_id": classifier.pad_token_id,
        "split_special_tokens": bool(getattr(tokenizer, "split_special_tokens", False)),
        "words": WORDS,
    }


def _tokenizer(classifier: Classifier) -> str:
    """tokenizer.json, without the padding and truncation that earlier calls left in it."""
    from tokenizers import Tokenizer

    own: Any = classifier.tokenizer
    made = Tokenizer.from_str(own.backend_tokenizer.to_str())
    made.no_padding()
    made.no_truncation()
    return str(made.to_str())


def _compare(path: Path, texts: Sequence[Text], expected: Sequence[Attribution], what: str) -> None:
    """Raise UnsupportedError unless onnxruntime explains the texts as PyTorch does, together and one by one."""
    try:
        reader = OnnxExplainer(path, threads=1)
        together = list(reader.explain(texts))
        alone = [found for text in texts for found in reader.explain([text])]
    except ModelError as error:
        raise UnsupportedError(f"{what} is not exported to ONNX: its graph does not run ({error})") from error
    for runs in (together, alone):
        # Of a multi-label text there may be other classes, and more or fewer.
        alike = len(runs) == len(expected)
        far = max(map(_difference, runs, expected), default=math.inf) if alike else math.inf
        if far == math.inf:
            raise UnsupportedError(f"{what} is not exported to ONNX: its graph gives other words or classes")
        if not far <= TOLERANCE:
            raise UnsupportedError(
                f"{what} is not exported to ONNX: its graph's scores differ by {far:.2g} from PyTorch's; expected at "
                f"most {TOLERANCE}"
            )


def _difference(found: Attribution, expected: Attribution) -> float:
    """The largest difference between two attributions of a text; infinite where they are of other words or classes."""
    same = ("words", "tokens", "target", "predicted", "spans", "pair_start", "unaligned", "signed")
    if any(getattr(found, name) != getattr(expected, name) for name in same):
        return math.inf
    if not np.array_equal(found.read, expected.read):
        return math.inf
    pairs = [(found.filled(0.0), expected.filled(0.0)), (found.token_scores, expected.token_scores)]
    name = "probability" if expected.value is None else "value"
    pairs.append((np.array([getattr(found, name)]), np.array([getattr(expected, name)])))
    return max(float(np.abs(a - b).max(initial=0.0)) for a, b in pairs)
