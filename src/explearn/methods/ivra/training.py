"""Training a classifier and its attention module together, on the task and on chosen criteria (IvRA 2.2, B, H)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from explearn.core.errors import DataError, ExplearnError, ModelError
from explearn.core.records import Example
from explearn.methods.base.training import BestWeights, descend, epoch_bar, seeded
from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import AttentionModule
from explearn.methods.ivra.forward import Explained, Labelled, explain_batch
from explearn.methods.ivra.params import SMaTParams
from explearn.methods.ivra.simulatability import Simulatability
from explearn.model.batching import random_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding
from explearn.model.question_answering import QuestionAnswerer

SORTED_BATCHES = 8
"""Batches' worth of texts that are sorted by length together, so that little is padding."""

Measure = Callable[[], tuple[float, Mapping[str, float | None]]]
"""Validation: accuracy, and each criterion's metric, larger being better; None where it is undefined on the texts."""

UNDEFINED = {
    "sim": "the classifier gives all of them one class, which can be predicted without any explanation",
    "cons": "the distances of their explanations, or of the model's states, do not differ",
    "comp": "none of them has a word",
    "suff": "none of them has a word",
}
"""Why a criterion's metric is undefined on some texts."""

ROUNDING = 1e-9
"""Shares of texts that differ by less are equal."""


