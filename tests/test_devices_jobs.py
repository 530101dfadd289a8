"""Large jobs on several devices: `explearn explain --input ... --devices`, a process each."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from bad_inputs.saying import check_sentence, command_complaint, complaint
from explearn.cli.app import app
from explearn.cli.jobs import process_engine
from explearn.cli.jobs.process_engine import ProcessEngine, read_devices
from explearn.core.errors import DeviceError
from test_jobs import joined, random_texts


@pytest.fixture(autouse=True)
def _cores_and_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.delenv("EXPLEARN_DEVICE", raising=False)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("devices") / "texts.parquet"
    pq.write_table(pa.table({"text": random_texts(620)}), path)
    return path


def arguments(folder: Path, path: Path, output: Path, *more: str) -> list[str]:
    own = ["--classifier", str(folder), "--max-tokens", "150", "--shard-texts", "250"]
    return ["explain", "--input", str(path), "--output", str(output), *own, *more]


def explain(*given: Any) -> Any:
    return CliRunner().invoke(app, arguments(*given), env={"COLUMNS": "400"})


@pytest.mark.slow
def test_two_workers_write_the_bytes_of_one_process(tiny_folder: Path, texts: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert explain(tiny_folder, texts, tmp_path / "one", "--device", "cpu").exit_code == 0
    finally:
        torch.set_num_threads(threads)
    result = explain(tiny_folder, texts, tmp_path / "two", "--devices", "cpu, cpu")
    assert result.exit_code == 0, result.output
    assert "620 texts" in result.stdout and "3 parts" in result.stdout
    one, two = (json.loads((tmp_path / name / "_manifest.json").read_text()) for name in ("one", "two"))
    assert two["settings"]["threads"] == max(1, threads // 2)
    if two["settings"]["threads"] == 1:
        assert joined(tmp_path / "two") == joined(tmp_path / "one") and two["parts"] == one["parts"]
    # A part that is lost is written again, by however many workers: the job keeps its number of threads.
    whole = joined(tmp_path / "two")
    (tmp_path / "two" / "part-00001.parquet").unlink()
    assert explain(tiny_folder, texts, tmp_path / "two", "--device", "cpu").exit_code == 0
    assert joined(tmp_path / "two") == whole
    torch.set_num_threads(threads)


@pytest.mark.slow
class TestWhatGoesWrong:
    def test_a_text_that_a_worker_cannot_read_is_named_by_its_row(self, tiny_folder: Path, tmp_path: Path) -> None:
        path = tmp_path / "pairs.jsonl"
        rows = [{"text": "quick fox", "b": "lazy dog"}] * 5 + [{"text": "fox " * 90, "b": "dog " * 90}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        more = ["--pair-column", "b", "--windows", "5", "--devices", "cpu,cpu"]
        command_complaint(
            *arguments(tiny_folder, path, tmp_path / "out", *more), words=(f"{path}, row 6", "leaves no room")
        )

    def test_a_classifier_that_no_worker_can_load_is_one_sentence(self, texts: Path, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        command_complaint(
            *arguments(tmp_path / "empty", texts, tmp_path / "out", "--devices", "cpu"),
            words=(str(tmp_path / "empty"),),
        )

    def test_a_worker_that_was_killed_leaves_what_is_done(
        self, tiny_folder: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = process_engine._Process.answer
        seen: list[int] = []

        def killed(self: Any) -> Any:
            row = answer(self)
            if "part" in row:
                seen.append(row["part"])
                os.kill(self._process.pid, signal.SIGKILL)
            return row

        monkeypatch.setattr(process_engine._Process, "answer", killed)
        words = ("the worker on cpu ended by itself (exit code -9)", "goes on with the rest")
        result = explain(tiny_folder, texts, tmp_path / "out", "--devices", "cpu")
        assert result.exit_code == 2
        check_sentence(result.stderr.splitlines()[-1], *words)
        monkeypatch.undo()
        assert seen == [0] and (tmp_path / "out" / "part-00000.parquet").exists()
        assert not (tmp_path / "out" / "_SUCCESS").exists()
        assert explain(tiny_folder, texts, tmp_path / "out", "--device", "cpu").exit_code == 0
        assert (tmp_path / "out" / "_SUCCESS").exists()

    def test_devices_of_two_models_are_refused(self) -> None:
        class Told:
            device = "cuda:1"

            def settings(self) -> dict[str, Any]:
                return {"classifier": "c", "device": "cuda A100"}

        engine = ProcessEngine(["cuda:0", "cuda:1"])
        engine._found = {"classifier": "c", "device": "cuda H200"}
        worker: Any = Told()
        complaint(lambda: engine._check_same(worker), "cuda:0 and cuda:1 differ in device (cuda H200 and cuda A100)")


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (["--devices", "tpu"], ("device 'tpu' is not known",)),
            (["--devices", "cpu,,cpu"], ("--devices: got 'cpu,,cpu'", "cuda:0,cuda:1")),
            (["--devices", "auto"], ("--devices: got 'auto'",)),
            (["--devices", "cuda:0,cuda:99"], ("usable CUDA devices",)),
            (["--devices", "cpu,cpu,cpu"], ("got the CPU 3 times", "has 2")),
            (["--devices", "cpu", "--device", "cpu"], ("got --device cpu as well",)),
            (["--devices", "cpu", "--device-map", "auto"], ("a worker of --devices takes one device",)),
            (["--devices", "cpu", "--engine", "ray"], ("with --engine ray",)),
        ],
    )
    def test_is_one_sentence(
        self,
        tiny_folder: Path,
        texts: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        given: Sequence[str],
        words: tuple[str, ...],
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        command_complaint(*arguments(tiny_folder, texts, tmp_path / "out", *given), words=words)
        assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("part-*"))

    def test_all_without_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(DeviceError, match="0 usable CUDA devices"):
            read_devices("all")

    def test_without_a_file_of_texts(self, tiny_folder: Path) -> None:
        words = ("--devices: got 'cpu' without --input",)
        command_complaint("explain", "--classifier", str(tiny_folder), "--devices", "cpu", "a fox", words=words)


class TestGPUs:
    """On a machine that says it has three."""

    @pytest.fixture(autouse=True)
    def _three(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)

    @pytest.mark.parametrize(
        ("value", "devices"),
        [("all", ["cuda:0", "cuda:1", "cuda:2"]), ("cuda:2, cuda:0", ["cuda:2", "cuda:0"]), ("cuda", ["cuda:0"])],
    )
    def test_are_taken_by_number(self, value: str, devices: list[str]) -> None:
        assert read_devices(value) == devices

    @pytest.mark.parametrize(
        ("value", "word"),
        [
            ("cuda:1,cuda:1", "names cuda:1 twice"),
            ("cuda,cuda:0", "names cuda:0 twice"),
            ("cuda:2,cuda:3", "has 3 usable CUDA devices"),
            ("cuda:0,cpu", "cpu and cuda"),
        ],
    )
    def test_more_than_there_are_and_the_same_twice_are_refused(self, value: str, word: str) -> None:
        complaint(lambda: read_devices(value), word)
