"""The papers' own figures, to set beside ours where a run has their tasks.

A paper's row stands beside a method of ours only where the two are the same method. ExpNet's LRP and FullLRP have no
row. By the paper's text (section 4.3), LRP goes down to the input, as our `full_lrp` does, and FullLRP stops at the
last block, as our `lrp` roughly does. Its figures suggest the reverse. It drops words of negative score (A.4), and yet
its LRP has a recall of 1.000 on CoLA (table 7), as methods without negative scores have; its FullLRP has 0.926.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explearn.methods.registry import get_info
from explearn.show.columns import Column
from explearn.show.task_report import TaskReport
from explearn_study.params import Params


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        title, source: what it shows, and where it stands: the paper's name, then the table's.
        encoder: the paper's, as the names of its checkpoints begin.
        note: how its setting differs from ours, for the reader.
        column: our figure that corresponds.
        adapters: the data sets of its columns, by our adapters' names, with the paper's headings. Without any, it has
            one column for all tasks.
        figures: method's registry name, where its NORM tells rows apart with ", NORM" behind it -> the paper's figures
            in the order of `adapters`, None where the paper has none.
        needs: adapters of all of which a run must have the data; empty: those of the columns.
        own_model: the explainer on whose own classifier all methods are judged; empty: on the task's.
    """

    title: str
    source: str
    encoder: str
    note: str
    column: Column
    adapters: Mapping[str, str]
    figures: Mapping[str, Sequence[float | None]]
    needs: Sequence[str] = ()
    own_model: str = ""


_EXPNET_NOTE = (
    "The paper has rationales of its own for SST-2 and CoLA. It says of CAM and Grad-CAM only that they use the final "
    "hidden layer; ours weight the last layer's attention."
)
_EXPNET_ADAPTERS = {"sst2": "SST-2", "cola": "CoLA", "hatexplain": "HateXplain"}

EXPNET_F1 = PaperTable(
    title="F1 on the task held out",
    source="ExpNet, Table 3",
    encoder="bert-base",
    note=_EXPNET_NOTE,
    column=Column("f1", "F1", True),
    adapters=_EXPNET_ADAPTERS,
    figures={
        "expnet_paper": (0.398, 0.468, 0.473),
        "random": (0.258, 0.387, 0.293),
        "shap": (0.330, 0.330, 0.276),
        "lime": (0.347, 0.323, 0.290),
        "integrated_gradients": (0.287, 0.342, 0.345),
        "raw_attention": (0.327, 0.353, 0.362),
        "rollout": (0.133, 0.347, 0.356),
        "gae": (0.350, 0.354, 0.391),
        "mgae": (0.350, 0.354, 0.391),
        "cam": (0.243, 0.355, 0.332),
        "grad_cam": (0.234, 0.356, 0.396),
        "attcat": (0.280, 0.345, 0.340),
    },
)

# The row of random words stands in another order in the paper: F1 of the three data sets, precision, recall.
EXPNET_PRECISION = PaperTable(
    title="Precision on the task held out",
    source="ExpNet, Table 7",
    encoder="bert-base",
    note=_EXPNET_NOTE,
    column=Column("precision", "Precision", True),
    adapters=_EXPNET_ADAPTERS,
    figures={
        "expnet_paper": (0.285, 0.349, 0.466),
        "random": (0.259, 0.388, 0.178),
        "shap": (0.392, 0.202, 0.384),
        "lime": (0.408, 0.198, 0.376),
        "integrated_gradients": (0.332, 0.209, 0.433),
        "raw_attention": (0.364, 0.214, 0.541),
        "rollout": (0.150, 0.210, 0.446),
        "gae": (0.391, 0.215, 0.528),
        "mgae": (0.391, 0.215, 0.528),
        "cam": (0.287, 0.216, 0.421),
        "grad_cam": (0.271, 0.216, 0.521),
        "attcat": (0.360, 0.211, 0.461),
    },
)