class JointTrainer:
    """Trains `classifier.model` (a copy that may change) and `module` in place, and leaves both at their best epoch.

    Args:
        classifier: the copy to train.
        module: its attention module.
        train: texts of the task loss and of comp, suff and cons.
        pool: texts that the student of criterion sim learns from and is asked about; not used without it.
        untrained: for the student of kind encoder, the encoder before fine-tuning.
        params: of the explainer.
        class_weights: of the task loss, (C,), or None.
        measure: called before training and after each epoch, with both in evaluation mode.
        seed: of the order of texts, dropout, shares and student.

    An epoch that leaves a criterion's metric undefined is never the best.

    Raises DataError where the pool has too few texts for criterion sim.
    """

    def __init__(
        self,
        classifier: Classifier,
        module: AttentionModule,
        train: Labelled,
        pool: Labelled,
        untrained: nn.Module | None,
        params: SMaTParams,
        class_weights: torch.Tensor | None,
        measure: Measure,
        seed: int,
    ) -> None:
        self.classifier, self.module, self.train, self.params = classifier, module, train, params
        self.class_weights, self.measure, self.seed = class_weights, measure, seed
        self.model = classifier.model
        self.device = classifier.device
        self.generator = torch.Generator().manual_seed(seed)
        self.simulatability: Simulatability | None = None
        if "sim" in params.criteria:
            self.simulatability = Simulatability(
                classifier, module, pool, untrained, params.student, self.generator, seed
            )
        self.history: list[dict[str, Any]] = []
        self.best = BestWeights(self.model, module)
        self.best_score: tuple[float, float] | None = None
        self.step = 0
        self.last: tuple[list[str], list[str]] = [], []

    # ---- the course of training ----------------------------------------------------------------------------------

    def run(self, description: str | None = None) -> list[dict[str, Any]]:
        """Train; returns one entry an epoch, the first before training: losses by term, accuracy, criteria, best.

        Raises DataError where a criterion's metric is undefined before the first step, ModelError where a loss or a
        gradient is not finite, or training leaves what cannot be measured.
        """
        schedule = self.params.schedule
        embeddings: Any = self.model
        weights = [p for p in self.model.parameters()]
        for weight in weights:
            weight.requires_grad_(schedule.learning_rate > 0)
        if not schedule.train_embeddings:
            embeddings.get_input_embeddings().weight.requires_grad_(False)
        learned = [p for p in weights if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.module.parameters() if p.requires_grad], "lr": schedule.module_learning_rate}
        ]
        groups[0]["weight_decay"] = 0.0
        if learned:
            groups.append({"params": learned, "lr": schedule.learning_rate, "weight_decay": schedule.weight_decay})
        optimiser = torch.optim.AdamW(groups)
        decay = torch.optim.lr_scheduler.StepLR(optimiser, schedule.decay_every, schedule.decay)
        try:
            with seeded(self.seed, self.device), torch.inference_mode(False), torch.enable_grad():
                self._end_epoch({})
                epochs = epoch_bar(schedule.epochs, description)
                for _ in epochs:
                    losses = self._epoch(optimiser, learned)
                    decay.step()
                    self._end_epoch(losses)
                    epochs.set_postfix(accuracy=f"{self.history[-1]['accuracy']:.3f}", **self.history[-1]["criteria"])
                self.best.restore()
        finally:
            self.model.requires_grad_(False).eval()
            self.module.requires_grad_(False).eval()
        return self.history

    def _epoch(self, optimiser: torch.optim.Optimizer, learned: list[nn.Parameter]) -> dict[str, float]:
        self.model.train()
        self.module.train()
        if self.simulatability is not None:
            self.simulatability.new_student()
        totals: dict[str, list[float]] = defaultdict(list)
        for rows in self._training_batches():
            self.step += 1
            terms = self.losses(self.train.take(rows))
            ids = [self.train.encodings[i].example_id for i in rows]
            met = [] if self.simulatability is None else self.simulatability.met
            texts = {name: met if name == "sim" else ids for name in terms}
            objectives.check_finite(terms, self.step, texts)
            self.last = list(terms), [*ids, *texts.get("sim", ())]
            weights = {"task": 1.0, **self.params.weights.model_dump()}
            loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
            descend(loss, optimiser, learned, self._check_gradient)
            for name, term in terms.items():
                totals[name].append(float(term.detach()))
        return {name: fmean(values) for name, values in totals.items()}

    def _check_gradient(self, norm: torch.Tensor) -> None:
        slopes = [p.grad for p in self.module.parameters() if p.grad is not None]
        if not norm.isfinite() or not nn.utils.get_total_norm(slopes).isfinite():
            raise self._stopped("the gradient is not finite")

    def _stopped(self, why: str) -> ModelError:
        """The error of a training that diverged at this step."""
        terms, texts = self.last
        return ModelError(f"step {self.step}, losses {', '.join(terms)}: {why}; {objectives.divergence_advice(texts)}")

    def _training_batches(self) -> Iterator[list[int]]:
        schedule = self.params.schedule
        # Consistency compares texts of all lengths; in sorted batches only like lengths would meet.
        cons = "cons" in self.params.criteria
        stretch, least = (1, self.params.consistency.least_texts) if cons else (SORTED_BATCHES, 1)
        return random_batches(
            [len(encoding) for encoding in self.train.encodings],
            schedule.batch_size,
            self.generator,
            stretch,
            most=schedule.max_texts,
            least=least,
            mix_stretches=False,
        )

    def _end_epoch(self, losses: Mapping[str, float]) -> None:
        """Measure, add to the history, and keep the weights if they are the best so far."""
        self.model.eval()
        self.module.eval()
        try:
            with torch.no_grad():
                accuracy, criteria = self.measure()
        except ExplearnError as error:
            # Before the first step, training is not to blame.
            if not self.step:
                raise
            raise self._stopped(f"what it left cannot be measured ({error})") from error
        undefined = [name for name, value in criteria.items() if value is None]
        if undefined and not self.history:
            raise DataError(
                f"criterion {undefined[0]!r} is undefined on the validation texts that would choose the best epoch: "
                f"{UNDEFINED[undefined[0]]}"
            )
        self.history.append({"losses": dict(losses), "accuracy": accuracy, "criteria": dict(criteria), "best": False})
        floor = self.history[0]["accuracy"] - self.params.schedule.accuracy_tolerance - ROUNDING
        if accuracy >= floor:
            score = (1.0, fmean(-math.inf if value is None else value for value in criteria.values()))
        else:
            score = (0.0, accuracy)
        if self.best_score is not None and self.best_score >= score:
            return
        for entry in self.history:
            entry["best"] = entry is self.history[-1]
        self.best_score = score
        self.best.keep()

    # ---- the losses of one step ----------------------------------------------------------------------------------

    def losses(self, data: Labelled) -> dict[str, torch.Tensor]:
        """Task loss and each criterion's, of one batch, unweighted, with their graph."""
        criteria, classifier = self.params.criteria, self.classifier
        batch = classifier.batch(data.encodings)
        labels = torch.tensor(data.labels, device=self.device)
        logits = None
        if isinstance(classifier, QuestionAnswerer):
            logits = self._logits(batch.model_inputs())
            batch = classifier.batch(self._answered(data.examples))
        found = explain_batch(classifier, self.module, batch, states="cons" in criteria)
        predicted = found.logits.detach().argmax(-1)
        terms = {"task": classifier.loss(found.logits if logits is None else logits, labels, self.class_weights)}
        if "comp" in criteria or "suff" in criteria:
            terms |= self._faithfulness(batch, found, predicted)
        if "cons" in criteria:
            assert found.states is not None
            consistency = self.params.consistency
            # Explanations are compared word by word, as in the metric.
            r = objectives.Words.of(batch).pool(found.r)
            if consistency.loss == "kl":
                terms["cons"] = objectives.consistency_loss(r, found.states, consistency.epsilon)
            elif consistency.loss == "rank":
                terms["cons"] = objectives.rank_correlation_loss(r, found.states)
            elif consistency.loss == "correlation":
                terms["cons"] = objectives.correlation_loss(r, found.states)
            else:
                terms["cons"] = objectives.clustering_loss(r, predicted)
        if self.simulatability is not None:
            terms["sim"] = self.simulatability.loss()
        return terms

    def _answered(self, examples: Sequence[Example]) -> list[Encoding]:
        """Questions as they are explained, with the model's own answer marked, which it gives without dropout."""
        training = self.model.training
        self.model.eval()
        encodings = self.classifier.encode(examples)
        self.model.train(training)
        return encodings

    def _faithfulness(self, batch: Batch, found: Explained, predicted: torch.Tensor) -> dict[str, torch.Tensor]:
        params = self.params.faithfulness
        # Each text draws its own shares: a batch sees them all, whatever the number of passes.
        chances = torch.rand(len(predicted), len(params.percents), generator=self.generator)
        drawn = chances.argsort(1)[:, : params.each_step].tolist()
        # The whole text is the measure of the shortened one; it is left to the task loss.
        whole = self.classifier.softmax_logits(found.logits.detach())
        reference = functional.cross_entropy(whole, predicted, reduction="none")
        words = objectives.Words.of(batch)
        losses: dict[str, list[torch.Tensor]] = defaultdict(list)
        choices: dict[str, torch.Tensor] = {}
        for turn, shares in enumerate(zip(*drawn, strict=True)):
            top = objectives.top_words(found.r, words, [params.percents[i] for i in shares])
            for criterion in ("comp", "suff"):
                if criterion not in self.params.criteria:
                    continue
                closed = top if criterion == "comp" else 1 - top
                logits = self._gated(batch, 1 - closed)
                if criterion == "comp":
                    shortened = functional.cross_entropy(logits, predicted, reduction="none")
                    loss = objectives.comprehensiveness_loss(shortened, reference, params.comp_margin)
                else:
                    loss = objectives.sufficiency_loss(logits, whole, predicted, params.suff_margin, params.suff_loss)
                losses[criterion].append(loss.mean())
                if turn == 0:
                    choices[criterion] = self._choice(batch, words, found.r, closed, predicted, loss)
        return {name: torch.stack(values).mean() + choices[name] for name, values in losses.items()}

    def _choice(
        self,
        batch: Batch,
        words: objectives.Words,
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
        return self.params.faithfulness.choice_weight * (term - term.detach())

    def _gated(self, batch: Batch, gate: torch.Tensor, recount: bool = True) -> torch.Tensor:
        """Numbers whose softmax is the classes' probabilities, (b, C), of a text with some gates closed."""
        logits = self._logits(objectives.gated_inputs(self.model, batch, gate, recount))
        return self.classifier.softmax_logits(logits)

    def _logits(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        with self.classifier.autocast():
            output: Any = self.model(**inputs)
        logits: torch.Tensor = output.logits.float()
        return logits
