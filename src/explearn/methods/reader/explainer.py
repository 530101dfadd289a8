"""Reader: one forward pass explains, by a small network that reads the hidden states of that pass.

It learns from the classifier's answers to texts without some of their words, or from another method's explanations.
The published method is L2E (`explearn.methods.l2e.explainer`), from Situ, Zukerman, Paris, Maruf, Haffari (2021),
"Learning to Explain: Generating Stable Explanations Fast".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from explearn.core.arrays import Array, Array32
from explearn.core.attribution_fields import top_words
from explearn.core.errors import DataError, ModelError
from explearn.core.examples import Example
from explearn.core.validation import Count, Number
from explearn.lens.representations import PIECES, read_states, spaced_layers, text_states
from explearn.methods.base.explainer import (
    About,
    Batch,
    BatchExplainer,
    BatchScores,
    Encoding,
    TextScores,
    Variant,
    resolve_targets,
)
from explearn.methods.base.learned import BoundExplainer, Calibration, TaskData, TrainedState
from explearn.methods.base.teachers import ANSWERS, check_lesson, members
from explearn.methods.base.training import History
from explearn.methods.marker.params import MarkerParams
from explearn.methods.marker.targets import WordTargets, curriculum_for
from explearn.methods.perturbation.random_words import random_answers, word_sums
from explearn.methods.reader.certificate import Certifier
from explearn.methods.reader.network import StateNetwork, TrainingText, train_network
from explearn.methods.reader.params import ReaderParams
from explearn.methods.reader.repair import passes_of, repaired
from explearn.predictors.answers import Answers
from explearn.predictors.batching import run_batches
from explearn.predictors.labelled import ONE_CLASS, Problem
from explearn.predictors.predictor import Predictor
from explearn.text.alignment import NO_WORD
from explearn.text.equal import split_texts

logger = logging.getLogger(__name__)

LEAST_TEXTS = 5
"""Fewest training texts of two words or more."""

ENOUGH_HELD_OUT = 40
"""Validation texts from which the certificate is learned without training texts. Where there are fewer, a fifth of the
training texts joins them."""

MOST_HELD_OUT = 400
"""Most texts held out from which the certificate is learned."""

LEAST_HELD_OUT = 20
"""Fewest texts held out from which a certificate is learned. From fewer, the 90 % bound would be the largest error."""


class ScoredBatch(NamedTuple):
    """A batch with the network's scores.

    Attributes:
        logits: (b, C).
        targets: (b,), the classes explained.
        scores: scores for these, (b, n).
        marks: each sub-token's part in the probability that its word is marked, (b, n).
        features: the certifier's inputs, (b, 6).
    """

    logits: Tensor
    targets: Tensor
    scores: Tensor
    marks: Tensor
    features: Tensor


class Reader(BoundExplainer, BatchExplainer):
    """A small network that reads the classifier's hidden states and says how its answer is made up of the words.

    Hidden states of four layers of the pass that classifies; standardised; Linear - ReLU - one Transformer block -
    Linear (`network.StateNetwork`): a score of every sub-token for every class. A word's score is the sum over its
    sub-tokens.

    Teacher `answers`: the classifier answers each training text 32 times with random words left out, and the scores of
    the remaining words are trained to add up to its answer (as in FastSHAP, Jethani et al. 2022, section 3, with a free
    constant in place of its constraint). Scores then are in the answer's unit: a word of .2 carries .2 of the
    probability. Another teacher: its scores of the predicted class are learned by least squares.

    With teacher `answers` and LEAST_HELD_OUT texts held out (validation texts, and training texts where these are few),
    each explanation has a certificate: a bound for the error of the top words that holds for nine texts in ten. With a
    `budget`, further answers correct the scores (`repair`), more of them where that bound is wide; these scores have no
    certificate.

    With `marked` the same network also learns from Marker's targets which words are marked, and `aim` chooses
    between the two questions, also after training. In between, both are divided by their sum of absolute scores.

    A trained Reader explains only the classifier that it was trained for.

    Options: `ReaderParams`. The seed decides the words left out, the initial weights, dropout and the order of
    the texts.
    """

    about = About(
        name="reader",
        family="learned",
        cost="one forward pass, and `budget` more",
        uncounted=True,
        later={"aim", "budget"},
    )
    aggregation = "sum"
    signed = True
    Options = ReaderParams
    options: ReaderParams
    variants: ClassVar = {
        "amortized_shap": Variant(
            summary="Reader that has learned Kernel SHAP's values of the training texts (after Yang et al., 2023).",
            options={"teacher": "kernel_shap"},
        )
    }
    weights_file = "reader.safetensors"
    kept: ClassVar = {
        **BoundExplainer.kept,
        "layers": list[Count],
        "signed": bool,
        "texts": Annotated[dict[Literal["training", "held_out"], int], Field(min_length=2)],
        "usual_bound": Number,
        "calibration": Calibration,
        "history": History,
    }

    def __init__(self, /, **options: Any) -> None:
        super().__init__(**options)
        members(self.options.teacher)
        self.network: StateNetwork | None = None
        self.certifier: Certifier | None = None
        self.layers: list[int] = []
        self.texts = {"training": 0, "held_out": 0}
        self.usual_bound = 0.0
        self.calibration = [1.0, 0.0]

    @property
    def needs_model(self) -> bool:  # type: ignore[override]
        """Whether it was trained on a model's hidden states, rather than for a function of texts."""
        return bool(self.layers)

    @property
    def output(self) -> Literal["", "probability"]:
        if self.options.teacher == ANSWERS and self.options.aim == 1:
            return "probability"
        return ""

    # ---- training ------------------------------------------------------------------------------------------------

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train for a task's classifier; labels play no part.

        Warns if the classifier predicts one class for all training texts.

        Args:
            task: the data to learn from.
            description: text of a progress bar. None: no bar.

        Raises:
            DataError: fewer than LEAST_TEXTS texts of two words or more; the classifier gives the same answer whatever
                is left out; a teacher's scores do not fit their text. With `marked`, what `Marker.learn` raises.
            ModelError: an answer of the classifier is not finite.
            UnsupportedError: the model does not return its hidden states.
        """
        classifier = task.classifier
        options = self.options
        self.layers = spaced_layers(classifier, options.layers)
        self.check_problem(classifier)
        training, held_out = self._split(task)
        marks: Mapping[str, WordTargets] = {}
        if options.marked is not None:
            curriculum = curriculum_for(task, MarkerParams(protocol=options.marked, seed=options.seed))
            marks = curriculum.texts
            self.calibration = list(curriculum.calibration)
        by_answers = options.teacher == ANSWERS
        if by_answers:
            texts = self._answered(classifier, training, marks, description)
        else:
            texts = self._taught(task, training, marks)
        self._warn_of_one_class(classifier, texts, description)
        self.network, self.history = train_network(texts, options, task.device, by_answers, description)
        self.trained_classifier = classifier.fingerprint
        self.certifier = Certifier(options.width)
        self.texts = {"training": len(texts), "held_out": 0}
        if by_answers and len(held_out) >= LEAST_HELD_OUT:
            held_out = held_out[:MOST_HELD_OUT]
            self.texts["held_out"] = len(held_out)
            self._certify(classifier, texts, held_out, description)
        return self

    def _split(self, task: TaskData) -> tuple[list[Example], list[Example]]:
        """Return the texts to train on and those to learn the certificate from."""
        training = self._shuffled(task, "train")[: self.options.max_texts]
        held_out = self._shuffled(task, "validation")
        if len(held_out) < ENOUGH_HELD_OUT:
            keeps = split_texts({text.id: text for text in training}, _all_but_a_fifth)
            held_out += [text for text in training if not keeps[text.id]]
            training = [text for text in training if keeps[text.id]]
        if len(training) < LEAST_TEXTS:
            raise DataError(
                f"task {task.name!r} has {len(training)} training texts of two words or more; expected {LEAST_TEXTS} "
                "at least"
            )
        return training, held_out

    def _shuffled(self, task: TaskData, split: str) -> list[Example]:
        """Return a split's texts of two words or more in random order."""
        examples = task.examples(split)
        encodings = task.classifier.read(examples)
        order = np.random.default_rng(self.options.seed).permutation(len(examples)).tolist()
        return [examples[i] for i in order if len(set(encodings[i].word_ids) - {NO_WORD}) > 1]

    def _answered(
        self,
        classifier: Predictor,
        examples: Sequence[Example],
        marks: Mapping[str, WordTargets],
        description: str | None,
    ) -> list[TrainingText]:
        """Return texts with the classifier's answers to random sets of their words."""
        encodings = classifier.read(examples)
        counts = [self.options.samples] * len(encodings)
        answered = random_answers(
            classifier, encodings, counts, self.options.seed, description, reuse=classifier.costs_money
        )
        texts = []
        for states, answer in zip(text_states(classifier, encodings, self.layers), answered, strict=True):
            # From words to sub-tokens, (K, tokens); special tokens, which have the last entry, are in no set.
            kept = np.pad(answer.kept, ((0, 0), (0, 1)))[:, answer.text.owners]
            marked = _marks_of_tokens(answer.text.encoding, marks)
            texts.append(TrainingText(states, kept, answer.answers.astype(np.float32), marked))
        return texts

    def _taught(
        self, task: TaskData, examples: Sequence[Example], marks: Mapping[str, WordTargets]
    ) -> list[TrainingText]:
        """Return texts with a teacher's scores of the class that it explained; each word is a set by itself."""
        teacher = self.options.teacher
        lessons = task.lessons(teacher)
        self.signed = lessons.signed
        by_id = {lesson.example_id: lesson for lesson in lessons.by_split.get("train", ())}
        chosen = [example for example in examples if example.id in by_id]
        if not chosen:
            raise DataError(f"teacher {teacher!r} explains no training text; expected some to learn from")
        for example in chosen:
            check_lesson(teacher, by_id[example.id], example)
        classifier = task.classifier
        encodings = classifier.read(chosen)
        texts = []
        for encoding, states in zip(encodings, text_states(classifier, encodings, self.layers), strict=True):
            lesson = by_id[encoding.example_id]
            owners = np.asarray(encoding.word_ids)
            words = np.unique(owners[owners != NO_WORD])
            values = np.full((len(words), len(classifier.labels)), np.nan, dtype=np.float32)
            values[:, classifier.label_index(lesson.target)] = lesson.weights[words]
            texts.append(TrainingText(states, words[:, None] == owners, values, _marks_of_tokens(encoding, marks)))
        return texts

    def _warn_of_one_class(self, classifier: Predictor, texts: Sequence[TrainingText], description: str | None) -> None:
        # The first set of words is the whole text; a teacher gives values for one class.
        classes = {int(np.nanargmax(text.values[0])) for text in texts}
        if classifier.problem in ONE_CLASS and len(classes) == 1:
            logger.warning(
                "%s: all %d training texts have the class %r, so scores of texts of other classes may mislead; texts "
                "of every class may help",
                description or self.name,
                len(texts),
                classifier.labels[classes.pop()],
            )

    @torch.inference_mode()
    def _certify(
        self,
        classifier: Predictor,
        texts: Sequence[TrainingText],
        held_out: Sequence[Example],
        description: str | None,
    ) -> None:
        """Learn where the training texts lie, and from texts held out how far scores can be relied on."""
        network, certifier = self._parts()
        units = []
        for text in texts:
            units.append(network(text.states[None], torch.ones(1, len(text.states), dtype=torch.bool)).units)
        certifier.fit_distance(torch.cat(units).double().numpy())
        encodings = classifier.read(held_out)
        # To the whole text, and to none of it.
        answered = random_answers(classifier, encodings, [2] * len(encodings), self.options.seed, description)

        def score(indices: list[int]) -> Iterator[tuple[Tensor, int, Array]]:
            batch = self._scored(classifier, classifier.batch([encodings[i] for i in indices]), None)
            scores = batch.scores.double().cpu().numpy()
            sums = [word_sums(row, answered[i].text) for i, row in zip(indices, scores, strict=True)]
            return zip(batch.features.float().cpu(), batch.targets.tolist(), sums, strict=True)

        scored = run_batches([len(encoding) for encoding in encodings], classifier, score)
        tops = [top_words(words) for _, _, words in scored]
        shortened = []
        for answer, top in zip(answered, tops, strict=True):
            shortened += answer.text.perturbed(~top[None], "delete")
        without_top = Answers(classifier).ask(shortened, gaps=True)
        errors: list[float] = []
        for answer, (_, target, words), top, remaining in zip(answered, scored, tops, without_top, strict=True):
            errors.append(abs(answer.answers[0, target] - remaining[target] - words[top].sum()))
        known = ~np.isnan(errors)
        features = torch.stack([row for row, _, _ in scored])[torch.from_numpy(known)]
        network.cpu()
        certifier.cpu().fit_texts(features, np.array(errors)[known])
        self.usual_bound = float(certifier(features)[:, 0].median())

    @property
    def certified(self) -> bool:
        """Whether its explanations have a certificate, which holds for scores of what the classifier uses."""
        return self.texts["held_out"] > 0 and self.options.aim == 1

    # ---- explaining ----------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[StateNetwork, Certifier]:
        return self._trained(self.network), self._trained(self.certifier)

    def _scored(self, classifier: Predictor, batch: Batch, targets: Tensor | None) -> ScoredBatch:
        network, certifier = self._parts()
        network.to(classifier.device)
        certifier.to(classifier.device)
        logits, states = read_states(classifier, batch, self.layers)
        chosen = resolve_targets(logits, targets)
        rows = torch.arange(len(batch), device=logits.device)
        output = network(states, batch.attention_mask.bool())
        scores = output.scores[rows, :, chosen]
        answers = logits if classifier.problem is Problem.REGRESSION else classifier.problem.probabilities(logits)
        word_ids = batch.word_ids()
        features = certifier.features(output.units, word_ids != NO_WORD, scores, answers[rows, chosen])
        return ScoredBatch(logits, chosen, scores, self.marked(output.marks, word_ids), features)

    @torch.inference_mode()
    def score_batch(self, classifier: Predictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        scored = self._scored(classifier, batch, targets)
        aim = scored.scores.new_full((len(batch), 1), self.options.aim)
        scores = aimed(scored.scores, scored.marks, aim)
        found = None
        if self.certified:
            _, certifier = self._parts()
            found = certifier(scored.features).tolist()
        return BatchScores(scores, scored.logits, scored.targets, certificates=found)

    def marked(self, logits: Tensor, word_ids: Tensor) -> Tensor:
        """Return each sub-token's part in the probability that its word is marked.

        The parts of a word add up to the mean of its sub-tokens' probabilities.

        Args:
            logits: logits of marks, (b, n).
            word_ids: (b, n), NO_WORD where there is no word.
        """
        slope, offset = self.calibration
        pieces = (word_ids[:, :, None] == word_ids[:, None, :]).sum(-1)
        return torch.where(word_ids != NO_WORD, (slope * logits + offset).sigmoid() / pieces, 0.0)

    def score_texts(
        self, classifier: Predictor, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        texts = super().score_texts(classifier, encodings, targets)
        budget = self.options.budget
        if not budget:
            return texts
        start = time.perf_counter()
        counts = [passes_of(text.certificate, self.usual_bound, budget) for text in texts]
        answered = random_answers(classifier, encodings, counts, self.options.seed)
        scores = [repaired(text.scores, answer, text.target) for text, answer in zip(texts, answered, strict=True)]
        seconds = (time.perf_counter() - start) / sum(counts)
        corrected = []
        for text, row, count in zip(texts, scores, counts, strict=True):
            corrected.append(replace(text, scores=row, seconds=text.seconds + count * seconds, certificate=None))
        return corrected

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        network, certifier = self._parts()
        parts = torch.nn.ModuleDict({"network": network, "certifier": certifier})
        return TrainedState(parts.state_dict())

    def _restore(self, state: TrainedState) -> None:
        classes = state.size("network.head.bias")
        inputs = state.size("network.read.weight", 1)
        if not self.layers and inputs != PIECES:
            raise ModelError(f"layers: got none, for a network of {inputs} inputs; expected the layers that it reads")
        width = self.options.width

        def parts() -> torch.nn.ModuleDict:
            network = StateNetwork(inputs, classes, width)
            return torch.nn.ModuleDict({"network": network, "certifier": Certifier(width)})

        restored: Any = state.restore(parts)
        self.network = restored["network"]
        self.certifier = restored["certifier"]


def _all_but_a_fifth(texts: Sequence[str]) -> dict[str, bool]:
    """Return whether a text, by its id, is among the first four fifths."""
    cut = len(texts) - len(texts) // 5
    return {name: number < cut for number, name in enumerate(texts)}


def aimed(scores: Tensor, marks: Tensor, aim: Tensor) -> Tensor:
    """Mix scores of the class explained with how likely words are marked, as `aim` says.

    Args:
        scores: (b, n).
        marks: (b, n).
        aim: (b, 1), 1: the scores, 0: the marks, in between: both, each divided by its sum of absolute values.
    """
    word_scores = torch.where(marks > 0, scores, 0.0)
    mixed = aim * _to_unit_sum(word_scores) + (1 - aim) * _to_unit_sum(marks)
    return torch.where(aim == 1, scores, torch.where(aim == 0, marks, mixed))


def _to_unit_sum(scores: Tensor) -> Tensor:
    return scores / scores.abs().sum(-1, keepdim=True).clamp_min(1e-9)


def _marks_of_tokens(encoding: Encoding, marks: Mapping[str, WordTargets]) -> Array32:
    """Return how far each sub-token's word is evidence by the marks, (tokens,), NaN where unknown."""
    owners = np.asarray(encoding.word_ids)
    values = np.full(len(owners), np.nan, dtype=np.float32)
    text = marks.get(encoding.example_id)
    if text is not None:
        real = owners != NO_WORD
        values[real] = text.targets[owners[real]]
    return values
