"""The examples of the documentation on sources, and the development data."""

import re
import shutil
from collections import Counter

import pytest
import tiny
from source_cases import counts, load
from stage_cases import succeed

from explearn import Evaluation
from explearn.text.agreement import agreement_metrics
from explearn_study.params import load_params
from explearn_study.sections import RationaleFile
from explearn_study.sources import load_task
from explearn_study.sources.rationale_files import import_rationales


def composed(root, repository, *overrides):
    """The parameters that `dvc exp run` would write from the repository's conf/ and what lies in conf/ under `root`."""
    from dvc.utils.hydra import compose_and_dump

    for path in (repository / "conf").rglob("*.yaml"):
        copy = root / path.relative_to(repository)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    compose_and_dump(
        root / "params.yaml", str(root / "conf"), None, "config", str(repository / "conf"), list(overrides)
    )
    return load_params(root / "params.yaml")


def test_the_example_of_the_documentation_runs(tmp_path, repository):
    text = (repository / "docs/study/data.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", text, flags=re.DOTALL))
    assert set(files) == {
        "data/mine/kitchen/train.csv",
        "data/mine/kitchen/test.csv",
        "data/mine/marks.jsonl",
        "conf/profile/mine.yaml",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")

    # The smallest run: a tiny encoder, and baselines of a few passes.
    encoder = tiny.save_encoder(tmp_path / "encoder")
    params = composed(tmp_path, repository, "profile=mine", "roster=quick", f"encoder={encoder}")
    assert [method.name for method in params.trained] == ["marker_in_domain"]  # leaving one task out takes two
    data_dir = tmp_path / params.data_dir
    data = load_task("kitchen", params.sources["kitchen"], data_dir, params.seed)
    assert counts(data) == {"train": 6, "validation": 2, "test": 2}
    assert data.labels == ["bad", "good"]

    (file,) = params.rationale_params("kitchen").files
    rationales = import_rationales(data_dir / file.path, file, data.examples)
    first = {r.annotator: r.mask for r in rationales if r.example_id == "k1"}
    # The soup was warm, rich and generous.
    assert first == {
        "ana": (False, False, False, True, True, True, True),
        "ben": (False, False, False, False, True, False, True),
    }
    metrics = agreement_metrics(rationales, data.examples, "test")
    assert metrics["mean_length"] == 2.5  # k9 three words, k10 two

    succeed(tmp_path, "code")
    for stage in ("prepare", "rationalise", "finetune", "features"):
        succeed(tmp_path, stage, "--task", "kitchen")
    succeed(tmp_path, "fit", "--task", "kitchen", "--method", "marker_in_domain")
    succeed(tmp_path, "explain", "--task", "kitchen")
    succeed(tmp_path, "judge", "--task", "kitchen")
    succeed(tmp_path, "report")
    evaluation = Evaluation.load(tmp_path / "reports/metrics/kitchen")
    assert set(evaluation.figures) == {"marker_in_domain", "random", "gae", "attcat", "attn_lrp"}

    for seed in range(50):
        drawn = load_task("kitchen", params.sources["kitchen"], data_dir, seed)
        marked = {r.example_id for r in rationales if any(r.mask)}
        left = Counter(e.label for e in drawn.examples if e.split == "train" and e.id in marked)
        assert left == {"bad": 3, "good": 3}


@pytest.mark.parametrize("format", ["mask", "marked", "spans"])
def test_the_rationale_formats_of_the_documentation_agree(tmp_path, repository, format):
    text = (repository / "docs/study/data.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| `{format}` | ") and '{"id": "k2"' in line)
    example = re.findall(r"`(\{.*\})`", line)[0]
    (tmp_path / "marks.jsonl").write_text(example + "\n", encoding="utf-8")
    train = re.findall(r"<!-- file: data/mine/kitchen/train.csv -->\n```csv\n(.*?)```", text, flags=re.DOTALL)[0]
    (tmp_path / "kitchen.csv").write_text(train, encoding="utf-8")
    columns = {"id": "nr", "text": "comment", "label": "verdict"}
    data = load(tmp_path, "kitchen", adapter="custom", columns=columns)
    spec = RationaleFile.model_validate({"path": "marks.jsonl", "format": format, "annotator": "ana", "kind": "human"})
    (rationale,) = import_rationales(tmp_path / "marks.jsonl", spec, data.examples)
    # Cold chips, and a long wait for them.
    assert rationale.mask == (True, True, False, False, True, True, False, False)


@pytest.mark.parametrize(
    ("task", "sizes", "length", "alpha", "texts"),
    [
        ("reviews", (884, 90, 160), 2.9, 0.77, 250),
        ("grammar", (1175, 120, 237), 1.7, 0.88, 172),
        ("civility", (480, 60, 120), 5.1, 0.78, 85),
        ("topics", (360, 60, 100), 3.1, 0.70, 158),
    ],
)
def test_the_corpus_has_the_figures_of_its_readme(repository, task, sizes, length, alpha, texts):
    corpus = repository / "data" / "corpus"
    data = load(corpus, task, kind="embedded", adapter="corpus")
    path = corpus / f"{task}.rationales.jsonl"
    rationales = import_rationales(path, RationaleFile(path=path.name, kind="llm"), data.examples)
    assert counts(data) == dict(zip(("train", "validation", "test"), sizes, strict=True))
    metrics = agreement_metrics(rationales, data.examples, "train")
    assert metrics["alpha"] == pytest.approx(alpha, abs=0.005)
    assert metrics["alpha_texts"] == texts
    author = [r for r in rationales if r.annotator == "llm-author"]  # the README's K is the author's
    assert agreement_metrics(author, data.examples, "train")["mean_length"] == pytest.approx(length, abs=0.05)
