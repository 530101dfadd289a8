"""The profile `papers`: SST-2 as the hub names and lays it out, with the rationales of the README of its folder.

All texts are invented.
"""

import re
from itertools import chain

import pytest
from stage_cases import succeed

from explearn import Rationale
from explearn.core.documents import read_json
from explearn_study.example_files import read_examples, read_rationales
from explearn_study.params import load_params

TEXTS = ("a dull and noisy film", "a warm and clever film")
"""By label."""

MARKED = (("train", 0), ("validation", 2))
"""Rows of the README's example."""


def texts(part, count):
    """Rows as SST-2 has them: numbers for labels, and a running number. The hub's test part has no labels."""
    first = 1 if part == "validation" else 0  # of the labels, which alternate
    return [
        {
            "idx": n,
            "sentence": f"{TEXTS[(n + first) % 2]}" + (" " if (part, n) in MARKED else f" , {part} {n} "),
            "label": -1 if part == "test" else (n + first) % 2,
        }
        for n in range(count)
    ]


def put_hub(folder):
    """A stand-in for SST-2, named and laid out as on the hub: Parquet files that declare their classes."""
    import datasets

    features = datasets.Features(
        {
            "idx": datasets.Value("int32"),
            "sentence": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["negative", "positive"]),
        }
    )
    (folder / "stanfordnlp/sst2/data").mkdir(parents=True)
    for part, count in {"train": 40, "validation": 30, "test": 30}.items():
        rows = datasets.Dataset.from_list(texts(part, count), features=features)
        rows.to_parquet(folder / f"stanfordnlp/sst2/data/{part}-00000-of-00001.parquet")


def put_rationales(folder, repository):
    """The README's own example."""
    readme = (repository / "data/papers/README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- file: sst2/rationales.jsonl -->\n```json\n(.*?)```", readme, flags=re.DOTALL)
    (folder / "sst2").mkdir(parents=True)
    (folder / "sst2/rationales.jsonl").write_text(example, encoding="utf-8")


def compose(target, repository, *overrides, profile="papers"):
    """params.yaml as `dvc exp run -S profile=PROFILE` composes it."""
    from dvc.utils.hydra import compose_and_dump

    selected = [f"profile={profile}", *overrides]
    compose_and_dump(target, str(repository / "conf"), None, "config", str(repository / "conf"), selected)
    return load_params(target)


@pytest.fixture(scope="module")
def project(tmp_path_factory, repository):
    """A project after the stages prepare and rationalise of SST-2. Tests leave it as it is."""
    import datasets

    folder = tmp_path_factory.mktemp("papers")
    put_hub(folder / "hub")
    put_rationales(folder / "hub", repository)
    compose(folder / "params.yaml", repository, f"data_dir={folder / 'hub'}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "hub-cache")
        succeed(folder, "prepare", "--task", "sst2")
        succeed(folder, "rationalise", "--task", "sst2")
    return folder


def test_ids_are_those_the_readme_tells(project):
    folder = project / "data/examples/sst2"
    train, *held_out = (read_examples(folder / f"{split}.parquet") for split in ("train", "validation", "test"))
    # Half of the hub's validation part is the test part.
    assert [len(part) for part in held_out] == [15, 15]
    words = {example.id: example.words for example in chain(*held_out)}
    assert [example.id for example in train] == [f"sst2-train-{n}" for n in range(40)]
    assert set(words) == {f"sst2-validation-{n}" for n in range(30)}
    assert words["sst2-validation-2"] == tuple(TEXTS[1].split())
    assert words["sst2-validation-3"] == (*TEXTS[0].split(), ",", "validation", "3")


def test_the_rationales_of_the_readme_fit(project):
    mask = (False, True, False, True, False)
    assert read_rationales(project / "data/rationales/sst2.parquet") == [
        Rationale("sst2-train-0", "ana", "human", mask),
        Rationale("sst2-validation-2", "ana", "human", mask),
    ]
    agreement = read_json(project / "data/rationales/sst2.json")
    assert agreement["kinds"] == {"human": 2} and agreement["mean_length"] == 2.0
    assert agreement["alpha"] is None  # one annotator


def test_the_folder_of_the_profile_is_in_the_repository(tmp_path, repository):
    """DVC does not start where a dependency is missing."""
    params = compose(tmp_path / "params.yaml", repository)
    assert (repository / params.data_dir / "README.md").is_file()
    readme = (repository / params.data_dir / "README.md").read_text(encoding="utf-8")
    for task in params.tasks:
        for file in params.rationale_params(task).files:
            assert f"* `{file.path}`" in readme


@pytest.mark.parametrize("paper", ["expnet", "l2e", "aml", "ivra"])
def test_each_paper_has_a_small_run_from_local_files(tmp_path, repository, paper):
    params = compose(tmp_path / "params.yaml", repository, profile=f"{paper}_small")
    assert params.encoder == "embedded"
    assert {params.sources[task].kind for task in params.tasks} == {"files"}
    assert all("train" in params.sources[task].max_examples for task in params.tasks)
    assert {method.of for method in params.trained} & {"expnet", "l2e", "paml", "ivra"}
