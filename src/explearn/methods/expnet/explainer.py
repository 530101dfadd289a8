"""ExpNet: one forward pass explains, by a small network that reads the attention of all layers.

The network learns from a consensus of many signals without a mark on the task, from that and a few marked texts, or
from marks alone. ExpNet as published is `explearn.methods.expnet.paper`, from Mihaila (2026), "Learning to Explain:
Supervised Token Attribution from Transformer Attention Patterns".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.errors import DataError, UnsupportedError
from explearn.lens.capture import layer_count
from explearn.lens.features import ExampleFeatures, batch_features
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import LearnedExplainer, TrainedState
from explearn.methods.base.task import TaskData, check_task
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.student import Student, Words, train_student
from explearn.methods.expnet.targets import Curriculum, Lesson, curriculum_for, splits_to_learn_from
from explearn.methods.expnet.words import (
    Input,
    Pooled,
    check_source,
    inputs_of,
    log_attention,
    pool_words,
    wanted_inputs,
)
from explearn.methods.info import About, Variant
from explearn.model.encoding import Batch, Encoding
from explearn.text.alignment import NO_WORD

if TYPE_CHECKING:
    from explearn.model.classifier import Classifier


WITH_MARKS: dict[str, Any] = {"input_dropout": 0.3, "dropout": 0.5, "reach": 1}
"""How ExpNet learns from marks of the task: marked texts are few, so that more of what it reads is dropped at random;
and people mark phrases, so that it reads more of the words beside."""

TEXT = 2**32
"""What parts the words of one text of a batch from those of the next."""


class ExpNet(LearnedExplainer, BatchExplainer):
    """A small network that finds in the attention of all layers what people would mark; the task needs no marks.

    For each word the largest log(A + 1e-5) over its pieces, for every head of every layer, from [CLS] to the word and
    from the word to [CLS]; standardised; Linear - ReLU - Linear; calibrated to the probability that a reader would mark
    the word. All pieces of a word have the word's score.
    The class explained plays no part: scores say what a reader would mark as the evidence for the predicted label.

    A trained one belongs to the classifier whose attention it has learned to read.

    Options: `ExpNetParams`. The seed decides the texts drawn, the initial weights, drop-out and the order of the words.
    """

    about = About(
        name="expnet",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"attentions", "training_rationales"}),
        binarisation="expected_f1",
    )
    aggregation = "max"
    signed = False
    Options = ExpNetParams
    options: ExpNetParams
    variants = {  # noqa: RUF012
        "expnet_few_shot": Variant(
            summary="ExpNet trained on a few marked texts of the task, and without marks on its others.",
            options={"protocol": "few_shot", **WITH_MARKS},
        ),
        "expnet_in_domain": Variant(
            summary="ExpNet trained on the task's own rationales.",
            options={"protocol": "in_domain", "aim": 0.0, **WITH_MARKS},
        ),
    }
    weights_file = "expnet.safetensors"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.student: Student | None = None
        self.encoder: dict[str, int] = {}
        self.inputs: list[Input] = []
        self._read: tuple[list[Input], list[int], list[int]] | None = None
        self.classifier = ""
        self.trained_on: list[str] = []
        self.calibration = (1.0, 0.0)
        self.losses: list[float] = []

    # ---- training ------------------------------------------------------------------------------------------------

    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train for a task's classifier, as option `protocol` says.

        Raises:
            UnsupportedError: an architecture whose attention cannot be captured.
            ParamsError: a layer that does not exist; `universal` or `few_shot` without another task.
            DataError: no marked text where marks are needed; texts whose words are all marked, or none; features of
                another classifier than the task's, or without the layers asked for.
        """
        check_task(task)
        layer_count(task.classifier.model)
        splits = splits_to_learn_from(task, self.options)
        found = {split: task.features(split) for split in splits}
        for split, (source, _) in found.items():
            check_source(task, source, split)
        source = found[splits[0]][0]
        if any(other["attended"] != source["attended"] for other, _ in found.values()):
            raise DataError(f"task {task.name!r}: its splits have features of other layers; run the stage attend again")
        wanted_inputs(source, self.options.layers, self.options.attention)  # a layer that is not there: say so at once
        taught = curriculum_for(task, self.options, self.options.seed)
        features = chain.from_iterable(rows for _, rows in found.values())
        return self.fit_curriculum(taught, features, source, task.device, description)

    def fit_curriculum(
        self,
        taught: Curriculum,
        features: Iterable[ExampleFeatures],
        source: Mapping[str, Any],
        device: torch.device | None = None,
        description: str | None = None,
    ) -> Self:
        """Train on lessons.

        Args:
            taught: what to learn. features: of the texts of its lessons, others among them. source: what they were
                taken from. device: as of `fit_words`.

        Raises as `fit` does.
        """
        inputs = wanted_inputs(source, self.options.layers, self.options.attention)
        words = training_words(features, source, inputs, taught.lessons)
        self.fit_words(words, inputs, source, taught.trained_on, device, description)
        self.calibration = taught.calibration
        return self

    def fit_words(
        self,
        words: Words,
        inputs: Sequence[Input],
        source: Mapping[str, Any],
        trained_on: Sequence[str] = (),
        device: torch.device | None = None,
        description: str | None = None,
    ) -> Self:
        """Train on words, whose targets are probabilities: the logits need no calibration.

        Args:
            words: what to learn from.
            inputs: what the columns of `words.inputs` are.
            source: what the features were taken from (`explearn.lens.features.feature_source`).
            trained_on: names of the tasks whose marks played a part, kept for the record.
            device: where to train (default: the CPU, which a network this small keeps busy enough).

        Raises DataError where no word, or every word, is evidence.
        """
        if not ((words.targets > 0.5).any() and (words.targets <= 0.5).any()):
            found = "no word is" if (words.targets <= 0.5).all() else "all words are"
            raise DataError(f"{found} evidence in the {len(words.targets):,} training words; expected some of them")
        device = device or torch.device("cpu")
        student, losses = train_student(words, self.options, self.options.seed, device, description)
        if self.options.select is not None and self.options.select < len(inputs):
            best = sorted(student.importance.argsort(descending=True)[: self.options.select].tolist())
            inputs = [inputs[column] for column in best]
            student, losses = train_student(words.only(best), self.options, self.options.seed, device, description)
        self.student, self.losses, self.inputs, self.calibration = student, losses, list(inputs), (1.0, 0.0)
        self.encoder = {"layers": int(source["layers"]), "heads": int(source["heads"])}
        self.classifier, self.trained_on = str(source["classifier"]), list(trained_on)
        return self

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Classifier) -> None:
        if self.student is None:
            raise self._untrained()
        found = {"layers": layer_count(classifier.model), "heads": int(classifier.model.config.num_attention_heads)}
        for key, value in found.items():
            if self.encoder[key] != value:
                raise UnsupportedError(
                    f"this ExpNet was trained on encoders with {self.encoder[key]} {key}, the classifier has {value}; "
                    "train one for this classifier"
                )
        if not self.any_classifier and classifier.fingerprint != self.classifier:
            raise UnsupportedError(
                "this ExpNet has learned to read another classifier's attention; train one for the classifier given"
            )

    @torch.inference_mode()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        assert self.student is not None
        layers, columns = self._reads()
        features = batch_features(classifier, batch, layers)
        texts, tokens, _ = features.attention.shape
        pooled = pool_words(features.attention.flatten(0, 1), _owners(batch.encodings, tokens))
        self.student = self.student.to(pooled.values.device)
        inputs = log_attention(_take(pooled.values, columns).float())
        slope, offset = self.calibration
        found = (slope * self.student(inputs, _texts(pooled, inputs.device)) + offset).sigmoid()
        # One more entry, which -1 reads: what is of no word has score 0.
        scores = torch.cat([found, found.new_zeros(1)])[torch.from_numpy(pooled.of).to(found.device)]
        return BatchScores(scores.view(texts, tokens), features.logits, resolve_targets(features.logits, targets))

    def _reads(self) -> tuple[list[int], list[int]]:
        """The layers that inputs are of, and where these stand among the features of those layers."""
        if self._read is None or self._read[0] is not self.inputs:
            layers = sorted({one.layer for one in self.inputs})
            self._read = self.inputs, layers, columns_of(self.inputs, layers, self.encoder["heads"])
        return self._read[1:]

    def score_features(self, features: ExampleFeatures, source: Mapping[str, Any], words: int) -> NDArray[np.float32]:
        """Scores of a text's words from its stored features, (words,); NaN for words that were not read.

        Those of `explain`, but that stored attention is rounded to float16.

        Args:
            features: of the classifier it was trained for. source: what they were taken from. words: of the text.
        """
        assert self.student is not None
        pooled = pool_words(torch.from_numpy(features.attention), features.word_ids.astype(np.int64))
        columns = columns_of(self.inputs, source["attended"], source["heads"])
        inputs = log_attention(_take(pooled.values, columns))
        slope, offset = self.calibration
        with torch.inference_mode():
            found = (slope * self.student(inputs, torch.zeros(len(inputs))) + offset).sigmoid()
        scores = np.full(words, np.nan, dtype=np.float32)
        scores[pooled.owners] = found.numpy()
        return scores

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        if self.student is None:
            raise self._untrained()
        return TrainedState(
            self.student.state_dict(),
            {
                "classifier": self.classifier,
                "encoder": self.encoder,
                "inputs": [[one.layer, one.kind, one.head] for one in self.inputs],
                "trained_on": self.trained_on,
                "calibration": list(self.calibration),
                "losses": self.losses,
            },
        )

    def _restore(self, state: TrainedState, folder: Path) -> None:
        self.classifier = str(state.record["classifier"])
        self.encoder = {key: int(state.record["encoder"][key]) for key in ("layers", "heads")}
        self.inputs = [Input(int(layer), kind, int(head)) for layer, kind, head in state.record["inputs"]]
        known = set(inputs_of(range(self.encoder["layers"]), self.encoder["heads"]))
        if unknown := sorted(set(self.inputs) - known):
            raise ValueError(f"inputs: {unknown[0]} is none that the encoder has")
        self.trained_on = list(state.record["trained_on"])
        slope, offset = state.record["calibration"]
        self.calibration = (float(slope), float(offset))
        self.losses = list(state.record["losses"])
        self.student = Student(len(self.inputs), self.options)
        self.student.load_state_dict(dict(state.tensors))
        self.student.freeze()


