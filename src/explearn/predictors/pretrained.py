"""Trained classifiers, from a folder, from the hub or from memory, each by the loader of its head."""

from __future__ import annotations

import copy
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explearn.core.bundles import checked_manifest, is_classifier_bundle
from explearn.core.compute import ComputeOptions
from explearn.core.documents import PathLike, checked_path, is_folder, names_code, read_json
from explearn.core.errors import ModelError, ParamsError, kind_of
from explearn.predictors.adapters import CONFIG as ADAPTER_CONFIG
from explearn.predictors.adapters import Adapters, find_adapters
from explearn.predictors.function import function_predictor, is_function
from explearn.predictors.heads.completion import COMPLETION_FILE, Completion, capped, read_completion, with_label_head
from explearn.predictors.heads.embedding import embedding_predictor
from explearn.predictors.heads.gliclass import GLiClassPredictor
from explearn.predictors.heads.names import CLASSIFICATION, GENERATION, HEADS_OF_TASKS, head_of
from explearn.predictors.heads.wrapped import WRAPPED
from explearn.predictors.heads.zero_shot import ENTAILMENT, ZeroShotPredictor, index_of
from explearn.predictors.labelled import Problem
from explearn.predictors.loading import (
    check_place,
    check_size,
    errors_of_loading,
    holds_no_words,
    load_model,
    may_be_on_hub,
    quiet_transformers,
)
from explearn.predictors.own_code import load_object
from explearn.predictors.params import CandidateLabels, CompletionParams, Prompt, prompt_of
from explearn.predictors.predictor import Predictor, named
from explearn.predictors.problems import PROBLEM_TYPES, not_compiled, problem_of, sharing_copy
from explearn.predictors.quantised import QUANTISED, check_loaded, quantisation
from explearn.predictors.transformer import TransformerPredictor

logger = logging.getLogger(__name__)

KIND = "a classifier"
"""What is loaded here, for messages."""

CROSS_ENCODER = "config_sentence_transformers.json"
"""File in which sentence-transformers keeps the activation of a cross-encoder."""


def place_of_model(name: str) -> str:
    """Return where in a folder its model is.

    Of a bundle, whose files are checked, it is its classifier; of a Trainer's `output_dir` without a model the newest
    checkpoint, which is logged.

    Raises:
        ModelError: a bundle without a classifier, or with a file that differs from its manifest.
    """
    folder = Path(name)
    if is_classifier_bundle(folder):
        facts = checked_manifest(folder).classifier
        if facts is None or facts.folder is None:
            raise ModelError(f"{folder}: is a bundle without its classifier; expected the classifier's own folder")
        return str(folder / facts.folder)
    if not is_folder(name) or any((folder / config).exists() for config in ("config.json", ADAPTER_CONFIG)):
        return name
    checkpoints = [path for path in folder.iterdir() if re.fullmatch(r"checkpoint-\d+", path.name)]
    if not checkpoints:
        return name
    newest = max(checkpoints, key=lambda path: int(path.name.partition("-")[2]))
    logger.warning("%s: holds no model itself; its newest checkpoint is taken, %s", name, newest.name)
    return str(newest)


@dataclass(frozen=True, slots=True)
class Source:
    """A trained model that is to be loaded.

    Attributes:
        name: name that the user gave.
        location: folder or hub name of the weights; of the base model for adapters.
        revision: git revision of a hub name.
        config: configuration of the model.
        adapters: adapters on the model, if any.
        head: kind of head, such as CLASSIFICATION.
        compute: device and precision.
        prompted: whether it was saved with a prompt.
    """

    name: str
    location: str
    revision: str | None
    config: Any
    adapters: Adapters | None
    head: str
    compute: ComputeOptions
    prompted: bool

    @property
    def labels(self) -> list[str]:
        """Names of the classes, in order."""
        return [str(label) for _, label in sorted(self.config.id2label.items())]


