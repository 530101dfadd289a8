"""Old names, on their way out."""

from explearn.core.escape import printable as visible
from explearn.core.escape import printable_json as visible_json

__all__ = ["visible", "visible_json"]
