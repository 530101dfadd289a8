"""Training a classifier and its attention module together, on the task and on chosen criteria (IvRA 2.2, B, H)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from explearn.core.errors import ModelError
from explearn.core.examples import Example
from explearn.methods.base.training import seeded, train_epochs
from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import AttentionModule, ExplainedBatch, explain_batch
from explearn.methods.ivra.params import LEAST_TEXTS, SMaTParams
from explearn.methods.ivra.simulatability import SimulatabilityLoss
from explearn.predictors.batching import random_batches
from explearn.predictors.encoding import Batch
from explearn.predictors.predictor import read_labelled
from explearn.predictors.transformer import TransformerPredictor

SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together, so that little is padding."""
WEIGHT_DECAY = 0.01
"""Of the classifier's weights (AdamW, Loshchilov and Hutter, 2017)."""
ROUNDING = 1e-9
"""Shares of texts that differ by less are equal."""

Validate = Callable[[], tuple[float, Mapping[str, float | None]]]
"""Validation: accuracy, and each criterion's metric, larger being better; None where it is undefined on the texts."""


@dataclass
class JointTrainer:
    """Trains `classifier.model` (a copy that may change) and `module` in place, and leaves both at their best epoch.

    An epoch that leaves a criterion's metric undefined is never the best.

    Attributes:
        classifier: the copy to train.
        module: its attention module.
        examples: texts of the task loss and of comp, suff and cons.
        simulatability: the loss of criterion sim, if that is one of the criteria.
        params: options of the explainer; the seed is that of dropout.
        generator: draws the order of texts and their shares.
        class_weights: of the task loss, (C,), or None.
        validate: called before training and after each epoch, with both in evaluation mode.
        history: an entry for each epoch, the first before training: losses by term, accuracy and criteria.
    """

    classifier: TransformerPredictor
    module: AttentionModule
    examples: Sequence[Example]
    simulatability: SimulatabilityLoss | None
    params: SMaTParams
    generator: torch.Generator
    class_weights: Tensor | None
    validate: Validate
    history: list[dict[str, Any]] = field(default_factory=list)
    _terms: dict[str, list[float]] = field(default_factory=dict)

    # ---- the course of training ----------------------------------------------------------------------------------

    def run(self, description: str | None = None) -> list[dict[str, Any]]:
        """Train.

        Args:
            description: text of a progress bar. None: no bar.

        Returns:
            The epochs, with these figures.

        Raises:
            ModelError: a gradient is not finite.
        """
        schedule = self.params.schedule
        model = self.classifier.model
        model.requires_grad_(self.params.own_model)
        embeddings: Any = model.get_input_embeddings()
        embeddings.weight.requires_grad_(False)
        model_parameters = [p for p in model.parameters() if p.requires_grad]
        module_parameters = [p for p in self.module.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": module_parameters, "lr": schedule.module_learning_rate, "weight_decay": 0.0},
            {"params": model_parameters, "lr": schedule.learning_rate, "weight_decay": WEIGHT_DECAY},
        ]
        optimizer = torch.optim.AdamW([group for group in groups if group["params"]])
        optimizer.register_step_pre_hook(self._check_gradients)
        decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, schedule.decay)

        def validate(epoch: int, _losses: list[float]) -> tuple[float, float]:
            if epoch:
                decay.step()
            return self._end_epoch()

        lengths = [len(encoding) for encoding in self.classifier.read(self.examples)]
        try:
            with seeded(self.params.seed, self.classifier.device), torch.inference_mode(False), torch.enable_grad():
                course = train_epochs(
                    [model, self.module],
                    optimizer,
                    lambda: self._batches(lengths),
                    self._batch_loss,
                    schedule.epochs,
                    clipped=model_parameters,
                    validate=validate,
                    validate_first=True,
                    description=description,
                )
        finally:
            # A classifier that is not trained is the user's own.
            model.requires_grad_(False).eval()
            self.module.requires_grad_(False).eval()
        return course.history(self.history)

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Start an epoch; return its batches, as indices of texts."""
        self._terms = defaultdict(list)
        if self.simulatability is not None:
            self.simulatability.begin_epoch()
        stretch = SORTED_BATCHES
        least = 1
        if "cons" in self.params.criteria:
            # Consistency compares texts of all lengths; in sorted batches only like lengths would meet.
            stretch = 1
            least = LEAST_TEXTS
        schedule = self.params.schedule
        return random_batches(
            lengths,
            schedule.batch_size,
            self.generator,
            stretch,
            most=schedule.max_texts,
            least=least,
            mix_stretches=False,
        )

    def _batch_loss(self, rows: list[int]) -> Tensor:
        terms = self.losses([self.examples[row] for row in rows])
        for name, term in terms.items():
            self._terms[name].append(float(term.detach()))
        return torch.stack(list(terms.values())).sum()

    def _check_gradients(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = chain.from_iterable(group["params"] for group in optimizer.param_groups)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not nn.utils.get_total_norm(gradients).isfinite():
            raise ModelError("training diverged: a gradient is not finite; lower the learning rates")

    def _end_epoch(self) -> tuple[float, float]:
        """Validate, and add to the history; return how good the epoch is: by its criteria if its accuracy suffices."""
        with torch.no_grad():
            accuracy, criteria = self.validate()
        losses = {name: fmean(values) for name, values in self._terms.items()}
        self.history.append({"losses": losses, "accuracy": accuracy, "criteria": dict(criteria)})
        if accuracy < self.history[0]["accuracy"] - self.params.schedule.accuracy_tolerance - ROUNDING:
            return 0.0, accuracy
        return 1.0, fmean(-math.inf if value is None else value for value in criteria.values())

    # ---- the losses of one step ----------------------------------------------------------------------------------

    def losses(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Return the task loss and each criterion's, of one batch, with their graph."""
        criteria = self.params.criteria
        classifier = self.classifier
        encodings, classes = read_labelled(classifier, examples)
        batch = classifier.batch(encodings)
        logits = None
        if classifier.marks_answers:
            logits = self._logits(batch.model_inputs())
            # Texts are explained with the model's own answer marked, which it gives without dropout.
            training = classifier.model.training
            classifier.model.eval()
            batch = classifier.batch(classifier.read(examples))
            classifier.model.train(training)
        explained = explain_batch(classifier, self.module, batch, states="cons" in criteria)
        if logits is None:
            logits = explained.logits
        labels = torch.tensor(classes, device=classifier.device)
        terms = {"task": classifier.loss(logits, labels, self.class_weights)}
        words = objectives.WordIndex.of(batch)
        if "comp" in criteria or "suff" in criteria:
            terms |= self._faithfulness(batch, words, explained)
        if "cons" in criteria:
            assert explained.states is not None
            loss = objectives.divergence_loss
            if self.params.consistency_loss == "rank":
                loss = objectives.rank_correlation_loss
            # Explanations are compared word by word, as in the metric.
            terms["cons"] = loss(words.pool(explained.r), explained.states)
        if self.simulatability is not None:
            terms["sim"] = self.simulatability()
        return terms

    def _faithfulness(self, batch: Batch, words: objectives.WordIndex, explained: ExplainedBatch) -> dict[str, Tensor]:
        """Return the losses of comp and suff; each text draws the share of its words that is taken out or kept."""
        shares = torch.randint(len(objectives.PERCENTS), (len(batch),), generator=self.generator).tolist()
        percents = [objectives.PERCENTS[share] for share in shares]
        top = objectives.top_words(explained.r, words, percents)
        # The whole text is the reference of the shortened one; it is left to the task loss.
        whole = self.classifier.problem.softmax_logits(explained.logits.detach())
        predicted = whole.argmax(-1)
        reference = functional.cross_entropy(whole, predicted, reduction="none")
        terms: dict[str, Tensor] = {}
        for criterion, closed, sign in (("comp", top, -1), ("suff", 1 - top, 1)):
            if criterion in self.params.criteria:
                shortened = functional.cross_entropy(self._gated(batch, 1 - closed), predicted, reduction="none")
                loss = objectives.margin_loss(sign * (shortened - reference), objectives.MARGINS[criterion])
                terms[criterion] = loss.mean()
                if not self.params.choice_weight:
                    continue
                # A word's effect is the slope at a random point of the straight line from the whole text to the
                # shortened one, gates partly closed. The gated pass gives the model's weights no gradient; r, in whose
                # graph they are, does.
                share = torch.rand(len(top), 1, generator=self.generator).to(top.device)
                gate = (1 - share * closed).requires_grad_()
                odds = objectives.log_odds(self._gated(batch, gate, recount=False), predicted)
                (slope,) = torch.autograd.grad(odds.sum(), gate)
                choice = (objectives.choice_loss(explained.r, slope, words) * (loss.detach() > 0)).mean()
                # 0, with a gradient that stands in for that of choosing words, in texts whose loss is above 0.
                terms[criterion] += self.params.choice_weight * (choice - choice.detach())
        return terms

    def _gated(self, batch: Batch, gate: Tensor, recount: bool = True) -> Tensor:
        """Return numbers whose softmax is the classes' probabilities, (b, C), of a text with some gates closed."""
        inputs = objectives.gated_inputs(self.classifier.model, batch, gate, recount)
        return self.classifier.problem.softmax_logits(self._logits(inputs))

    def _logits(self, inputs: Mapping[str, Any]) -> Tensor:
        with self.classifier.autocast():
            logits: Tensor = self.classifier.model(**inputs).logits.float()
        return logits
