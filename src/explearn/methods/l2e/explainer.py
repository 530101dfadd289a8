"""L2E: one forward pass explains, by a small network that reads the hidden states of that pass.

It learns from the classifier's own answers to texts without some of their words, or from another method's explanations.
L2E as published is `explearn.methods.l2e.paper`, from Situ, Zukerman, Paris, Maruf, Haffari (2021), "Learning to
Explain: Generating Stable Explanations Fast".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from explearn.core.certificate import certificates
from explearn.core.errors import DataError, ModelError
from explearn.core.examples import Example
from explearn.core.validation import Count, Number
from explearn.lens.representations import PIECES, read_states, spaced_layers, text_states
from explearn.methods.base.explainer import BatchExplainer, BatchScores, TextScores, resolve_targets
from explearn.methods.base.learned import BoundExplainer, Calibration, TrainedState
from explearn.methods.base.task import TaskData, check_task
from explearn.methods.base.teachers import ANSWERS, check_lesson, members
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.targets import WordTargets, curriculum_for
from explearn.methods.info import About
from explearn.methods.l2e.answers import ask, word_sums
from explearn.methods.l2e.certificate import Certifier, top_words
from explearn.methods.l2e.params import L2EParams
from explearn.methods.l2e.reader import Reader, TrainingText, train_reader
from explearn.methods.l2e.repair import passes_of, repaired
from explearn.methods.perturbation.method import outputs
from explearn.methods.perturbation.predictor import Predictor
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Batch, Encoding
from explearn.predictors.problems import ONE_CLASS, Problem
from explearn.text.alignment import NO_WORD

if TYPE_CHECKING:
    from explearn.predictors.transformer import TransformerPredictor

logger = logging.getLogger(__name__)

LEAST_TEXTS = 5
"""Texts of two words or more that training needs."""

ENOUGH_HELD_OUT, MOST_HELD_OUT = 40, 400
"""Texts that the certificate is learned from; where validation has fewer, a fifth of the training texts joins them."""

LEAST_HELD_OUT = 20
"""Fewest texts held out from which a certificate is learned. From fewer, the 90 % bound would be the largest error."""

HELD_OUT_ANSWERS = 32
"""Answers to each text held out."""


class _Read(NamedTuple):
    """A batch as it was read.

    logits: (b, C). targets: (b,), the classes explained. scores: of these, (b, n). marks: each sub-token's part in the
    probability that a person would mark its word, (b, n). features: what a certifier takes, (b, 6).
    """

    logits: torch.Tensor
    targets: torch.Tensor
    scores: torch.Tensor
    marks: torch.Tensor
    features: torch.Tensor


class L2E(BoundExplainer, BatchExplainer):
    """A small network that reads the classifier's hidden states and says how its answer is made up of the words.

    Hidden states of four layers of the pass that classifies; standardised; Linear - ReLU - one Transformer block -
    Linear (`reader.Reader`): a score of every sub-token for every class. A word's score is the sum over its
    sub-tokens.

    Teacher `answers`: the classifier answers each training text with random words left out, 32 times, and the scores of
    the words that were kept are to add up to its answer (as in FastSHAP, Jethani et al. 2022, section 3, with a free
    constant in place of its constraint). Scores then are in the answer's unit: a word of .2 carries .2 of the
    probability. Another teacher: its scores of the predicted class are learned by least squares.

    With teacher `answers` and LEAST_HELD_OUT texts held out (validation texts, and training texts where these are few),
    each explanation has a certificate: how well sums of scores agree with the classifier's answers, and a bound for the
    error of the top words that holds for nine texts in ten. With a `budget`, further answers correct the scores
    (`repair`), more of them where that bound is wide; corrected scores have no certificate.

    With `people` the same network learns from ExpNet's targets which words a person would mark, and `aim` chooses
    between the two questions, of a trained one, too. In between each is taken over the sum of its sizes in the text.

    A trained one belongs to the classifier whose states it has learned to read.

    Options: `L2EParams`. The seed decides the words left out, the initial weights, drop-out and the order of the texts.
    """

    about = About(
        name="l2e",
        family="learned",
        cost="one forward pass, and `budget` more",
        uncounted=True,
        later=frozenset({"aim", "budget"}),
    )
    aggregation = "sum"
    signed = True
    needs_model = False  # until it has been trained on a model's hidden states
    Options = L2EParams
    options: L2EParams
    weights_file = "reader.safetensors"
    kept: ClassVar = {
        "layers": list[Count],
        "signed": bool,
        "texts": Annotated[dict[Literal["training", "held_out"], int], Field(min_length=2)],
        "usual_bound": Number,
        "calibration": Calibration,
        "losses": list[Number],
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        members(self.options.teacher)
        self.reader: Reader | None = None
        self.certifier: Certifier | None = None
        self.layers: list[int] = []
        self.texts = {"training": 0, "held_out": 0}
        self.usual_bound = 0.0
        self.calibration = [1.0, 0.0]
        self.losses: list[float] = []

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train for a task's classifier; labels play no part.

        Raises:
            DataError: fewer than LEAST_TEXTS texts of two words or more; a classifier that answers all alike; a lesson
                of a teacher that does not fit its text.
            ModelError: a classifier that gives an answer which is not finite.
            UnsupportedError: a model that does not give its hidden states.

        With `people` it also raises what `ExpNet.fit` does. Warns if the classifier gives all training texts one class.
        """
        check_task(task)
        self.needs_model = task.classifier.has_model
        self.check_problem(task.classifier)
        training, held_out = (self._texts(task, split) for split in ("train", "validation"))
        training = training[: self.options.max_texts]
        if len(held_out) < ENOUGH_HELD_OUT:
            cut = len(training) - len(training) // 5
            training, held_out = training[:cut], [*held_out, *training[cut:]]
        if len(training) < LEAST_TEXTS:
            raise DataError(
                f"task {task.name!r} has {len(training)} training texts of two words or more; expected {LEAST_TEXTS} "
                "at least"
            )
        classifier = task.classifier
        self.layers = spaced_layers(classifier, self.options.layers)
        by_answers = self.options.teacher == ANSWERS
        marks: Mapping[str, WordTargets] = {}
        if self.options.people is not None:
            curriculum = curriculum_for(task, ExpNetParams(protocol=self.options.people, seed=self.options.seed))
            marks, self.calibration = curriculum.texts, list(curriculum.calibration)
        if by_answers:
            texts = self._answered(classifier, training, marks, description)
        else:
            texts = self._taught(task, training, marks)
        # The first row of an answer is for the whole text; a teacher gives values for one class.
        classes = {int(np.nanargmax(text.values[0])) for text in texts}
        if classifier.problem in ONE_CLASS and len(classes) == 1:
            logger.warning(
                "%s: all %d training texts have the class %r, so scores of texts of other classes may mislead; texts "
                "of every class may help",
                description or self.name,
                len(texts),
                classifier.labels[classes.pop()],
            )
        self.reader, self.losses = train_reader(texts, self.options, task.device, by_answers, description)
        self.trained_classifier = classifier.fingerprint
        self.certifier = Certifier(self.options.width)
        held_out = held_out[:MOST_HELD_OUT] if by_answers and len(held_out) >= LEAST_HELD_OUT else []
        self.texts = {"training": len(texts), "held_out": len(held_out)}
        if held_out:
            self._certify(classifier, texts, held_out, description)
        return self

    def _texts(self, task: TaskData, split: str) -> list[Example]:
        examples = task.examples(split)
        encodings = task.classifier.encode(examples)
        order = np.random.default_rng(self.options.seed).permutation(len(examples)).tolist()
        return [examples[i] for i in order if len(set(encodings[i].word_ids) - {NO_WORD}) > 1]

    def _answered(
        self,
        classifier: TransformerPredictor,
        examples: Sequence[Example],
        marks: Mapping[str, WordTargets],
        description: str | None,
    ) -> list[TrainingText]:
        encodings = classifier.encode(examples)
        counts = [self.options.samples] * len(encodings)
        answered = ask(classifier, encodings, counts, self.options.seed, description)
        return [
            TrainingText(
                states,
                # The words that were kept over their sub-tokens, (K, tokens); special tokens have no part.
                np.pad(one.kept, ((0, 0), (0, 1)))[:, one.text.owners],
                one.answers.astype(np.float32),
                _marks(one.text.encoding, marks),
            )
            for states, one in zip(text_states(classifier, encodings, self.layers), answered, strict=True)
        ]

    def _taught(
        self, task: TaskData, examples: Sequence[Example], marks: Mapping[str, WordTargets]
    ) -> list[TrainingText]:
        """Take a teacher's scores of the class that it explained: each set of words kept is a single word."""
        lessons_of_teacher = task.lessons(self.options.teacher)
        self.signed = lessons_of_teacher.signed
        of_teacher = {one.example_id: one for one in lessons_of_teacher.by_split.get("train", ())}
        chosen = [example for example in examples if example.id in of_teacher]
        for example in chosen:
            check_lesson(self.options.teacher, of_teacher[example.id], example)
        encodings = task.classifier.encode(chosen)
        texts = []
        for encoding, states in zip(encodings, text_states(task.classifier, encodings, self.layers), strict=True):
            lesson, owners = of_teacher[str(encoding.example_id)], np.asarray(encoding.word_ids)
            words = np.unique(owners[owners != NO_WORD])
            values = np.full((len(words), len(task.classifier.labels)), np.nan, dtype=np.float32)
            values[:, task.classifier.label_index(lesson.target)] = lesson.weights[words]
            texts.append(TrainingText(states, words[:, None] == owners, values, _marks(encoding, marks)))
        if not texts:
            raise DataError(f"teacher {self.options.teacher!r} explains no training text; expected some to learn from")
        return texts

    @torch.inference_mode()
    def _certify(
        self,
        classifier: TransformerPredictor,
        texts: Sequence[TrainingText],
        examples: Sequence[Example],
        description: str | None,
    ) -> None:
        """Learn where the training texts lie, and from texts held out how far scores can be relied on."""
        reader, certifier = self._parts()
        units = [reader(one.states[None], torch.ones(1, len(one.states), dtype=torch.bool)).units for one in texts]
        certifier.fit_distance(torch.cat(units).double().numpy())
        encodings = classifier.encode(examples)
        # Another draw than a repair's, which would know these answers.
        counts = [HELD_OUT_ANSWERS] * len(encodings)
        answered = ask(classifier, encodings, counts, self.options.seed + 1, description)

        def score(indices: list[int]) -> Iterator[tuple[torch.Tensor, int, NDArray[np.float64]]]:
            read = self._read(classifier, classifier.batch([encodings[i] for i in indices]), None)
            sums = (
                word_sums(row, answered[i].text)
                for i, row in zip(indices, read.scores.double().cpu().numpy(), strict=True)
            )
            return zip(read.features.float().cpu(), read.targets.tolist(), sums, strict=True)

        scored = run_batches([len(e) for e in encodings], classifier, score)
        tops = [top_words(words) for _, _, words in scored]
        shortened = [one.text.perturbed(~top[None], "delete")[0] for one, top in zip(answered, tops, strict=True)]
        without = outputs(classifier, Predictor(classifier)(shortened), "probability")
        agreements, errors = [], []
        for one, (_, target, words), top, remaining in zip(answered, scored, tops, without, strict=True):
            answers = one.answers[:, target]
            sums = one.kept @ words
            constant = np.ptp(sums) < 1e-9 or np.ptp(answers) < 1e-9
            agreements.append(0.0 if constant else np.corrcoef(sums, answers)[0, 1])
            errors.append(abs(answers[0] - remaining[target] - words[top].sum()))
        of_texts = torch.stack([features for features, _, _ in scored])
        reader.cpu()
        certifier.cpu().fit_texts(of_texts, np.array(agreements), np.array(errors))
        self.usual_bound = float(certifier(of_texts)[:, 1].median())

    @property
    def certified(self) -> bool:
        """Return whether its explanations have a certificate: it holds for scores of what the classifier uses."""
        return self.texts["held_out"] > 0 and self.options.aim == 1

    # ---- explaining ----------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[Reader, Certifier]:
        return self._trained(self.reader), self._trained(self.certifier)

    def _read(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> _Read:
        reader, certifier = self._parts()
        reader.to(classifier.device)
        certifier.to(classifier.device)
        logits, states = read_states(classifier, batch, self.layers)
        chosen = resolve_targets(logits, targets)
        rows = torch.arange(len(batch), device=logits.device)
        read = reader(states, batch.attention_mask.bool())
        scores = read.scores[rows, :, chosen]
        answers = logits if classifier.problem is Problem.REGRESSION else classifier.probabilities(logits)
        word_ids = batch.word_ids()
        features = certifier.features(read.units, word_ids != NO_WORD, scores, answers[rows, chosen])
        return _Read(logits, chosen, scores, self.marked(read.marks, word_ids), features)

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        read = self._read(classifier, batch, targets)
        _, certifier = self._parts()
        known = certificates(certifier(read.features).tolist()) if self.certified else None
        aim = read.scores.new_full((len(batch), 1), self.options.aim)
        return BatchScores(aimed(read.scores, read.marks, aim), read.logits, read.targets, certificates=known)

    def marked(self, logits: torch.Tensor, word_ids: torch.Tensor) -> torch.Tensor:
        """Return each sub-token's part in the probability that a person would mark its word: it adds up to their mean.

        Args:
            logits: of people's marks, (b, n). word_ids: (b, n), NO_WORD where there is no word.
        """
        slope, offset = self.calibration
        pieces = (word_ids[:, :, None] == word_ids[:, None, :]).sum(-1)
        return torch.where(word_ids != NO_WORD, (slope * logits + offset).sigmoid() / pieces, 0.0)

    def score_texts(
        self, classifier: TransformerPredictor, encodings: Sequence[Encoding], targets: Sequence[int] | None
    ) -> list[TextScores]:
        read = super().score_texts(classifier, encodings, targets)
        if not self.options.budget:
            return read
        start = time.perf_counter()
        counts = [passes_of(one.certificate, self.usual_bound, self.options.budget) for one in read]
        answered = ask(classifier, encodings, counts, self.options.seed)
        scores = [repaired(one.scores, answer, one.target) for one, answer in zip(read, answered, strict=True)]
        seconds = (time.perf_counter() - start) / sum(counts)
        return [
            replace(one, scores=of_text, seconds=one.seconds + count * seconds, certificate=None)
            for one, of_text, count in zip(read, scores, counts, strict=True)
        ]

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        reader, certifier = self._parts()
        parts = torch.nn.ModuleDict({"reader": reader, "certifier": certifier})
        return TrainedState(parts.state_dict(), {"classifier": self.trained_classifier})

    def _restore(self, state: TrainedState, folder: Path) -> None:
        self.trained_classifier = state.value("classifier", str)
        self.needs_model = bool(self.layers)
        classes, inputs = state.size("reader.head.bias"), state.size("reader.read.weight", 1)
        if not self.layers and inputs != PIECES:
            raise ModelError(f"layers: got none, for a network of {inputs} inputs; expected the layers that it reads")
        width = self.options.width
        parts: Any = state.restore(
            lambda: torch.nn.ModuleDict({"reader": Reader(inputs, classes, width), "certifier": Certifier(width)})
        )
        self.reader, self.certifier = parts["reader"], parts["certifier"]


def aimed(scores: torch.Tensor, marks: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
    """Mix scores of the class explained with what people would mark, both (b, n), as `aim`, (b, 1), says."""
    of_words = torch.where(marks > 0, scores, 0.0)
    sizes = [part.abs().sum(-1, keepdim=True).clamp_min(1e-9) for part in (of_words, marks)]
    mixed = aim * of_words / sizes[0] + (1 - aim) * marks / sizes[1]
    return torch.where(aim == 1, scores, torch.where(aim == 0, marks, mixed))


def _marks(encoding: Encoding, marks: Mapping[str, WordTargets]) -> NDArray[np.float32]:
    """Return how far each sub-token's word is evidence for people, (tokens,), NaN where not known."""
    owners = np.asarray(encoding.word_ids)
    of_tokens = np.full(len(owners), np.nan, dtype=np.float32)
    if (known := marks.get(str(encoding.example_id))) is not None:
        of_tokens[owners != NO_WORD] = known.targets[owners[owners != NO_WORD]]
    return of_tokens
