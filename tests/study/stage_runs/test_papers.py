"""The profile `papers`, whole: the hub's data sets by their own names and layout, and the rationales that a user adds.

All texts are invented.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from stage_cases import succeed, write_lines

from explearn.core.records import Example, Rationale
from explearn.core.storage import read_examples, read_rationales
from explearn_study.params import Params, load_params
from explearn_study.report.papers import published

TASKS = ("sst2", "cola", "hatexplain")
TEXTS = ("a dull and noisy film", "a warm and clever film")
"""By label; also those of the README's example, rows 0 and 2 as they come below."""

VOTES = ((1, 1, 1), (2, 2, 1), (0, 0, 2), (1, 1, 2))
"""Normal, toxic, toxic, normal by majority; 0 is hatespeech, 1 normal, 2 offensive."""


def texts(part: str, count: int) -> list[dict[str, Any]]:
    """Rows as SST-2 and GLUE have them: numbers for labels, and a running number. The hub's test part has no labels."""
    first = 1 if part == "validation" else 0  # of the labels, which alternate
    return [
        {
            "idx": n,
            "sentence": f"{TEXTS[(n + first) % 2]}" + (f" , {part} {n} " if n > 2 else " "),
            "label": -1 if part == "test" else (n + first) % 2,
        }
        for n in range(count)
    ]


def posts(part: str, count: int) -> list[dict[str, Any]]:
    """Rows as HateXplain has them: three annotators, and masks of those who found a post toxic."""
    return [
        {
            "id": f"{n}_{part}",
            "annotators": [
                {"label": label, "annotator_id": 4 + position, "target": ["None"]}
                for position, label in enumerate(VOTES[n % 4])
            ],
            "rationales": {1: [[0, 1, 0], [0, 1, 1]], 2: [[1, 1, 0], [0, 1, 0], [0, 1, 0]]}.get(n % 4, []),
            "post_tokens": ["you", "turnip", f"{part}{n}"],
        }
        for n in range(count)
    ]


def put(path: Path, rows: list[dict[str, Any]], features: Any) -> None:
    """A Parquet file that declares its classes, as the hub's do."""
    import datasets

    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_list(rows, features=features).to_parquet(path)


def put_hub(folder: Path) -> None:
    """Stand-ins for the three data sets, each under its name on the hub and laid out as there."""
    from datasets import ClassLabel, Features, List, Value

    def sentences(*labels: str) -> Any:
        return Features(
            {"idx": Value("int32"), "sentence": Value("string"), "label": ClassLabel(names=list(labels))},
        )

    sizes = {"train": 40, "validation": 30, "test": 30}
    for part, count in sizes.items():
        rows = texts(part, count)
        file = f"{part}-00000-of-00001.parquet"
        put(folder / "stanfordnlp/sst2/data" / file, rows, sentences("negative", "positive"))
        put(folder / "nyu-mll/glue/cola" / file, rows, sentences("unacceptable", "acceptable"))
    other = Features({"question": Value("string"), "label": ClassLabel(names=["entailment", "not_entailment"])})
    put(folder / "nyu-mll/glue/qnli/train-00000-of-00001.parquet", [{"question": "what?", "label": 0}], other)
    configs = [
        {
            "config_name": name,
            "data_files": [
                {"split": part, "path": f"{name}/{part}-*"} for part in (sizes if name == "cola" else ["train"])
            ],
        }
        for name in ("cola", "qnli")
    ]
    readme = f"---\n{yaml.safe_dump({'configs': configs})}---\nA stand-in.\n"
    (folder / "nyu-mll/glue/README.md").write_text(readme, encoding="utf-8")

    annotator = {
        "label": ClassLabel(names=["hatespeech", "normal", "offensive"]),
        "annotator_id": Value("int32"),
        "target": List(Value("string")),
    }
    post = Features(
        {
            "id": Value("string"),
            "annotators": List(annotator),
            "rationales": List(List(Value("int32"))),
            "post_tokens": List(Value("string")),
        }
    )
    for part, count in (("train", 40), ("validation", 32), ("test", 36)):  # the hub's own conversion to Parquet
        put(folder / f"Hate-speech-CNERG/hatexplain/plain_text/{part}/0000.parquet", posts(part, count), post)


def put_rationales(folder: Path, repository: Path) -> None:
    """For SST-2 the README's own example, for CoLA two annotators."""
    readme = (repository / "data/papers/README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- file: sst2/rationales.jsonl -->\n```json\n(.*?)```", readme, flags=re.DOTALL)
    (folder / "sst2").mkdir(parents=True)
    (folder / "sst2/rationales.jsonl").write_text(example, encoding="utf-8")
    marks = [
        ("cola-train-0", "ana", [1, 1, 0, 0, 0]),
        ("cola-train-0", "ben", [1, 0, 0, 0, 0]),
        ("cola-train-1", "ana", [0, 0, 0, 0, 0]),
        ("cola-validation-1", "ana", [0, 0, 0, 1, 1]),
    ]
    rows = [{"id": i, "annotator": name, "kind": "human", "rationale": mask} for i, name, mask in marks]
    write_lines(folder / "cola/rationales.jsonl", rows)


