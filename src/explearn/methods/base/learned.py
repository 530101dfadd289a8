"""Explainers that are trained: `fit`, saving and loading.

The folder of a trained explainer has config.json, one safetensors file, and whatever else a method writes.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self, TypeVar

import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save, save_file

from explearn.core.bundles import CONFIG, TrainedConfig
from explearn.core.compute import check_weights
from explearn.core.documents import PathLike, check_regular, checked_path, read_json
from explearn.core.errors import ExplearnError, ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.validation import Count, Number, check, check_shape
from explearn.core.writing import atomic_folder, write_json
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.task import ListedTask, Marks
from explearn.methods.base.task import TaskData as TaskData  # noqa: PLC0414 (methods take it from here)
from explearn.methods.base.training import PATIENCE, History, limited
from explearn.methods.info import blaming_package
from explearn.text.encoding import Text
from explearn.text.equal import text_hash

ModuleT = TypeVar("ModuleT", bound=torch.nn.Module)
PartT = TypeVar("PartT")

Calibration = Annotated[list[Number], Field(min_length=2, max_length=2)]
"""Slope a and offset b of the probability sigmoid(a logit + b)."""
LayerList = Annotated[list[Count], Field(min_length=1)]

TRAINED_TEXTS = "trained_texts"
"""Key in config.json of `LearnedExplainer.trained_texts`."""
COURSE = "course"
"""Key in config.json of `LearnedExplainer.course`."""
TRAINED = "a trained explainer"
"""What `LearnedExplainer.save_pretrained` writes."""
DIVERGED = "try a lower learning rate; the folder is unchanged"
"""Advice for weights that are not finite after training."""


@dataclass(frozen=True, slots=True)
class TrainedState:
    """The result of a training.

    Attributes:
        tensors: name -> tensor.
        record: JSON values, the content of config.json except `explainer` and `options`.
        folder: where it was read from, with what `_save_more` wrote.
    """

    tensors: Mapping[str, torch.Tensor]
    record: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    def value(self, name: str, kind: Any) -> Any:
        """Return a value of the record.

        Raises:
            ModelError: it is not of the type or Shape `kind`.
        """
        return check(kind, self.record.get(name), ModelError, f"{CONFIG}, {name}: ")

    def size(self, name: str, axis: int = 0) -> int:
        """Return a tensor's size along an axis.

        Raises:
            ModelError: there is no such tensor or axis.
        """
        if name not in self.tensors or self.tensors[name].ndim <= axis:
            raise ModelError(f"holds no tensor {name} of {axis + 1} dimensions")
        return self.tensors[name].shape[axis]

    def check_sizes(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise ModelError if the tensors have other names or sizes."""
        sizes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}
        for name in sorted(expected.keys() | sizes.keys()):
            if sizes.get(name) != expected.get(name):
                raise ModelError(
                    f"tensor {name}: got the size {sizes.get(name)}; by {CONFIG} it has {expected.get(name)}"
                )

    def restore(self, make: Callable[[], ModuleT]) -> ModuleT:
        """Return the module made by `make`, with these tensors as its weights, ready to explain.

        Raises:
            ModelError: the tensors do not fit; raised before memory is allocated for the module.
        """
        with torch.device("meta"):
            self.check_sizes({name: tuple(tensor.shape) for name, tensor in make().state_dict().items()})
        with torch.random.fork_rng(devices=[]):
            module = make()
        module.load_state_dict(dict(self.tensors))
        return module.requires_grad_(False).eval()


