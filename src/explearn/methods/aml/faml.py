"""fAML: the trained attribution model, fine-tuned anew on every text that is explained (AML, section 3.1)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Self, get_args

import numpy as np
import torch

from explearn.core.errors import ModelError, UnsupportedError
from explearn.core.records import Attribution
from explearn.lens.anatomy import dissect_encoder
from explearn.methods.aml.instance_training import Refined, refine
from explearn.methods.aml.paml import PAML, prediction_information
from explearn.methods.aml.params import FAMLParams, Metric
from explearn.methods.aml.target_metric import MapJudge, MetricOptions
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import RefiningExplainer
from explearn.methods.base.targets import Target
from explearn.methods.info import About
from explearn.model.architectures import architecture
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Text
from explearn.model.problems import ONE_CLASS


class FAML(RefiningExplainer, BatchExplainer):
    """pAML's model fine-tuned on each text; of its maps the one that is best on a metric, which it looks at.

    Attributions of G after some steps of AdamW on AML's loss of the text itself, from pAML's G.

    After each step the metric of interest is measured on the classifier, for G's map and for some maps beside the best
    one so far, and the best of all is kept; the first is pAML's. So this method looks at the metric while it explains:
    by that metric it is at least as good as pAML by construction. `notes` tells what it was judged by.

    The weights of the loss, the masking strategy and the embeddings of the prediction are those of the trained pAML and
    stay as they are.

    Options: `FAMLParams`. The seed decides the changes' first values, the maps tried and random masks.
    """

    about = About(
        name="faml",
        family="learned",
        cost="forward and backward passes of the classifier and of its own model for each step, and "
        "forward passes for the metric of every map it tries",
        needs=frozenset({"gradients"}),
        costly=True,
        uncounted=True,
        watches_metric=True,
        base="paml",
    )
    aggregation = "max"
    signed = False
    problems = ONE_CLASS
    passes = 4
    Options = FAMLParams
    options: FAMLParams

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.start: PAML | None = None
        self._seen: list[Refined] = []

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **options: Any) -> Self:
        explainer = cls(**options)
        explainer.start = PAML.from_pretrained(folder)
        return explainer

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metric of interest, then the others where they are measured."""
        first = self.options.metric
        return (first, *(name for name in get_args(Metric) if name != first and self.options.cross_metrics))

    def notes(self) -> dict[str, Any]:
        """Of the texts explained since the last call of `explain` or `explain_each`, as means over them.

        optimised_for: the metric of interest. steps, best_step: taken, and that of the map kept. metrics: names.
        judged: metric -> metric -> value, the first what the map was chosen by, the second what it is judged by.
        """
        if not self._seen:
            return {}
        names, judged = self.metrics, np.mean([found.judged for found in self._seen], axis=0).tolist()
        return {
            "optimised_for": self.options.metric,
            "steps": float(np.mean([found.steps for found in self._seen])),
            "best_step": float(np.mean([found.step for found in self._seen])),
            "judged": {by: dict(zip(names, row, strict=True)) for by, row in zip(names, judged, strict=True)},
        }

    def check(self, classifier: Classifier) -> None:
        if self.start is None:
            raise ModelError(
                "fAML starts from a trained pAML; get_explainer('faml', path=FOLDER OF A TRAINED PAML), "
                "or --explainer FOLDER on the command line"
            )
        self.start.any_classifier = self.any_classifier
        self.start.check(classifier)
        if self.options.scope != "full":
            assert self.start.model is not None
            try:
                dissect_encoder(self.start.model.backbone)
                if architecture(self.start.model.config).bias == "disentangled":
                    raise UnsupportedError("its maps for content may be those for distances")
            except UnsupportedError as error:
                raise UnsupportedError(
                    f"scope {self.options.scope!r} takes G's backbone apart, which is a "
                    f"{self.start.model.config.model_type!r} model; use scope 'full'"
                ) from error

    def explain_each(
        self,
        classifier: Classifier,
        texts: Iterable[Text],
        targets: Iterable[Target] | None = None,
        description: str | None = None,
        windows: int | None = None,
    ) -> Iterator[list[Attribution]]:
        self._seen = []
        return super().explain_each(classifier, texts, targets, description, windows)

    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        start = self.start
        assert start is not None and start.model is not None
        start.model.to(classifier.device)
        with torch.no_grad():
            logits = classifier.logits(batch)
        chosen = resolve_targets(logits, targets)
        judge = MapJudge(classifier, self.metrics, MetricOptions.of(self.options))
        # inference_mode(False) turns gradients on inside no_grad, too.
        with torch.inference_mode(False), torch.enable_grad():
            found = refine(
                start.model,
                classifier,
                start.bridge,
                batch.encodings,
                prediction_information(classifier, logits, chosen),
                chosen.tolist(),
                start.strategy,
                start.weights,
                judge,
                self.options,
                self.options.seed,
            )
        self._seen += found
        scores = torch.zeros(batch.input_ids.shape)
        for row, one in enumerate(found):
            scores[row, : len(one.scores)] = torch.from_numpy(one.scores)
        return BatchScores(scores, logits, chosen, unread=start.unread(batch.encodings))
