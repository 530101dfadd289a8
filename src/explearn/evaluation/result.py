"""The result of judging methods on some texts: what it holds, how it shows itself, and its files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import ConfigDict, Field, SkipValidation

from explearn.core.arrays import Array
from explearn.core.attribution import Attribution
from explearn.core.documents import PathLike, checked_path, read_json
from explearn.core.errors import ParamsError
from explearn.core.examples import Example
from explearn.core.extras import need
from explearn.core.storage import read_attributions, write_attributions
from explearn.core.validation import Shape, check
from explearn.core.writing import atomic_folder, write_json
from explearn.evaluation.files import AGREEMENT, read_pairs, read_values, write_pairs, write_values
from explearn.methods.info import FAMILIES, MethodInfo
from explearn.metrics.base import Metric
from explearn.metrics.mosaics import MOSAICS
from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE, get_metric, list_metrics
from explearn.metrics.sanity import SanityResult
from explearn.metrics.significance import PairedTests
from explearn.show.blocks import Cell, Column, Mark, Table, several
from explearn.show.printed import Printed
from explearn.show.tables import latex_of

if TYPE_CHECKING:
    import pandas as pd

Figures = dict[str, int | float | None]

Standing = tuple[Collection[str], Collection[str]]
"""The methods with the best figure of a metric, and those that are not significantly worse."""

MAIN = ("f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency")
"""Metrics that are shown first; those without any figure are left out."""

FEW_BETTER = 0.25
"""Share of methods significantly better than random scores below which a metric ranks none. Our own threshold."""

LIKE_CHANCE = " ≈ chance"
"""Follows the heading of a column that ranks none."""

COST_NOISE = 0.1
"""Share by which times and memory differ from run to run: classifying the same texts, timed anew for each method of
the committed report, took 0.9 to 1.1 times as long as on average."""

OWN_MODEL = " †"
WATCHING = " ‡"
UNCOUNTED = "+"
"""Follow a method that explains a classifier of its own, one that optimises a faithfulness metric on every text, and
passes that do not count all of a method's work (`MethodInfo.uncounted`)."""

EVALUATION = "an evaluation"
"""What `Evaluation.save` writes."""

DOCUMENT = "evaluation.json"
"""The file, in an evaluation's folder, with all that is not a table."""


