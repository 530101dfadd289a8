"""DeepLIFT, computed by captum."""

from __future__ import annotations

import warnings

import torch
from captum import attr
from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR
from torch import Tensor, nn

from explearn.core.errors import UnsupportedError, first_line
from explearn.lens.words import check_words
from explearn.methods.base.explainer import About, Batch
from explearn.methods.gradient.embedded import (
    BaselineOptions,
    EmbeddedClassifier,
    EmbeddingExplainer,
    baseline_embeddings,
)
from explearn.predictors.problems import sharing_copy
from explearn.predictors.transformer import TransformerPredictor

STOPS = ("used more than once", "cannot register a hook")
"""Parts of captum's messages about an activation module that runs twice in a pass, or on input that no word affects."""


def rescale(function: EmbeddedClassifier, embeddings: Tensor, baseline: Tensor) -> Tensor:
    """Return DeepLIFT scores, (b, tokens), of word embeddings against a baseline, (b, tokens, d) each.

    One pass covers both: `function.values` then holds the values of the b texts, then those of the b baselines.
    """
    dtype = function.classifier.dtype
    if dtype not in (torch.bfloat16, torch.float16):
        dtype = embeddings.dtype
    # For a difference d, the quotient has a rounding error of precision / d, and the gradient in its place an error of
    # order d: they are equal at the square root.
    method = attr.DeepLift(function, eps=torch.finfo(dtype).eps ** 0.5)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Setting forward, backward hooks", category=UserWarning)
        products: Tensor = method.attribute(embeddings.detach().requires_grad_(), baseline)
    return products.detach().sum(-1)


def view_for_rescale(classifier: TransformerPredictor) -> TransformerPredictor:
    """Return a classifier with a copy of its model's modules, as captum puts hooks and attributes on those it rescales.

    If it rescales none, the classifier itself is returned.
    """
    if not _rescaled_modules(classifier.model):
        return classifier
    return classifier.with_model(sharing_copy(classifier.model))


def check_rescale(classifier: TransformerPredictor) -> None:
    """Check that captum can apply the rescale rule to a classifier.

    It fails at an activation module that runs more than once in a forward pass (a shared ReLU in ALBERT's one block),
    or on input that no word affects (MarkupLM's paths). At softmax modules its rule mixes the texts of a batch.

    Raises:
        UnsupportedError: captum cannot.
    """
    check_words(classifier)
    modules = _rescaled_modules(classifier.model)
    if any(type(module) is nn.Softmax for module in modules):
        raise UnsupportedError(
            "DeepLIFT: captum's rule for nn.Softmax modules mixes the texts of a batch; use integrated_gradients"
        )
    if not modules:
        return
    inputs = classifier.batch(classifier.read_samples("a")).model_inputs()
    function = EmbeddedClassifier(view_for_rescale(classifier), inputs, None, "logit")
    try:
        with torch.inference_mode(False), torch.enable_grad():
            embeddings = function.embed()
            rescale(function, embeddings, torch.zeros_like(embeddings))
    except RuntimeError as error:
        if not any(words in str(error) for words in STOPS):
            raise
        raise UnsupportedError(
            f"DeepLIFT: captum stops at an activation of this {classifier.model.config.model_type!r} model "
            f"({first_line(error)}); use integrated_gradients"
        ) from error


def _rescaled_modules(model: nn.Module) -> list[nn.Module]:
    """Return the modules that captum applies its rules to."""
    return [module for module in model.modules() if type(module) in SUPPORTED_NON_LINEAR]


class DeepLift(EmbeddingExplainer):
    """Differences from an empty text, passed back through the network by DeepLIFT's rescale rule.

    DeepLIFT's rescale rule: (e_j - b_j) . m_j, with multipliers m passed back from the output.

    e_j is the word embedding of sub-token j and b_j that of the baseline; [CLS], [SEP] and padding have the same in
    both and score 0. Signed, and additive over pieces. Source: Shrikumar et al. (2017), rescale rule; computed by
    captum's DeepLift.

    captum applies the rule, difference of outputs over difference of inputs, at modules of torch's own activation types
    (Tanh, ReLU, ...) and takes plain gradients elsewhere: at softmax, layer norms, products of attention, activations
    of transformers such as GELUActivation, and functions such as torch.tanh. In BERT and ALBERT only the pooler's Tanh
    gets the rule; in DistilBERT, RoBERTa and ELECTRA nothing does, and the scores are gradient x (text - baseline). So
    the scores do not sum to f(text) - f(baseline); `completeness_error` is the difference, which is not small.
    integrated_gradients does keep the sum.
    """

    about = About(
        name="deep_lift",
        family="gradient",
        cost="one forward and backward pass on twice the text",
        needs={"gradients"},
    )
    aggregation = "sum"
    signed = True
    passes = 2

    Options = BaselineOptions

    check = staticmethod(check_rescale)
    view = staticmethod(view_for_rescale)

    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[Tensor, Tensor]:
        embeddings = function.embed()
        baseline = baseline_embeddings(function.classifier, batch, embeddings, self.options.baseline)
        scores = rescale(function, embeddings, baseline)
        at_text, at_baseline = function.values.chunk(2)
        return scores, (scores.sum(-1) - (at_text - at_baseline)).abs()
