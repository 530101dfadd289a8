"""Methods by name: making them, and adding some from outside. `explearn.methods.names` knows the names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from explearn.core.arguments import shown
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.methods.names import class_of, get_info

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer


def explainer_class(name: str) -> type[Explainer]:
    """The class behind a name. Raises UnknownNameError, and ParamsError for a package that cannot be loaded."""
    found: type[Explainer] = class_of(name)
    return found


def accepted_options(name: str) -> list[str]:
    """Names of a method's constructor arguments."""
    return list(inspect.signature(explainer_class(name)).parameters)


def get_explainer(name: str, *, path: str | None = None, **options: Any) -> Explainer:
    """Make a method by name.

    Args:
        name: one of `list_explainers()`.
        path: folder of a trained explainer, for learned methods that are to explain at once; of a method with a `base`,
            the folder of a trained one of that name.
        options: constructor arguments of the method; a variant's own are added where they name none.

    Raises UnknownNameError for an unknown name or option (near names suggested), ParamsError for an option's bad value,
    and ModelError when `path` holds no such explainer.
    """
    return make_explainer(name, options, path)


def make_explainer(name: str, options: Mapping[str, Any], path: str | None = None) -> Explainer:
    """As `get_explainer`, of options by names that come from outside and may be any, `name` and `path` among them."""
    info = get_info(name)
    cls = explainer_class(name)
    given = {**info.defaults, **options}
    accepted = accepted_options(name) if given else []
    for option in given:
        if option not in accepted:
            raise UnknownNameError(f"option of {name}", option, accepted or ["(none)"])
    explainer: Explainer
    if path is not None:
        from explearn.methods.base.explainer import LearnedExplainer
        from explearn.methods.base.refining import RefiningExplainer

        if issubclass(cls, RefiningExplainer):
            explainer = cls.from_pretrained(path, **given)
            explainer.name = name
            return explainer
        if not issubclass(cls, LearnedExplainer):
            raise ParamsError(f"method {name!r} is not trained; it has nothing to load from {shown(path)}")
        if options:
            raise ParamsError(f"options {', '.join(options)} come with the trained explainer in {path}; give no others")
        explainer = cls.from_pretrained(path)
    else:
        explainer = cls(**given)
    explainer.name = name
    return explainer
