"""All methods by name. Adding one takes a file, an entry here and a test; the pipeline, the command line and the report
find it by its name. Nothing heavy is imported until a method is made.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.records import Binarisation

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer
    from explearn.pipeline.params import Params

Family = Literal["learned", "chance", "attention", "gradient", "relevance", "perturbation", "decomposition"]
Need = Literal["gradients", "attentions", "training_rationales", "teacher"]


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
        costly: takes tens of model passes a text or more; the pipeline gives such a method a stage of its own.
        uncounted: does work of weight that is no pass through the classifier, so that counted passes say too little.
        own_model: trains the classifier that it explains, and keeps it beside its own weights.
        watches_metric: chooses what it says of a text by a metric of faithfulness on that text.
        base: the trained explainer that a method without a training of its own starts from on every text.
    """

    name: str
    family: Family
    target: str
    summary: str
    cost: str
    needs: frozenset[Need] = frozenset()
    binarisation: Binarisation = "top_k"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    costly: bool = False
    uncounted: bool = False
    own_model: bool = False
    watches_metric: bool = False
    base: str | None = None

    @property
    def learned(self) -> bool:
        return self.family == "learned"

    @property
    def trained(self) -> bool:
        """Whether it has a training of its own; a learned method that has none starts from `base`."""
        return self.learned and self.base is None