EXPNET_RECALL = PaperTable(
    title="Recall on the task held out",
    source="ExpNet, Table 7",
    encoder="bert-base",
    note=_EXPNET_NOTE,
    column=Column("recall", "Recall", True),
    adapters=_EXPNET_ADAPTERS,
    figures={
        "expnet_paper": (0.660, 0.707, 0.478),
        "random": (0.256, 0.385, 0.830),
        "shap": (0.284, 0.902, 0.215),
        "lime": (0.301, 0.878, 0.236),
        "integrated_gradients": (0.254, 0.939, 0.286),
        "raw_attention": (0.295, 1.000, 0.271),
        "rollout": (0.119, 0.987, 0.297),
        "gae": (0.316, 1.000, 0.310),
        "mgae": (0.316, 1.000, 0.310),
        "cam": (0.211, 1.000, 0.273),
        "grad_cam": (0.205, 0.987, 0.320),
        "attcat": (0.228, 0.963, 0.268),
    },
)

EXPNET_THROUGHPUT = PaperTable(
    title="Texts explained a second",
    source="ExpNet, Table 8",
    encoder="bert-base",
    note="Another machine: compare the order and the ratios, not the figures.",
    column=Column("throughput", "Texts a second", True, decimals=1),
    adapters={},
    needs=("sst2", "cola", "hatexplain"),
    figures={
        "expnet_paper": (13.889,),
        "raw_attention": (19.23,),
        "rollout": (15.38,),
        "attcat": (7.194,),
        "cam": (2.923,),
        "grad_cam": (2.840,),
        "gae": (2.832,),
        "mgae": (2.538,),
        "shap": (1.067,),
        "integrated_gradients": (0.197,),
        "lime": (0.120,),
    },
)

_AML_ADAPTERS = {"sst2": "SST-2", "rotten_tomatoes": "RTN", "imdb": "IMDb", "emotion": "EMR"}
_AML_COLUMNS = (
    Column("sufficiency", "Sufficiency", False),
    Column("log_odds", "Log-odds", False),
    Column("comprehensiveness", "Comprehensiveness", True),
    Column("aopc_sufficiency", "AOPC sufficiency", False),
    Column("aopc_comprehensiveness", "AOPC comprehensiveness", True),
)
# Method -> for each data set its figures in the order of _AML_COLUMNS.
_AML_BERT: dict[str, tuple[tuple[float, ...] | None, ...]] = {
    "faml": (
        (-0.010, -1.994, 0.467, 0.021, 0.286),
        (-0.002, -2.767, 0.656, 0.017, 0.295),
        (-0.006, -4.823, 0.808, 0.009, 0.418),
        (0.000, -3.990, 0.779, 0.014, 0.411),
    ),
    "paml": (
        (0.131, -0.663, 0.240, 0.095, 0.140),
        (0.181, -1.007, 0.328, 0.104, 0.127),
        (0.029, -3.274, 0.611, 0.076, 0.256),
        (0.084, -2.644, 0.626, 0.045, 0.330),
    ),
    "sequential_ig": (
        (0.083, -1.133, 0.378, 0.063, 0.208),
        (0.157, -1.524, 0.353, 0.109, 0.190),
        (0.058, -2.590, 0.380, 0.101, 0.251),
        (0.190, -2.063, 0.512, 0.116, 0.279),
    ),
    "alti": (
        (0.093, -0.816, 0.320, 0.064, 0.175),
        (0.111, -1.266, 0.334, 0.079, 0.193),
        (0.040, -1.252, 0.373, 0.051, 0.234),
        (0.044, -2.592, 0.631, 0.030, 0.350),
    ),
    "decompx": (
        (0.037, -1.450, 0.467, 0.030, 0.253),
        (0.045, -2.058, 0.471, 0.042, 0.263),
        (-0.005, -3.739, 0.706, 0.016, 0.412),
        (0.060, -2.763, 0.625, 0.044, 0.346),
    ),
    "solvex": (
        (0.125, -1.831, 0.517, 0.098, 0.282),
        (0.153, -2.598, 0.514, 0.122, 0.292),
        None,
        (0.101, -3.860, 0.697, 0.087, 0.383),
    ),
    "deep_lift": (
        (0.289, -0.314, 0.118, 0.168, 0.071),
        (0.310, -0.523, 0.155, 0.183, 0.092),
        (0.182, -0.330, 0.085, 0.191, 0.060),
        (0.380, -1.422, 0.311, 0.207, 0.174),
    ),
    "globenc": (
        (0.233, -0.388, 0.153, 0.140, 0.104),
        (0.269, -0.589, 0.179, 0.170, 0.112),
        (0.160, -0.382, 0.140, 0.183, 0.109),
        (0.094, -2.423, 0.583, 0.061, 0.322),
    ),
    "gradient_shap": (
        (0.250, -0.534, 0.191, 0.145, 0.111),
        (0.310, -0.744, 0.181, 0.185, 0.111),
        (0.191, -0.887, 0.167, 0.198, 0.111),
        (0.426, -1.157, 0.278, 0.228, 0.167),
    ),
    "input_x_gradient": (
        (0.237, -0.401, 0.153, 0.140, 0.094),
        (0.265, -0.652, 0.173, 0.163, 0.102),
        (0.138, -0.388, 0.095, 0.171, 0.068),
        (0.354, -1.472, 0.330, 0.197, 0.187),
    ),
    "integrated_gradients": (
        (0.110, -0.936, 0.334, 0.075, 0.187),
        (0.183, -1.117, 0.278, 0.123, 0.169),
        (0.083, -1.843, 0.335, 0.098, 0.204),
        (0.190, -2.106, 0.523, 0.113, 0.285),
    ),
    "lime": (
        (0.134, -0.713, 0.273, 0.093, 0.149),
        (0.186, -1.023, 0.261, 0.124, 0.146),
        (0.149, -0.224, 0.069, 0.198, 0.045),
        (0.104, -2.897, 0.586, 0.065, 0.322),
    ),
}

