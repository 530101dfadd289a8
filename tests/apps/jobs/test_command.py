"""Large jobs: `explearn job`."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cli_cases
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny
from job_cases import TEXTS, arguments, explain, joined, random_texts, refused, small_batches  # noqa: F401

import explearn
from explearn.core.word_tables import WORD_SCHEMA, to_arrow


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A Parquet file of texts of many lengths, with ids."""
    path = tmp_path_factory.mktemp("input") / "texts.parquet"
    rows = random_texts()
    pq.write_table(pa.table({"key": [f"k{i}" for i in range(len(rows))], "text": rows}), path)
    return path


@pytest.fixture(scope="module")
def whole(tiny_folder, texts, tmp_path_factory):
    """All in one part, without an interruption."""
    output = tmp_path_factory.mktemp("whole") / "out"
    explain(tiny_folder, texts, output, "--id-column", "key")
    return output


class TestResults:
    def test_are_what_the_library_gives(self, tiny_folder, whole):
        classifier = explearn.load_classifier(tiny_folder, device="cpu", max_tokens=150)
        expected = to_arrow(explearn.get_explainer("attn_lrp").explain(classifier, random_texts()))
        table = pq.read_table(whole / "part-00000.parquet")
        assert table.schema.equals(WORD_SCHEMA)
        assert table.drop(["id"]).equals(expected.drop(["id"]))
        assert table["id"].to_pylist() == [f"k{number}" for number in table["text"].to_pylist()]

    def test_parts_hold_the_texts_in_order(self, tiny_folder, texts, tmp_path):
        said = explain(tiny_folder, texts, tmp_path, "--id-column", "key", "--shard-texts", "370")
        parts = sorted(tmp_path.glob("part-*"))
        assert len(parts) == -(-TEXTS // 370) and f"{len(parts)} parts" in said
        assert set(pq.read_table(parts[1])["text"].to_pylist()) == set(range(370, 740))

    def test_several_methods_classes_and_pairs_stand_below_each_other(self, tiny_folder, tmp_path):
        path = tmp_path / "pairs.jsonl"
        path.write_text('{"a": "quick fox", "b": "lazy dog"}\n{"a": "fair", "b": "slow dog"}\n', encoding="utf-8")
        more = ["--text-column", "a", "--pair-column", "b", "--method", "attcat", "--method", "raw_attention"]
        explain(tiny_folder, path, tmp_path / "out", *more, "--target", "fair", "--target", "bad")
        table = pq.read_table(tmp_path / "out").to_pydict()
        # Four words of the first text, then three of the second, each by two methods for two classes.
        assert table["text"] == [0] * 16 + [1] * 12
        assert table["method"][:16] == ["attcat"] * 8 + ["raw_attention"] * 8
        assert table["target"][:16] == (["fair"] * 4 + ["bad"] * 4) * 2
        assert table["segment"][:16] == [0, 0, 1, 1] * 4
        assert table["word"][:16] == ["quick", "fox", "lazy", "dog"] * 4


KILLED = """
import os, signal, sys
import transformers.models.bert.modeling_bert
from explearn.cli.app import app
from explearn.predictors.pretrained import load_classifier
from explearn_apps.jobs import explaining, run


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def disturb(kind, count):
    real, write, calls = explaining.write_part, run.JobManifest.write, [0]

    def part(folder, file, first, lines):
        calls[0] += 1
        if kind == "writing" and calls[0] == count:
            def cut():
                for number, explained in enumerate(lines):
                    if number == 25:
                        die()
                    yield explained
            return real(folder, file, first, cut())
        written = real(folder, file, first, lines)
        if kind == "written" and calls[0] == count:
            die()
        return written

    def manifest(self, folder):
        write(self, folder)
        if kind == "listed" and calls[0] == count:
            die()

    explaining.write_part, run.JobManifest.write = part, manifest


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        kind, count = line.split()
        disturb(kind, int(count))
        app(sys.argv[1:])
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs a job in a child that kills itself, for each line that it is given: what jobs load is loaded once."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_three_kills_change_no_bit_and_lose_no_part(tiny_folder, tmp_path, repository):
    output = tmp_path / "out"
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(random_texts(600)), encoding="utf-8")
    given = arguments(tiny_folder, texts, output, "--shard-texts", "50")
    finished = {}
    command = [sys.executable, "-c", KILLED, *given]
    path = os.pathsep.join([str(repository / "src"), os.environ.get("PYTHONPATH", "")])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes) as jobs:
        # In the middle of the third part; with the sixth in place and not yet in the manifest; right after the ninth.
        for kind, count, parts in (("writing", 3, 2), ("written", 4, 5), ("listed", 4, 9)):
            print(kind, count, file=jobs.stdin, flush=True)
            assert jobs.stdout.readline() == f"{-signal.SIGKILL}\n"
            listed = json.loads((output / "_manifest.json").read_text())["parts"]
            assert len(listed) == parts
            assert not (output / "_SUCCESS").exists()
            files = {part["file"]: (output / part["file"]).stat().st_ino for part in listed.values()}
            assert finished.items() <= files.items(), "a finished part was written again"
            finished = files
    explain(tiny_folder, texts, output, "--shard-texts", "50")
    explain(tiny_folder, texts, tmp_path / "whole", "--shard-texts", "50")
    assert joined(output) == joined(tmp_path / "whole")
    parts = {f"part-{number:05d}.parquet" for number in range(12)}
    assert {path.name for path in output.glob("[!.]*")} == {"_SUCCESS", "_manifest.json", *parts}


class TestGoingOn:
    @pytest.fixture
    def job(self, tiny_folder, tmp_path):
        path = tmp_path / "texts.txt"
        path.write_text("\n".join(random_texts(60)), encoding="utf-8")
        explain(tiny_folder, path, tmp_path / "out", "--shard-texts", "25")
        return tiny_folder, path, tmp_path / "out"

    def test_a_finished_job_is_left_as_it_is(self, job):
        before = {path.name: path.stat().st_mtime_ns for path in job[2].iterdir()}
        explain(*job, "--shard-texts", "25")
        assert {path.name: path.stat().st_mtime_ns for path in job[2].iterdir()} == before

    def test_a_part_that_was_removed_is_written_again_and_one_that_was_changed_by_force_alone(self, job):
        parts = sorted(job[2].glob("part-*"))
        before = [path.read_bytes() for path in parts]
        changed = before[0][:-1] + b"x"
        parts[0].write_bytes(changed)
        parts[1].unlink()
        refused(f"{parts[0]}: exists and is not a file of this job", *job, "--shard-texts", "25")
        assert parts[0].read_bytes() == changed
        result = cli_cases.run(*arguments(*job, "--shard-texts", "25", "--force"))
        assert result.exit_code == 0
        assert f"{parts[0]}: has changed" in result.stderr
        assert [path.read_bytes() for path in parts] == before

    def test_other_settings_another_classifier_and_another_input_are_refused(self, job, tmp_path):
        _, path, output = job
        before = {file.name: file.read_bytes() for file in output.iterdir()}
        refused("shard texts differ (then 25, now 30)", *job, "--shard-texts", "30")
        refused("methods differ", *job, "--shard-texts", "25", "--method", "rollout")
        other = tiny.save(tmp_path / "other", "bert", 3, seed=5)
        refused("classifier differs", other, path, output, "--shard-texts", "25")
        path.write_text("quick fox", encoding="utf-8")
        refused("input differs", *job, "--shard-texts", "25")
        assert {file.name: file.read_bytes() for file in output.iterdir()} == before

    def test_a_number_that_cannot_be_used_again_is_named(self, job):
        manifest = job[2] / "_manifest.json"
        content = json.loads(manifest.read_text())
        content["settings"]["threads"] = "1"
        manifest.write_text(json.dumps(content))
        refused(f"{manifest}, settings, field 'threads': got '1'", *job, "--shard-texts", "25")

    def test_a_number_of_texts_that_is_not_the_inputs_is_refused(self, job):
        manifest = job[2] / "_manifest.json"
        content = json.loads(manifest.read_text())
        for texts, got in ((1, "1"), (0, "0"), (-1, "-1"), (10**30, "a huge number")):
            manifest.write_text(json.dumps({**content, "texts": texts, "parts": {}}))
            refused(f"{manifest}, field 'texts': got {got}; expected 60", *job, "--shard-texts", "25")

    def test_a_folder_may_have_a_name_that_is_not_utf_8(self, job):
        output = job[2].with_name("out\udcff")
        explain(*job[:2], output, "--shard-texts", "25")
        assert len(list(output.glob("part-*"))) == 3


class TestBadInput:
    def test_one_sentence_names_file_row_and_field(self, tiny_folder, tmp_path):
        rows = tmp_path / "a.jsonl"
        rows.write_text('{"text": "one", "id": 1}\n{"text": "two", "id": [2]}\n')
        refused(f"{rows}, row 2, field 'id': got [2]", tiny_folder, rows, tmp_path / "out", "--id-column", "id")
        table = tmp_path / "a.tsv"
        table.write_text("text\none\n")
        refused("'.tsv'", tiny_folder, table, tmp_path / "out")
        refused("b.txt: no such file", tiny_folder, tmp_path / "b.txt", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
    def test_a_pipe_is_no_regular_file(self, tiny_folder, tmp_path):
        os.mkfifo(tmp_path / "a.txt")
        refused("is a pipe or a device; expected a", tiny_folder, tmp_path / "a.txt", tmp_path / "out")

    def test_a_text_that_the_classifier_cannot_read_is_named_by_its_row(self, tiny_folder, tmp_path):
        path = tmp_path / "pairs.jsonl"
        rows = [{"text": "quick fox", "b": "lazy dog"}] * 520 + [{"text": "fox " * 90, "b": "dog " * 90}]
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        given = arguments(tiny_folder, path, tmp_path / "out", "--pair-column", "b", "--windows", "5")
        result = cli_cases.run(*given, "--shard-texts", "500")
        assert result.exit_code == 2
        assert f"error: {path}, row 521, field 'text': its shorter segment leaves no room" in result.stderr
        # What was finished stays.
        assert (tmp_path / "out" / "part-00000.parquet").is_file()

    def test_a_bundle_of_another_classifier_or_with_other_options_is_refused(self, tiny_folder, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("quick fox\n", encoding="utf-8")
        other = tiny.save(tmp_path / "other", "bert", 3, seed=5)
        explearn.export(tmp_path / "foreign", method="integrated_gradients", classifier=other)
        job = (tiny_folder, path, tmp_path / "out", "--explainer")
        refused("foreign: made for the classifier", *job, tmp_path / "foreign")
        assert not (tmp_path / "out").exists()
        for name, steps in (("few", 2), ("many", 9)):
            explearn.export(tmp_path / name, method="integrated_gradients", options={"steps": steps})
        explain(*job, tmp_path / "few")
        refused("options differ", *job, tmp_path / "many")

    def test_a_folder_with_other_things_is_refused(self, tiny_folder, tmp_path):
        (tmp_path / "a.txt").write_text("quick fox\n", encoding="utf-8")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.txt").write_text("mine")
        refused("holds 'mine.txt' and no job", tiny_folder, tmp_path / "a.txt", tmp_path / "out")
        (tmp_path / "out" / "_manifest.json").write_text("[]")
        refused("damaged", tiny_folder, tmp_path / "a.txt", tmp_path / "out")


def test_the_commands_of_the_page_work(tiny_folder, tmp_path, monkeypatch, repository):
    page = (repository / "docs" / "apps" / "large_jobs.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"```sh\n(.*?)```", page, re.S)).splitlines()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    # The cluster of the last one is test_ray_jobs.py's.
    commands = [command for command in commands if command.startswith("explearn ")]
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXPLEARN_DEVICE", "cpu")
    shutil.copytree(tiny_folder, "my-classifier")
    rows = random_texts(12)
    pq.write_table(pa.table({"key": list(range(12)), "text": rows}), "big.parquet")
    Path("big.csv").write_text("body\nquick fox\nlazy dog\n", encoding="utf-8")
    Path("lines.txt").write_text("quick fox\nlazy dog\n", encoding="utf-8")
    for command in commands:
        done = cli_cases.run(*shlex.split(command.replace("--target yes", "--target fair"))[1:])
        assert done.exit_code == 0, done.output
    exec(code, {})
    assert {path.name for path in Path("both").glob("[!.]*")} == {"_SUCCESS", "_manifest.json", "part-00000.parquet"}