def load_classifier(
    path: PathLike,
    compute: ComputeOptions | None = None,
    revision: str | None = None,
    completion: Prompt | None = None,
    labels: Sequence[str] | None = None,
    hypothesis: str | None = None,
    multi_label: bool = False,
    **options: Any,
) -> Predictor:
    """Load a trained classifier from a folder or from the hub.

    A question-answering model gives a `QuestionPredictor`, a token classification model a `TokenPredictor`. In a
    Trainer's output folder, the newest checkpoint is used; in a bundle's folder, the classifier in it.

    Args:
        path: local folder or hub name.
        compute: compute options; or pass their fields as keyword arguments (device="cuda", precision="bf16").
        revision: git revision of a hub name.
        completion: prompt and label words of a generative model: a section, its values, or a file. None:
            completion.json in the folder.
        labels: names of the classes, for a natural-language inference model (a `ZeroShotPredictor` is returned) or a
            generative model (instead of `completion`).
        hypothesis: sentence with `{}` for the label. None: "This example is {}.".
        multi_label: whether each label applies or not, independently of the others.
        options: fields of `compute`.

    Returns:
        A `TransformerPredictor`, or a `ZeroShotPredictor`.

    Raises:
        ModelError: there is no such model, its head is not trained, or its weights do not fit its configuration or are
            not finite.
        ParamsError: an invalid prompt.
        DeviceError: the device is not available.

    Example:
        >>> import explearn, tempfile
        >>> from explearn.testing import make_classifier
        >>> folder = tempfile.mkdtemp()
        >>> make_classifier().save_pretrained(folder)
        >>> explearn.load_classifier(folder, device="cpu").labels
        ['no', 'yes']
    """
    prompt = prompt_of(completion, labels, hypothesis, multi_label)
    compute = replace(compute or ComputeOptions(), **options)
    if compute.device_map is None:
        compute.resolve_device()
    name = place_of_model(checked_path(path, "path"))
    check_place(name)
    prompted = is_folder(name) and (Path(name) / COMPLETION_FILE).exists()
    if prompt is None and prompted:
        prompt = Path(name) / COMPLETION_FILE
    params: Params = None
    if prompt is not None:
        params = read_completion(prompt)
    quiet_transformers()
    source = find_source(name, revision, compute, prompted)
    return LOADERS[source.head](source, params)


def find_source(name: str, revision: str | None, compute: ComputeOptions, prompted: bool) -> Source:
    """Read the configuration of a trained model, and find out what head it has.

    Args:
        name: local folder or hub name.
        revision: git revision of a hub name.
        compute: device and precision.
        prompted: whether it was saved with a prompt.

    Raises:
        ModelError: there is no such model, or its sizes do not fit its weights.
    """
    import transformers
    from transformers.utils.hub import cached_file

    with errors_of_loading(name, KIND):
        adapters = find_adapters(name, revision)
        location = name
        if adapters is not None:
            location = adapters.config.base_model_name_or_path
            revision = adapters.config.revision
            if not (is_folder(location) or may_be_on_hub(location)):
                raise ModelError(
                    f"{name}: its adapters belong to {location}, where no folder is; put the model there, or its new "
                    f"place into {ADAPTER_CONFIG} (base_model_name_or_path)"
                )
        check_size(location, revision, KIND, name)
        config: Any = transformers.AutoConfig.from_pretrained(
            location, revision=revision or "main", trust_remote_code=False
        )
        if adapters is not None and adapters.classes not in (None, len(config.id2label)):
            config.num_labels = adapters.classes
        if cross_encoder := cached_file(
            location, CROSS_ENCODER, revision=revision or "main", _raise_exceptions_for_missing_entries=False
        ):
            config.sentence_transformers = {"activation_fn": read_json(cross_encoder).get("activation_fn")}
        # Settings that do not change predictions are fixed here, whatever the file says.
        config.return_dict = True
        config.chunk_size_feed_forward = 0
        head = head_of([str(architecture) for architecture in getattr(config, "architectures", None) or ()])
    if adapters is not None:
        head = HEADS_OF_TASKS.get(adapters.config.task_type, head)
    return Source(name, location, revision, config, adapters, head, compute, prompted)


def _load_weights(source: Source) -> tuple[Any, Any]:
    """Load a model with its head, adapters on it, and its tokenizer.

    Weights are float32, unless `source.compute` keeps the precision of the file or quantises them.

    Raises:
        ModelError: weights are missing or not finite, or there is no tokenizer.
    """
    import transformers

    options: dict[str, Any] = {"config": source.config}
    adapters = source.adapters
    if adapters is not None:
        # A head of theirs may have other classes than the base's, whose shapes then do not fit; `missing` names them.
        options["ignore_mismatched_sizes"] = True
    if source.compute.precision == "saved":
        options["dtype"] = "auto"
    quantised = getattr(source.config, "quantization_config", None) is not None
    if quantised or source.compute.precision in QUANTISED:
        options |= quantisation(source.head, source.config, source.name, source.compute)
    model, tokenizer, missing = load_model(source.head, source.location, source.revision, KIND, **options)
    if quantised:
        check_loaded(model, source.name)
    if adapters is not None:
        missing = [weight for weight in missing if weight not in adapters.weights]
        with errors_of_loading(source.name, KIND):
            model = adapters.on(model)
            if (adapters.folder / "tokenizer_config.json").exists():
                tokenizer = transformers.AutoTokenizer.from_pretrained(adapters.folder, trust_remote_code=False)
    if missing:
        raise ModelError(
            f"{source.name}: weights are missing or of the wrong shape for {', '.join(missing[:4])}; "
            "expected a fine-tuned classifier of texts or tokens"
        )
    if holds_no_words(tokenizer):
        raise ModelError(f"{source.name}: holds no tokenizer; expected one saved beside the model")
    return model, tokenizer


