"""Explainers that are trained: `fit`, saving and loading.

The folder of a trained explainer has config.json, one safetensors file, and anything else that a method writes.
"""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save, save_file

from explearn.core.arguments import path_of
from explearn.core.documents import check_regular, read_json
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.examples import Example
from explearn.core.numeric_checks import check_weights
from explearn.core.validation import Count, Number, Shape, check, check_shape
from explearn.core.writing import atomic_folder, check_replaceable, locked, write_json
from explearn.methods.base.explainer import Explainer

if TYPE_CHECKING:
    from explearn.methods.base.task import TaskData
    from explearn.predictors.transformer import TransformerPredictor

ModuleT = TypeVar("ModuleT", bound=torch.nn.Module)
PartT = TypeVar("PartT")

Calibration = Annotated[list[Number], Field(min_length=2, max_length=2)]
"""Slope a and offset b of p = sigmoid(a logit + b)."""
LayerList = Annotated[list[Count], Field(min_length=1)]

CONFIG = "config.json"
TRAINED_TEXTS = "trained_texts"
"""Key in config.json of `LearnedExplainer.trained_texts`."""
DIVERGED = "try a lower learning rate; the folder is unchanged"
"""Advice if weights are not finite after training."""


class TrainedConfig(Shape):
    """The fields that every trained explainer's config.json has."""

    explainer: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrainedState:
    """The result of a training.

    tensors: by name. record: JSON values, the content of config.json except `explainer` and `options`.
    """

    tensors: Mapping[str, torch.Tensor]
    record: Mapping[str, Any]

    def value(self, name: str, kind: Any) -> Any:
        """Return a value of the record. Raises ModelError unless it is of the type or Shape `kind`."""
        return check(kind, self.record.get(name), ModelError, f"{CONFIG}, {name}: ")

    def size(self, name: str, axis: int = 0) -> int:
        """Return a tensor's size along an axis. Raises ModelError if there is no such tensor or axis."""
        shape = self.tensors[name].shape if name in self.tensors else ()
        if len(shape) <= axis:
            raise ModelError(f"holds no tensor {name} of {axis + 1} dimensions")
        return shape[axis]

    def check_sizes(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise ModelError if the tensors have other names or sizes."""
        sizes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}
        for name in sorted(expected.keys() | sizes.keys()):
            if sizes.get(name) != expected.get(name):
                got, has = sizes.get(name, "none"), expected.get(name, "none")
                raise ModelError(f"tensor {name}: got the size {got}; by {CONFIG} it has {has}")

    def restore(self, make: Callable[[], ModuleT]) -> ModuleT:
        """Return the module made by `make`, with these tensors as its weights, ready to explain.

        Raises ModelError as `check_sizes` does, before allocating memory for the module.
        """
        with torch.device("meta"):
            self.check_sizes({name: tuple(tensor.shape) for name, tensor in make().state_dict().items()})
        module = make()
        module.load_state_dict(dict(self.tensors))
        return module.requires_grad_(False).eval()


class LearnedExplainer(Explainer):
    """A method that is trained: `fit` it, or take a trained one from a folder.

    Class attributes:
        weights_file: name of the safetensors file in its folder.
        kept: attributes that come from training, JSON values, and are saved and loaded with the weights; name -> type.

    A subclass gives the rest of the result of its training (`_state`) and rebuilds itself from that (`_restore`).
    """

    weights_file: ClassVar[str]
    kept: ClassVar[Mapping[str, Any]] = {}
    trained_texts: frozenset[str] = frozenset()
    """Hashes (`text_hashes`) of the texts that it was given to learn from, where whoever trained it noted them."""

    @abstractmethod
    def fit(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train for one task.

        Args:
            task: what to learn from; `explearn.ListedTask` makes one from lists of texts.
            description: text of a progress bar (default: no bar).

        Raises DataError, ParamsError, ModelError or UnsupportedError, before training starts, if something it needs is
        missing or unsuitable.
        """

    @abstractmethod
    def _state(self) -> TrainedState:
        """Return the state to save. Raises ModelError if it was not trained."""

    @abstractmethod
    def _restore(self, state: TrainedState, folder: Path) -> None:
        """Become the explainer that `_state` was taken from; `folder` holds what `_save_more` wrote."""

    def _save_more(self, folder: Path) -> None:
        """Write files other than configuration and weights."""

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write configuration (JSON) and weights (safetensors) to a folder, atomically.

        The folder replaces an earlier trained explainer. Before anything is replaced, raises ParamsError for a folder
        with other content, and ModelError if it was not trained or its weights are not finite.
        """
        state = self._state()
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
        check_weights(tensors.items(), f"{folder}: {self.name} diverged in training", DIVERGED)
        check_explainer_place(folder)
        with atomic_folder(folder) as partial:
            save_file(tensors, partial / self.weights_file)
            self._save_more(partial)
            kept = {name: getattr(self, name) for name in self.kept}
            config = {"explainer": type(self).__name__, "options": self.options.model_dump(), **kept, **state.record}
            if self.trained_texts:
                config[TRAINED_TEXTS] = sorted(self.trained_texts)
            write_json(partial / CONFIG, config)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **options: Any) -> Self:
        """Load an explainer saved by `save_pretrained`; `options` override the saved ones.

        Raises ModelError for a missing or damaged file, ParamsError for an option's bad value.
        """
        folder = Path(path_of("path", folder))
        with raise_as_model_error(folder, cls.name):
            saved, state = read_trained(folder, cls.weights_file, cls.__name__)
            # An option that this version does not have was for training, or shows in the shapes of the weights.
            known = {name: saved[name] for name in cls.Options.model_fields if name in saved}
            cls(**known)
        explainer = cls(**{**known, **options})  # a bad value here is not the folder's fault
        with raise_as_model_error(folder, cls.name):
            for name, kind in cls.kept.items():
                setattr(explainer, name, state.value(name, kind))
            explainer._restore(state, folder)
            if TRAINED_TEXTS in state.record:
                explainer.trained_texts = frozenset(state.value(TRAINED_TEXTS, list[str]))
        return explainer

    def content_hash(self) -> str:
        """Return a SHA-256 of its trained state. Raises ModelError if it was not trained."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self._state().tensors.items()}
        return hashlib.sha256(save(tensors)).hexdigest()

    def _trained(self, part: PartT | None) -> PartT:
        """Return a part made by training. Raises ModelError if it is missing."""
        if part is None:
            raise ModelError(
                f"this {self.name} is not trained; call fit, or load a trained one with get_explainer(name, "
                "path=FOLDER), --explainer FOLDER on the command line"
            )
        return part


class BoundExplainer(LearnedExplainer):
    """A learned method that explains only the classifier it was trained for.

    Class attributes:
        instead: advice for other classifiers.
    """

    instead: str = "train one for the classifier given"
    trained_classifier: str = ""
    """Fingerprint of the classifier that it was trained for."""

    def check(self, classifier: TransformerPredictor) -> None:
        if self._trained(self.trained_classifier or None) != classifier.fingerprint and not self.any_classifier:
            raise UnsupportedError(f"this {self.name} was trained for another classifier; {self.instead}")


class RefiningExplainer(Explainer):
    """A method that starts from another method's trained explainer and refines it on every text."""

    @classmethod
    @abstractmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **options: Any) -> Self:
        """Make the method, with constructor arguments `options`, from the folder of the explainer it starts from.

        Raises ModelError for a missing or damaged file, ParamsError for an option's bad value.
        """


