"""Training a classifier and its attention module together, on the task and on chosen criteria (IvRA 2.2, B, H)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from explearn.core.errors import ModelError
from explearn.core.examples import Example
from explearn.methods.base.training import BestWeights, descend, epoch_bar, seeded
from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import AttentionModule, ExplainedBatch, explain_batch
from explearn.methods.ivra.params import LEAST_TEXTS, SMaTParams
from explearn.methods.ivra.simulatability import SimulatabilityLoss
from explearn.predictors.batching import random_batches
from explearn.predictors.encoding import Batch
from explearn.predictors.heads.question_answering import QuestionPredictor
from explearn.predictors.transformer import TransformerPredictor

SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together, so that little is padding."""
WEIGHT_DECAY = 0.01
"""Of the classifier's weights (AdamW, Loshchilov and Hutter, 2017)."""
CHOICE_WEIGHT = 3.0
"""Weight of the loss that draws r to the words the prediction depends on, beside that of the shortened text."""
ROUNDING = 1e-9
"""Shares of texts that differ by less are equal."""

Measure = Callable[[], tuple[float, Mapping[str, float | None]]]
"""Validation: accuracy, and each criterion's metric, larger being better; None where it is undefined on the texts."""


class JointTrainer:
    """Trains `classifier.model` (a copy that may change) and `module` in place, and leaves both at their best epoch.

    Args:
        classifier: the copy to train.
        module: its attention module.
        examples: of the task loss and of comp, suff and cons.
        simulatability: the loss of criterion sim, if that is one.
        params: of the explainer; the seed is that of dropout.
        generator: what the order of texts and their shares are drawn from.
        class_weights: of the task loss, (C,), or None.
        measure: called before training and after each epoch, with both in evaluation mode.

    An epoch that leaves a criterion's metric undefined is never the best.
    """

    def __init__(
        self,
        classifier: TransformerPredictor,
        module: AttentionModule,
        examples: Sequence[Example],
        simulatability: SimulatabilityLoss | None,
        params: SMaTParams,
        generator: torch.Generator,
        class_weights: torch.Tensor | None,
        measure: Measure,
    ) -> None:
        self.classifier, self.module, self.examples, self.params = classifier, module, examples, params
        self.simulatability, self.generator = simulatability, generator
        self.class_weights, self.measure = class_weights, measure
        self.model = classifier.model
        self.lengths = [len(encoding) for encoding in classifier.encode(examples)]
        self.history: list[dict[str, Any]] = []
        self.step = 0
        self._best = BestWeights(self.model, module)
        self._best_score: tuple[float, float] | None = None

    # ---- the course of training ----------------------------------------------------------------------------------

    def run(self, description: str | None = None) -> list[dict[str, Any]]:
        """Train; return one entry an epoch, the first before training: losses by term, accuracy, criteria, best.

        Raises ModelError where a gradient is not finite.
        """
        schedule = self.params.schedule
        embeddings: Any = self.model
        self.model.requires_grad_(schedule.learning_rate > 0)
        embeddings.get_input_embeddings().weight.requires_grad_(False)
        learned = [p for p in self.model.parameters() if p.requires_grad]
        of_module = [p for p in self.module.parameters() if p.requires_grad]
        groups = [{"params": of_module, "lr": schedule.module_learning_rate, "weight_decay": 0.0}]
        if learned:
            groups.append({"params": learned, "lr": schedule.learning_rate, "weight_decay": WEIGHT_DECAY})
        optimiser = torch.optim.AdamW(groups)
        decay = torch.optim.lr_scheduler.ExponentialLR(optimiser, schedule.decay)
        try:
            with seeded(self.params.seed, self.classifier.device), torch.inference_mode(False), torch.enable_grad():
                self._end_epoch({})
                epochs = epoch_bar(schedule.epochs, description)
                for _ in epochs:
                    losses = self._epoch(optimiser, learned)
                    decay.step()
                    self._end_epoch(losses)
                    epochs.set_postfix(accuracy=f"{self.history[-1]['accuracy']:.3f}", **self.history[-1]["criteria"])
                self._best.restore()
        finally:
            # A classifier that is not trained is the user's own.
            self.model.requires_grad_(False).eval()
            self.module.requires_grad_(False).eval()
        return self.history

    def _epoch(self, optimiser: torch.optim.Optimizer, learned: list[nn.Parameter]) -> dict[str, float]:
        self.model.train()
        self.module.train()
        if self.simulatability is not None:
            self.simulatability.begin_epoch()
        # Consistency compares texts of all lengths; in sorted batches only like lengths would meet.
        cons = "cons" in self.params.criteria
        batches = random_batches(
            self.lengths,
            self.params.schedule.batch_size,
            self.generator,
            1 if cons else SORTED_BATCHES,
            most=self.params.schedule.max_texts,
            least=LEAST_TEXTS if cons else 1,
            mix_stretches=False,
        )
        totals: dict[str, list[float]] = defaultdict(list)

        def check_gradient(norm: torch.Tensor) -> None:
            slopes = [p.grad for p in self.module.parameters() if p.grad is not None]
            if not norm.isfinite() or not nn.utils.get_total_norm(slopes).isfinite():
                raise ModelError(
                    f"training diverged in step {self.step}: a gradient is not finite; lower the learning rates"
                )

        for rows in batches:
            self.step += 1
            terms = self.losses([self.examples[row] for row in rows])
            for name, term in terms.items():
                totals[name].append(float(term.detach()))
            descend(torch.stack(list(terms.values())).sum(), optimiser, learned, check_gradient)
        return {name: fmean(values) for name, values in totals.items()}

    def _end_epoch(self, losses: Mapping[str, float]) -> None:
        """Measure, add to the history, and keep the weights if they are the best so far."""
        self.model.eval()
        self.module.eval()
        with torch.no_grad():
            accuracy, criteria = self.measure()
        self.history.append({"losses": dict(losses), "accuracy": accuracy, "criteria": dict(criteria), "best": False})
        floor = self.history[0]["accuracy"] - self.params.schedule.accuracy_tolerance - ROUNDING
        if accuracy >= floor:
            score = (1.0, fmean(-math.inf if value is None else value for value in criteria.values()))
        else:
            score = (0.0, accuracy)
        if self._best_score is None or score > self._best_score:
            for entry in self.history:
                entry["best"] = entry is self.history[-1]
            self._best_score = score
            self._best.keep()

    # ---- the losses of one step ----------------------------------------------------------------------------------

    def losses(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        """Return the task loss and each criterion's, of one batch, with their graph."""
        criteria, classifier = self.params.criteria, self.classifier
        encodings, classes = classifier.encode_labelled(examples)
        batch, labels = classifier.batch(encodings), torch.tensor(classes, device=classifier.device)
        logits = None
        if isinstance(classifier, QuestionPredictor):
            logits = self._logits(batch.model_inputs())
            # Questions are explained with the model's own answer marked, which it gives without dropout.
            training = self.model.training
            self.model.eval()
            batch = classifier.batch(classifier.encode(examples))
            self.model.train(training)
        explained = explain_batch(classifier, self.module, batch, states="cons" in criteria)
        terms = {"task": classifier.loss(explained.logits if logits is None else logits, labels, self.class_weights)}
        if "comp" in criteria or "suff" in criteria:
            terms |= self._faithfulness(batch, explained)
        if "cons" in criteria:
            assert explained.states is not None
            # Explanations are compared word by word, as in the metric.
            r = objectives.WordIndex.of(batch).pool(explained.r)
            rank = self.params.consistency_loss == "rank"
            loss = objectives.rank_correlation_loss if rank else objectives.divergence_loss
            terms["cons"] = loss(r, explained.states)
        if self.simulatability is not None:
            terms["sim"] = self.simulatability()
        return terms

    def _faithfulness(self, batch: Batch, explained: ExplainedBatch) -> dict[str, torch.Tensor]:
        """The losses of comp and suff; each text draws the share of its words that is taken out or kept."""
        shares = torch.randint(len(objectives.PERCENTS), (len(batch),), generator=self.generator).tolist()
        # The whole text is the measure of the shortened one; it is left to the task loss.
        whole = self.classifier.softmax_logits(explained.logits.detach())
        predicted = whole.argmax(-1)
        reference = functional.cross_entropy(whole, predicted, reduction="none")
        words = objectives.WordIndex.of(batch)
        top = objectives.top_words(explained.r, words, [objectives.PERCENTS[share] for share in shares])
        terms: dict[str, torch.Tensor] = {}
        for criterion, closed, sign in (("comp", top, -1), ("suff", 1 - top, 1)):
            if criterion in self.params.criteria:
                shortened = functional.cross_entropy(self._gated(batch, 1 - closed), predicted, reduction="none")
                loss = objectives.margin_loss(sign * (shortened - reference), objectives.MARGINS[criterion])
                terms[criterion] = loss.mean() + self._choice(batch, words, explained.r, closed, predicted, loss)
        return terms

    def _choice(
        self,
        batch: Batch,
        words: objectives.WordIndex,
        r: torch.Tensor,
        closed: torch.Tensor,
        predicted: torch.Tensor,
        loss: torch.Tensor,
    ) -> torch.Tensor:
        """0, with a gradient that stands in for that of choosing words, in texts whose loss is above 0.

        What words are worth is taken at a random point of the straight way from the whole text to the shortened one,
        gates partly closed. The gated pass gives the model's weights no gradient; r, in whose graph they are, does.
        """
        way = torch.rand(len(r), 1, generator=self.generator).to(r.device)
        gate = (1 - way * closed).requires_grad_()
        odds = objectives.log_odds(self._gated(batch, gate, recount=False), predicted)
        (slope,) = torch.autograd.grad(odds.sum(), gate)
        term = (objectives.choice_loss(r, slope, words) * (loss.detach() > 0)).mean()
        return CHOICE_WEIGHT * (term - term.detach())

    def _gated(self, batch: Batch, gate: torch.Tensor, recount: bool = True) -> torch.Tensor:
        """Numbers whose softmax is the classes' probabilities, (b, C), of a text with some gates closed."""
        return self.classifier.softmax_logits(self._logits(objectives.gated_inputs(self.model, batch, gate, recount)))

    def _logits(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        with self.classifier.autocast():
            output: Any = self.model(**inputs)
        logits: torch.Tensor = output.logits.float()
        return logits
