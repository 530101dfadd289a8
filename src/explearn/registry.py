"""All methods by name. Adding one takes a file, an entry here and a test; the pipeline, the command line and the report
find it by its name. Nothing heavy is imported until a method is made.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from explearn.errors import ParamsError, UnknownNameError

if TYPE_CHECKING:
    from explearn.explainer import Explainer
    from explearn.params import Params

Family = Literal["learned", "chance", "attention", "gradient", "relevance", "perturbation", "decomposition"]
Need = Literal["gradients", "attentions", "training_rationales", "teacher"]
Binarisation = Literal["threshold", "positive_rate", "top_k"]


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What is known of a method without importing it.

    Attributes:
        name: registry name.
        family: how it looks at the model.
        target: `module:Class`.
        summary: one sentence for a reader who has never met it.
        cost: model passes for one text, in words.
        needs: what it needs beyond the classifier's predictions.
        binarisation: its own way to choose words: a threshold on the score, a chance of being chosen equal to the
            training rationales' positive rate, or the top K.
        defaults: constructor arguments that this name stands for.
    """

    name: str
    family: Family
    target: str
    summary: str
    cost: str
    needs: frozenset[Need] = frozenset()
    binarisation: Binarisation = "top_k"
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def learned(self) -> bool:
        return self.family == "learned"


_METHODS: dict[str, MethodInfo] = {
    info.name: info
    for info in (
        MethodInfo(
            "expnet",
            "learned",
            "explearn.explainers.expnet:ExpNet",
            "A small network from attention patterns to human rationales, trained on the other tasks' rationales.",
            "one forward pass",
            frozenset({"attentions", "training_rationales"}),
            binarisation="threshold",
            defaults={"protocol": "leave_one_task_out"},
        ),
        MethodInfo(
            "expnet_in_domain",
            "learned",
            "explearn.explainers.expnet:ExpNet",
            "ExpNet trained on the task's own rationales.",
            "one forward pass",
            frozenset({"attentions", "training_rationales"}),
            binarisation="threshold",
            defaults={"protocol": "in_domain"},
        ),
        MethodInfo(
            "random",
            "chance",
            "explearn.baselines.chance.random:Random",
            "Seeded uniform scores; a word is chosen with the training rationales' positive rate.",
            "one forward pass",
            binarisation="positive_rate",
        ),
        MethodInfo(
            "raw_attention",
            "attention",
            "explearn.baselines.attention.raw_attention:RawAttention",
            "The last layer's attention from the [CLS] token, averaged over heads.",
            "one forward pass",
            frozenset({"attentions"}),
        ),
        MethodInfo(
            "rollout",
            "attention",
            "explearn.baselines.attention.rollout:Rollout",
            "Attention of all layers, residual connections included, multiplied up to the [CLS] token.",
            "one forward pass",
            frozenset({"attentions"}),
        ),
        MethodInfo(
            "input_x_gradient",
            "gradient",
            "explearn.baselines.gradient.input_x_gradient:InputXGradient",
            "Gradient of the class's output at each word embedding, times the embedding, summed.",
            "one forward and one backward pass",
            frozenset({"gradients"}),
        ),
    )
}


def list_explainers() -> list[str]:
    """Names of all methods, learned first, then by family."""
    return list(_METHODS)


def get_info(name: str) -> MethodInfo:
    """Raises UnknownNameError, with near names."""
    if name not in _METHODS:
        raise UnknownNameError("explainer", name, _METHODS)
    return _METHODS[name]


def explainer_class(name: str) -> type[Explainer]:
    """The class behind a name. Raises UnknownNameError."""
    module, _, attribute = get_info(name).target.partition(":")
    found: type[Explainer] = getattr(importlib.import_module(module), attribute)
    return found


def accepted_options(name: str) -> list[str]:
    """Names of a method's constructor arguments."""
    return list(inspect.signature(explainer_class(name)).parameters)


def learned_options(name: str, params: Params) -> dict[str, Any]:
    """The options of a learned explainer, from the section of the parameters that has its name.

    Raises UnknownNameError, and ParamsError for a method that is not trained.
    """
    if not get_info(name).learned:
        raise ParamsError(f"explainer {name!r} is not trained; name it under baselines, not under explainers")
    section: dict[str, Any] = getattr(params, name).model_dump()
    return section


def get_explainer(name: str, *, path: str | None = None, **options: Any) -> Explainer:
    """Make a method by name.

    Args:
        name: one of `list_explainers()`.
        path: folder of a trained explainer, for learned methods that are to explain at once.
        options: constructor arguments of the method.

    Raises UnknownNameError for an unknown name or option (near names suggested), ParamsError for an option's bad value,
    and ModelError when `path` holds no such explainer.
    """
    info = get_info(name)
    cls = explainer_class(name)
    if path is not None:
        from explearn.explainer import LearnedExplainer

        if not issubclass(cls, LearnedExplainer):
            raise ParamsError(f"method {name!r} is not trained; it has nothing to load from {path}")
        if options:
            raise ParamsError(f"options {', '.join(options)} come with the trained explainer in {path}; give no others")
        explainer: Explainer = cls.load(path)
    else:
        accepted = accepted_options(name)
        for option in options:
            if option not in accepted:
                raise UnknownNameError(f"option of {name}", option, accepted or ["(none)"])
        explainer = cls(**{**info.defaults, **options})
    explainer.name = name
    return explainer
