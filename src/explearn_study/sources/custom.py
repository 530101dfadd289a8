"""The adapter for a user's own table, whose columns are named in the parameters."""

from __future__ import annotations

from explearn.core.errors import ParamsError
from explearn.text.custom import CustomRows
from explearn.text.mapping import one_of
from explearn_study.sources.mapping import Adapter
from explearn_study.sources.params import SourceParams


class CustomAdapter(CustomRows, Adapter):
    """An adapter for any table, with the columns named in `SourceParams.columns`.

    Raises:
        ParamsError: the columns contradict each other.
    """

    def __init__(self, task: str, source: SourceParams) -> None:
        super().__init__(source.columns, source.label_names)
        columns = self.names
        where = f"sources.{task}"
        if columns.text and columns.words:
            raise ParamsError(f"{where}.columns: got both text and words; expected one of them")
        if not (columns.text or columns.words or columns.marked):
            raise ParamsError(
                f"{where}.columns: got neither text nor words; expected the name of the column with the text"
            )
        marks = [name for name in ("marked", "mask", "spans") if getattr(columns, name)]
        if len(marks) > 1:
            raise ParamsError(
                f"{where}.columns: got {', '.join(marks)}; expected at most one of marked, mask and spans"
            )
        self.labels = tuple(source.labels) if source.labels is not None else None
        self.known_labels = self.labels or tuple(dict.fromkeys(self.label_names.values())) or None
        if self.labels is None:
            return
        if len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            raise ParamsError(f"{where}.labels: got {', '.join(self.labels)}; expected two or more different labels")
        for raw, label in self.label_names.items():
            if label not in self.labels:
                raise ParamsError(f"{where}.label_names.{raw}: got {label!r}; expected {one_of(label, self.labels)}")

    @property
    def columns(self) -> list[str]:
        return [name for name in self.names.model_dump().values() if name is not None]