AML_FAITHFULNESS = tuple(
    PaperTable(
        title=column.heading,
        source="AML, Table 1, BERT",
        encoder="bert-base",
        note="The paper counts sub-tokens (evaluate.protocol: aml).",
        column=column,
        adapters=_AML_ADAPTERS,
        figures={
            method: tuple(None if of is None else of[index] for of in by_data) for method, by_data in _AML_BERT.items()
        },
    )
    for index, column in enumerate(_AML_COLUMNS)
)

_IVRA_NOTE = (
    "The paper does not give the size of its encoder. Ours judges all methods on IvRA's own classifier; of SQuAD, the "
    "answer's own words stay in every shortened text."
)
_IVRA_ROWS = (
    "attention_mean",
    "raw_attention",
    "input_x_gradient",
    "integrated_gradients",
    "lime",
    "smat",
    "ivra, softmax",
    "ivra, sparsemax",
)


def _ivra_table(
    title: str, number: int, column: Column, imdb: Sequence[float], snli: Sequence[float], squad: Sequence[float]
) -> PaperTable:
    figures = dict(zip(_IVRA_ROWS, zip(imdb, snli, squad, strict=True), strict=True))
    adapters = {"imdb": "IMDb", "snli": "SNLI", "squad": "SQuAD"}
    return PaperTable(
        title, f"IvRA, Table {number}", "electra", _IVRA_NOTE, column, adapters, figures, own_model="ivra"
    )


IVRA_COMPREHENSIVENESS = _ivra_table(
    "Comprehensiveness",
    2,
    Column("aopc_comprehensiveness", "AOPC comprehensiveness", True),
    (0.115, 0.115, 0.130, 0.148, 0.139, 0.275, 0.323, 0.273),
    (0.099, 0.097, 0.101, 0.175, 0.179, 0.350, 0.427, 0.360),
    (0.018, 0.015, 0.021, 0.092, 0.087, 0.121, 0.126, 0.111),
)
IVRA_CONSISTENCY = _ivra_table(
    "Consistency",
    4,
    Column("consistency", "Consistency", True),
    (0.302, 0.312, 0.296, 0.319, 0.338, 0.340, 0.378, 0.366),
    (0.211, 0.138, 0.230, 0.232, 0.273, 0.333, 0.336, 0.357),
    (0.134, 0.194, 0.186, 0.146, 0.224, 0.247, 0.250, 0.284),
)

PAPER_TABLES = (
    EXPNET_F1,
    EXPNET_PRECISION,
    EXPNET_RECALL,
    EXPNET_THROUGHPUT,
    *AML_FAITHFULNESS,
    IVRA_COMPREHENSIVENESS,
    IVRA_CONSISTENCY,
)
"""L2E's tables are those of `explearn_study.report.l2e_students`."""

