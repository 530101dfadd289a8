"""README's figures and verdicts are those of the published study, reports/study.

README names a run's figure in two ways: in its table of methods, and in brackets behind a method, such as
"`marker` (F1 top-K 0.543, AUROC 0.776)". All figures are means over the run's tasks.
"""

import re
from itertools import chain
from statistics import fmean

import pytest

from explearn.core.documents import read_json

NAMES = {
    "F1 top-K": "f1_topk",
    "AUROC": "auroc",
    "comprehensiveness": "aopc_comprehensiveness",
    "sufficiency": "aopc_sufficiency",
}
COLUMNS = ("f1_topk", "aopc_comprehensiveness", "aopc_sufficiency", "mosaics", "planted")
FIGURE = r"-?\d\.\d{3}"
CELL = r"\| \**(-?\d?\.\d+)\** "
ROW = re.compile(rf"^\| \[?`(\w+)`.*?{CELL * 5}\|", re.MULTILINE)
CHOICE = re.compile(rf"`(\w+)`.*?{CELL * 2}\|")
BRACKETS = re.compile(rf"`(\w+)` \(((?:(?:{'|'.join(NAMES)}) {FIGURE}(?:, )?)+)\)")
NOT_BEHIND = re.compile(rf"`(\w+)` is not clearly behind the best in ({'|'.join(NAMES)})")
COUNTED = re.compile(r"of the (\d+) methods")


def claims(readme):
    """Yield method, metric and figure."""
    for row in ROW.finditer(readme):
        for metric, value in zip(COLUMNS, row.groups()[1:], strict=True):
            yield row[1], metric, float(value)
    for brackets in BRACKETS.finditer(" ".join(readme.split())):
        for pair in brackets[2].split(", "):
            name, _, value = pair.rpartition(" ")
            yield brackets[1], NAMES[name], float(value)


def is_figure(run, method, metric, value, tolerance):
    """Return whether a value is the mean over the run's tasks."""
    tasks = run["tasks"].values()
    if metric == "planted":
        tasks = run["planted"].values()
        metric = "f1_topk"
    values = [methods[method][metric] for methods in tasks if method in methods]
    return bool(values) and abs(fmean(values) - value) <= tolerance


def faults(readme, run):
    """Return what README says otherwise than the run, and figures that it does not attribute to a method."""
    found = []
    stated = list(claims(readme))
    for method, metric, value in stated:
        # Both the tasks' figures and their mean are rounded, known answers to two decimals.
        if not is_figure(run, method, metric, value, 0.0061 if metric in COLUMNS[3:] else 0.0011):
            found.append(f"{method} {metric} {value}")
    of_three_decimals = [metric for _, metric, _ in stated if metric not in COLUMNS[3:]]
    if len(re.findall(FIGURE, readme)) != len(of_three_decimals):
        found.append("figures without a method")
    for claim in NOT_BEHIND.finditer(" ".join(readme.split())):
        if claim[1] not in run.get("verdict", {}).get(NAMES[claim[2]], []):
            found.append(claim[0])
    methods = set(chain(*run["tasks"].values()))
    found += [count[0] for count in COUNTED.finditer(readme) if int(count[1]) != len(methods)]
    return found


RUN = {
    "tasks": {
        "reviews": {
            "marker": {
                "f1_topk": 0.5,
                "aopc_comprehensiveness": 0.2,
                "aopc_sufficiency": 0.1,
                "auroc": 0.7,
                "mosaics": 0.4,
            }
        },
        "topics": {
            "marker": {
                "f1_topk": 0.6,
                "aopc_comprehensiveness": 0.1,
                "aopc_sufficiency": -0.1,
                "auroc": 0.8,
                "mosaics": 0.6,
            }
        },
    },
    "planted": {"order": {"marker": {"f1_topk": 0.9}}},
    "verdict": {"f1_topk": ["marker"], "aopc_comprehensiveness": ["lime"]},
}


