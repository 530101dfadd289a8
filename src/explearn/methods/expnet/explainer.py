"""ExpNet: a small network that learns from rationales which attention patterns mark evidence.

Source: Mihaila (2026), "Learning to Explain: Supervised Token Attribution from Transformer Attention Patterns".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from tqdm.auto import tqdm

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.settings import check_section
from explearn.core.storage import atomic_folder, read_json, write_json
from explearn.introspection.capture import layer_count
from explearn.introspection.features import (
    ExampleFeatures,
    TokenFeatures,
    batch_features,
    read_feature_metadata,
    read_features,
)
from explearn.methods.base.explainer import BatchExplainer, BatchScores, LearnedExplainer, resolve_targets
from explearn.methods.base.info import About
from explearn.methods.expnet.params import ExpNetParams
from explearn.models.encoding import Batch
from explearn.pipeline.params import Params
from explearn.pipeline.workspace import Workspace

if TYPE_CHECKING:
    from explearn.models.classifier import Classifier

FeatureSet = Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"]
Protocol = Literal["leave_one_task_out", "in_domain"]

WEIGHTS = "expnet.safetensors"
CONFIG = "config.json"

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
    return -alpha_t * (1 - log_p.exp()) ** gamma * log_p


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


class ExpNet(LearnedExplainer, BatchExplainer):
    """A small network from attention patterns to human rationales, trained on the other tasks' rationales.

    Linear(width, hidden) - ReLU - Linear(hidden, 1) - sigmoid over each sub-token's attention features.

    width is 2H for `full` (ExpNet eq. 1), H for `task_to_token` ([CLS] to token) and `token_to_task` (token to [CLS]),
    the hidden size for `hidden`, their sum for `hidden_and_attention` (Table 4). The class explained plays no part:
    scores say what a reader would mark as the evidence for the predicted label.

    Args:
        features: which features to use.
        hidden: units of the hidden layer.
        alpha, gamma: focal loss.
        learning_rate, epochs, batch_size: Adam without a schedule; batches are of texts.
        threshold: score from which a word counts as evidence.
        standardize: scale features to zero mean and unit variance over the training tokens.
        protocol: whether it is trained on the other tasks' rationales or on the task's own; `fit` takes what it is
            given, `fit_task` chooses by it.
        seed: of the initial weights and the order of the texts.
    """

    about = About(
        name="expnet",
        family="learned",
        cost="one forward pass",
        needs=frozenset({"attentions", "training_rationales"}),
        binarisation="threshold",
    )
    aggregation = "max"
    signed = False

    def __init__(
        self,
        features: FeatureSet = "full",
        hidden: int = 16,
        alpha: float = 0.6,
        gamma: float = 2.0,
        learning_rate: float = 1e-3,
        epochs: int = 50,
        batch_size: int = 32,
        threshold: float = 0.5,
        standardize: bool = False,
        protocol: Protocol = "leave_one_task_out",
        seed: int = 13,
    ) -> None:
        if protocol not in get_args(Protocol):
            raise ParamsError(f"protocol: got {protocol!r}; expected one of {', '.join(get_args(Protocol))}")
        self.features: FeatureSet = features
        self.hidden = hidden
        self.alpha = alpha
        self.gamma = gamma
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.threshold = threshold
        self.standardize = standardize
        self.protocol: Protocol = protocol
        self.seed = seed
        check_section(ExpNetParams, {name: getattr(self, name) for name in ExpNetParams.model_fields})
        self.network: nn.Sequential | None = None
        self.offset: torch.Tensor | None = None
        self.scale: torch.Tensor | None = None
        self.encoder: dict[str, int] = {}
        self.trained_on: list[str] = []
        self.losses: list[float] = []

    @property
    def needs_hidden(self) -> bool:
        return self.features in ("hidden", "hidden_and_attention")

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
        heads = attention.shape[-1] // 2
        if self.features == "task_to_token":
            return attention[..., :heads]
        if self.features == "token_to_task":
            return attention[..., heads:]
        if self.features == "full":
            return attention
        if hidden is None:
            raise DataError(f"features {self.features!r} need hidden states; run attend with attend.hidden_states=true")
        return hidden if self.features == "hidden" else torch.cat([hidden, attention], dim=-1)

    def fit(
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
        self.offset = x.mean(0) if self.standardize else torch.zeros(x.shape[1])
        self.scale = x.std(0).clamp_min(1e-8) if self.standardize else torch.ones(x.shape[1])
        device = device or torch.device("cpu")
        x, y = ((x - self.offset) / self.scale).to(device), y.to(device)
        generator = torch.Generator().manual_seed(self.seed)
        self.network = self._build(x.shape[1], generator).to(device)
        optimizer = torch.optim.Adam(self.network.parameters(), lr=self.learning_rate)
        self.losses = []
        epochs = tqdm(range(self.epochs), desc=description, unit="epoch", disable=None if description else True)
        for _ in epochs:
            order = torch.randperm(len(sizes), generator=generator).numpy()
            total = 0.0
            for first in range(0, len(order), self.batch_size):
                texts = order[first : first + self.batch_size]
                tokens = torch.from_numpy(np.concatenate([np.arange(starts[i], starts[i + 1]) for i in texts])).to(
                    device
                )
                loss = focal_loss(self.network(x[tokens]).squeeze(-1), y[tokens], self.alpha, self.gamma).mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += loss.item() * len(texts)
            self.losses.append(total / len(order))
            epochs.set_postfix(loss=f"{self.losses[-1]:.4f}")
        self.network = self.network.cpu().requires_grad_(False).eval()
        self.encoder = {key: int(encoder[key]) for key in ENCODER_KEYS}
        self.trained_on = list(trained_on)
        return self

    def fit_task(
        self, workspace: Workspace, params: Params, task: str, compute: ComputeOptions, description: str | None = None
    ) -> Self:
        """Train on the other tasks' rationales, or the task's own, as `protocol` says (ExpNet section 4.2)."""
        device = compute.resolve_device()
        tasks = [task] if self.protocol == "in_domain" else [other for other in params.tasks if other != task]
        if not tasks:
            raise ParamsError(
                f"leave_one_task_out needs another task than {task!r}; add one to tasks, or use in_domain"
            )
        data, encoders = [], {}
        for name in tasks:
            split = params.rationale_params(name).train_split
            path = workspace.features(name) / f"{split}.parquet"
            encoders[name] = read_feature_metadata(path)
            labels = {example.id: example.label for example in workspace.read_examples(name, split)}
            gold = workspace.read_gold(name, params)
            try:
                data.append(self.token_examples(read_features(path, self.needs_hidden), gold, labels))
            except DataError as error:
                raise DataError(f"task {name!r}, split {split!r}: {error}") from error
        keys = [key for key in ENCODER_KEYS if key != "hidden_size" or self.needs_hidden]
        first = encoders[tasks[0]]
        for name, encoder in encoders.items():
            if any(encoder[key] != first[key] for key in keys):
                described = [" ".join(f"{key} {found[key]}" for key in keys) for found in (first, encoder)]
                raise ParamsError(
                    f"classifiers of {tasks[0]!r} ({described[0]}) and {name!r} ({described[1]}) differ; "
                    "expected features of one architecture and layer"
                )
        return self.fit(data, first, tasks, device, description)

    def _build(self, width: int, generator: torch.Generator | None = None) -> nn.Sequential:
        network = nn.Sequential(nn.Linear(width, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 1))
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
            raise ModelError(
                "this ExpNet is not trained; load a trained one with get_explainer(name, path=FOLDER), "
                "or --explainer FOLDER on the command line"
            )
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
        features = batch_features(classifier, batch, self.encoder["layer"], self.needs_hidden)
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

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*ExpNetParams.model_fields, "protocol", "seed")}

    def save(self, folder: str | os.PathLike[str]) -> None:
        if self.network is None or self.offset is None or self.scale is None:
            raise ModelError("this ExpNet is not trained; there is nothing to save")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        with atomic_folder(folder) as partial:
            save_file({**tensors, "offset": self.offset.cpu(), "scale": self.scale.cpu()}, partial / WEIGHTS)
            config = {
                "explainer": "ExpNet",
                "options": self._options(),
                "encoder": self.encoder,
                "trained_on": self.trained_on,
                "losses": self.losses,
            }
            write_json(partial / CONFIG, config)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        folder = Path(folder)
        try:
            config = read_json(folder / CONFIG)
            tensors = load_file(folder / WEIGHTS)
            explainer = cls(**config["options"])
            explainer.encoder = {key: int(config["encoder"][key]) for key in ENCODER_KEYS}
            explainer.trained_on = list(config["trained_on"])
            explainer.losses = list(config["losses"])
            explainer.offset, explainer.scale = tensors.pop("offset"), tensors.pop("scale")
            explainer.network = explainer._build(len(explainer.offset))
            explainer.network.load_state_dict(tensors)
        except (ExplearnError, SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(f"{folder}: not a trained ExpNet ({first_line(error)})") from error
        explainer.network.requires_grad_(False).eval()
        return explainer