class Evaluation(Printed, Shape):
    """Methods judged on the same texts. It displays itself as a table, and prints one line a main metric.

    Attributes:
        figures: method -> metric -> figure, with the bounds of its interval as METRIC_low and METRIC_high; None where
            undefined, never NaN. Also the numbers of texts (`texts`), of those with marks that were classified
            correctly (`plausibility_texts`), and of words that were not read (`unaligned_words`).
        example_ids: the n texts; a text with several targets is one.
        by_text: metric -> method -> value on each text, (n,), NaN where undefined; names are those of
            `explearn.Metric.by_text`. Values of `mosaics` are by mosaic.
        comparisons: metric -> paired tests of all methods (Wilcoxon's signed-rank test over the texts, Holm's
            correction), with the best method and those that are not significantly worse. Methods with their own
            classifier are only compared in metrics that do not depend on the classifier.
        agreement: Spearman's rho of every two methods' scores, in the order of `figures`, (methods, methods).
        metrics: the metrics by name, in the order of tables.
        task: name of the texts.
        unit: what is scored, in the singular.
        labels: classes of the classifier.
        classifier: its fingerprint.
        performance: split -> accuracy, macro_f1, mcc, majority_rate and texts of the classifier; any may be missing.
        infos: facts of the methods that are known, by family, and within each as given.
        options: method -> its options.
        notes: method -> what it noted about its work (`Explainer.notes`).
        thresholds: method -> lowest score of a chosen word, for methods that choose by a threshold.
        params: settings of the metrics.
        seed: seed of all draws.
        k: number of words that the top-K rule chooses in a text; None where unknown.
        positive_rate: share of marked words in training; None where unknown.
        marks: the annotators' agreement (`explearn.text.agreement.agreement_metrics`); any figure may be missing.
        splits: split -> number of its texts.
        sanity: method -> its sanity checks; empty where nothing was checked.
        checked: number of texts of the sanity checks.
        left_out: method -> why it was not judged.
        remarks: further sentences on what not to trust.
        examples: some of the texts, to show.
        gold: example id -> marked words, for `examples` that somebody marked.
        attributions: explanations of `examples`.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> attributions = list(explearn.get_explainer("random").explain(classifier(), TEXTS))
        >>> explearn.evaluate(classifier(), attributions, metrics=["sufficiency"]).counts
        '1 method on 5 texts'
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, strict=False, extra="forbid", allow_inf_nan=True)

    figures: dict[str, Figures] = Field(default_factory=dict)
    example_ids: tuple[str, ...] = ()
    by_text: Annotated[dict[str, dict[str, Array]], SkipValidation] = Field(default_factory=dict, exclude=True)
    comparisons: Annotated[dict[str, PairedTests], SkipValidation] = Field(default_factory=dict, exclude=True)
    agreement: Annotated[Array, SkipValidation] = Field(default_factory=lambda: np.zeros((0, 0)), exclude=True)
    metrics: Annotated[Mapping[str, Metric], SkipValidation] = Field(default_factory=lambda: CATALOGUE, exclude=True)
    task: str = "texts"
    unit: str = "word"
    labels: list[str] = Field(default_factory=list)
    classifier: str = ""
    performance: dict[str, Figures] = Field(default_factory=dict)
    infos: dict[str, MethodInfo] = Field(default_factory=dict)
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    notes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    thresholds: dict[str, float] = Field(default_factory=dict)
    params: EvaluateParams = EvaluateParams()
    seed: int = 13
    k: int | None = None
    positive_rate: float | None = None
    marks: dict[str, Any] = Field(default_factory=dict)
    splits: dict[str, int] = Field(default_factory=dict)
    sanity: dict[str, SanityResult] = Field(default_factory=dict)
    checked: int = 0
    left_out: dict[str, str] = Field(default_factory=dict)
    remarks: list[str] = Field(default_factory=list)
    examples: list[Example] = Field(default_factory=list)
    gold: dict[str, list[bool]] = Field(default_factory=dict)
    attributions: Annotated[list[Attribution], SkipValidation] = Field(default_factory=list, exclude=True)

    # Arrays have no truth value, by which pydantic would compare two evaluations.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def bold_sentences(self) -> list[str]:
        """Return the numbers of methods and texts, and a line for each main metric."""
        shown = self._main_table()
        printed = [[column.title for column in shown.columns]]
        for row in shown.rows:
            printed.append([cell if isinstance(cell, str) else cell.text for cell in row])
        widths = [max(map(len, column)) for column in printed]
        lines = [f"{self.counts}."]
        for title, *cells in zip(*printed, strict=True):
            aligned = map(str.rjust, cells, widths[1:])
            lines.append("  ".join([title.ljust(widths[0]), *aligned]))
        return lines

    def next_steps(self) -> str:
        """Return how to go on in Python."""
        return ".to_frame() has all figures, .comparisons the paired tests; .save('evaluation') keeps them."

    @property
    def counts(self) -> str:
        """The numbers of methods and texts, in words."""
        methods = several(len(self.figures), "method")
        if self.left_out:
            methods += f" ({len(self.left_out)} left out)"
        return f"{methods} on {several(len(self.example_ids), 'text')}"

    def fields(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    # ---- the figures -------------------------------------------------------------------------------------------------

    def best(self, metric: str = "aopc_comprehensiveness") -> str:
        """Return the method with the best figure of a metric.

        Others may not be significantly worse: see `comparisons[metric].tied`.

        Args:
            metric: name of a metric.

        Raises:
            UnknownNameError: there is no such metric.
            ParamsError: no method has it, or it has no better direction.
        """
        found = self.metric(metric)
        values = self.values(metric)
        if not values or found.direction is None:
            raise ParamsError(f"metric: got {metric!r}, which no method has, or which has no better direction")
        return found.best(values)

    def metric(self, name: str) -> Metric:
        """Return a metric by name.

        Args:
            name: its name.

        Raises:
            UnknownNameError: there is no such metric.
        """
        return self.metrics.get(name) or get_metric(name)

    def values(self, metric: str) -> dict[str, float]:
        """Return method -> figure, for methods that have the metric.

        Args:
            metric: name of a metric.
        """
        values = {}
        for method, figures in self.figures.items():
            value = figures.get(metric)
            if value is not None:
                values[method] = value
        return values

    @property
    def chance(self) -> set[str]:
        """The methods whose scores know nothing of the model."""
        return {name for name, info in self.infos.items() if info.family == "chance"}

    def random(self, metric: str) -> str | None:
        """Return the method with a figure of a metric that draws its scores at random; None if there is none.

        Args:
            metric: name of a metric.
        """
        for method in self.values(metric):
            if method in self.infos and self.infos[method].at_random:
                return method
        return None

    def shared_figure(self, name: str) -> float | None:
        """Return a figure that is the same for all methods that explain the task's classifier; None if it is missing.

        Args:
            name: name of the figure.
        """
        for method, value in self.values(name).items():
            if method not in self.infos or not self.infos[method].own_model:
                return value
        return None

    def to_beat(self, metric: Metric) -> str:
        """Return the figure that the methods' figures should be compared with, in words; empty without one.

        Args:
            metric: the methods' metric.
        """
        value = self.shared_figure(metric.compare_with)
        if value is None:
            return ""
        other = self.metric(metric.compare_with)
        return f"{other.heading.lower()} {other.shown(value)}"

    def ordered(self) -> list[str]:
        """Return the methods in the order of tables: that of `infos`, then those that are not known."""
        known = [method for method in self.infos if method in self.figures]
        return [*known, *(method for method in self.figures if method not in self.infos)]

    def comparable(self, method: str, metric: str) -> bool:
        """Return whether a method's figure can be compared with other methods.

        It cannot if the method explains its own classifier and the metric depends on the classifier.

        Args:
            method: name of the method.
            metric: name of a metric.
        """
        info = self.infos.get(method)
        return not (info and info.own_model and metric in self.metrics and self.metrics[metric].of_model)

    def like_chance(self, metric: str) -> bool:
        """Return whether few methods are significantly better than random scores, so that the metric ranks none.

        Args:
            metric: name of a metric.
        """
        tests = self.comparisons.get(metric)
        random = self.random(metric)
        if tests is None or random is None:
            return False
        outcomes = []
        for method in tests.methods:
            if method not in self.chance:
                outcomes.append(tests.outcome(method, random, self.params.significance) > 0)
        return sum(outcomes) < FEW_BETTER * len(outcomes)

    def standing(self, metric: Metric) -> Standing:
        """Return a metric's best and tied methods; none if it cannot tell methods from random scores.

        Without tests every method that shows the best figure is best (for figures of the machine, within COST_NOISE of
        it). Methods whose figure cannot be compared, or whose passes do not count all of their work, are never best.

        Args:
            metric: the metric.
        """
        tests = self.comparisons.get(metric.name)
        if tests is not None:
            if len(tests.methods) < 2 or self.like_chance(metric.name):
                return (), ()
            return tests.best, tests.tied
        values = {}
        for method, value in self.values(metric.name).items():
            if self.comparable(method, metric.name) and not self._uncounted(method, metric):
                values[method] = metric.limited(value)
        if metric.direction is None or not values:
            return (), ()
        top = values[metric.best(values)]
        noise = 0.0
        if metric.of_machine:
            noise = COST_NOISE * abs(top)
        best = []
        for method, value in values.items():
            if abs(value - top) <= noise or metric.shown(value) == metric.shown(top):
                best.append(method)
        return best, ()

    def _uncounted(self, method: str, metric: Metric) -> bool:
        info = self.infos.get(method)
        return metric.passes and info is not None and info.uncounted

    # ---- how it shows itself -----------------------------------------------------------------------------------------

    def marked(self, method: str) -> str:
        """Return a method's name as tables show it, with its sign.

        Args:
            method: name of the method.
        """
        info = self.infos.get(method)
        if info and info.own_model:
            return method + OWN_MODEL
        if info and info.watches_metric:
            return method + WATCHING
        return method

    def table(self, metrics: Sequence[str | Metric] | None = None, caption: str = "") -> Table:
        """Return a table with a row for each method that has any of the metrics.

        Args:
            metrics: the columns; those without any figure are left out. None: all that have a better direction.
            caption: the table's caption.
        """
        chosen = [self.metric(metric) if isinstance(metric, str) else metric for metric in metrics or ()]
        if metrics is None:
            chosen = [metric for metric in self.metrics.values() if metric.direction]
        chosen = [metric for metric in chosen if self.values(metric.name)]
        methods = self.ordered()
        if chosen:
            with_figures = set().union(*(self.values(metric.name) for metric in chosen))
            methods = [method for method in methods if method in with_figures]
        heads = [Column("Method", numeric=False, key=True)]
        rows: list[list[Cell | str]] = [[self.marked(method)] for method in methods]
        for metric in chosen:
            standing = self.standing(metric)
            title = metric.title
            if to_beat := self.to_beat(metric):
                title += f" ({to_beat})"
            if self.like_chance(metric.name):
                title += LIKE_CHANCE
            heads.append(Column(title, ascending=metric.direction == "lower", machine=metric.of_machine))
            for row, method in zip(rows, methods, strict=True):
                row.append(self._cell(metric, method, standing))
        return Table(heads, rows, caption, methods)

    def _cell(self, metric: Metric, method: str, standing: Standing) -> Cell:
        figures = self.figures[method]
        value = figures.get(metric.name)
        low = figures.get(f"{metric.name}_low")
        high = figures.get(f"{metric.name}_high")
        best, tied = standing
        mark: Mark = ""
        if method in best:
            mark = "best"
        elif method in tied:
            mark = "tied"
        note = ""
        if low is not None and high is not None:
            note = f"{low:.2f} to {high:.2f}"
        after = UNCOUNTED * (value is not None and self._uncounted(method, metric))
        return Cell(metric.shown(value) + after, value, mark, note)

    def to_frame(self, by_text: bool = False) -> pd.DataFrame:
        """Return a frame with one row per method and one column per figure.

        Args:
            by_text: a row for each method and text instead, with a column for each metric that has values by text;
                `mosaics`, whose values are by mosaic, is left out.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        need("pandas", extra="pipeline", what="a frame")
        import pandas as pd

        if not by_text:
            figures = pd.DataFrame.from_dict(self.figures, orient="index").rename_axis("method")
            return figures.dropna(axis="columns", how="all")
        frames = {}
        for metric, methods in self.by_text.items():
            if metric != MOSAICS.by_text:
                frames[metric] = pd.DataFrame(methods, index=self.example_ids).unstack()
        return pd.DataFrame(frames).rename_axis(["method", "text"])

    def to_latex(self, metrics: Sequence[str] = MAIN) -> str:
        r"""Return a table in LaTeX (package booktabs): means over the texts with their intervals.

        The best method in a column is bold; methods that are not significantly worse have an asterisk.

        Args:
            metrics: names of metrics; those without any figure are left out.

        Raises:
            UnknownNameError: there is no such metric.
        """
        return latex_of(self.table(metrics))

    def _main_table(self) -> Table:
        main = [metric for metric in MAIN if self.values(metric)]
        return self.table(main or None)

    def _repr_html_(self) -> str:
        return _table_html(self._main_table(), self.counts)

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, folder: PathLike) -> None:
        """Write everything into a folder, which replaces an earlier one; `load` reads it.

        evaluation.json has the figures and facts, texts.parquet each text's values, pairs.parquet the paired tests,
        attributions.parquet the explanations of `examples`.

        Args:
            folder: the folder.
        """
        with atomic_folder(folder, EVALUATION) as made:
            ids = {}
            for metric, values in self.by_text.items():
                ids[metric] = list(self.example_ids)
                if metric == MOSAICS.by_text:
                    ids[metric] = [f"mosaic-{number}" for number in range(max(map(len, values.values()), default=0))]
            write_values(made / "texts.parquet", ids, self.by_text)
            write_pairs(made / "pairs.parquet", self.comparisons, list(self.figures), self.agreement)
            write_attributions(made / "attributions.parquet", self.attributions)
            document = self.model_dump(mode="json")
            for info in document["infos"].values():  # what was a set has no order of its own
                info["needs"].sort()
                info["later"].sort()
            write_json(made / DOCUMENT, document)

    @classmethod
    def load(cls, folder: PathLike) -> Self:
        """Read what `save` wrote.

        Args:
            folder: the folder.

        Raises:
            DataError: a file is missing or damaged.

        Example:
            >>> import tempfile
            >>> import explearn
            >>> from explearn.testing.tiny import classifier, TEXTS
            >>> attributions = list(explearn.get_explainer("random").explain(classifier(), TEXTS))
            >>> evaluation = explearn.evaluate(classifier(), attributions, metrics=["sufficiency"])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     evaluation.save(folder + "/evaluation")
            ...     again = explearn.Evaluation.load(folder + "/evaluation")
            >>> again.figures == evaluation.figures
            True
        """
        root = Path(checked_path(folder, "folder"))
        found: Self = check(cls, read_json(root / DOCUMENT), before=f"{root / DOCUMENT}, ")
        list_metrics()  # those of installed packages are in CATALOGUE, too, from now on
        tables: dict[str, Any] = {
            "by_text": read_values(root / "texts.parquet"),
            "comparisons": {},
            "attributions": read_attributions(root / "attributions.parquet"),
        }
        for name, methods, matrices in read_pairs(root / "pairs.parquet"):
            agreement = matrices.pop("value")
            if name == AGREEMENT:
                tables["agreement"] = agreement
                continue
            values = np.array([found.figures[method][name] for method in methods], dtype=np.float64)
            tables["comparisons"][name] = PairedTests(
                name,
                found.metric(name).larger_is_better,
                tuple(methods),
                values,
                texts=matrices["texts"].astype(np.int64),
                p_values=matrices["p_values"],
                adjusted=matrices["adjusted"],
                direction=matrices["direction"].astype(np.int8),
                significance=found.params.significance,
            )
        return found.model_copy(update=tables)


