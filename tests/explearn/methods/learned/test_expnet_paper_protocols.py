"""Protocols of the paper's ExpNet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from expnet_paper_cases import CPU, planted, scores

from explearn.core.errors import DataError, ParamsError
from explearn.core.records import Example, Rationale
from explearn.core.storage import write_examples, write_json, write_rationales
from explearn.lens.features import write_features
from explearn.methods.expnet.paper import ExpNetPaper
from explearn.model.classifier import Classifier
from explearn_study.params import Params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

IN_DOMAIN = {"explainer": "expnet_in_domain", "explainers": ["expnet_in_domain"]}
"""For params of one task: those with `expnet` are refused."""


def make_params(*tasks: str, **sections: Any) -> Params:
    sources = {task: {"kind": "embedded", "adapter": "corpus"} for task in tasks}
    return Params.of({"profile": "test", "tasks": list(tasks), "sources": sources, **sections})


def fill(workspace: Workspace, task: str, of: Classifier, marked: bool = True) -> None:
    """What the stages before `train` leave: the first word of each text is marked, every prediction is right."""
    of.model.save_pretrained(workspace.classifier(task))
    of.tokenizer.save_pretrained(workspace.classifier(task))
    for split in ("train", "validation", "test"):
        rows = [
            Example(f"{task}-{split}-{i}", tuple(text.split()), of.predict([text])[0], split, task)
            for i, text in enumerate(tiny.TEXTS)
        ]
        write_examples(workspace.examples(task) / f"{split}.parquet", rows)
        if split == "train":
            write_rationales(
                workspace.rationales(task),
                [Rationale(e.id, "one", "author", (marked, *[False] * (len(e.words) - 1))) for e in rows],
            )
        write_features(workspace.features(task) / f"{split}.parquet", of, rows)
    write_json(workspace.examples(task) / "task.json", {"labels": of.labels, "dropped": {}, "unused_ids": []})


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Tasks a and b, each with a classifier of its own."""
    workspace = Workspace(tmp_path_factory.mktemp("workspace"))
    for seed, task in enumerate(("a", "b")):
        fill(workspace, task, tiny.make_classifier("bert", seed=seed))
    return workspace


class TestProtocols:
    def test_leaving_a_task_out_reads_none_of_its_files(self, workspace: Workspace) -> None:
        """Nothing of task c exists."""
        params = make_params("a", "b", "c")
        expnet = ExpNetPaper(epochs=1).fit(WorkspaceTask(workspace, params, "c", CPU))
        assert expnet.trained_on == ["a", "b"]
        assert expnet.encoder == {"layer": 2, "layers": 3, "heads": 4, "hidden_size": 32}

    def test_the_held_out_task_changes_nothing(self, workspace: Workspace) -> None:
        without = ExpNetPaper(epochs=1).fit(WorkspaceTask(workspace, make_params("a", "c"), "c", CPU))
        held_out = ExpNetPaper(epochs=1).fit(WorkspaceTask(workspace, make_params("a", "b"), "b", CPU))
        features = planted(1, seed=0).features
        assert held_out.trained_on == without.trained_on == ["a"]
        assert torch.equal(scores(held_out, features), scores(without, features))

    def test_in_domain_reads_the_task_alone(self, workspace: Workspace) -> None:
        expnet = ExpNetPaper(epochs=1, protocol="in_domain").fit(
            WorkspaceTask(workspace, make_params("c", "b"), "b", CPU)
        )
        assert expnet.trained_on == ["b"]

    def test_a_single_task_cannot_be_left_out(self, workspace: Workspace) -> None:
        with pytest.raises(ParamsError, match="needs another task than 'a'; add one to tasks, or use in_domain"):
            ExpNetPaper().fit(WorkspaceTask(workspace, make_params("a", **IN_DOMAIN), "a", CPU))

    def test_a_task_without_marked_words_is_named(self, tmp_path: Path) -> None:
        workspace = Workspace(tmp_path)
        fill(workspace, "bare", tiny.classifier("bert"), marked=False)
        with pytest.raises(DataError, match="task 'bare': no word is marked in any of its 5 rationales"):
            ExpNetPaper().fit(WorkspaceTask(workspace, make_params("a", "bare"), "a", CPU))

    def test_the_split_with_the_rationales_is_a_parameter(self, workspace: Workspace) -> None:
        params = make_params("a", "b", rationales={"a": {"train_split": "validation"}})
        with pytest.raises(DataError, match="task 'a', split 'validation': no text has both"):
            ExpNetPaper().fit(WorkspaceTask(workspace, params, "b", CPU))
