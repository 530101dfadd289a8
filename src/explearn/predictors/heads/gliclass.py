"""GLiClass (Stepanov et al. 2025): labels chosen at call time, which one encoder reads in the same pass as the text."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ModelError, UnsupportedError
from explearn.predictors.encoding import Encoding
from explearn.predictors.labelled import Use
from explearn.predictors.problems import label_maps
from explearn.predictors.transformer import TransformerPredictor, WrappedModel
from explearn.text.encoding import PlainText

if TYPE_CHECKING:
    from transformers.modeling_outputs import SequenceClassifierOutput

SAMPLE = "A short text"
"""Text of which a predictor must read what the pipeline reads."""


class LabelScorer(WrappedModel):
    """A GLiClass model that gives the logits of its labels.

    Args:
        config: the encoder's configuration, with the labels.
        model: the GLiClass model.
    """

    own_head = (
        "this method takes the head apart, and knows only that of a classifier of texts; attn_lrp and the methods that "
        "look at gradients or perturbed texts explain GLiClass"
    )

    def __init__(self, config: Any, model: Any) -> None:
        super().__init__(config, model)
        self.config = config
        self.base_model_prefix = "model.model.encoder_model"

    @property
    def base_model(self) -> Any:
        """The encoder."""
        return self.model.model.encoder_model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_inputs: Any) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return SequenceClassifierOutput(logits=logits[:, : len(self.config.id2label)])


class GLiClassPredictor(TransformerPredictor):
    """A GLiClass model with its labels as a classifier; only the text's words are masked and scored.

    Args:
        pipeline: a ZeroShotClassificationPipeline of GLiClass, for a model with one encoder.
        labels: the labels, two or more.
        compute: where and how to compute. None: where the model is, in its precision.

    Raises:
        ModelError: a model of another kind, or one whose pipeline reads a text in another way.
    """

    same_length = True
    """Padding may count in the mean of a text."""
    refuses: Mapping[Use, str] = {
        "windows": "reads labels and text together; cut the texts instead",
        "onnx": "reads its labels with the text; expected a sequence classifier",
        "training": "has labels of its own; expected a sequence classifier",
    }

    def __init__(self, pipeline: Any, labels: Sequence[str], compute: ComputeOptions | None = None) -> None:
        inner = pipeline.pipe
        model = inner.model
        name = str(getattr(model, "name_or_path", "")) or "the GLiClass model"
        if model.config.architecture_type != "uni-encoder" or len(labels) < 2:
            raise ModelError(
                f"{name}: is a {model.config.architecture_type} with {len(labels)} labels; expected a uni-encoder and "
                "two labels or more; a function of texts explains others (explearn.FunctionPredictor)"
            )
        problem = "single_label_classification"
        if inner.classification_type == "multi-label":
            problem = "multi_label_classification"
        config = copy.deepcopy(model.config.encoder_config)
        config.update({**label_maps(labels), "problem_type": problem})
        tokenizer = copy.deepcopy(inner.tokenizer)
        tokenizer.model_max_length = inner.max_length
        before, _, behind = inner.prepare_input("{text}", list(labels)).partition("{text}")
        self.prompt: tuple[str, str] = (before, behind)
        config.update({"prompt": self.prompt})  # so that it is part of the fingerprint
        compute = compute or ComputeOptions(device=str(model.device), precision="saved")
        scorer: Any = LabelScorer(config, model)
        super().__init__(scorer, tokenizer, compute, name)
        (encoding,) = self.encode([SAMPLE])
        read = inner.prepare_inputs([SAMPLE], list(labels), same_labels=True)["input_ids"][0]
        if list(encoding.input_ids) != read.tolist():
            raise ModelError(f"{name}: its pipeline reads a text in another way")

    def write_files(self, folder: Path) -> None:
        raise UnsupportedError(f"{self.name}: is saved by its own package")

    def encode_within(self, limit: int | None, texts: Sequence[PlainText]) -> list[Encoding]:
        before, behind = self.prompt
        encodings = []
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                raise DataError(f"text {number}: is a pair; expected one text, which is read with the labels")
            shift = len(before)
            read = self.tokenizer(before + text + behind, verbose=False, return_offsets_mapping=True)
            offsets = [(max(0, start - shift), end - shift) for start, end in read["offset_mapping"]]
            sequence: list[int | None] = []
            for (start, end), part in zip(offsets, read.sequence_ids(0), strict=True):
                inside = part is not None and end > 0 and start < len(text)
                sequence.append(0 if inside else None)
            encoding = Encoding.of(text, read["input_ids"], offsets, sequence)
            over = len(encoding) - (limit or len(encoding))
            if over >= len(encoding.positions):
                raise DataError(f"text {number}: its labels leave no room within the {limit} sub-tokens that are read")
            cut = set(encoding.positions[len(encoding.positions) - over :]) if over > 0 else set()
            encodings.append(encoding.select([place for place in range(len(encoding)) if place not in cut]))
        return encodings
