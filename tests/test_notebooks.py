"""The notebooks under examples/ run from top to bottom and show what they say."""

from itertools import product

import pytest
from places import ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = ROOT / "examples" / "notebooks"
MOST_STORED = 20_000
"""Characters of output that a notebook may be committed with."""


SETUP = """
import functools
from explearn.cli.demo import classifier
from explearn.metrics import base
base.FEWEST_TEXTS = 6
MOST = {"train": 200, "test": 6}
classifier._EPOCHS = 1
classifier.headlines = lambda split, read=classifier.headlines, most=MOST: [part[: most[split]] for part in read(split)]
classifier.demo_classifier = functools.cache(classifier.demo_classifier)
"""
"""Both notebooks train the same demo classifier: here once, briefly. Few texts have intervals, too."""


@pytest.mark.parametrize("name", ["compare.ipynb", "explain.ipynb"])
def test_it_is_stored_with_its_output(name):
    read = nbformat.read(FOLDER / name, as_version=4)
    nbformat.validate(read)
    shown = [str(cell.outputs) for cell in read.cells if cell.cell_type == "code"]
    # The first cell of compare.ipynb shows nothing.
    assert sum("data" in one or "stdout" in one for one in shown) >= len(shown) - 1
    assert sum(map(len, shown)) <= MOST_STORED and not any("stderr" in one for one in shown)


@pytest.mark.slow
def test_they_run_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cells = [nbformat.v4.new_code_cell(SETUP)]
    shown = []
    for name in ("explain.ipynb", "compare.ipynb"):
        read = nbformat.read(FOLDER / name, as_version=4)
        code = [nbformat.v4.new_code_cell(cell.source) for cell in read.cells if cell.cell_type == "code"]
        cells += [nbformat.v4.new_code_cell("%reset -f"), *code]
        shown += code
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    labels, drawn, top, other, beside, table, _, compared, figures, intervals, left_out = (
        str(cell.outputs) for cell in shown
    )
    assert "sports" in labels and "sports" in top
    assert all("text/html" in shown and "goalkeeper" in shown for shown in (drawn, other, beside, table))
    assert all(name in beside for name in ("consensus", "attn_lrp", "random"))
    assert "3 methods on 6 texts" in compared and (tmp_path / "report.html").stat().st_size > 10_000
    assert all(name in shown for name, shown in product(("attn_lrp", "attcat", "random"), (figures, intervals)))
    assert "comprehensiveness" in figures and "aopc_comprehensiveness_low" in intervals and "'{}'" in left_out
