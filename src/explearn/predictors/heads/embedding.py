"""Sentence embeddings: a linear head on them (SetFit), and the similarity of two (bi-encoders).

An encoder's states are pooled to one vector a text, as in sentence-transformers (Reimers and Gurevych 2019), so that
gradients pass through the encoder. What does not give the values of the library's own object is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from explearn.core.compute import ComputeOptions, at_least_float32
from explearn.core.errors import DataError, ModelError, UnsupportedError
from explearn.predictors.checks import same_logits
from explearn.predictors.encoding import Encoding, encode_texts
from explearn.predictors.labelled import Use
from explearn.predictors.predictor import Predictor
from explearn.predictors.problems import ONE_OUTPUT, label_maps
from explearn.predictors.transformer import TransformerPredictor, WrappedModel
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import PlainText

if TYPE_CHECKING:
    import transformers
    from transformers.modeling_outputs import SequenceClassifierOutput

READS = {"mean": "mean", "cls": "first", "lasttoken": "last"}
"""Pooling, as sentence-transformers names it -> the tokens that are read (`architectures.reads`)."""

SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": functional.cosine_similarity,
    "dot": lambda one, other: (one * other).sum(-1),
}
"""Similarity, as sentence-transformers names it -> from embeddings, (b, e) each, to values, (b,)."""

SAMPLES = ("A short text", "another text, Rather Longer")
"""Texts on which a predictor is compared with what it was made from."""


class Pooling(nn.Module):
    """The way from a transformer's states to one vector a text.

    Args:
        config: the transformer's configuration. Its field `embedding` has the `pooling` (mean if there is none), the
            `dense` layers (inputs, outputs, whether there is a bias, name of the activation) and whether vectors are
            `normalised`.

    Attributes:
        width: e, the width of a vector.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        facts = getattr(config, "embedding", {})
        self.pooling = facts.get("pooling", "mean")
        self.normalised = facts.get("normalised", False)
        self.width: int = config.hidden_size
        self.dense = nn.Sequential()
        for inputs, self.width, bias, activation in facts.get("dense", ()):
            self.dense.append(nn.Linear(inputs, self.width, bias))
            self.dense.append(getattr(nn, activation)())

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return vectors, (b, e).

        Args:
            states: (b, n, d).
            mask: 1 at the text's tokens, (b, n); or the logarithm of gates, (b, 1, 1, n).
        """
        if mask.dim() == 4:
            mask = mask[:, 0, 0].exp()
        weights = mask.to(at_least_float32(states))
        if self.pooling != "mean":
            # The first or the last token: texts are padded behind.
            read = (weights > 0).sum(1) - 1
            if self.pooling == "cls":
                read = torch.zeros_like(read)
            weights = functional.one_hot(read, weights.shape[1]).to(weights)
        vectors = self.dense(torch.einsum("bn,bnd->bd", weights, states.to(weights)) / weights.sum(1, keepdim=True))
        if self.normalised:
            return functional.normalize(vectors)
        return vectors  # type: ignore[no-any-return]


class EmbeddingModel(WrappedModel):
    """Base of a transformer whose texts' embeddings are read."""

    loader = "AutoModel"

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        super().__init__(config, model)
        self.base_model_prefix = "model"
        self.config: Any = copy.deepcopy(config)
        self.pool = Pooling(self.config)

    def save_pretrained(self, folder: object) -> None:
        raise UnsupportedError("Explearn saves no embeddings; save the SentenceTransformer or the SetFit model itself")


class HeadOnEmbeddings(EmbeddingModel):
    """A transformer with a linear head on its texts' embeddings."""

    own_head = (
        "this method takes the head apart, and knows only that of a classifier of texts; attn_lrp, gae, attcat and the "
        "methods that look at attention, gradients or perturbed texts explain a head on embeddings"
    )

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        super().__init__(config, model)
        self.classifier = nn.Linear(self.pool.width, len(self.config.id2label))
        self.reads = READS[self.pool.pooling]

    def forward(self, attention_mask: Tensor, **inputs: Any) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        output = self.model(attention_mask=attention_mask, **inputs)
        logits = self.classifier(self.pool(output.last_hidden_state, attention_mask))
        return SequenceClassifierOutput(logits=logits, hidden_states=output.hidden_states, attentions=output.attentions)


