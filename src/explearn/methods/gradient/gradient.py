"""The gradient at the word embeddings, by itself and times the embeddings, computed by captum."""

from __future__ import annotations

from torch import Tensor

from explearn.methods.base.explainer import About, Batch
from explearn.methods.gradient.embedded import EmbeddedClassifier, EmbeddingExplainer


class Gradient(EmbeddingExplainer):
    """Length of the gradient of the class's output at each word embedding.

    Gradient norm: || d f / d e_j ||_2 over features, with e_j the word embedding of sub-token j.

    The score says how much the output would change, not in which direction, and is never negative. Source: Simonyan et
    al. (2014), section 3, with the L2 norm in place of the maximum over colours; computed by captum's Saliency.
    """

    about = About(
        name="gradient",
        family="gradient",
        cost="one forward and one backward pass",
        needs={"gradients"},
    )

    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[Tensor, Tensor | None]:
        from captum import attr  # takes a second, for its plots

        gradients = attr.Saliency(function).attribute(function.embed().requires_grad_(), abs=False)
        return gradients.norm(dim=-1), None


class InputXGradient(EmbeddingExplainer):
    """Gradient of the class's output at each word embedding, times the embedding, summed.

    Input x gradient: sum over features of e_j * d f / d e_j, with e_j the word embedding of sub-token j.

    Signed, and additive over pieces. Source: Shrikumar et al. (2016); computed by captum's InputXGradient.
    """

    about = About(
        name="input_x_gradient",
        family="gradient",
        cost="one forward and one backward pass",
        needs={"gradients"},
    )
    aggregation = "sum"
    signed = True

    def attribute(self, function: EmbeddedClassifier, batch: Batch) -> tuple[Tensor, Tensor | None]:
        from captum import attr

        products = attr.InputXGradient(function).attribute(function.embed().requires_grad_())
        return products.detach().sum(-1), None
