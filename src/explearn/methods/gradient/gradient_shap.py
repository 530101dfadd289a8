"""GradientSHAP."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from explearn.core.validation import Rounds, Seeded
from explearn.lens.words import check_words
from explearn.methods.base.explainer import About, Explainer, TextScores
from explearn.methods.gradient.embedded import Baseline, EmbeddedClassifier, baseline_embeddings
from explearn.predictors.encoding import Encoding, text_seed
from explearn.predictors.predictor import Output
from explearn.predictors.transformer import TransformerPredictor


class GradientShap(Explainer):
    """Gradients at random points between an empty text and the text, averaged.

    GradientSHAP: mean over samples of (e_j - b_j) . d f / d e_j at b + a (e - b).

    e_j is the word embedding of sub-token j and b_j that of the baseline ([CLS], [SEP] and padding have their own in
    both), and a is uniform in [0, 1), drawn anew for each sample. Signed, and additive over pieces. Source: Lundberg
    and Lee (2017) for SHAP values, Erion et al. (2021) for the expectation; captum's GradientShap without noise, with
    the same draws.

    The expected scores sum to f(text) - f(baseline); `completeness_error` is the deviation of the samples from that.
    The draws are made text by text and depend only on the seed and the text.
    """

    about = About(
        name="gradient_shap",
        family="gradient",
        cost="one forward and backward pass a sample (25 samples)",
        needs={"gradients"},
        costly=True,
    )
    aggregation = "sum"
    signed = True

    class Options(Seeded):
        samples: Rounds = 25
        """Draws for each text."""
        baseline: Baseline = "pad"
        """The baseline of the text: the embedding of the `pad` or `mask` token, or `zero`."""
        output: Output = "logit"
        """The explained output: the target's `logit`, `probability` or `log_probability`."""

    check = staticmethod(check_words)

    def score_texts(
        self, classifier: TransformerPredictor, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        explained = []
        for number, encoding in enumerate(encodings):
            started = time.perf_counter()
            batch = classifier.batch([encoding])
            target = None
            if targets is not None:
                target = torch.tensor([targets[number]], device=classifier.device)
            function = EmbeddedClassifier(classifier, batch.model_inputs(), target, self.options.output)
            embeddings = function.embed()
            start = baseline_embeddings(classifier, batch, embeddings, self.options.baseline)
            with torch.no_grad():
                at_text, at_start = function(torch.cat([embeddings, start])).tolist()
            draws = np.random.RandomState(text_seed(self.options.seed, encoding)).uniform(size=self.options.samples)
            gradient = torch.zeros_like(embeddings)
            rows = max(1, classifier.max_tokens // len(encoding))
            for shares in torch.from_numpy(draws).to(embeddings).split(rows):
                points = (start + shares[:, None, None] * (embeddings - start)).requires_grad_()
                with torch.enable_grad():
                    (gradients,) = torch.autograd.grad(function(points).sum(), points)
                gradient += gradients.sum(0)
            scores = ((embeddings - start) * gradient / self.options.samples).sum(-1)[0].cpu()
            explained.append(
                TextScores(
                    scores=scores.numpy(),
                    logits=function.logits[0].cpu().numpy(),
                    target=int(function.targets),
                    seconds=time.perf_counter() - started,
                    completeness_error=abs(float(scores.sum()) - (at_text - at_start)),
                )
            )
        return explained