@dataclass(frozen=True)
class TwoTexts(Encoding):
    """Two texts that are encoded apart from each other.

    Attributes:
        second: True at the sub-tokens of the second one, its special ones included, length n.
    """

    second: tuple[bool, ...] = ()

    MARKS: ClassVar[tuple[str, ...]] = ("second",)
    BY_POSITION: ClassVar[tuple[str, ...]] = (*Encoding.BY_POSITION, *MARKS)

    @classmethod
    def join(cls, one: Encoding, other: Encoding) -> TwoTexts:
        """Put the encoding of a text behind that of another one."""
        shift = len(one.words)
        word_ids = list(one.word_ids)
        for word in other.word_ids:
            word_ids.append(word if word == NO_WORD else word + shift)
        return cls(
            input_ids=one.input_ids + other.input_ids,
            special=one.special + other.special,
            word_ids=tuple(word_ids),
            characters=one.characters + other.characters,
            segments=one.segments + other.segments,
            shared=one.shared + tuple((word + shift, owner + shift) for word, owner in other.shared),
            second=(False,) * len(one) + (True,) * len(other),
        )


class SimilarityModel(EmbeddingModel):
    """A transformer that gives the similarity of two texts' embeddings, (b, 1)."""

    marks = TwoTexts.MARKS
    no_attention = (
        "two texts are encoded apart from each other; input_x_gradient, integrated_gradients, occlusion, lime, shap "
        "and the other methods that look at gradients or perturbed texts explain their similarity"
    )

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        super().__init__(config, model)
        self.config.update({**label_maps(["similarity"]), "problem_type": "regression"})
        self.similarity = SIMILARITIES[getattr(config, "embedding", {}).get("similarity", "cosine")]

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, second: Tensor, **_inputs: Any
    ) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        # Looked up once for both texts, so that methods find their words in one place.
        words = self.get_input_embeddings()(input_ids)
        sides = []
        for side in (attention_mask.bool() & ~second, second):
            # The side's own tokens come first, in their order.
            order = (~side).long().argsort(dim=1, stable=True)[:, : int(side.sum(1).max())]
            mask = side.gather(1, order).long()
            moved = words.gather(1, order[..., None].expand(-1, -1, words.shape[-1]))
            states = self.model(inputs_embeds=moved, attention_mask=mask).last_hidden_state
            sides.append(self.pool(states, mask))
        return SequenceClassifierOutput(logits=self.similarity(*sides)[:, None])


class SimilarityPredictor(TransformerPredictor):
    """The similarity of two texts, whose embeddings one encoder gives, as a regression.

    `explearn.explain` takes a SentenceTransformer as it is. `SimilarityPredictor.around(model, tokenizer)` is for an
    encoder of transformers, by the mean of its states and their cosine.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> of = make_classifier()
        >>> pairs = explearn.SimilarityPredictor.around(of.model.base_model, of.tokenizer)
        >>> explearn.explain(pairs, ("a warm sequel", "a funny sequel"), "occlusion").words
        ('a', 'warm', 'sequel', 'a', 'funny', 'sequel')
    """

    wrapper = SimilarityModel
    compares_texts = True
    refuses: Mapping[Use, str] = {
        "windows": "two texts are not read window by window; cut them instead",
        "onnx": "compares two texts; expected a classifier of texts",
    }

    def encode_within(self, limit: int | None, texts: Sequence[PlainText]) -> list[Encoding]:
        ones = []
        others = []
        for number, text in enumerate(texts, start=1):
            if isinstance(text, str):
                raise DataError(f"text {number}: is one text; expected a pair, whose similarity is explained")
            ones.append(text[0])
            others.append(text[1])
        firsts = encode_texts(self.tokenizer, ones, limit)
        seconds = encode_texts(self.tokenizer, others, limit)
        return [TwoTexts.join(*pair) for pair in zip(firsts, seconds, strict=True)]

    def read_samples(self, *texts: str) -> list[Encoding]:
        # The similarity of a text with itself does not depend on the text.
        return self.read([(text, "another one") for text in texts])


