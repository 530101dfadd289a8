"""What a manifest lists, and what its check says."""

import json
import os
import shutil

import cli_cases
import pytest
import tiny

from explearn.subject.manifest import COMPARISON, versions


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with a classifier, texts, and in `pages` a page that was made of them."""
    folder = tmp_path / "made"
    (folder / "pages").mkdir(parents=True)
    monkeypatch.chdir(folder)
    tiny.save(folder / "model", seed=3)
    (folder / "t.txt").write_text("a fox\na lazy dog\n")
    given = ("--classifier", "model", "--method", "random", "--texts", "t.txt", "--out", "pages/p.html")
    assert cli_cases.run("explain", *given).exit_code == 0
    return folder


def verify(page, *more):
    done = cli_cases.run("verify", page, *more)
    return done.exit_code, done.output


def test_a_page_that_was_moved_differs_in_nothing(made, tmp_path, monkeypatch):
    moved = tmp_path / "elsewhere" / "p.html"
    shutil.copytree(made / "pages", moved.parent)
    monkeypatch.chdir(tmp_path)
    code, said = verify(moved)
    assert code == 3 and "could not be found" in said and "difference" not in said
    assert "texts: t.txt is missing" in said and "classifier of texts (model): cannot be loaded" in said
    assert verify(moved, "--root", made)[0] == 0
    # Only the texts are missing yet.
    code, said = verify(moved, "--classifier", made / "model")
    assert code == 3 and "1 thing could not be found" in said
    other = tiny.save(tmp_path / "other", seed=4)
    code, said = verify(moved, "--classifier", other)
    assert code == 1 and "is another one, by its fingerprint" in said
    moved.write_text(moved.read_text(encoding="utf-8") + "more", encoding="utf-8")
    assert verify(moved)[0] == 1


@pytest.mark.parametrize("field", ["parts", "versions", "approved_by"])
def test_what_is_not_in_a_manifest_or_was_put_into_it_is_named(made, field):
    path = made / "pages" / "p.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document[field] = {}
    path.write_text(json.dumps(document), encoding="utf-8")
    code, said = verify(path)
    assert code == 1 and "are unchanged" not in said
    expected = {
        "parts": "page: the manifest has no hash of it",
        "versions": "versions: the manifest has none",
        "approved_by": "approved_by: is no field that Explearn writes",
    }
    assert expected[field] in said


@pytest.mark.timeout(60)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_only_ordinary_files_are_read(made):
    os.mkfifo(made / "pipe")
    path = made / "pages" / "p.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    special = dict.fromkeys(("/dev/zero", "/proc/kmsg", "pipe"), "0" * 64)
    document["parts"]["texts"]["files"] |= special
    path.write_text(json.dumps(document), encoding="utf-8")
    code, said = verify(path)
    assert code == 1 and all(f"texts: {name} is missing" in said for name in special)


def test_each_package_is_listed_once_though_extras_require_explearn_too():
    for extras in ((), COMPARISON, ("pipeline", "baselines")):
        names = [name for name, _ in versions(extras)]
        assert len(names) == len(set(names)) and names[:2] == ["python", "explearn"]
    assert not dict(versions(["pipeline"])).items() <= dict(versions([])).items()
