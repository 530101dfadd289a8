"""What scripts/make_index.py writes from the methods' classes."""

import json
import shutil
import sys

import pytest

NAMES = ("INDEX", "TABLE")


@pytest.fixture
def make(repository, tmp_path, monkeypatch):
    """Run the script on copies of its files; where those are."""
    monkeypatch.syspath_prepend(repository / "scripts")
    import make_index as script

    copies = {name: tmp_path / getattr(script, name).name for name in NAMES}
    for name, path in copies.items():
        shutil.copy(getattr(script, name), path)
    for name, path in copies.items():
        monkeypatch.setattr(script, name, path)
    monkeypatch.setattr(script, "ROOT", tmp_path)

    def make(*arguments):
        monkeypatch.setattr(sys, "argv", ["make_index.py", *arguments])
        script.main()
        return copies

    return make


def names(path):
    return [entry["name"] for entry in json.loads(path.read_text(encoding="utf-8"))]


def test_what_is_committed_is_fresh(make):
    files = make("--check")
    assert {"marker", "marker_in_domain"} <= set(names(files["INDEX"]))


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("INDEX", "one forward pass"),
        ("TABLE", "| decompx ±"),
    ],
)
def test_what_is_stale_is_named_and_mended(make, name, changed):
    path = make("--check")[name]
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace(changed, f"{changed} "), encoding="utf-8")
    with pytest.raises(SystemExit) as raised:
        make("--check")
    assert f"{path.name}: not what the classes of the methods declare; run `make index`" in str(raised.value)
    make()
    assert path.read_text(encoding="utf-8") == before


def test_a_new_method_comes_last_in_its_family(make):
    path = make("--check")["INDEX"]
    entries = json.loads(path.read_text(encoding="utf-8"))
    before = [entry["name"] for entry in entries]
    path.write_text(json.dumps([entry for entry in entries if entry["name"] != "gradient"]), encoding="utf-8")
    make()
    actual = names(path)
    assert sorted(actual) == sorted(before)
    assert actual[actual.index("sequential_ig") + 1] == "gradient"
    assert [name for name in actual if name != "gradient"] == [name for name in before if name != "gradient"]