def read_report(folder: PathLike, by_text: bool = False) -> pd.DataFrame:
    """Return a run of the pipeline as one frame: a row for each task and method, a column for each figure.

    Args:
        folder: the run's folder of reports, or one that `Evaluation.save` wrote.
        by_text: a row for each task, method and text instead (`Evaluation.to_frame`).

    Raises:
        DataError: a file is missing or damaged.
        MissingExtraError: pandas is not installed.

    Example:
        >>> import tempfile
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> attributions = list(explearn.get_explainer("random").explain(classifier(), TEXTS))
        >>> evaluation = explearn.evaluate(classifier(), attributions, metrics=["sufficiency"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     evaluation.save(folder + "/metrics/films")
        ...     frame = explearn.read_report(folder)
        >>> frame["sufficiency"].index.to_list()
        [('texts', 'random')]
    """
    need("pandas", extra="pipeline", what="a frame")
    import pandas as pd

    root = Path(checked_path(folder, "folder"))
    frames = {}
    for document in sorted(root.glob(f"metrics/*/{DOCUMENT}")) or [root / DOCUMENT]:
        evaluation = Evaluation.load(document.parent)
        frames[evaluation.task] = evaluation.to_frame(by_text)
    return pd.concat(frames, names=["task"])


def in_table_order(infos: Mapping[str, MethodInfo]) -> dict[str, MethodInfo]:
    """Return methods by family, and within each as given: the order of all tables."""
    return dict(sorted(infos.items(), key=lambda item: FAMILIES.index(item[1].family)))


def _table_html(table: Table, caption: str) -> str:
    """Return a table as HTML for a notebook: the best figures bold, those not significantly worse with an asterisk."""
    head = "".join(f"<th>{escape(column.title)}</th>" for column in table.columns)
    rows = [f"<tr>{head}</tr>"]
    for row in table.rows:
        cells = "".join(f"<td>{_cell_html(cell)}</td>" for cell in row)
        rows.append(f"<tr>{cells}</tr>")
    note = "bold: best; *: not significantly worse; small: intervals"
    return f"<table>{''.join(rows)}</table><p>{escape(caption)} ({note})</p>"


def _cell_html(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return escape(cell)
    text = cell.text
    if cell.mark == "best":
        text = f"<b>{text}</b>"
    if cell.mark == "tied":
        text += "*"
    if cell.note:
        text += f" <small>{cell.note}</small>"
    return text
