"""ExpNet as its paper has it: a small network that learns from rationales which attention patterns mark evidence.

Source: Mihaila (2026), "Learning to Explain: Supervised Token Attribution from Transformer Attention Patterns".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.lens.capture import layer_count
from explearn.lens.features import ExampleFeatures, TokenFeatures, batch_features
from explearn.methods.base.explainer import BatchExplainer, BatchScores, resolve_targets
from explearn.methods.base.learned import LearnedExplainer, TrainedState
from explearn.methods.base.task import TaskData, check_task
from explearn.methods.base.training import descend, epoch_bar
from explearn.methods.expnet.params import ExpNetPaperParams
from explearn.methods.expnet.words import check_source
from explearn.methods.info import About
from explearn.model.encoding import Batch

if TYPE_CHECKING:
    from explearn.model.classifier import Classifier

ENCODER_KEYS = ("layer", "layers", "heads", "hidden_size")
"""What is kept of the classifiers that the features come from."""


def focal_loss(logits: torch.Tensor, labels: torch.Tensor, alpha: float, gamma: float) -> torch.Tensor:
    """Focal loss of each token, ExpNet eq. 3: -alpha_t (1 - p_t)^gamma log p_t (Lin et al., 2017).

    Args:
        logits: (tokens,), before the sigmoid.
        labels: (tokens,), 1 for evidence, else 0.
        alpha: weight of evidence; the others weigh 1 - alpha.
    """
    log_p = -nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    alpha_t = torch.where(labels > 0, alpha, 1 - alpha)
    # A power below 1 has no gradient at 0.
    missed = (1 - log_p.exp()).clamp_min(torch.finfo(log_p.dtype).tiny)
    return -alpha_t * missed**gamma * log_p


def _last_layer(features: Iterable[ExampleFeatures], source: Mapping[str, Any]) -> Iterator[ExampleFeatures]:
    """The features of the last of the layers they hold alone."""
    width = 2 * int(source["heads"])
    return (replace(row, attention=row.attention[:, -width:]) for row in features)


@dataclass(frozen=True, slots=True)
class TokenExamples:
    """Training tokens of several texts, laid end to end.

    features: float32, (tokens, width). labels: float32, (tokens,), 1 for every piece of a marked word. starts: int64,
    (texts + 1,), where each text begins.
    """

    features: torch.Tensor
    labels: torch.Tensor
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


class ExpNetPaper(LearnedExplainer, BatchExplainer):
    """ExpNet as published: a small network that learned from other tasks' marks to read the last layer's attention.

    Linear(width, hidden) - ReLU - Linear(hidden, 1) - sigmoid over each sub-token's attention features.

    width is 2H for `full` (ExpNet eq. 1), H for `task_to_token` ([CLS] to token) and `token_to_task` (token to [CLS]),
    the hidden size for `hidden`, their sum for `hidden_and_attention` (Table 4). The class explained plays no part:
    scores say what a reader would mark as the evidence for the predicted label.

    Options: `ExpNetPaperParams`. The seed decides the initial weights and the order of the texts.
    """

    about = About(
        name="expnet_paper",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"attentions", "training_rationales"}),
        binarisation="threshold",
    )
    aggregation = "max"
    signed = False
    Options = ExpNetPaperParams
    options: ExpNetPaperParams
    weights_file = "expnet.safetensors"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.threshold = self.options.threshold
        self.network: nn.Sequential | None = None
        self.offset: torch.Tensor | None = None
        self.scale: torch.Tensor | None = None
        self.encoder: dict[str, int] = {}
        self.trained_on: list[str] = []
        self.losses: list[float] = []

    @property
    def needs_hidden(self) -> bool:
        return self.options.features in ("hidden", "hidden_and_attention")

    # ---- training ------------------------------------------------------------------------------------------------

    def token_examples(
        self, features: Iterable[ExampleFeatures], masks: Mapping[str, Sequence[bool]], labels: Mapping[str, str]
    ) -> TokenExamples:
        """Pair features with rationales (ExpNet section 3.4).

        Args:
            features: of any texts; those without a rationale, or that the classifier gets wrong, are left out.
            masks: example id -> word mask. Every piece of a marked word is evidence.
            labels: example id -> true label.

        Raises DataError when no text remains.
        """
        parts, marks, starts = [], [], [0]
        for row in features:
            mask = masks.get(row.example_id)
            if mask is None or not len(row.word_ids) or row.predicted != labels[row.example_id]:
                continue
            evidence = np.asarray([*mask, False], dtype=np.float32)  # NO_WORD = -1 reads the last entry
            hidden = None if row.hidden is None else torch.from_numpy(row.hidden)
            parts.append(self._select(torch.from_numpy(row.attention), hidden))
            marks.append(evidence[row.word_ids])
            starts.append(starts[-1] + len(row.word_ids))
        if not parts:
            raise DataError("no text has both a rationale and a right prediction; ExpNet has nothing to learn from")
        return TokenExamples(torch.cat(parts), torch.from_numpy(np.concatenate(marks)), np.asarray(starts))

    def _select(self, attention: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
        """The columns of this variant, from (..., 2H) attention features and (..., d) hidden states."""
        heads, chosen = attention.shape[-1] // 2, self.options.features
        if chosen == "task_to_token":
            return attention[..., :heads]
        if chosen == "token_to_task":
            return attention[..., heads:]
        if chosen == "full":
            return attention
        if hidden is None:
            raise DataError(f"features {chosen!r} need hidden states; run attend with attend.hidden_states=true")
        return hidden if chosen == "hidden" else torch.cat([hidden, attention], dim=-1)

    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train on the other tasks' rationales, or the task's own, as option `protocol` says (ExpNet section 4.2).

        Raises DataError where a task has no text to learn from, or its features are of another classifier than its own;
        ParamsError where there is no other task, or the tasks' features are of different architectures or layers.
        """
        check_task(task)
        tasks = [task] if self.options.protocol == "in_domain" else list(task.others)
        if not tasks:
            raise ParamsError(
                f"leave_one_task_out needs another task than {task.name!r}; add one to tasks, or use in_domain"
            )
        data, encoders = [], []
        for one in tasks:
            split = one.rationale_split
            source, features = one.features(split, self.needs_hidden)
            check_source(one, source, split)
            encoders.append({**source, "layer": source["attended"][-1]})
            labels = {example.id: example.label for example in one.examples(split)}
            gold = one.gold
            try:
                data.append(self.token_examples(_last_layer(features, source), gold, labels))
            except DataError as error:
                raise DataError(f"task {one.name!r}, split {split!r}: {error}") from error
        keys = [key for key in ENCODER_KEYS if key != "hidden_size" or self.needs_hidden]
        first = encoders[0]
        for one, encoder in zip(tasks, encoders, strict=True):
            if any(encoder[key] != first[key] for key in keys):
                described = [" ".join(f"{key} {found[key]}" for key in keys) for found in (first, encoder)]
                raise ParamsError(
                    f"classifiers of {tasks[0].name!r} ({described[0]}) and {one.name!r} ({described[1]}) differ; "
                    "expected features of one architecture and layer"
                )
        return self.fit_tokens(data, first, [one.name for one in tasks], task.device, description)

    def fit_tokens(
        self,
        data: Sequence[TokenExamples],
        encoder: Mapping[str, int],
        trained_on: Sequence[str] = (),
        device: torch.device | None = None,
        description: str | None = None,
    ) -> Self:
        """Train on the texts of one or more tasks, pooled.

        Args:
            data: what `token_examples` gave for each task.
            encoder: layer, layers, heads and hidden_size of the classifiers the features come from.
            trained_on: names of the tasks, kept for the record.
            device: where to train (default: the CPU, which a network this small keeps busy enough).

        Raises ParamsError when the tasks' features have different widths.
        """
        widths = {part.features.shape[1] for part in data}
        if len(widths) != 1:
            raise ParamsError(
                f"tasks have features of widths {sorted(widths)}; expected classifiers of one architecture"
            )
        x = torch.cat([part.features for part in data])
        y = torch.cat([part.labels for part in data])
        sizes = np.concatenate([np.diff(part.starts) for part in data])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        options = self.options
        self.offset = x.mean(0) if options.standardize else torch.zeros(x.shape[1])
        self.scale = x.std(0).clamp_min(1e-8) if options.standardize else torch.ones(x.shape[1])
        device = device or torch.device("cpu")
        x, y = ((x - self.offset) / self.scale).to(device), y.to(device)
        generator = torch.Generator().manual_seed(self.options.seed)
        self.network = self._build(x.shape[1], generator).to(device)
        optimizer = torch.optim.Adam(self.network.parameters(), lr=options.learning_rate)
        self.losses = []
        epochs = epoch_bar(options.epochs, description)
        for _ in epochs:
            order = torch.randperm(len(sizes), generator=generator).numpy()
            total = 0.0
            for start in range(0, len(order), options.batch_size):
                texts = order[start : start + options.batch_size]
                tokens = torch.from_numpy(np.concatenate([np.arange(starts[i], starts[i + 1]) for i in texts])).to(
                    device
                )
                found = self.network(x[tokens]).squeeze(-1)
                loss = focal_loss(found, y[tokens], options.alpha, options.gamma).mean()
                descend(loss, optimizer)
                total += loss.item() * len(texts)
            self.losses.append(total / len(order))
            epochs.set_postfix(loss=f"{self.losses[-1]:.4f}")
        self.network = self.network.cpu().requires_grad_(False).eval()
        self.encoder = {key: int(encoder[key]) for key in ENCODER_KEYS}
        self.trained_on = list(trained_on)
        return self

    def _build(self, width: int, generator: torch.Generator | None = None) -> nn.Sequential:
        hidden = self.options.hidden
        network = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        if generator is not None:
            for layer in (m for m in network if isinstance(m, nn.Linear)):
                # torch's own default for Linear, drawn from our generator.
                bound = layer.in_features**-0.5
                nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        return network

    # ---- explaining ----------------------------------------------------------------------------------------------

    def check(self, classifier: Classifier) -> None:
        if self.network is None:
            raise self._untrained()
        config: Any = classifier.model.config
        found = {
            "layers": layer_count(classifier.model),
            "heads": int(config.num_attention_heads),
            "hidden_size": int(config.hidden_size),
        }
        for key, value in found.items():
            if self.encoder[key] != value and (key != "hidden_size" or self.needs_hidden):
                raise UnsupportedError(
                    f"this ExpNet was trained on encoders with {self.encoder[key]} {key}, the classifier has {value}; "
                    "train one on classifiers of this architecture"
                )

    @torch.inference_mode()
    def score_batch(self, classifier: Classifier, batch: Batch, targets: torch.Tensor | None) -> BatchScores:
        features = batch_features(classifier, batch, [self.encoder["layer"]], self.needs_hidden)
        return BatchScores(self.score(features), features.logits, resolve_targets(features.logits, targets))

    def score(self, features: TokenFeatures) -> torch.Tensor:
        """Probability that each position is evidence, (batch, tokens)."""
        assert self.network is not None and self.offset is not None and self.scale is not None
        inputs = self._select(features.attention, features.hidden).float()
        if self.offset.device != inputs.device:
            self.network, self.offset, self.scale = (
                self.network.to(inputs.device),
                self.offset.to(inputs.device),
                self.scale.to(inputs.device),
            )
        return cast(torch.Tensor, self.network((inputs - self.offset) / self.scale)).squeeze(-1).sigmoid()

    # ---- files ---------------------------------------------------------------------------------------------------

    def _state(self) -> TrainedState:
        if self.network is None or self.offset is None or self.scale is None:
            raise self._untrained()
        return TrainedState(
            {**self.network.state_dict(), "offset": self.offset, "scale": self.scale},
            {"encoder": self.encoder, "trained_on": self.trained_on, "losses": self.losses},
        )

    def _restore(self, state: TrainedState, folder: Path) -> None:
        self.encoder = {key: int(state.record["encoder"][key]) for key in ENCODER_KEYS}
        self.trained_on = list(state.record["trained_on"])
        self.losses = list(state.record["losses"])
        tensors = dict(state.tensors)
        self.offset, self.scale = tensors.pop("offset"), tensors.pop("scale")
        self.network = self._build(len(self.offset))
        self.network.load_state_dict(tensors)
        self.network.requires_grad_(False).eval()