@pytest.mark.parametrize(
    ("readme", "wrong"),
    [
        ("One of the 1 methods\n\n| [`marker`](m.md) | finds | **0.550** | 0.150 | 0.000 | 0.50 | 0.90 | 1.1× |\n", []),
        ("| `marker` | 0.550 | 0.150 | 0.000 | 0.70 | 0.80 | 1.1× |", ["marker mosaics 0.7", "marker planted 0.8"]),
        ("So `marker`\n(F1 top-K 0.550, AUROC 0.750) is good.", []),
        ("So `marker` (AUROC 0.760) is good.", ["marker auroc 0.76"]),
        ("So `lime` (AUROC 0.750) is good.", ["lime auroc 0.75"]),
        ("It has 0.550.", ["figures without a method"]),
        (
            "`marker` is not clearly behind the best in comprehensiveness.",
            ["`marker` is not clearly behind the best in comprehensiveness"],
        ),
        ("Six of the 24 methods.", ["of the 24 methods"]),
    ],
)
def test_a_claim_that_does_not_follow_is_found(readme, wrong):
    assert faults(readme, RUN) == wrong


def test_readme_follows_from_the_committed_run(repository):
    readme = (repository / "README.md").read_text(encoding="utf-8")
    assert list(claims(readme)) and not faults(readme, read_json(repository / "reports" / "study" / "metrics.json"))


def test_bold_figures_of_the_table_are_the_best(repository):
    readme = (repository / "README.md").read_text(encoding="utf-8")
    rows = [row[0].split("|")[3:6] for row in ROW.finditer(readme)]
    assert len(rows) == 8
    for column, best in zip(zip(*rows, strict=True), (max, max, min), strict=True):
        values = {cell: float(cell.strip(" *")) for cell in column}
        assert [value for cell, value in values.items() if "**" in cell] == [best(values.values())]


def test_figures_of_what_people_marked_are_those_of_the_papers_page(repository):
    readme = " ".join((repository / "README.md").read_text(encoding="utf-8").split())
    sentence = re.search(r"HateXplain's words were marked by people.*?;", readme)
    figures = re.findall(r" (\.\d{3})", sentence[0])
    papers = (repository / "docs" / "study" / "papers.md").read_text(encoding="utf-8")
    assert len(figures) == 6 and all(figure in papers for figure in figures)


def test_the_page_of_methods_has_the_figures_of_the_committed_run(repository):
    page = (repository / "docs" / "explearn" / "methods.md").read_text(encoding="utf-8")
    run = read_json(repository / "reports" / "study" / "metrics.json")
    rows = CHOICE.findall(page)
    assert len(rows) == 7
    for method, *figures in rows:
        for metric, value in zip(COLUMNS, figures, strict=False):
            assert is_figure(run, method, metric, float(value), 0.0061), (method, metric)


def means(run, metric):
    return {method: figures[metric] for method, figures in run.items()}


def reaches_nine_tenths(run):
    of = means(run, "aopc_comprehensiveness")
    return 0.85 < of["reader"] / of["lime"] < 1


def above_all_others(run):
    ours = ("marker", "consensus")
    others = [method for method in run if method not in (*ours, "marker_in_domain")]
    for metric in ("f1_topk", "auroc"):
        of = means(run, metric)
        best = max(of[method] for method in others)
        if min(of[method] for method in ours) <= best or of["marker_in_domain"] <= best:
            return False
    return True


def tells_classes_apart(run):
    of = means(run, "mosaics")
    near_chance = all(abs(of[method] - 0.5) < 0.1 for method in ("expnet", "l2e", "paml", "ivra", "marker"))
    return near_chance and all(of[method] > 0.6 for method in ("reader", "attn_lrp", "lime", "consensus"))


@pytest.mark.parametrize("holds", [reaches_nine_tenths, above_all_others, tells_classes_apart])
def test_what_readme_concludes_holds_under_each_seed(repository, holds):
    readme = " ".join((repository / "README.md").read_text(encoding="utf-8").split())
    runs = read_json(repository / "reports" / "study" / "seeds.json").values()
    assert f"under each of {len(runs)} seeds" in readme
    assert all(map(holds, runs))
