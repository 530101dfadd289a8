"""Which explainers of a run learn from the attention features that the stage attend writes."""

from __future__ import annotations

from explearn.methods.registry import get_info
from explearn_study.params import Params


def readers_of_features(params: Params) -> list[str]:
    """Names of what of a run reads attention features of the task's classifier.

    Of the learned methods those that need attention; what trains a classifier of its own takes that one's.
    """
    infos = [(name, get_info(name)) for name in params.trained]
    found = [n for n, i in infos if "attentions" in i.needs and not i.own_model]
    return [*found, *(["curve"] if params.curve.tasks else [])]
