"""The methods that are taken where none is named, in one ranked table; and the rosters, which name several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from explearn.methods.registry import explainer_class, known_infos

Use = Literal["explain", "paid", "similarity", "serve", "demo", "compare"]
"""Where a method is a default:

* explain: the first one that can explain a classifier is taken. Each needs less access to the model than the one
  before: its architecture, its word embeddings, its mask, only its predictions.
* paid: the same for a classifier whose answers cost money, however long the text.
* similarity: the same for the similarity of two texts, which masks or padding in both would raise.
* serve: all that can explain the service's classifier are taken. Each takes a few model passes, or, for occlusion,
  which needs only predictions, one per word.
* demo: Explearn's own method that needs no training, a cheap faithful one, and the simplest one.
* compare: a comparison tries these first, and drops them last if time is short.
"""


class Default(NamedTuple):
    """A method that is taken where none is named.

    Attributes:
        method: its name.
        uses: where it is taken.
        options: its options there.
    """

    method: str
    uses: Sequence[Use]
    options: Mapping[str, Any] = {}


FLOOR = "random"
"""The method that a comparison never drops: without it, figures say nothing."""

RANKED = (
    Default(FLOOR, ["compare"]),
    Default("marker", ["compare"]),
    Default("consensus", ["compare", "demo"]),
    Default("reader", ["compare"]),
    Default("attn_lrp", ["explain", "serve", "demo", "compare"]),
    Default("attcat", ["serve"]),
    Default("gae", ["serve"]),
    Default("lime", ["compare"]),
    Default("integrated_gradients", ["explain"]),
    Default("occlusion", ["explain", "serve", "demo"]),
    Default("occlusion", ["explain", "similarity"], {"removal": "delete"}),
    Default("hierarchical", ["paid"]),
)
"""All defaults, the first ones first."""


def defaults(use: Use) -> list[Default]:
    """Return the defaults of one use, by rank."""
    return [default for default in RANKED if use in default.uses]


ROSTERS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # The most faithful baselines of one to three model passes, and a floor: for first looks.
    "quick": {"random": {}, "gae": {}, "attcat": {}, "attn_lrp": {}},
    # The baselines of ExpNet's Table 3, without mgae, whose figures are gae's within 0.01, and full_lrp, whose AUROC is
    # that of random scores; input x gradient, which L2E takes as a teacher; and AttnLRP, which comes near LIME in
    # faithfulness at one forward and one backward pass. The costly ones take fewer samples than roster expnet. On 60
    # texts a task of the embedded corpus that moved F1 by at most 0.05 from 500, 200 and 50 to 200, 100 and 20, and by
    # at most 0.051 from there.
    "light": {
        "random": {},
        "raw_attention": {},
        "rollout": {},
        "input_x_gradient": {"output": "logit"},
        "lrp": {},
        "gae": {},
        "cam": {},
        "grad_cam": {},
        "attcat": {},
        "attn_lrp": {},
        "lime": {"samples": 128},
        "shap": {"max_evals": 64},
        "integrated_gradients": {"steps": 12},
    },
    # The options that differ from the defaults; `roster` adds every other method that needs no training.
    "complete": {
        "input_x_gradient": {"output": "logit"},
        "integrated_gradients": {"steps": 50},
        "lime": {"samples": 500},
        "shap": {"max_evals": 500},
    },
}
"""Roster -> method -> options. conf/roster/ has further ones, for runs."""

BY_PREDICTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    # What `explain` takes for a function, and a floor.
    "quick": {"random": {}, "occlusion": {}},
    "light": {
        "random": {},
        "occlusion": {},
        "hierarchical": {},
        "lime": ROSTERS["light"]["lime"],
        "shap": ROSTERS["light"]["shap"],
    },
    "complete": {name: ROSTERS["complete"][name] for name in ("lime", "shap")},
}
"""The same rosters for a classifier without a model to look into, such as a function of texts."""

_OWN = "explearn.methods."


def roster(name: str, by_predictions: bool = False) -> dict[str, dict[str, Any]]:
    """Return a roster: method -> its options.

    Args:
        name: one of ROSTERS.
        by_predictions: whether the classifier has no model to look into, only predictions.

    Example:
        >>> roster("quick")
        {'random': {}, 'gae': {}, 'attcat': {}, 'attn_lrp': {}}
        >>> roster("quick", by_predictions=True)
        {'random': {}, 'occlusion': {}}
    """
    options = (BY_PREDICTIONS if by_predictions else ROSTERS)[name]
    methods = list(options)
    if name == "complete":
        # Methods of the family `reason` explain only a prompt to a language model.
        methods = []
        for info in known_infos():
            if not info.target.startswith(_OWN) or info.family in ("learned", "reason"):
                continue
            if not by_predictions or not explainer_class(info.name).needs_model:
                methods.append(info.name)
    return {method: dict(options.get(method, {})) for method in methods}
