"""Methods that go on with a trained one."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Self

from explearn.methods.base.explainer import Explainer


class RefiningExplainer(Explainer):
    """A method that starts from another, trained one and goes on with it on every text it explains."""

    @classmethod
    @abstractmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **options: Any) -> Self:
        """Make the method, with constructor arguments `options`, from the folder of the trained one it starts from.

        Raises ModelError for a missing or damaged file, ParamsError for an option's bad value.
        """