def _owners(encodings: Sequence[Encoding], tokens: int) -> NDArray[np.int64]:
    """The word of each position of a batch, (batch tokens,). Words of different texts are different words."""
    lengths = np.array([len(encoding) for encoding in encodings])
    ids = np.fromiter(chain.from_iterable(e.word_ids for e in encodings), np.int64, int(lengths.sum()))
    of_text = np.repeat(np.arange(len(encodings)) * TEXT, lengths)
    owners = np.full((len(encodings), tokens), NO_WORD, dtype=np.int64)
    owners[np.arange(tokens) < lengths[:, None]] = np.where(ids == NO_WORD, NO_WORD, ids + of_text)
    return owners.reshape(-1)


def _texts(pooled: Pooled, device: torch.device) -> torch.Tensor:
    """The number of each pooled word's text in its batch, (words,)."""
    return torch.from_numpy(pooled.owners // TEXT).to(device)


def columns_of(inputs: Sequence[Input], layers: Sequence[int], heads: int) -> list[int]:
    """Where inputs stand among the features of some layers."""
    place = {one: column for column, one in enumerate(inputs_of(layers, heads))}
    return [place[one] for one in inputs]


def _take(values: torch.Tensor, columns: Sequence[int]) -> torch.Tensor:
    """Some columns; all of them as they are, without a copy."""
    if list(columns) == list(range(values.shape[1])):
        return values
    return values[:, list(columns)]


def training_words(
    features: Iterable[ExampleFeatures],
    source: Mapping[str, Any],
    inputs: Sequence[Input],
    lessons: Mapping[str, Lesson],
) -> Words:
    """The words of the texts that there are lessons for, pooled over their pieces.

    Args:
        features: of any texts, one held at a time.
        source: what they were taken from.
        inputs: which of the numbers to take.
        lessons: example id -> targets and weight; those of words that the classifier did not read are left out.

    Raises DataError where no text remains.
    """
    columns = columns_of(inputs, source["attended"], source["heads"])
    parts: list[torch.Tensor] = []
    texts, targets, weights = [], [], []
    for row in features:
        lesson = lessons.get(row.example_id)
        if lesson is None or not len(row.word_ids):
            continue
        pooled = pool_words(torch.from_numpy(row.attention), row.word_ids.astype(np.int64))
        texts.append(torch.full((len(pooled.owners),), len(parts)))
        parts.append(log_attention(_take(pooled.values, columns)))
        targets.append(torch.from_numpy(lesson.targets[pooled.owners]).float())
        weights.append(torch.full((len(pooled.owners),), lesson.weight))
    if not parts:
        raise DataError("none of the texts to learn from has features; expected one at least")
    together = torch.cat(weights)
    return Words(torch.cat(parts), torch.cat(texts), torch.cat(targets), together / together.mean())