def compose(target: Path, repository: Path, *overrides: str) -> Params:
    """params.yaml as `dvc exp run -S profile=papers` composes it."""
    from dvc.utils.hydra import compose_and_dump

    selected = ["profile=papers", *overrides]
    compose_and_dump(target, str(repository / "conf"), None, "config", str(repository), selected)
    return load_params(target)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A project after the stages prepare and rationalise of every task. Tests leave it as it is."""
    import datasets

    folder = tmp_path_factory.mktemp("papers")
    put_hub(folder / "hub")
    put_rationales(folder / "hub", repository)
    params = compose(folder / "params.yaml", repository, f"data_dir={folder / 'hub'}")
    assert tuple(params.tasks) == TASKS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "hub-cache")
        for task in TASKS:
            succeed(folder, "prepare", "--task", task)
            succeed(folder, "rationalise", "--task", task)
    return folder


def examples(project: Path, task: str) -> dict[str, list[Example]]:
    folder = project / "data/examples" / task
    return {split: read_examples(folder / f"{split}.parquet") for split in ("train", "validation", "test")}


def rationales(project: Path, task: str) -> list[Rationale]:
    return read_rationales(project / f"data/rationales/{task}.parquet")


def agreement(project: Path, task: str) -> dict[str, Any]:
    actual: dict[str, Any] = json.loads((project / f"data/rationales/{task}.json").read_text(encoding="utf-8"))
    return actual


@pytest.mark.parametrize(
    ("task", "labels", "sizes", "dropped"),
    [
        # Half of the hub's validation part is the test part.
        ("sst2", ["negative", "positive"], (40, 15, 15), {}),
        ("cola", ["unacceptable", "acceptable"], (40, 15, 15), {}),
        # Half of the posts are normal.
        ("hatexplain", ["hatespeech", "offensive"], (20, 16, 18), {"label normal": 54}),
    ],
)
def test_labels_and_splits(
    project: Path, task: str, labels: list[str], sizes: tuple[int, int, int], dropped: dict[str, int]
) -> None:
    actual = examples(project, task)
    assert tuple(len(part) for part in actual.values()) == sizes
    stored = json.loads((project / f"data/examples/{task}/task.json").read_text(encoding="utf-8"))
    assert stored == {"labels": labels, "dropped": dropped, "unused_ids": []}
    for part in actual.values():
        counts = Counter(example.label for example in part)
        assert set(counts) == set(labels)
        assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("task", ["sst2", "cola"])
def test_ids_are_those_the_readme_tells(project: Path, task: str) -> None:
    actual = examples(project, task)
    held_out = {e.id: e.words for e in actual["validation"] + actual["test"]}
    assert [e.id for e in actual["train"]] == [f"{task}-train-{n}" for n in range(40)]
    assert set(held_out) == {f"{task}-validation-{n}" for n in range(30)}
    assert held_out[f"{task}-validation-1"] == tuple(TEXTS[0].split())
    assert held_out[f"{task}-validation-3"] == (*TEXTS[0].split(), ",", "validation", "3")


def test_the_rationales_of_the_readme_fit(project: Path) -> None:
    mask = (False, True, False, True, False)
    assert rationales(project, "sst2") == [
        Rationale("sst2-train-0", "ana", "human", mask),
        Rationale("sst2-validation-2", "ana", "human", mask),
    ]
    actual = agreement(project, "sst2")
    assert actual["kinds"] == {"human": 2}
    assert actual["mean_length"] == 2.0
    assert actual["alpha"] is None  # one annotator


def test_agreement_on_imported_rationales(project: Path) -> None:
    actual = agreement(project, "cola")
    in_test = "cola-validation-1" in {e.id for e in examples(project, "cola")["test"]}
    # cola-train-0 11000 at one half; cola-train-1 has no evidence and does not count.
    assert (actual["mean_length"], actual["positive_rate"]) == (2.0, 0.4)
    assert actual["texts"] == {"train": 2, "validation": int(not in_test), "test": int(in_test)}
    # Of ten ratings 3 are marked, 7 not; one of five words is in dispute: 1 - (2/10) / (2*3*7 / (10*9)) = 4/7.
    assert actual["alpha"] == pytest.approx(4 / 7)
    assert actual["pairwise_f1"] == pytest.approx(2 / 3)


def test_toxic_posts_bring_rationales(project: Path) -> None:
    actual = examples(project, "hatexplain")
    toxic = {e.id for part in actual.values() for e in part}
    stored = rationales(project, "hatexplain")
    assert {r.example_id for r in stored} == toxic
    assert {r.kind for r in stored} == {"human"}
    of_post = {i: {r.annotator: r.mask for r in stored if r.example_id == i} for i in ("1_test", "2_test")}
    # Two masks are those of the two who found the post toxic, three everyone's.
    assert of_post["1_test"] == {"annotator-4": (False, True, False), "annotator-5": (False, True, True)}
    assert list(of_post["2_test"]) == ["annotator-4", "annotator-5", "annotator-6"]
    figures = agreement(project, "hatexplain")
    # Of four posts one has 010 and 011, merged 011, and one 110, 010 and 010, merged 010.
    assert figures["mean_length"] == 1.5
    assert figures["positive_rate"] == 0.5
    assert figures["texts"] == {"train": 20, "validation": 16, "test": 18}


def test_the_folder_of_the_profile_is_in_the_repository(tmp_path: Path, repository: Path) -> None:
    """DVC does not start where a dependency is missing."""
    params = compose(tmp_path / "params.yaml", repository)
    assert (repository / params.data_dir / "README.md").is_file()
    files = [file.path for task in params.tasks for file in params.rationale_params(task).files]
    readme = (repository / params.data_dir / "README.md").read_text(encoding="utf-8")
    for file in files:
        assert f"* `{file}`" in readme


def test_a_method_that_the_paper_does_not_pin_down_has_no_row() -> None:
    """What ExpNet's paper calls LRP and FullLRP cannot be told apart with certainty."""
    tables = [table for table in published().tables if table.paper == "ExpNet"]
    assert len(tables) == 5
    for table in tables:
        assert not {"lrp", "full_lrp"} & set(table.figures)
        assert {"gae", "cam", "attcat"} <= set(table.figures) or table.title.startswith("Ablations")