class LearnedExplainer(Explainer):
    """A method that is trained: `fit` it, or load a trained one from a folder.

    A subclass trains (`learn`), returns the result of its training (`_state`) and restores itself from that
    (`_restore`).

    Example:
        >>> import explearn, tempfile
        >>> from explearn.testing import make_classifier
        >>> texts = ["a funny sequel", "a slow delivery"]
        >>> marks = [[False, True, False], [False, True, False]]
        >>> word_list = explearn.get_explainer("word_list").fit(make_classifier(), texts, marks, labels=["yes", "no"])
        >>> folder = tempfile.mkdtemp()
        >>> word_list.save_pretrained(folder)
        >>> explearn.load(folder).name
        'word_list'
    """

    weights_file: ClassVar[str]
    """Name of the safetensors file in its folder."""
    kept: ClassVar[Mapping[str, Any]] = {}
    """Attributes from training, of JSON values, that are saved and loaded besides the weights: name -> type."""
    network: Any = None
    """The network that was trained, for methods whose weights are those of one."""
    history: History = []  # noqa: RUF012 (nobody adds to it)
    """The epochs of its training; empty for a method that has none."""
    trained_texts: frozenset[str] = frozenset()
    """Hashes (`text_hash`) of the texts that it learned from; comparisons leave these texts out."""
    course: Mapping[str, Any] = MappingProxyType({})
    """What ended its training, if validation chose the epoch: `ended` (patience, epochs, time), and the limits
    `patience` and `minutes`."""

    def __repr__(self) -> str:
        try:
            self._state()
        except ModelError:
            return super().__repr__()
        return f"trained {super().__repr__()}"

    def fit(
        self,
        classifier: Any,
        texts: Sequence[Text],
        rationales: Marks | None = None,
        validation: Sequence[Text] | None = None,
        *,
        labels: Sequence[str | int] | None = None,
        validation_labels: Sequence[str | int] | None = None,
        others: Mapping[str, tuple[Any, Sequence[Text], Marks]] | None = None,
        name: str = "texts",
        description: str | None = None,
    ) -> Self:
        """Train to explain a classifier.

        Args:
            classifier: the classifier to be explained.
            texts: strings, pairs of strings, or examples.
            rationales: which words are evidence, for methods that learn from marks: for each text a mask over its
                words or None, example id -> mask, or a list of `explearn.Rationale`.
            validation: other texts, for methods that choose their best epoch or their certificate by them. None: no
                text.
            labels: the labels of `texts`, by name or index, for methods that learn from labels or rationales. None:
                those of examples, or none.
            validation_labels: those of `validation`, likewise.
            others: other tasks, for methods that learn from their marks: name -> classifier, texts (examples, where
                labels are needed) and rationales.
            name: name of the task, for records and messages.
            description: text of a progress bar. None: no bar.

        Returns:
            The trained explainer itself.

        Raises:
            DataError: texts, labels or marks are missing or unsuitable.
            ParamsError: an argument or option is unsuitable.
            ModelError: the model is unsuitable, or training diverged.
            UnsupportedError: the method cannot explain the classifier.

        Example:
            >>> import explearn
            >>> from explearn.testing import make_classifier
            >>> classifier = make_classifier("bert")
            >>> texts = ["a funny sequel", "a slow delivery"]
            >>> marks = [[False, True, False], [False, True, False]]
            >>> word_list = explearn.get_explainer("word_list").fit(classifier, texts, marks, labels=["yes", "no"])
            >>> [attribution] = word_list.explain(classifier, ["funny"])
            >>> attribution.scores.round(2)
            array([0.67], dtype=float32)
        """
        if validation is None:
            validation = ()
        other_tasks = []
        for other, (its_classifier, its_texts, its_rationales) in (others or {}).items():
            other_tasks.append(ListedTask(its_classifier, its_texts, gold=its_rationales, name=other))
        task = ListedTask(
            classifier,
            texts,
            validation,
            labels=labels,
            validation_labels=validation_labels,
            gold=rationales,
            others=other_tasks,
            name=name,
            seed=getattr(self.options, "seed", 13),
        )
        with blaming_package(type(self), self.name, "failed in training"):
            self.learn_within(task, description=description)
        learned = chain.from_iterable(of_task.examples() for of_task in (task, *other_tasks))
        self.trained_texts = frozenset(map(text_hash, learned))
        return self

    def learn_within(
        self,
        task: TaskData,
        patience: int = PATIENCE,
        minutes: float | None = None,
        *,
        description: str | None = None,
    ) -> None:
        """Train for one task within limits, and note what ended the training.

        Args:
            task: the data to learn from.
            patience: epochs without a better one on validation texts after which training ends.
            minutes: processor time after which no further epoch begins. None: any.
            description: text of a progress bar. None: no bar.
        """
        self.course = {}
        with limited(patience, minutes) as courses:
            self.learn(task, description=description)
        # Before the last one may be those of a search.
        if courses and courses[-1].validated:
            self.course = {
                "ended": courses[-1].ended,
                "patience": patience,
                "minutes": minutes,
            }

    @abstractmethod
    def learn(self, task: TaskData, *, description: str | None = None) -> Self:
        """Train for one task; `learn_within` calls this.

        Args:
            task: the data to learn from.
            description: text of a progress bar. None: no bar.
        """

    def _state(self) -> TrainedState:
        """Return the state to save: the weights of `network`, unless a method keeps something else.

        Raises:
            ModelError: it was not trained.
        """
        return TrainedState(self._trained(self.network).state_dict())

    @abstractmethod
    def _restore(self, state: TrainedState) -> None:
        """Restore what `_state` returned."""

    def _save_more(self, folder: Path) -> None:
        """Write files other than configuration and weights."""

    def save_pretrained(self, folder: PathLike) -> None:
        """Write configuration (JSON) and weights (safetensors) to a folder, atomically.

        Args:
            folder: a new folder, or that of an earlier trained explainer, which is replaced.

        Raises:
            ParamsError: the folder holds a file that is not ours, or that was changed.
            ModelError: the explainer was not trained, or its weights are not finite.
        """
        folder = checked_path(folder, "folder")
        state = self._state()
        tensors = _on_cpu(state.tensors)
        check_weights(tensors.items(), f"{folder}: {self.name} diverged in training", DIVERGED)
        with atomic_folder(folder, TRAINED) as partial:
            save_file(tensors, partial / self.weights_file)
            self._save_more(partial)
            kept = {name: getattr(self, name) for name in self.kept}
            config = {"explainer": type(self).__name__, "options": self.options.model_dump(), **kept, **state.record}
            if self.trained_texts:
                config[TRAINED_TEXTS] = sorted(self.trained_texts)
            if self.course:
                config[COURSE] = self.course
            write_json(partial / CONFIG, config)

    @classmethod
    def from_pretrained(cls, folder: PathLike, **options: Any) -> Self:
        """Load an explainer saved by `save_pretrained`.

        Args:
            folder: the folder.
            options: options that override the saved ones.

        Raises:
            ModelError: a file is missing or damaged.
            ParamsError: an option has a bad value, or this is the base class.
        """
        if not cls.name:
            raise ParamsError(f"{cls.__name__}: is a base class; explearn.load(FOLDER) loads any method")
        folder = Path(checked_path(folder, "folder"))
        with raise_as_model_error(folder, cls.name):
            saved, state = read_trained(folder, cls.weights_file, cls.__name__)
            # An option that this version does not have was for training, or shows in the shapes of the weights.
            saved = {name: value for name, value in saved.items() if name in cls.Options.model_fields}
            cls(**saved)
        explainer = cls(**{**saved, **options})  # a bad value here is not the folder's fault
        with raise_as_model_error(folder, cls.name):
            for name, kind in cls.kept.items():
                setattr(explainer, name, state.value(name, kind))
            explainer._restore(state)
            if TRAINED_TEXTS in state.record:
                explainer.trained_texts = frozenset(state.value(TRAINED_TEXTS, list[str]))
            if COURSE in state.record:
                explainer.course = state.value(COURSE, dict[str, Any])
        return explainer

    @property
    def best_epoch(self) -> int:
        """The epoch of the training that was kept, 0 being its start. Raises ModelError before training."""
        (best,) = (entry["epoch"] for entry in self._trained(self.history or None) if entry["best"])
        return int(best)

    def notes(self) -> dict[str, Any]:
        """Return its `course` and, for a method with epochs, these as `epochs`, and `best_epoch`."""
        noted = dict(self.course)
        if self.history:
            noted |= {"epochs": self.history, "best_epoch": self.best_epoch}
        return noted

    def content_hash(self) -> str:
        """Return the SHA-256 of its trained state.

        Raises:
            ModelError: it was not trained.
        """
        return hashlib.sha256(save(_on_cpu(self._state().tensors))).hexdigest()

    def settings(self) -> dict[str, Any]:
        """Return its options, and the SHA-256 of its trained state as `weights`."""
        return {**super().settings(), "weights": self.content_hash()}

    def _trained(self, part: PartT | None) -> PartT:
        """Return a part made by training.

        Raises:
            ModelError: it is missing.
        """
        if part is None:
            raise ModelError(
                f"this {self.name} is not trained; call fit, or load a trained one with explearn.load(FOLDER), "
                "--explainer FOLDER on the command line"
            )
        return part


