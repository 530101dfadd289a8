"""Training a classifier and its attention module together, on the task and on chosen criteria (IvRA 2.2, B, H)."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from tqdm.auto import tqdm

from explearn.core.errors import DataError, ExplearnError, ModelError
from explearn.core.records import Example
from explearn.data.alignment import NO_WORD
from explearn.introspection.capture import capture_attention
from explearn.introspection.gradients import content_mask
from explearn.methods.ivra import objectives
from explearn.methods.ivra.attention import AttentionModule
from explearn.methods.ivra.params import SMaTParams
from explearn.methods.ivra.simulation import BagStudent, EncoderStudent, Parameters, Student, pilot, simulation_loss
from explearn.models.classifier import Classifier, QuestionAnswerer
from explearn.models.encoding import Batch, Encoding

MAX_GRADIENT_NORM = 1.0
"""The classifier's gradients of a step are scaled down to this length, as in transformers' Trainer."""

SORTED_BATCHES = 8
"""Batches drawn together and sorted by length, so that little is padding."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Encoded texts with the indices of their true classes.

    examples: what was encoded; needed of questions, which are explained for the model's own answer, not the true one.
    """

    encodings: Sequence[Encoding]
    labels: Sequence[int]
    examples: Sequence[Example] = ()

    def __len__(self) -> int:
        return len(self.encodings)

    def take(self, rows: Sequence[int]) -> Labelled:
        examples = [self.examples[i] for i in rows] if self.examples else ()
        return Labelled([self.encodings[i] for i in rows], [self.labels[i] for i in rows], examples)


@dataclass(frozen=True, slots=True)
class Explained:
    """One forward pass with a graph: logits (b, C), r (b, n), and H (b, d) where it was asked for."""

    logits: torch.Tensor
    r: torch.Tensor
    states: torch.Tensor | None


def explain_batch(
    classifier: Classifier, module: AttentionModule, batch: Batch, states: bool = False, keep_graph: bool = True
) -> Explained:
    """Classify and explain a batch in one forward pass.

    H is the mean over all layers' outputs and all real tokens, as `representations.aggregate_states` takes it.
    """
    content = content_mask(batch)
    reduce, parts = module.reader(content)
    with classifier.autocast(), capture_attention(classifier.model, reduce, keep_graph=keep_graph):
        output: Any = classifier.model(**batch.model_inputs(), output_hidden_states=states)
    mean = None
    if states:
        layers = torch.stack(output.hidden_states[1:]).float().mean(0)
        real = batch.attention_mask[..., None].to(layers.dtype)
        mean = (layers * real).sum(1) / real.sum(1)
    return Explained(output.logits.float(), module.combine(parts, content), mean)


Measure = Callable[[], tuple[float, Mapping[str, float | None]]]
"""Validation: accuracy, and each criterion's metric, larger being better; None where it is undefined on the texts."""

UNDEFINED = {
    "sim": "the classifier gives all of them one class, which needs no explanation to be foretold",
    "cons": "the distances of their explanations, or of the model's states, do not differ",
    "comp": "none of them has a word",
    "suff": "none of them has a word",
}
"""Why a criterion's metric is so."""

ROUNDING = 1e-9
"""Shares of texts that differ by less are equal."""