# ---- what users have -------------------------------------------------------------------------------------------------


def embedding_predictor(classifier: Any, compute: ComputeOptions | None) -> Predictor | None:
    """Return a predictor for what gives sentence embeddings; None for anything else.

    Args:
        classifier: a SentenceTransformer; a SetFit model; or a SentenceTransformer and a fitted linear classifier of
            scikit-learn, as a pair.
        compute: where and how to compute. None: where the encoder is, in its precision.

    Raises:
        ModelError: it is built in another way, or gives other values.
    """
    if hasattr(classifier, "similarity_pairwise"):
        return _similarity(classifier, compute)
    if hasattr(classifier, "model_body"):  # of SetFit
        rows = classifier.predict_proba(list(SAMPLES), as_numpy=True)
        normalised = bool(getattr(classifier, "normalize_embeddings", False))
        return _headed(classifier.model_body, classifier.model_head, rows, compute, classifier.labels, normalised)
    if isinstance(classifier, tuple) and len(classifier) == 2 and hasattr(classifier[0], "similarity_pairwise"):
        embedder, head = classifier
        return _headed(embedder, head, head.predict_proba(embedder.encode(list(SAMPLES))), compute)
    return None


def _similarity(embedder: Any, compute: ComputeOptions | None) -> SimilarityPredictor:
    """Return a predictor for a SentenceTransformer."""
    name = str(embedder.similarity_fn_name)
    if name not in SIMILARITIES:
        raise ModelError(f"SentenceTransformer: its similarity is {name}; expected one of {', '.join(SIMILARITIES)}")
    model = _wrapped(SimilarityModel, embedder, {"similarity": name}, {})
    predictor = SimilarityPredictor(model, *_reading(embedder, compute))
    one, other = embedder.encode(list(SAMPLES), convert_to_tensor=True)
    expected = embedder.similarity_pairwise(one[None], other[None])
    _check_same(predictor, predictor.predict_logits(predictor.read([SAMPLES]))[:, 0], expected)
    return predictor


def _headed(
    embedder: Any,
    head: Any,
    expected: Any,
    compute: ComputeOptions | None,
    labels: Sequence[str] | None = None,
    normalised: bool = False,
) -> TransformerPredictor:
    """Return a predictor for a head on embeddings.

    Args:
        embedder: the SentenceTransformer.
        head: a linear classifier of scikit-learn, one for each label, or SetFit's own.
        expected: probabilities of SAMPLES, (2, C), or (2, C, 2) of labels that each apply or not.
        compute: where and how to compute.
        labels: names of the classes. None: the head's own.
        normalised: whether the head reads embeddings of length 1.
    """
    weight, bias, several = _linear_map(head)
    fields: dict[str, Any] = {"problem_type": "single_label_classification"}
    if several:
        fields["problem_type"] = "multi_label_classification"
    elif len(weight) == 1:
        weight, bias = torch.cat([-weight, weight]), torch.cat([-bias, bias])
        fields[ONE_OUTPUT] = True
    names: Any = labels or getattr(head, "classes_", ())
    if len(names) != len(weight):
        names = range(len(weight))
    facts = {"normalised": True} if normalised else {}
    model = _wrapped(HeadOnEmbeddings, embedder, facts, {**fields, **label_maps(map(str, names))})
    model.classifier.weight = nn.Parameter(weight.float())
    model.classifier.bias = nn.Parameter(bias.float())
    predictor = TransformerPredictor(model, *_reading(embedder, compute))
    predictor.refuses = {"onnx": "has a head on embeddings; expected a sequence classifier"}
    rows = torch.as_tensor(np.asarray(expected))
    if rows.dim() == 3:
        rows = rows[..., 1]
    _check_same(predictor, predictor.predict_proba(list(SAMPLES)), rows)
    return predictor