class BoundExplainer(LearnedExplainer):
    """A learned method that explains only the classifier it was trained for."""

    instead: str = "train one for the classifier given"
    """Advice for other classifiers."""
    kept: ClassVar[Mapping[str, Any]] = {"trained_classifier": str}
    trained_classifier: str = ""
    """Fingerprint of the classifier that it was trained for."""

    def check(self, classifier: Any) -> None:
        self._trained(self.trained_classifier or None)

    def check_trained_for(self, classifier: Any) -> None:
        if self._trained(self.trained_classifier or None) != classifier.fingerprint:
            raise UnsupportedError(f"this {self.name} was trained for another classifier; {self.instead}")


def _on_cpu(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def read_trained(folder: Path, weights: str, explainer: str) -> tuple[dict[str, Any], TrainedState]:
    """Read the options of a trained explainer, and its state.

    Missing and damaged files raise various errors, for `raise_as_model_error` to convert.

    Args:
        folder: the folder.
        weights: name of the safetensors file.
        explainer: name of the explainer's class.

    Raises:
        ModelError: the folder holds another explainer, or a tensor that is not finite.
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
    return config["options"], TrainedState(tensors, record, folder)


@contextmanager
def raise_as_model_error(folder: Path, name: str) -> Iterator[None]:
    """Turn errors from missing or damaged files of a trained explainer into ModelErrors; other errors pass.

    Args:
        folder: the explainer's folder.
        name: the method's name.
    """
    try:
        yield
    except (ExplearnError, OSError, SafetensorError) as error:
        raise ModelError(
            f"{folder}: not a trained {name} ({first_line(error)}); expected the folder that its training wrote"
        ) from error