_METHODS: dict[str, MethodInfo] = {
    info.name: info
    for info in (
        MethodInfo(
            "expnet",
            "learned",
            "explearn.methods.expnet.explainer:ExpNet",
            "A small network from attention patterns to human rationales, trained on the other tasks' rationales.",
            "one forward pass",
            frozenset({"attentions", "training_rationales"}),
            binarisation="threshold",
            defaults={"protocol": "leave_one_task_out"},
        ),
        MethodInfo(
            "expnet_in_domain",
            "learned",
            "explearn.methods.expnet.explainer:ExpNet",
            "ExpNet trained on the task's own rationales.",
            "one forward pass",
            frozenset({"attentions", "training_rationales"}),
            binarisation="threshold",
            defaults={"protocol": "in_domain"},
        ),
        MethodInfo(
            "l2e",
            "learned",
            "explearn.methods.l2e.explainer:L2E",
            "A small Transformer that has learned another method's explanations of the training texts.",
            "one forward pass, and one of its student, a smaller Transformer",
            frozenset({"teacher"}),
            uncounted=True,
        ),
        MethodInfo(
            "ivra",
            "learned",
            "explearn.methods.ivra.explainer:IvRA",
            "Weighted attention of all layers, trained with a classifier of its own for chosen criteria.",
            "one forward pass",
            frozenset({"attentions"}),
            own_model=True,
        ),
        MethodInfo(
            "smat",
            "learned",
            "explearn.methods.ivra.explainer:SMaT",
            "The same with weights for whole heads alone.",
            "one forward pass",
            frozenset({"attentions"}),
            own_model=True,
        ),
        MethodInfo(
            "paml",
            "learned",
            "explearn.methods.aml.paml:PAML",
            "A model trained to mask all but the words that keep the prediction, and whose absence changes it.",
            "one forward pass, and one of its own model",
            uncounted=True,
        ),
        MethodInfo(
            "faml",
            "learned",
            "explearn.methods.aml.faml:FAML",
            "pAML's model fine-tuned on each text; of its maps the one that is best on a metric, which it looks at.",
            "forward and backward passes of the classifier and of its own model for each step, and forward passes for "
            "the metric of every map it tries",
            frozenset({"gradients"}),
            uncounted=True,
            base="paml",
            watches_metric=True,
            costly=True,
        ),
        MethodInfo(
            "random",
            "chance",
            "explearn.methods.chance.random:Random",
            "Seeded uniform scores; a word is chosen with the training rationales' positive rate.",
            "one forward pass",
            binarisation="positive_rate",
        ),
        MethodInfo(
            "raw_attention",
            "attention",
            "explearn.methods.attention.raw_attention:RawAttention",
            "The last layer's attention from the [CLS] token, averaged over heads.",
            "one forward pass",
            frozenset({"attentions"}),
        ),
        MethodInfo(
            "attention_mean",
            "attention",
            "explearn.methods.attention.raw_attention:AttentionMean",
            "Attention from the [CLS] token, averaged over heads and all layers.",
            "one forward pass",
            frozenset({"attentions"}),
        ),
        MethodInfo(
            "rollout",
            "attention",
            "explearn.methods.attention.rollout:Rollout",
            "Attention of all layers, residual connections included, multiplied up to the [CLS] token.",
            "one forward pass",
            frozenset({"attentions"}),
        ),
        MethodInfo(
            "attention_flow",
            "attention",
            "explearn.methods.attention.attention_flow:AttentionFlow",
            "Largest flow from the [CLS] token at the top to each token, with attention as the pipes' capacity.",
            "one forward pass, and a max-flow problem for each sub-token",
            frozenset({"attentions"}),
            costly=True,
            uncounted=True,
        ),
        MethodInfo(
            "gradient",
            "gradient",
            "explearn.methods.gradient.gradient:Gradient",
            "Length of the gradient of the class's output at each word embedding.",
            "one forward and one backward pass",
            frozenset({"gradients"}),
        ),
        MethodInfo(
            "input_x_gradient",
            "gradient",
            "explearn.methods.gradient.input_x_gradient:InputXGradient",
            "Gradient of the class's output at each word embedding, times the embedding, summed.",
            "one forward and one backward pass",
            frozenset({"gradients"}),
        ),
        MethodInfo(
            "integrated_gradients",
            "gradient",
            "explearn.methods.gradient.integrated_gradients:IntegratedGradients",
            "Gradients added up along the straight path from an empty text to the text.",
            "one forward and backward pass a step (50 steps)",
            frozenset({"gradients"}),
            costly=True,
        ),
        MethodInfo(
            "gradient_shap",
            "gradient",
            "explearn.methods.gradient.gradient_shap:GradientShap",
            "Gradients at random points between an empty text and the text, averaged.",
            "one forward and backward pass a sample (25 samples)",
            frozenset({"gradients"}),
            costly=True,
        ),
        MethodInfo(
            "deep_lift",
            "gradient",
            "explearn.methods.gradient.deep_lift:DeepLift",
            "Differences from an empty text, passed back through the network by DeepLIFT's rescale rule.",
            "one forward and backward pass on twice the text",
            frozenset({"gradients"}),
        ),
        MethodInfo(
            "sequential_ig",
            "gradient",
            "explearn.methods.gradient.sequential_ig:SequentialIG",
            "Integrated gradients for one word at a time, the other words left in place.",
            "one forward and backward pass a step (10 steps) and word",
            frozenset({"gradients"}),
            costly=True,
        ),
        MethodInfo(
            "lrp",
            "relevance",
            "explearn.methods.relevance.lrp:PartialLRP",
            "Relevance passed down from the class to the last layer's attention, from [CLS].",
            "one forward pass, and relevance through the last layer, in float64",
            frozenset({"attentions"}),
            uncounted=True,
        ),
        MethodInfo(
            "full_lrp",
            "relevance",
            "explearn.methods.relevance.lrp:FullLRP",
            "Relevance passed down from the class through all layers to the embeddings.",
            "two forward passes and one of relevance, in float64",
            uncounted=True,
        ),
        MethodInfo(
            "transformer_attribution",
            "relevance",
            "explearn.methods.relevance.lrp:TransformerAttribution",
            "Relevance of each layer's attention times its gradient, rolled out to [CLS].",
            "two forward passes, one backward and one of relevance, in float64",
            frozenset({"gradients", "attentions"}),
            uncounted=True,
        ),
        MethodInfo(
            "gae",
            "relevance",
            "explearn.methods.relevance.gae:GAE",
            "Each layer's attention times its gradient, positive part, added up through the layers to [CLS].",
            "one forward and one backward pass",
            frozenset({"gradients", "attentions"}),
        ),
        MethodInfo(
            "mgae",
            "relevance",
            "explearn.methods.relevance.gae:MaskedGAE",
            "GAE over the heads that matter alone; how they are found is a parameter.",
            "one forward and one backward pass",
            frozenset({"gradients", "attentions"}),
        ),
        MethodInfo(
            "cam",
            "relevance",
            "explearn.methods.relevance.cam:CAM",
            "Last-layer attention from [CLS], weighted by what each token's state gives to the class.",
            "one forward pass",
            frozenset({"attentions"}),
        ),
        MethodInfo(
            "grad_cam",
            "relevance",
            "explearn.methods.relevance.cam:GradCAM",
            "Last-layer attention, each head weighted by its mean gradient, positive part, from [CLS].",
            "one forward and one backward pass through the last layer",
            frozenset({"gradients", "attentions"}),
        ),
        MethodInfo(
            "cat",
            "relevance",
            "explearn.methods.relevance.attcat:CAT",
            "Hidden states times their gradients, added up over the layers.",
            "one forward and one backward pass",
            frozenset({"gradients"}),
        ),
        MethodInfo(
            "attcat",
            "relevance",
            "explearn.methods.relevance.attcat:AttCAT",
            "Hidden states times their gradients, weighted by attention to the token, added up over the layers.",
            "one forward and one backward pass",
            frozenset({"gradients", "attentions"}),
        ),
        MethodInfo(
            "attn_lrp",
            "relevance",
            "explearn.methods.relevance.attn_lrp:AttnLRP",
            "Relevance passed down with rules made for attention and layer norms, by a changed backward pass.",
            "one forward and one backward pass",
            frozenset({"gradients"}),
        ),
        MethodInfo(
            "occlusion",
            "perturbation",
            "explearn.methods.perturbation.occlusion:Occlusion",
            "Drop of the class's probability when a word is masked.",
            "one forward pass a word, and one more",
            costly=True,
        ),
        MethodInfo(
            "lime",
            "perturbation",
            "explearn.methods.perturbation.lime:Lime",
            "A linear model of how the class's probability changes when words are left out at random.",
            "one forward pass a sample (500 samples), duplicates once",
            costly=True,
        ),
        MethodInfo(
            "shap",
            "perturbation",
            "explearn.methods.perturbation.shap:Shap",
            "Shapley values over a hierarchy of the text's tokens, by the library shap.",
            "up to 500 forward passes, duplicates once",
            costly=True,
        ),
        MethodInfo(
            "kernel_shap",
            "perturbation",
            "explearn.methods.perturbation.kernel_shap:KernelShap",
            "Shapley values of words, estimated by a weighted linear model.",
            "one forward pass a sample (2 x words + 256 samples), duplicates once",
            costly=True,
        ),
        MethodInfo(
            "deep_shap",
            "perturbation",
            "explearn.methods.perturbation.deep_shap:DeepShap",
            "DeepLIFT's differences, averaged over several reference texts.",
            "one forward and backward pass a reference text, on twice the text",
            frozenset({"gradients"}),
            costly=True,
        ),
        MethodInfo(
            "solvex",
            "perturbation",
            "explearn.methods.perturbation.solvex:Solvex",
            "Beam search for the order of words that scores best on a faithfulness metric.",
            "up to beam size (5) x words^2 forward passes, duplicates once",
            costly=True,
            watches_metric=True,
        ),
        MethodInfo(
            "alti",
            "decomposition",
            "explearn.methods.decomposition.alti:ALTI",
            "How close each token's part of a layer's output comes to the whole, rolled out through the layers.",
            "one forward pass, and its parts token by token",
            frozenset({"attentions"}),
            uncounted=True,
        ),
        MethodInfo(
            "globenc",
            "decomposition",
            "explearn.methods.decomposition.globenc:GlobEnc",
            "Size of each token's part of a layer's output, layer norms included, rolled out through the layers.",
            "one forward pass, and its parts token by token",
            frozenset({"attentions"}),
            uncounted=True,
        ),
        MethodInfo(
            "decompx",
            "decomposition",
            "explearn.methods.decomposition.decompx:DecompX",
            "Each token's own vector carried through all layers to the class's logit.",
            "one forward pass for each sub-token's vector",
            frozenset({"attentions"}),
            costly=True,
            uncounted=True,
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

    Raises UnknownNameError, and ParamsError for a baseline.
    """
    if not get_info(name).learned:
        raise ParamsError(f"explainer {name!r} is not trained; name it under baselines, not under explainers")
    section: dict[str, Any] = getattr(params, name).model_dump()
    return section


def get_explainer(name: str, *, path: str | None = None, **options: Any) -> Explainer:
    """Make a method by name.

    Args:
        name: one of `list_explainers()`.
        path: folder of a trained explainer, for learned methods that are to explain at once; of a method with a `base`,
            the folder of a trained one of that name.
        options: constructor arguments of the method.

    Raises UnknownNameError for an unknown name or option (near names suggested), ParamsError for an option's bad value,
    and ModelError when `path` holds no such explainer.
    """
    info = get_info(name)
    cls = explainer_class(name)
    accepted = accepted_options(name) if options else []
    for option in options:
        if option not in accepted:
            raise UnknownNameError(f"option of {name}", option, accepted or ["(none)"])
    explainer: Explainer
    if path is not None:
        from explearn.methods.base.explainer import LearnedExplainer, RefiningExplainer

        if issubclass(cls, RefiningExplainer):
            explainer = cls.from_pretrained(path, **{**info.defaults, **options})
            explainer.name = name
            return explainer
        if not issubclass(cls, LearnedExplainer):
            raise ParamsError(f"method {name!r} is not trained; it has nothing to load from {path}")
        if options:
            raise ParamsError(f"options {', '.join(options)} come with the trained explainer in {path}; give no others")
        explainer = cls.from_pretrained(path)
    else:
        explainer = cls(**{**info.defaults, **options})
    explainer.name = name
    return explainer
