"""The gradient at the word embeddings, by itself and times the embeddings, computed by captum."""

from __future__ import annotations

from torch import Tensor

from explearn.core.validation import Section
from explearn.lens.words import check_words
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores
from explearn.methods.gradient.embedded import EmbeddedClassifier
from explearn.predictors.predictor import Output
from explearn.predictors.transformer import TransformerPredictor


class Gradient(BatchExplainer):
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

    class Options(Section):
        output: Output = "logit"
        """The explained output: the target's `logit`, `probability` or `log_probability`."""

    check = staticmethod(check_words)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        from captum import attr  # takes a second, for its plots

        function = EmbeddedClassifier(classifier, batch.model_inputs(), targets, self.options.output)
        gradients = attr.Saliency(function).attribute(function.embed().requires_grad_(), abs=False)
        return BatchScores(gradients.norm(dim=-1), function.logits, function.targets)


class InputXGradient(BatchExplainer):
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
    Options = Gradient.Options

    check = staticmethod(check_words)

    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        from captum import attr

        function = EmbeddedClassifier(classifier, batch.model_inputs(), targets, self.options.output)
        products = attr.InputXGradient(function).attribute(function.embed().requires_grad_())
        return BatchScores(products.detach().sum(-1), function.logits, function.targets)
