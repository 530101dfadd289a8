"""ExpNet: a small network that learns from rationales which attention patterns mark evidence.

Source: Mihaila (2026), "Learning to Explain: Supervised Token Attribution from Transformer Attention Patterns".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from explearn.core.arrays import Counts
from explearn.core.errors import DataError, ParamsError, UnsupportedError, located
from explearn.lens.features import ExampleFeatures, TokenFeatures, batch_features, encoder_sizes
from explearn.lens.listed_head import check_reads
from explearn.methods.base.explainer import About, Batch, BatchExplainer, BatchScores
from explearn.methods.base.learned import LearnedExplainer, TrainedState
from explearn.methods.base.task import TaskData, check_source
from explearn.methods.base.training import History, seeded, train_epochs
from explearn.methods.expnet.params import ExpNetParams
from explearn.predictors.predictor import transformer_of
from explearn.predictors.transformer import TransformerPredictor

HIDDEN = 16
"""Units of the hidden layer (section 3.3)."""

ALPHA = 0.6
"""Weight of evidence tokens in the focal loss; the others have 1 - alpha (section 3.4)."""

GAMMA = 2.0
"""Exponent of the focal loss, by which tokens that are classified well count less (section 3.4)."""

BATCH_TEXTS = 32
"""Texts in a step (section 3.4)."""


def focal_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the focal loss of each token, ExpNet eq. 3: -alpha_t (1 - p_t)^GAMMA log p_t (Lin et al., 2017).

    Args:
        logits: (tokens,), before the sigmoid.
        labels: (tokens,), 1 for evidence, else 0.
    """
    log_p = -nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    alpha_t = torch.where(labels > 0, ALPHA, 1 - ALPHA)
    return -alpha_t * (1 - log_p.exp()) ** GAMMA * log_p


def build_network(width: int) -> nn.Sequential:
    """Return ExpNet's network, Linear(width, 16) - ReLU - Linear(16, 1), with new weights."""
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))


class TokenExamples(NamedTuple):
    """Training tokens of several texts, concatenated.

    Attributes:
        features: float32, (tokens, width).
        labels: float32, (tokens,), 1 for every piece of a marked word.
        lengths: int64, (texts,), number of each text's tokens.
    """

    features: Tensor
    labels: Tensor
    lengths: Counts