Params = CompletionParams | CandidateLabels | None


def _load_classification(source: Source, params: Params) -> Predictor:
    """Load a classifier of texts; with candidate labels, one of pairs; with a prompt, one that was saved with it."""
    if isinstance(params, CandidateLabels):
        index_of(source.labels, ENTAILMENT, source.name)
    elif params is not None and not (source.prompted and source.labels == list(params.label_words)):
        raise _has_own_head(source)
    model, tokenizer = _load_weights(source)
    if isinstance(params, CompletionParams):
        completion = Completion(params, tokenizer, source.name)
        model = capped(model, completion)
        return TransformerPredictor(model, tokenizer, source.compute, source.name, completion)
    predictor = TransformerPredictor(model, tokenizer, source.compute, source.name)
    if params is None:
        return predictor
    return ZeroShotPredictor(predictor, params)


def _load_wrapped(source: Source, params: Params) -> Predictor:
    """Load a model with another head than a classifier's."""
    if params is not None:
        raise _has_own_head(source)
    return WRAPPED[source.head].around(*_load_weights(source), source.compute, source.name)


def _load_generation(source: Source, params: Params) -> Predictor:
    """Load a generative model, which classifies by a prompt."""
    if params is None:
        raise ModelError(
            f"{source.name}: is a generative model without a classification head; expected one, or a prompt with label "
            f"words, in {COMPLETION_FILE} beside it or given as completion, or candidate labels"
        )
    if isinstance(params, CandidateLabels):
        if params.multi_label:
            raise ModelError(
                f"{source.name}: is a generative model, which completes a text with one label; leave multi_label"
            )
        params = params.completion()
    model, tokenizer = _load_weights(source)
    completion = Completion(params, tokenizer, source.name)
    model = with_label_head(model, completion)
    return TransformerPredictor(model, tokenizer, source.compute, source.name, completion)


def _has_own_head(source: Source) -> ModelError:
    return ModelError(
        f"{source.name}: has a head of its own, for {', '.join(source.labels)}; expected a generative model, or a "
        "classifier that was saved with a prompt for the same classes"
    )


LOADERS: dict[str, Callable[[Source, Params], Predictor]] = {
    CLASSIFICATION: _load_classification,
    GENERATION: _load_generation,
    **dict.fromkeys(WRAPPED, _load_wrapped),
}
"""Head -> its loader."""


@dataclass(frozen=True, slots=True)
class NamedClassifier:
    """A classifier by its name, with what its loading needs besides where and how to compute.

    Attributes:
        path: folder or hub name; or `module:name` or `file.py:name`, code that loading runs.
        class_names: class -> its new name.
        completion: prompt and label words of a generative model.
    """

    path: str
    class_names: Mapping[str, str] = field(default_factory=dict)
    completion: Prompt | None = None

    def __fspath__(self) -> str:
        return self.path

    def load(self, compute: ComputeOptions | None) -> Predictor:
        """Load it.

        Raises:
            ParamsError: it has no class of such a name, or is no classifier.
            ModelError: it cannot be loaded.
        """
        if self.path.endswith(".py") and not is_folder(self.path):
            raise ParamsError(f"--classifier: got {self.path}; expected a name in it, too, {self.path}:NAME")
        if not names_code(self.path):
            classifier = load_classifier(self.path, compute, completion=self.completion)
        elif self.completion is not None:
            raise ParamsError(f"--completion: got one for {self.path}, which is no generative model; leave it out")
        else:
            classifier = named(as_predictor(load_object(self.path)), self.path)
        for name in self.class_names:
            if name not in classifier.labels:
                raise ParamsError(
                    f"--class-name: got {name}; expected one of the classes of {classifier.name}, "
                    f"{', '.join(classifier.labels)} (values of a label column are mapped by --label-name)"
                )
        return classifier.renamed(self.class_names)


