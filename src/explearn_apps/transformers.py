"""A transformers pipeline that explains its predictions: `text-classification-with-rationale`.

import transformers
import explearn_apps.transformers

pipe = transformers.pipeline("text-classification-with-rationale", model="FOLDER OR HUB NAME", explainer="attn_lrp")
pipe("A warm and funny film.")
# {"label": "POSITIVE", "score": 0.98, "words": [...], "scores": [...], "spans": [[0, 1], ...], ...}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
import transformers
from transformers.pipelines import PIPELINE_REGISTRY

from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike
from explearn.core.errors import DataError, UnsupportedError, kind_of
from explearn.methods.base.explainer import Explainer
from explearn.methods.finding import find_explainer
from explearn.predictors.heads.completion import COMPLETION_FILE
from explearn.predictors.labelled import Problem
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.units import Unit

TASK = "text-classification-with-rationale"


class RationalePipeline(transformers.Pipeline):
    """Classify texts and give every word a score for the class.

    Made by `transformers.pipeline`, with these arguments in addition to the usual ones. `target`, `windows` and `unit`
    can also be passed to a call.

    A text is a string, a pair of strings, or {"text": ..., "text_pair": ...}; several texts are a list, a generator or
    a data set. `batch_size` texts are explained together. For each text the pipeline returns a dictionary, or a list of
    dictionaries, one per class, for several targets and for multi-label classifiers:

    * label: the explained class; score: its probability, or a regression's value.
    * predicted: the predicted class; method: the method.
    * words: words of the text; scores: one per word, None if the classifier did not read the word.
    * spans: [start, end) of each word, in the characters of its text; pair_start: index of the second text's first
      word, None if there is one text.

    The model's parameters are frozen: `requires_grad` is switched off.

    Args:
        explainer: name of a method (`explearn methods`), folder of a trained explainer, folder or hub name of a bundle,
            or an `Explainer`. None: the default for the model, as for `explearn.explain`.
        target: class to explain, by name or index, or a list of several. None: the predicted one; for a multi-label
            classifier each label that applies.
        windows: as in `Explainer.explain`.
        unit: as in `Explainer.explain`.
        options: options of the method, such as `steps=20`.
    """

    _load_tokenizer = True  # type: ignore[assignment]
    _load_processor = False  # type: ignore[assignment]
    _load_image_processor = False  # type: ignore[assignment]
    _load_video_processor = False  # type: ignore[assignment]
    _load_feature_extractor = False  # type: ignore[assignment]

    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        *,
        explainer: Explainer | PathLike | None = None,
        task: str = TASK,
        device: int | str | torch.device | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        dtype: Any = None,
        target: Any = None,
        windows: int | None = None,
        unit: Unit | None = None,
        **options: Any,
    ) -> None:
        # The model already has its dtype.
        super().__init__(
            model=model,
            tokenizer=tokenizer,  # type: ignore[arg-type]
            task=task,
            device=device,  # type: ignore[arg-type]
            batch_size=batch_size,
            num_workers=num_workers,
            target=target,
            windows=windows,
            unit=unit,
        )
        name = str(getattr(model.config, "name_or_path", "") or "the model")
        if (Path(name) / COMPLETION_FILE).exists():
            raise UnsupportedError(
                f"{name}: classifies by a prompt ({COMPLETION_FILE}), which transformers' pipeline does not apply; "
                "use explearn.get_explainer or `explearn explain`"
            )
        where = self.device.type
        if where == "cuda":
            where = str(self.device)
        self.classifier = TransformerPredictor(model, tokenizer, ComputeOptions(device=where), name)
        self.explainer = find_explainer(explainer, options, classifier=self.classifier)
        self.explainer.check_explains(self.classifier)

    def __call__(self, inputs: Any, *args: Any, **options: Any) -> Any:
        # transformers looks at the first of a list.
        if isinstance(inputs, list) and not inputs:
            return []
        return super().__call__(inputs, *args, **options)  # type: ignore[no-untyped-call]

    def _sanitize_parameters(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        passed = {name: value for name, value in options.items() if value is not None}
        several = {}
        if "target" in passed:
            several["several"] = isinstance(passed["target"], list | tuple)
        return {}, passed, several

    def get_inference_context(self) -> Any:
        # Many methods take gradients; the others disable them.
        return torch.enable_grad

    def preprocess(self, input_: Any, **_: Any) -> dict[str, Any]:
        if isinstance(input_, Mapping):
            unknown = sorted(set(input_) - {"text", "text_pair"})
            if unknown or "text" not in input_:
                raise DataError(
                    f"got a text with the fields {', '.join(map(str, input_)) or '(none)'}; expected text and text_pair"
                )
            text = input_["text"]
            pair = input_.get("text_pair")
            input_ = text if pair is None else (text, pair)
        if not isinstance(input_, str | tuple):
            raise DataError(f"got {kind_of(input_)}; expected a text, a pair of texts or text and text_pair")
        return {"text": input_}

    def _forward(self, input_tensors: dict[str, Any], **options: Any) -> Any:
        texts = input_tensors["text"]
        batched = isinstance(texts, list)
        if not batched:
            texts = [texts]
        target = options.pop("target", None)
        targets = None if target is None else [target] * len(texts)
        explained = list(self.explainer.iter_explain(self.classifier, texts, targets, **options))
        # One entry per text in a batch, which transformers splits again.
        return {"explained": explained if batched else explained[0]}

    def postprocess(self, model_outputs: Any, **options: Any) -> Any:
        rows = []
        for attribution in model_outputs["explained"]:
            document = attribution.to_dict()
            score = document["probability"] if attribution.value is None else document["value"]
            fields = {name: document[name] for name in _FIELDS}
            rows.append({"label": attribution.target, "score": score, **fields})
        if options.get("several") or len(rows) > 1 or self.classifier.problem is Problem.MULTI_LABEL:
            return rows
        return rows[0]

    def save_pretrained(self, save_directory: PathLike, **_: Any) -> NoReturn:
        """Refuse to save: transformers would save code that readers have to trust.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"{os.fspath(save_directory)}: this pipeline cannot be saved; save the model itself, and the explainer "
            "with explearn.export"
        )


_FIELDS = ("predicted", "method", "words", "scores", "spans", "pair_start", "completeness_error", "certificate")


PIPELINE_REGISTRY.register_pipeline(
    TASK,
    pipeline_class=RationalePipeline,
    pt_model=transformers.AutoModelForSequenceClassification,
    type="text",
)