def text_hashes(examples: Iterable[Example]) -> dict[str, str]:
    """Return example id -> a hash of its words, which identifies a text without storing it."""
    return {one.id: hashlib.sha256("\0".join(one.all_words).encode()).hexdigest()[:16] for one in examples}


def check_explainer_place(folder: str | os.PathLike[str]) -> None:
    """Raise ParamsError for a folder with anything but a trained explainer, DataError if nothing can be written."""
    if os.path.lexists(folder) and not Path(folder).is_dir():
        raise ParamsError(f"{folder}: is not a folder; expected a folder, or nothing")

    def holds_explainer(folder: Path) -> bool:
        try:
            return bool(check(TrainedConfig, read_json(folder / CONFIG)))
        except DataError:
            return False

    known = (CONFIG, "*.safetensors", "backbone", "classifier")
    check_replaceable(folder, holds_explainer, "trained explainer", known)
    with locked(folder):
        pass


def read_trained(folder: Path, weights: str, explainer: str) -> tuple[dict[str, Any], TrainedState]:
    """Read the options of a trained explainer, and its state.

    Raises ModelError for another explainer's folder or a tensor that is not finite; for missing or damaged files raises
    various errors, for `raise_as_model_error` to convert.
    """
    config = check_shape(read_json(folder / CONFIG), TrainedConfig, folder / CONFIG, "train it again")
    if config["explainer"] != explainer:
        raise ModelError(f"holds a {config['explainer']}")
    check_regular(folder / weights)
    tensors = load_file(folder / weights)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModelError(f"{weights}: {name} holds values of kind {kind}; expected floating-point numbers")
        if not tensor.isfinite().all():
            raise ModelError(f"{weights}: {name} holds a value that is not finite")
    record = {key: value for key, value in config.items() if key not in ("explainer", "options")}
    return config["options"], TrainedState(tensors, record)


@contextmanager
def raise_as_model_error(folder: Path, name: str) -> Iterator[None]:
    """Turn errors from missing or damaged files of a trained explainer into ModelErrors; other errors pass.

    Args:
        name: the method's name.
    """
    try:
        yield
    except (ExplearnError, OSError, SafetensorError) as error:
        raise ModelError(
            f"{folder}: not a trained {name} ({first_line(error)}); expected the folder that its training wrote"
        ) from error