LEFT_OUT = {
    "ExpNet": "LRP and FullLRP (what the paper says of them and its figures do not fit the same method of ours), "
    "Table 4 (ablations, each a run of its own) and Figure 3 (AUPRC, drawn without figures)",
    "AML": "the encoders RoBERTa and DistilBERT of Table 1, Table 2 (decoders), Table 3 (plausibility on Movie "
    "Reviews), Table 4 (ablations) and Table 5 (run times)",
    "IvRA": "Table 1 (simulatability, as accuracies, where ours are gains), Table 3 (sufficiency, whose figures our "
    "copy of the paper lacks), Table 5 (accuracy by criteria), Table 6 (plausibility on Movie Reviews) and Tables 7 to "
    "11 (decoders)",
}
"""By paper, those of its results that no table here holds, and why."""


def left_out(shown: Sequence[SideBySide]) -> str:
    """What is missing of the papers whose tables are shown, as sentences; empty where none is shown."""
    papers = dict.fromkeys(side.paper for side in shown)
    return " ".join(f"Of {paper}'s results, left out: {LEFT_OUT[paper]}." for paper in papers)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A paper's table with ours beside it.

    Attributes:
        table: the paper's. note: how its setting differs from ours. headings: of the columns, the paper's and ours in
            turn.
        rows: method and the figures as shown, the best of each column marked by True.
    """

    table: PaperTable
    note: str
    headings: list[str]
    rows: list[tuple[str, list[tuple[str, bool]]]]

    @property
    def paper(self) -> str:
        return self.table.source.partition(",")[0]


def side_by_side(params: Params, tasks: Sequence[TaskReport]) -> list[SideBySide]:
    """The papers' tables beside ours, those of whose data sets the run has all; the methods are the paper's.

    Left out are tables of which the run has no method but the baselines. A figure of ours that was not measured is a
    dash.
    """
    by_adapter = {params.sources[task.task].adapter: task for task in tasks if task.task in params.sources}
    return [_beside(table, params, tasks, by_adapter) for table in PAPER_TABLES if _matches(table, params, by_adapter)]


def _matches(table: PaperTable, params: Params, by_adapter: Mapping[str, TaskReport]) -> bool:
    studied = {method.partition(",")[0] for method in table.figures if get_info(method.partition(",")[0]).learned}
    return bool(studied & {*params.learned}) and all(a in by_adapter for a in table.needs or table.adapters)


def _beside(
    table: PaperTable, params: Params, tasks: Sequence[TaskReport], by_adapter: Mapping[str, TaskReport]
) -> SideBySide:
    shown = [by_adapter[adapter] for adapter in table.adapters] or None
    columns: list[list[float | None]] = []
    headings = []
    for index, name in enumerate(table.adapters.values() or ("all tasks",)):
        headings += [f"{name}, paper", f"{name}, ours"]
        columns.append([values[index] for values in table.figures.values()])
        of = tasks if shown is None else [shown[index]]
        columns.append([_mean_of(table, of, params, row) for row in table.figures])
    texts = [[table.column.text(value) for value in column] for column in columns]
    choose = max if table.column.larger_is_better else min
    best = [table.column.text(choose((v for v in column if v is not None), default=None)) for column in columns]
    rows = [
        (method, [(text[row], text[row] == top and top != "–") for text, top in zip(texts, best, strict=True)])
        for row, method in enumerate(table.figures)
    ]
    return SideBySide(table, f"{_encoders(table, params)} {table.note}", headings, rows)


def _encoders(table: PaperTable, params: Params) -> str:
    used = list(dict.fromkeys(params.encoder_of(task) for task in params.tasks))
    said = f"Encoder in the paper: {table.encoder}, here: {', '.join(used)}."
    # Checkpoints have an owner before their name.
    if all(name.rpartition("/")[2].startswith(table.encoder) for name in used):
        return said
    return f"{said} They differ: compare the order of the methods, not the figures."


def _mean_of(table: PaperTable, tasks: Sequence[TaskReport], params: Params, row: str) -> float | None:
    """Our figure of a row, mean over the tasks; None where a task lacks it, or the row is of another NORM."""
    method, _, norm = row.partition(", ")
    if norm and getattr(params, method).norm != norm:
        return None
    boards = [
        task.own_models.get(table.own_model, {}).get("methods", {}) if table.own_model else task.methods
        for task in tasks
    ]
    values = [board.get(method, {}).get(table.column.metric) for board in boards]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
