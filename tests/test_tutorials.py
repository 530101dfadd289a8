"""The tutorials work, with a tiny encoder and few texts; `make tutorials` runs them as they are.

Left out here: installing, the demo's training, serving, and the pipeline.
"""

import re
import shlex

import pytest
import tiny
from cli_cases import run
from places import ROOT

from explearn.methods import registry
from explearn.predictors import finetune

MOST_WORDS = 500
PAGES = sorted((ROOT / "docs/tutorials").glob("*.md"))
WRITTEN = {
    "auditor": ["their-reader", "report.json", "audit.findings.csv"],
    "engineer": ["explained.html", "report.html", "my-bundle/manifest.json"],
    "researcher": ["report.html"],
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial(page, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(finetune, "resolve_encoder", lambda name: encoder if name == "embedded" else name)
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPLEARN_DEVICE", "cpu")
    corpus = tmp_path / "data/corpus"
    corpus.mkdir(parents=True)
    for path in (ROOT / "data/corpus").glob("*.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        step = 1 if ".rationales" in path.name else len(lines) // 75
        (corpus / path.name).write_text("".join(lines[::step]), encoding="utf-8")
    for language, text in re.findall(r"^```(sh|python)\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M):
        if language == "python":
            exec(text, {"__name__": "tutorial"})
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line)
            if program != "explearn" or words[0] == "serve" or words[-1] == "reports/report.html":
                continue
            if words[0] == "demo":
                out = words[2]
                table = "data/corpus/topics.csv"
                rows = re.findall(r'"label": "(\w+)"', (corpus / "topics.jsonl").read_text(encoding="utf-8"))
                (tmp_path / table).write_text(
                    "text,label\n" + "".join(f"text {n},{row}\n" for n, row in enumerate(rows))
                )
                words = ["finetune", "--texts", table, "--label-column", "label"]
                words += ["--encoder", "embedded", "--out", out]
            done = run(*words)
            assert done.exit_code == 0, (line, done.output)
    for name in WRITTEN[page.stem]:
        assert (tmp_path / name).exists(), name


def test_tutorials_are_short():
    assert [page.stem for page in PAGES] == sorted(WRITTEN)
    for page in PAGES:
        assert len(page.read_text(encoding="utf-8").split()) <= MOST_WORDS, page.name
