"""Two writers, a full disk, a kill at the worst moment: what stands under a name is whole and of one run."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from explearn import DataError, ParamsError
from explearn.core import writing
from explearn.core.documents import read_bytes
from explearn.core.writing import atomic_folder, atomic_path, locked, put_files, scratch_folder, write_json, write_text

POSIX = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes and permissions of POSIX on this system")


def fill(target, **files):
    with atomic_folder(target) as partial:
        for name, text in files.items():
            (partial / name).write_text(text)


def held(target):
    return {path.name: path.read_text() for path in target.iterdir()}


@contextmanager
def other_writer(target):
    """Another thread is in the middle of writing a folder; it ends with the block. Gives its partial folder."""
    begun = threading.Event()
    may_end = threading.Event()
    places = []

    def write():
        with atomic_folder(target) as partial:
            (partial / "a").write_text("first")
            places.append(partial)
            begun.set()
            may_end.wait(30)
            (partial / "b").write_text("first")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert begun.wait(30)
        yield places[0]
    finally:
        may_end.set()
        thread.join(30)


class TestTwoWriters:
    def test_the_second_waits_says_so_and_comes_after_the_first(self, tmp_path, capsys):
        with other_writer(tmp_path / "d") as partial:
            second = threading.Thread(target=fill, args=(tmp_path / "d",), kwargs={"c": "second"})
            second.start()
            second.join(0.5)
            assert second.is_alive()
            # What the first has written is not swept away.
            assert (partial / "a").read_text() == "first"
        second.join(30)
        assert held(tmp_path / "d") == {"c": "second"}
        assert "d: another run is writing it; waiting until it has finished" in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["d"]

    def test_who_holds_a_lock_may_take_it_again(self, tmp_path):
        with locked(tmp_path / "f"), locked(tmp_path / "f"):
            write_text(tmp_path / "f", "x")
        assert [path.name for path in tmp_path.iterdir()] == ["f"]

    def test_what_a_dead_writer_left_is_swept_and_nothing_else(self, tmp_path):
        dead = writing._fresh(tmp_path / "d")
        dead.mkdir()
        (dead / "half").touch()
        others = sorted(f".d.partial-{end}" for end in ("lock", "before", "unfinished", "1a2b3c4d", "1a2b3c4d-notes"))
        for name in others:
            (tmp_path / name).write_text("mine")
        neighbour = writing._fresh(tmp_path / "e")  # may be at work
        neighbour.touch()
        fill(tmp_path / "d", a="new")
        assert sorted(path.name for path in tmp_path.iterdir()) == [*others, neighbour.name, "d"]
        assert all((tmp_path / name).read_text() == "mine" for name in others)


class TestAVanishedPartialFolder:
    def test_is_not_made_anew_by_a_file_in_it(self, tmp_path):
        fill(tmp_path / "d", a="old")
        with pytest.raises(DataError, match=r"d: .* was removed meanwhile"), atomic_folder(tmp_path / "d") as partial:
            partial.rename(tmp_path / "gone")
            write_text(partial / "b", "half")
        assert held(tmp_path / "d") == {"a": "old"}

    def test_a_vanished_file_neither(self, tmp_path):
        write_text(tmp_path / "f", "old")
        with (
            pytest.raises(DataError, match=r"f: cannot be written \(No such file"),
            atomic_path(tmp_path / "f") as partial,
        ):
            partial.unlink()
        assert (tmp_path / "f").read_text() == "old"


class TestAnError:
    def test_leaves_the_old_file(self, tmp_path):
        write_text(tmp_path / "f.txt", "old")
        with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "f.txt") as partial:
            partial.write_text("ne")
            raise KeyboardInterrupt
        assert held(tmp_path) == {"f.txt": "old"}

    def test_leaves_the_old_folder(self, tmp_path):
        fill(tmp_path / "d", a="old")
        with pytest.raises(ValueError, match="broken"), atomic_folder(tmp_path / "d") as partial:
            (partial / "a").write_text("new")
            raise ValueError("broken")
        assert held(tmp_path / "d") == {"a": "old"} and [path.name for path in tmp_path.iterdir()] == ["d"]

    def test_the_old_one_comes_back_where_the_rename_fails(self, tmp_path, monkeypatch):
        fill(tmp_path / "d", a="old")
        replace = Path.replace

        def fails(self, target):
            if Path(target).name == "d" and (self / "b").exists():
                raise OSError(5, "Input/output error", str(self))
            return replace(self, target)

        monkeypatch.setattr(Path, "replace", fails)
        with pytest.raises(DataError, match=r"d: cannot be written \(Input/output error\); what was there"):
            fill(tmp_path / "d", b="new")
        assert held(tmp_path / "d") == {"a": "old"}

    def test_a_rerun_that_fails_after_a_kill_between_the_renames_brings_the_old_one_back(self, tmp_path):
        fill(tmp_path / "d", a="old")
        (tmp_path / "d").rename(writing._partial(tmp_path / "d", "before"))
        with pytest.raises(ValueError, match="broken"), atomic_folder(tmp_path / "d"):
            raise ValueError("broken")
        assert held(tmp_path / "d") == {"a": "old"}


@POSIX
class TestPermissions:
    @pytest.mark.parametrize("umask", [0o022, 0o027])
    def test_the_umask_says_who_may_read(self, tmp_path, umask):
        before = os.umask(umask)
        try:
            write_text(tmp_path / "f.txt", "x")
            with atomic_folder(tmp_path / "d") as partial:
                # safetensors gives its files to their owner alone.
                save_file({"w": torch.zeros(1)}, partial / "w.safetensors")
                write_json(partial / "j.json", 1)
        finally:
            os.umask(before)
        for path in (tmp_path / "f.txt", tmp_path / "d" / "w.safetensors", tmp_path / "d" / "j.json"):
            assert path.stat().st_mode & 0o777 == 0o666 & ~umask, path
        assert (tmp_path / "d").stat().st_mode & 0o777 == 0o777 & ~umask


@POSIX
class TestWhatIsNoRegularFile:
    def test_only_a_regular_file_is_replaced(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to("/dev/null")
        for name in ("pipe", "folder", "link", "/dev/null"):
            with pytest.raises(ParamsError, match=f"{name}: is a .*; expected a regular file"):
                write_text(tmp_path / name, "x")
        assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink() and Path("/dev/null").is_char_device()

    def test_a_folder_takes_no_file_s_place(self, tmp_path):
        (tmp_path / "d").write_text("mine")
        with pytest.raises(ParamsError, match="d: is not a folder; expected a folder"):
            fill(tmp_path / "d", a="x")
        assert (tmp_path / "d").read_text() == "mine"

    @pytest.mark.timeout(20)
    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "p")
        with pytest.raises(DataError, match="p: is a pipe or a device; expected a regular file"):
            read_bytes(tmp_path / "p")

    def test_a_name_that_the_disk_does_not_take(self, tmp_path):
        with pytest.raises(DataError, match=r"nnn: cannot be written \(File name too long\)"):
            write_text(tmp_path / ("n" * 256), "x")


class TestOtherFolders:
    @pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder in which nobody can make a file")
    def test_a_folder_that_takes_no_file(self):
        with pytest.raises(DataError, match="cannot be written"), locked("/proc/result"):
            pass

    def test_an_unfinished_one_is_gone_on_with(self, tmp_path):
        with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "d", resume=True) as partial:
            (partial / "a").write_text("first")
            raise KeyboardInterrupt
        assert not (tmp_path / "d").exists()
        with atomic_folder(tmp_path / "d", resume=True) as partial:
            (partial / "b").write_text("second")
        assert held(tmp_path / "d") == {"a": "first", "b": "second"}
        assert [path.name for path in tmp_path.iterdir()] == ["d"]

    def test_scratch_is_gone_afterwards(self, tmp_path):
        with scratch_folder(tmp_path / "s") as folder:
            (folder / "a").touch()
            assert folder.parent == tmp_path
        assert list(tmp_path.iterdir()) == []

    def test_files_are_put_in_place_all_or_none(self, tmp_path):
        (tmp_path / "new" / "sub").mkdir(parents=True)
        for name in ("a", "sub/b"):
            (tmp_path / "new" / name).write_text("new")
        (tmp_path / "out" / "sub" / "b").mkdir(parents=True)
        (tmp_path / "out" / "a").write_text("old")
        with pytest.raises(ParamsError, match="b: is a folder"):
            put_files(tmp_path / "new", tmp_path / "out")
        assert (tmp_path / "out" / "a").read_text() == "old"
        (tmp_path / "out" / "sub" / "b").rmdir()
        put_files(tmp_path / "new", tmp_path / "out")
        assert (tmp_path / "out" / "a").read_text() == (tmp_path / "out" / "sub" / "b").read_text() == "new"


KILLED = """
import os, signal
from pathlib import Path
from explearn.core.writing import atomic_folder, atomic_path
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
{work}
"""
HALF_WRITTEN = {
    "a file": "with atomic_path('out') as partial:\n    partial.write_text('ha')\n    kill()",
    "a folder": "with atomic_folder('out') as folder:\n    (folder / 'a').write_text('ha')\n    kill()",
    "before the rename": "Path.replace = kill\nwith atomic_folder('out') as folder:\n    folder.touch()",
    "between two renames": (
        "rename = Path.replace\nPath.replace = lambda path, new: rename(path, new) and kill()\n"
        "with atomic_folder('out') as folder:\n    (folder / 'a').write_text('new')"
    ),
}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("work", HALF_WRITTEN)
def test_a_process_killed_while_writing_leaves_nothing_that_looks_whole(tmp_path, work):
    target = tmp_path / "out"

    def write():
        write_text(target, "old") if work == "a file" else fill(target, a="old")

    write()
    code = KILLED.format(work=HALF_WRITTEN[work])
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) > 1 and all(name.startswith(".out.partial-") for name in names - {"out"})
    # The folder that was moved aside for the moment of the rename comes back with the next writer.
    with pytest.raises(ValueError, match="broken"), locked(target):
        raise ValueError("broken")
    assert (target.read_text() if work == "a file" else (target / "a").read_text()) == "old"
    write()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


FULL = """
import contextlib, io, json, resource
import numpy as np, torch
from safetensors.torch import save_file
from explearn.core.parquet import write_table
from explearn_study.example_files import EXAMPLE_SCHEMA
from explearn.core.writing import atomic_folder, write_json
from explearn.cli.common import user_errors
rows = [{"id": str(n), "words": ["w"], "pair": [], "label": "l", "split": "test", "task": "t"} for n in range(999)]
inside = {
    "torch": lambda folder: torch.save(torch.zeros(9999), folder / "w"),
    "numpy": lambda folder: np.save(folder / "w", np.zeros(9999)),
    "safetensors": lambda folder: save_file({"w": torch.zeros(9999)}, folder / "w"),
    "text": lambda folder: (folder / "w").write_text("w" * 9999),
}
def write(kind):
    if kind == "json":
        write_json("json", list(range(1000)))
    elif kind == "parquet":
        write_table("parquet", rows, EXAMPLE_SCHEMA)
    else:
        with atomic_folder(kind) as folder:
            inside[kind](folder)
outcomes = {}
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for kind in ("json", "parquet", *inside):
    code, said = 0, io.StringIO()
    try:
        with contextlib.redirect_stderr(said), user_errors():
            write(kind)
    except SystemExit as error:
        code = error.code
    outcomes[kind] = (code, said.getvalue())
print(json.dumps(outcomes))
"""


@POSIX
def test_a_disk_that_takes_no_more_is_one_sentence_and_the_old_output_stays(tmp_path):
    for kind in ("json", "parquet"):
        (tmp_path / kind).write_text("old")
    for kind in ("torch", "numpy", "safetensors", "text"):
        fill(tmp_path / kind, a="old")
    done = subprocess.run(
        [sys.executable, "-c", FULL], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=280, check=True
    )
    kinds = json.loads(done.stdout)
    assert len(kinds) == 6
    for kind, (code, said) in kinds.items():
        assert code == 2, (kind, said)
        (line,) = said.splitlines()
        assert line.startswith(f"error: {kind}: cannot be written (") and line.endswith("; what was there is unchanged")
        path = tmp_path / kind
        assert (path if path.is_file() else path / "a").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kinds)