def as_predictor(classifier: Any, compute: ComputeOptions | None = None) -> Predictor:
    """Return a predictor for a name, a folder or a loaded model.

    A loaded model stays on its device and in its precision, is put into evaluation mode, and its parameters are frozen
    (`requires_grad` is switched off).

    Args:
        classifier: a Predictor, a folder or hub name, a pipeline of transformers that classifies texts or tokens or
            answers questions, a `CrossEncoder` or `SentenceTransformer` of sentence-transformers, the latter with a
            fitted linear classifier of scikit-learn as a pair, a SetFit model, a pipeline of GLiClass and labels as a
            pair, a transformers model and its tokenizer as a pair, a fitted classifier of scikit-learn, or a function
            of texts.
        compute: compute options for a folder or hub name.

    Raises:
        ParamsError: anything else.
        ModelError: see `load_classifier`.
    """
    if isinstance(classifier, NamedClassifier):
        return classifier.load(compute)
    if isinstance(classifier, str | os.PathLike):
        return load_classifier(classifier, compute)
    if isinstance(classifier, Predictor):
        return classifier
    if is_function(classifier):
        return function_predictor(classifier)
    embedding = embedding_predictor(classifier, compute)
    if embedding is not None:
        return embedding
    if isinstance(classifier, tuple) and len(classifier) == 2:
        model, tokenizer = classifier
        if hasattr(model, "pipe"):  # of GLiClass
            return GLiClassPredictor(model, tokenizer, compute)
    else:  # a pipeline or a Trainer
        model = getattr(classifier, "model", None)
        tokenizer = getattr(classifier, "tokenizer", None) or getattr(classifier, "processing_class", None)
    if not hasattr(model, "get_input_embeddings") or not hasattr(tokenizer, "is_fast"):
        raise ParamsError(
            f"classifier: got {kind_of(classifier)}; expected an explearn predictor, a folder or hub name, a "
            "text-classification pipeline of transformers, a pair (model, tokenizer) of transformers and torch, or a "
            "fitted estimator of scikit-learn with predict_proba; any other model goes, as a function, in an "
            "explearn.FunctionPredictor"
        )
    model = not_compiled(model)
    activation = getattr(classifier, "activation_fn", None)
    if activation is not None:
        model = sharing_copy(model)
        saved_as = f"{type(activation).__module__}.{type(activation).__name__}"
        model.config.sentence_transformers = {"activation_fn": saved_as}
    name = str(getattr(model, "name_or_path", "")) or "the model"
    compute = compute or ComputeOptions(device=str(model.device), precision="saved")
    kind = WRAPPED.get(head_of([type(model).__name__]), TransformerPredictor)
    if kind is not TransformerPredictor or not hasattr(classifier, "_postprocess_params"):
        return kind.around(model, tokenizer, compute, name)
    return _of_pipeline(classifier, model, tokenizer, compute, name)


def _of_pipeline(pipeline: Any, model: Any, tokenizer: Any, compute: ComputeOptions, name: str) -> Predictor:
    """Return a predictor that reads texts and outputs as a text-classification pipeline with these options does.

    Raises:
        ParamsError: an option that has no counterpart here, or a pipeline for something else.
    """
    from transformers import TextClassificationPipeline

    if not isinstance(pipeline, TextClassificationPipeline):
        raise ParamsError(
            f"classifier: got {kind_of(pipeline)}; expected a text-classification pipeline; candidate labels go with "
            "its model into explearn.load_classifier(name, labels=[...])"
        )
    reading = dict(pipeline._preprocess_params)
    truncation = reading.pop("truncation", None)
    length = reading.pop("max_length", None)
    reading.pop("padding", None)  # the attention mask leaves it out
    if truncation not in (None, True, False, "longest_first", "do_not_truncate"):
        reading["truncation"] = truncation
    if reading:
        raise ParamsError(f"classifier: a pipeline with {', '.join(reading)}; make one without it")
    if length is not None and truncation not in (False, "do_not_truncate"):
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.model_max_length = length
    function = pipeline._postprocess_params.get("function_to_apply")
    if function == "softmax" and len(model.config.id2label) == 1:
        raise ParamsError("classifier: a pipeline with the softmax of one output, which is always 1; use sigmoid")
    problem_type = model.config.problem_type or "single_label_classification"
    if function is not None:
        problem_type = PROBLEM_TYPES[str(function.value)]
    applied = sharing_copy(model)
    applied.config.problem_type = problem_type
    # A pipeline does not read the function that a configuration names.
    if problem_of(applied.config) is not problem_of(model.config):
        model = applied
    predictor = TransformerPredictor(model, tokenizer, compute, name)
    # A pipeline's values are of classes, too.
    if predictor.problem is Problem.REGRESSION and len(predictor.labels) > 1:
        predictor.classes = predictor.labels
    predictor.top = pipeline._postprocess_params.get("top_k", 1) or len(predictor.labels)
    return predictor