class JointTrainer:
    """Trains `classifier.model` (a copy that may change) and `module` in place, and leaves both at their best epoch.

    Args:
        classifier: the copy to train.
        module: its attention module.
        train: texts of the task loss and of comp, suff and cons.
        pool: texts that the student learns from; empty without criterion sim. In each epoch it is shown the
            explanations of one half, and asked about the other.
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
        # A student has nothing to read in a text without pieces.
        self.pool = pool.take([i for i, encoding in enumerate(pool.encodings) if encoding.positions])
        if "sim" in params.criteria and len(self.pool) < 2:
            raise DataError(
                f"criterion 'sim': the student would learn from {len(self.pool)} texts; expected 2 or more, half to be "
                "shown and half to be asked about: raise student.share, or add validation texts"
            )
        self.class_weights, self.measure, self.seed = class_weights, measure, seed
        self.model = classifier.model
        self.device = classifier.device
        self.generator = torch.Generator().manual_seed(seed)
        self.history: list[dict[str, Any]] = []
        self.step = 0
        self.last: tuple[list[str], list[str]] = [], []
        self.untrained = untrained
        self.student: Student | None = None
        self.learned: Parameters = {}
        self.shown: Iterator[Labelled] = iter(())
        self.asked: Iterator[Labelled] = iter(())
        self.met: list[str] = []

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
        devices = [self.device] if self.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
                torch.manual_seed(self.seed)
                best = self._note({}, None)
                epochs = tqdm(
                    range(schedule.epochs), desc=description, unit="epoch", disable=None if description else True
                )
                for _ in epochs:
                    losses = self._epoch(optimiser, learned)
                    decay.step()
                    best = self._note(losses, best)
                    epochs.set_postfix(accuracy=f"{self.history[-1]['accuracy']:.3f}", **self.history[-1]["criteria"])
                self._restore(best)
        finally:
            self.model.requires_grad_(False).eval()
            self.module.requires_grad_(False).eval()
        return self.history

    def _epoch(self, optimiser: torch.optim.Optimizer, learned: list[nn.Parameter]) -> dict[str, float]:
        self.model.train()
        self.module.train()
        if "sim" in self.params.criteria:
            self._new_student()
        totals: dict[str, list[float]] = defaultdict(list)
        for rows in self._training_batches():
            self.step += 1
            terms = self.losses(self.train.take(rows))
            ids = [self.train.encodings[i].example_id for i in rows]
            texts = {name: self.met if name == "sim" else ids for name in terms}
            objectives.check_finite(terms, self.step, texts)
            self.last = list(terms), [*ids, *texts.get("sim", ())]
            weights = {"task": 1.0, **self.params.weights.model_dump()}
            loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            slopes = [p.grad for p in self.module.parameters() if p.grad is not None]
            norms = nn.utils.clip_grad_norm_(learned, MAX_GRADIENT_NORM), nn.utils.get_total_norm(slopes)
            if not all(norm.isfinite() for norm in norms):
                raise self._stopped("the gradient is not finite")
            optimiser.step()
            for name, term in terms.items():
                totals[name].append(float(term.detach()))
        return {name: fmean(values) for name, values in totals.items()}

    def _stopped(self, why: str) -> ModelError:
        """The error of a training that ran away at this step."""
        terms, texts = self.last
        return ModelError(f"step {self.step}, losses {', '.join(terms)}: {why}; {objectives.runaway(texts)}")

    def _training_batches(self) -> Iterator[list[int]]:
        schedule = self.params.schedule
        # Consistency compares texts of all lengths; in sorted batches only like lengths would meet.
        cons = "cons" in self.params.criteria
        together, least = (1, self.params.consistency.least_texts) if cons else (SORTED_BATCHES, 1)
        return self._batches(self.train, schedule.batch_size, schedule.max_texts, together, least)

    def _batches(
        self, data: Labelled, size: int, most: int | None = None, together: int = 1, least: int = 1
    ) -> Iterator[list[int]]:
        """Random batches; `together` of them are drawn at once, and neighbours in length among these go together.

        Fewer than `least` texts that are left over go into the batch before.
        """
        order = torch.randperm(len(data), generator=self.generator)[:most].tolist()
        for drawn in _cut(order, together * size, least):
            batches = _cut(sorted(drawn, key=lambda i: len(data.encodings[i])), size, least)
            for index in torch.randperm(len(batches), generator=self.generator).tolist():
                yield batches[index]

    def _note(self, losses: Mapping[str, float], best: Any) -> Any:
        """Measure, add to the history, and return the better of this epoch and the best so far."""
        self.model.eval()
        self.module.eval()
        try:
            with torch.no_grad():
                accuracy, criteria = self.measure()
        except ExplearnError as error:
            # Before the first step it is no matter of training.
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
        if best is not None and best[0] >= score:
            return best
        for entry in self.history:
            entry["best"] = entry is self.history[-1]
        kept = {name: p.detach().clone() for name, p in self.model.named_parameters() if p.requires_grad}
        return score, kept, copy.deepcopy(self.module.state_dict())

    def _restore(self, best: Any) -> None:
        _, kept, module = best
        self.model.load_state_dict(kept, strict=False)
        self.module.load_state_dict(module)

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
        if "sim" in criteria:
            terms["sim"] = self._simulatability()
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
        whole = found.logits.detach()
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
        return self._logits(objectives.gated_inputs(self.model, batch, gate, recount))

    def _logits(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        with self.classifier.autocast():
            output: Any = self.model(**inputs)
        logits: torch.Tensor = output.logits.float()
        return logits

    # ---- simulatability ------------------------------------------------------------------------------------------

    def _new_student(self) -> None:
        """A student that knows nothing, since what explanations are worth shows while there is much to learn.

        In this epoch it is asked about one half of its texts, drawn anew, and never shown their explanations.
        """
        order = torch.randperm(len(self.pool), generator=self.generator).tolist()
        self.asked, self.shown = (self._rounds(self.pool.take(order[part::2])) for part in (1, 0))
        params = self.params.student
        if params.kind == "bag":
            embeddings: Any = self.model
            table = embeddings.get_input_embeddings().weight.detach().float().cpu()
            ids = [t for e in self.pool.encodings for t, w in zip(e.input_ids, e.word_ids, strict=True) if w != NO_WORD]
            classes = len(self.classifier.labels)
            self.student = BagStudent(table, torch.tensor(ids), classes, params.dimensions, self.seed)
        else:
            assert self.untrained is not None
            self.student = EncoderStudent(self.untrained, self.module)
            for parameter in self.student.attention.parameters():
                parameter.requires_grad_(True)
        self.student.to(self.device)
        self.learned = self.student.beginning(self.generator)

    def _simulatability(self) -> torch.Tensor:
        """Loss of a student after a pilot update on a batch, on another one.

        The student keeps the update for the epoch, or is forgotten after the step.
        """
        assert self.student is not None
        student, params = self.student, self.params.student
        texts = next(self.shown), next(self.asked)
        self.met = [e.example_id for data in texts for e in data.encodings]
        shown, asked = (self._explained(data) for data in texts)

        ahead = pilot(
            lambda parameters: simulation_loss(student, parameters, *shown, params.weight),
            self.learned,
            params.learning_rate,
            params.pilot_steps,
        )
        term = simulation_loss(student, ahead, *asked, params.asked_weight)
        if params.restart == "step":
            self.learned = student.beginning(self.generator)
        else:
            self.learned = {name: value.detach().requires_grad_() for name, value in ahead.items()}
        return term

    def _rounds(self, data: Labelled) -> Iterator[Labelled]:
        """Batches of like numbers of texts, round after round.

        They are not sorted by length: what was learned from short texts is asked about long ones, too.
        """
        batches = math.ceil(len(data) / self.params.student.batch_size)
        while True:
            yield from (data.take(rows) for rows in self._batches(data, math.ceil(len(data) / batches)))

    def _explained(self, data: Labelled) -> tuple[Batch, torch.Tensor, torch.Tensor]:
        """A batch of the student's texts, the classes given and the explanations, with their graph."""
        batch = self.classifier.batch(data.encodings)
        found = explain_batch(self.classifier, self.module, batch)
        return batch, found.logits.detach().argmax(-1), found.r


def _cut(rows: Sequence[int], size: int, least: int) -> list[list[int]]:
    """In pieces of `size`; fewer than `least` rows that are left over go into the piece before."""
    pieces = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    if len(pieces) > 1 and len(pieces[-1]) < least:
        pieces[-2:] = [pieces[-2] + pieces[-1]]
    return pieces