def _linear_map(head: Any) -> tuple[Tensor, Tensor, bool]:
    """Return a head's weights, (C, e), and bias, (C,), and whether its labels each apply or not."""
    if hasattr(head, "temperature"):  # SetFit's own
        scale = head.temperature + head.eps
        rows = head.linear.weight.detach().cpu()
        bias = torch.zeros(len(rows))
        if head.linear.bias is not None:
            bias = head.linear.bias.detach().cpu()
        return rows / scale, bias / scale, bool(head.multitarget)
    estimators = getattr(head, "estimators_", [head])
    if not all(hasattr(estimator, "coef_") for estimator in estimators):
        raise ModelError(
            f"classifier: a {type(head).__name__} is no linear head; explain a function of texts instead "
            "(explearn.FunctionPredictor)"
        )
    weight = np.concatenate([estimator.coef_ for estimator in estimators])
    intercepts = np.concatenate([estimator.intercept_ for estimator in estimators])
    return torch.from_numpy(weight), torch.from_numpy(intercepts), len(estimators) > 1


def _wrapped(kind: type[WrappedModel], embedder: Any, facts: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    """Return the model for a SentenceTransformer, whose encoder is shared.

    Args:
        kind: class of the model.
        embedder: the SentenceTransformer.
        facts: further entries of the configuration's field `embedding`.
        fields: other fields of the configuration.
    """
    first, *layers = embedder
    embedding: dict[str, Any] = {"dense": []}
    linear = []
    for layer in layers:
        name = type(layer).__name__
        if name == "Pooling":
            embedding["pooling"] = getattr(layer, "pooling_mode", None) or layer.get_pooling_mode_str()
        elif name == "Normalize":
            embedding["normalised"] = True
        elif name == "Dense":
            activation = type(layer.activation_function).__name__
            embedding["dense"].append(
                (layer.in_features, layer.out_features, layer.linear.bias is not None, activation)
            )
            linear.append(layer.linear)
        elif name != "Dropout":
            raise ModelError(f"SentenceTransformer: has a {name}; expected a transformer, pooling, dense layers")
    encoder = getattr(first, "auto_model", None)
    if encoder is None or embedding.get("pooling") not in READS:
        raise ModelError(
            f"SentenceTransformer: a {type(first).__name__} with pooling {embedding.get('pooling')!r}; expected a "
            f"transformer, and one of {', '.join(READS)}"
        )
    config = copy.deepcopy(encoder.config)
    config.update({**fields, "embedding": {**embedding, **facts}})
    model: Any = kind(config, encoder)
    for own, given in zip(linear, model.pool.dense[::2], strict=True):
        given.load_state_dict(own.state_dict())
    return model


def _reading(embedder: Any, compute: ComputeOptions | None) -> tuple[Any, ComputeOptions, str]:
    """Return the tokenizer, as the SentenceTransformer cuts texts, where to compute, and the name."""
    tokenizer = copy.deepcopy(embedder.tokenizer)
    if embedder.max_seq_length is not None:
        tokenizer.model_max_length = embedder.max_seq_length
    compute = compute or ComputeOptions(device=str(embedder.device), precision="saved")
    return tokenizer, compute, str(embedder[0].auto_model.name_or_path) or "the model"


def _check_same(predictor: TransformerPredictor, values: Any, expected: Tensor) -> None:
    """Raise ModelError unless a predictor gives the values of what it was made from."""
    computed = torch.from_numpy(values)
    wanted = expected.double().cpu()
    if computed.shape != wanted.shape or not same_logits(predictor, computed, wanted):
        raise ModelError(
            f"{predictor.name}: gives {wanted.tolist()} for {SAMPLES}, and its parts give {computed.tolist()}; "
            "expected no default prompt, whole vectors, and the softmax or sigmoid of a linear map; or a function of "
            "texts (explearn.FunctionPredictor)"
        )
