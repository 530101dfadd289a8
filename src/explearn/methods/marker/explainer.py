"""Marker: one forward pass explains, by a small network that reads the attention of all layers.

The network learns from a consensus of many signals without a mark on the task, from that and a few marked texts, or
from marks alone. The published method is ExpNet (`explearn.methods.expnet.explainer`), from Mihaila (2026), "Learning
to Explain: Supervised Token Attribution from Transformer Attention Patterns".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from explearn.core.arrays import Array32, Counts
from explearn.core.errors import DataError
from explearn.lens.features import ExampleFeatures, batch_features
from explearn.lens.listed_head import check_reads
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores, Variant
from explearn.methods.base.learned import BoundExplainer, Calibration, LayerList, TrainedState
from explearn.methods.base.task import TaskData, check_source
from explearn.methods.base.training import History
from explearn.methods.marker.network import (
    WITH_MARKS,
    WITHOUT_MARKS,
    PooledWords,
    Regime,
    TrainingWords,
    WordNetwork,
    log_attention,
    pool_words,
    shift_in,
    train_network,
)
from explearn.methods.marker.params import MarkerParams
from explearn.methods.marker.targets import PSEUDO_SPLITS, Curriculum, curriculum_for
from explearn.predictors.predictor import transformer_of
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import NO_WORD

TEXT_OFFSET = 2**32
"""Offset that keeps the words of different texts of a batch apart."""


class Marker(BoundExplainer, BatchExplainer):
    """A small network that finds words to mark in the attention of all layers; the task needs no marks.

    For each word the largest log(A + 1e-5) over its pieces, for every head of every layer, from [CLS] to the word and
    from the word to [CLS]; standardised; Linear - ReLU - Linear; calibrated to the probability that a reader would mark
    the word. All pieces of a word have the word's score.
    The class explained plays no part: scores say what a reader would mark as the evidence for the predicted label.

    A trained Marker explains only the classifier that it was trained for.

    Options: `MarkerParams`. The seed decides the texts drawn, the initial weights, dropout and the order of the words.
    """

    about = About(
        name="marker",
        family="learned",
        cost="one forward pass",
        needs={"attentions", "training_rationales"},
        binarisation="expected_f1",
    )
    Options = MarkerParams
    options: MarkerParams
    variants = {  # noqa: RUF012
        "marker_few_shot": Variant(
            summary="Marker trained on a few marked texts of the task, and without marks on its others.",
            options={"protocol": "few_shot"},
        ),
        "marker_in_domain": Variant(
            summary="Marker trained on the task's own rationales.", options={"protocol": "in_domain"}
        ),
    }
    weights_file = "marker.safetensors"
    kept: ClassVar = {
        **BoundExplainer.kept,
        "layers": LayerList,
        "trained_on": list[str],
        "calibration": Calibration,
        "history": History,
    }

    network: WordNetwork | None = None
    layers: Sequence[int] = ()
    trained_on: Sequence[str] = ()
    calibration: Sequence[float] = (1.0, 0.0)

    @property
    def regime(self) -> Regime:
        return WITHOUT_MARKS if self.options.protocol == "universal" else WITH_MARKS

    # ---- training ------------------------------------------------------------------------------------------------

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train for a task's classifier, as option `protocol` says.

        Args:
            task: the data to learn from.
            description: text of a progress bar. None: no bar.

        Raises:
            UnsupportedError: the architecture's attention cannot be captured, or the head reads other tokens.
            ParamsError: there are other tasks, none of them with marks, under `universal` or `few_shot`.
            DataError: no text is marked where marks are needed; all words are marked, or none; the features were
                computed with another classifier.
        """
        check_reads(transformer_of(task.classifier))
        splits: Sequence[str] = PSEUDO_SPLITS
        if self.options.protocol == "in_domain":
            splits = (task.rationale_split,)
        rows = []
        for split in splits:
            source, features = task.features(split)
            check_source(task, source, split)
            rows.append(features)
        curriculum = curriculum_for(task, self.options)
        return self.fit_curriculum(curriculum, chain.from_iterable(rows), source, task.device, description)

    def fit_curriculum(
        self,
        curriculum: Curriculum,
        features: Iterable[ExampleFeatures],
        source: Mapping[str, Any],
        device: torch.device,
        description: str | None = None,
    ) -> Self:
        """Train on targets.

        Args:
            curriculum: the targets.
            features: features of its texts, perhaps with others.
            source: what they were computed with (`explearn.lens.features.feature_source`).
            device: device to train on.
            description: text of a progress bar. None: no bar.

        Raises:
            DataError: none of the texts has features, or all words have the same target.
        """
        words = training_words(features, curriculum)
        if words.targets.min() == words.targets.max():
            raise DataError(f"all {len(words.targets):,} training words have the same target; expected several")
        self.network, self.history = train_network(words, self.options, self.regime, device, description)
        self.layers = list(source["attended"])
        self.trained_classifier = str(source["classifier"])
        self.trained_on = list(curriculum.trained_on)
        self.calibration = list(curriculum.calibration)
        return self

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: TransformerPredictor) -> None:
        super().check(classifier)
        check_reads(classifier)

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        features = batch_features(classifier, batch, self.layers)
        owners = batch.word_ids().cpu().numpy()
        # Words of different texts are different words.
        owners = np.where(owners == NO_WORD, NO_WORD, owners + TEXT_OFFSET * np.arange(len(owners))[:, None])
        pooled = pool_words(features.attention.flatten(0, 1), owners.reshape(-1))
        probabilities = self._probabilities(pooled, pooled.owners // TEXT_OFFSET)
        # One more entry, which -1 reads: positions of no word have score 0.
        with_zero = torch.cat([probabilities, probabilities.new_zeros(1)])
        scores = with_zero[torch.from_numpy(pooled.rows).to(with_zero.device)]
        return BatchScores(scores.view(owners.shape), features.logits, targets)

    def _probabilities(self, pooled: PooledWords, texts: Counts) -> Tensor:
        """Return the probability that each word is evidence, (words,), for words of numbered `texts`, (words,)."""
        assert self.network is not None
        inputs = log_attention(pooled.values.float())
        self.network = self.network.to(inputs.device)
        slope, offset = self.calibration
        logits: Tensor = self.network(inputs, shift_in(torch.from_numpy(texts).to(inputs.device)))
        return (slope * logits + offset).sigmoid()

    def score_features(self, features: ExampleFeatures, words: int) -> Array32:
        """Score a text's words from its stored features, (words,); NaN for words that were not read.

        The scores are those of `explain`, except that stored attention is rounded to float16.

        Args:
            features: features from the classifier and the layers that it was trained for.
            words: number of the text's words.
        """
        pooled = pool_words(torch.from_numpy(features.attention), features.word_ids.astype(np.int64))
        scores = np.full(words, np.nan, dtype=np.float32)
        with torch.inference_mode():
            scores[pooled.owners] = self._probabilities(pooled, np.zeros_like(pooled.owners)).numpy()
        return scores

    # ---- files ---------------------------------------------------------------------------------------------------

    def _restore(self, state: TrainedState) -> None:
        size = state.size("offset")
        self.network = state.restore(lambda: WordNetwork(size, self.options.hidden, self.regime))


def training_words(features: Iterable[ExampleFeatures], curriculum: Curriculum) -> TrainingWords:
    """Pool the words of the texts that have targets; words that the classifier did not read are left out.

    Args:
        features: features of any texts, held one at a time.
        curriculum: the targets.

    Raises:
        DataError: no text remains.
    """
    inputs: list[Tensor] = []
    texts = []
    targets = []
    weights = []
    for row in features:
        text = curriculum.texts.get(row.example_id)
        if text is None or not len(row.word_ids):
            continue
        pooled = pool_words(torch.from_numpy(row.attention), row.word_ids.astype(np.int64))
        words = len(pooled.owners)
        texts.append(torch.full((words,), len(inputs)))
        inputs.append(log_attention(pooled.values))
        targets.append(torch.from_numpy(text.targets[pooled.owners]).float())
        weights.append(torch.full((words,), text.weight))
    if not inputs:
        raise DataError("none of the texts to learn from has features; expected one at least")
    weight = torch.cat(weights)
    return TrainingWords(torch.cat(inputs), torch.cat(texts), torch.cat(targets), weight / weight.mean())