class ExpNet(LearnedExplainer, BatchExplainer):
    """A small network that has learned from other tasks' marks to read the last layer's attention.

    Linear(width, 16) - ReLU - Linear(16, 1) - sigmoid over each sub-token's attention features.

    width is 2H for `full` (ExpNet eq. 1), H for `task_to_token` ([CLS] to token) and `token_to_task` (token to [CLS]),
    the hidden size for `hidden`, their sum for `hidden_and_attention` (Table 4). The class explained plays no part:
    scores say what a reader would mark as the evidence for the predicted label.

    Options: `ExpNetParams`. The seed decides the initial weights and the order of the texts.
    """

    about = About(
        name="expnet",
        family="learned",
        cost="one forward pass",
        needs={"attentions", "training_rationales"},
        binarisation="threshold",
    )
    threshold = 0.5
    Options = ExpNetParams
    options: ExpNetParams
    weights_file = "expnet.safetensors"
    kept: ClassVar = {"encoder": dict[str, int], "trained_on": list[str], "history": History}

    network: nn.Sequential | None = None
    encoder: Mapping[str, int] = MappingProxyType({})
    trained_on: Sequence[str] = ()

    @property
    def needs_hidden(self) -> bool:
        return self.options.features in ("hidden", "hidden_and_attention")

    @property
    def encoder_keys(self) -> Sequence[str]:
        """Facts about the features' classifiers that are saved; others must have the same."""
        keys = ["layer", "layers", "heads"]
        if self.needs_hidden:
            keys.append("hidden_size")
        return keys

    # ---- training ------------------------------------------------------------------------------------------------

    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train on the other tasks' rationales, or the task's own, as option `protocol` says (ExpNet section 4.2).

        Args:
            task: the data to learn from.
            description: text of a progress bar. None: no bar.

        Raises:
            DataError: a task has no text to learn from, or its features were computed with another classifier.
            ParamsError: there is no other task with marks, or the tasks' features are of different architectures or
                layers.
            UnsupportedError: a classifier's head reads other tokens than those whose attention is taken.
        """
        tasks = [task]
        if self.options.protocol != "in_domain":
            tasks = [other for other in task.others if other.gold]
        if not tasks:
            raise ParamsError(
                f"leave_one_task_out needs another task than {task.name!r} with marks; add one to tasks, or use "
                "in_domain"
            )
        data = []
        first: dict[str, int] = {}
        for source_task in tasks:
            check_reads(transformer_of(source_task.classifier))
            split = source_task.rationale_split
            source, features = source_task.features(split, self.needs_hidden)
            check_source(source_task, source, split)
            facts = {**source, "layer": source["attended"][-1]}
            encoder = {key: int(facts[key]) for key in self.encoder_keys}
            first = first or encoder
            if encoder != first:
                raise ParamsError(
                    f"classifiers of {tasks[0].name!r} ({first}) and {source_task.name!r} ({encoder}) differ; expected "
                    "features of one architecture and layer"
                )
            labels = {example.id: example.label for example in source_task.examples(split)}
            with located(f"task {source_task.name!r}, split {split!r}: "):
                data.append(self.token_examples(features, source_task.gold, labels, encoder["heads"]))
        self._train(data, task.device, description)
        self.encoder = first
        self.trained_on = [source_task.name for source_task in tasks]
        return self

    def token_examples(
        self,
        features: Iterable[ExampleFeatures],
        masks: Mapping[str, Sequence[bool]],
        labels: Mapping[str, str],
        heads: int,
    ) -> TokenExamples:
        """Pair the last layer's features with rationales (ExpNet section 3.4).

        Args:
            features: features of any texts; texts without a rationale, and those that the classifier gets wrong, are
                left out.
            masks: example id -> word mask. Every piece of a marked word is evidence.
            labels: example id -> true label.
            heads: attention heads of a layer.

        Raises:
            DataError: no text remains.
        """
        parts = []
        marks = []
        for row in features:
            mask = masks.get(row.example_id)
            if mask is None or not len(row.word_ids) or row.predicted != labels[row.example_id]:
                continue
            evidence = np.asarray([*mask, False], dtype=np.float32)  # NO_WORD = -1 reads the last entry
            hidden = None if row.hidden is None else torch.from_numpy(row.hidden)
            parts.append(self._select(torch.from_numpy(row.attention[:, -2 * heads :]), hidden))
            marks.append(evidence[row.word_ids])
        if not parts:
            raise DataError("no text has both a rationale and a right prediction; ExpNet has nothing to learn from")
        lengths = np.array([len(part) for part in parts])
        return TokenExamples(torch.cat(parts), torch.from_numpy(np.concatenate(marks)), lengths)

    def _select(self, attention: Tensor, hidden: Tensor | None) -> Tensor:
        """Take the columns of this variant from (..., 2H) attention features and (..., d) hidden states."""
        heads = attention.shape[-1] // 2
        chosen = self.options.features
        if chosen == "full":
            return attention
        if chosen == "task_to_token":
            return attention[..., :heads]
        if chosen == "token_to_task":
            return attention[..., heads:]
        if hidden is None:
            raise DataError(
                f"features {chosen!r} need hidden states; run the stage features with attend.hidden_states=true"
            )
        if chosen == "hidden":
            return hidden
        return torch.cat([hidden, attention], dim=-1)

    def _train(self, data: Sequence[TokenExamples], device: torch.device, description: str | None) -> None:
        """Train on the texts of one or more tasks, pooled."""
        x = torch.cat([part.features for part in data]).to(device)
        y = torch.cat([part.labels for part in data]).to(device)
        lengths = np.concatenate([part.lengths for part in data])
        tokens = torch.split(torch.arange(len(x)), lengths.tolist())

        def batches() -> Sequence[Tensor]:
            return torch.split(torch.randperm(len(tokens)), BATCH_TEXTS)

        def batch_loss(texts: Tensor) -> Tensor:
            batch = torch.cat([tokens[text] for text in texts.tolist()]).to(device)
            return focal_loss(network(x[batch]).squeeze(-1), y[batch]).mean()

        with seeded(self.options.seed, device):
            network = build_network(x.shape[1]).to(device)
            optimizer = torch.optim.Adam(network.parameters(), lr=self.options.learning_rate)
            epochs = self.options.epochs
            course = train_epochs([network], optimizer, batches, batch_loss, epochs, description=description)
        self.history = course.history()
        self.network = network.cpu().requires_grad_(False)

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: TransformerPredictor) -> None:
        self._trained(self.network)
        check_reads(classifier)
        shape = encoder_sizes(classifier.model)
        for key in self.encoder_keys[1:]:
            if self.encoder[key] != shape[key]:
                raise UnsupportedError(
                    f"this ExpNet was trained on encoders with {self.encoder[key]} {key}, the classifier has "
                    f"{shape[key]}; train one on classifiers of this architecture"
                )

    @torch.inference_mode()
    def score_batch(self, classifier: TransformerPredictor, batch: Batch, targets: Tensor | None) -> BatchScores:
        assert self.network is not None
        self.network.to(classifier.device)
        features = batch_features(classifier, batch, [self.encoder["layer"]], self.needs_hidden)
        return BatchScores(self.score(features), features.logits, targets)

    def score(self, features: TokenFeatures) -> Tensor:
        """Return the probability that each position is evidence, (batch, tokens)."""
        assert self.network is not None
        inputs = self._select(features.attention, features.hidden).float()
        return cast(Tensor, self.network(inputs)).squeeze(-1).sigmoid()

    # ---- files ---------------------------------------------------------------------------------------------------

    def _restore(self, state: TrainedState) -> None:
        self.network = state.restore(lambda: build_network(state.size("0.weight", 1)))
