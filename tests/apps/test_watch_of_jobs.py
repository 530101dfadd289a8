"""A watch over the folders of large jobs: the command, its history, and whether the classifier is the same."""

import json

import pyarrow.parquet as pq
import pytest
from cli_cases import complaint, run
from watch_cases import day

CODE = """
import explearn
from watch_cases import classifier
old = classifier("alpha")
new = classifier("alpha", "beta", version="2")
# Another one that does not say so.
silent = classifier("alpha", "beta")
"""

CANARIES = day(99, 30, alpha=0.4, beta=0.4)
"""Texts that are in the file of every day."""


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """A reference, two days of the same kind, one of another classifier, and one of another that hides it."""
    folder = tmp_path_factory.mktemp("days")
    (folder / "code.py").write_text(CODE, encoding="utf-8")
    made = {"reference": "old", "day-1": "old", "day-2": "old", "day-3": "new", "day-4": "silent"}
    for seed, (name, classifier) in enumerate(made.items()):
        texts = folder / f"{name}.txt"
        sentences = day(seed, 600 if name == "reference" else 250, alpha=0.4, beta=0.1)
        texts.write_text("\n".join([*sentences, *CANARIES]), encoding="utf-8")
        arguments = ("--texts", texts, "--out", folder / name, "--classifier", f"{folder / 'code.py'}:{classifier}")
        done = run("job", *arguments, "--method", "occlusion", "--shard-texts", "200")
        assert done.exit_code == 0, done.output
    return folder


def watch(days, name, *more):
    return run("watch", "--reference", days / "reference", "--now", days / name, "--out", days / "watch.html", *more)


def test_a_history_grows_by_a_day_and_names_the_change(days, tmp_path):
    history = tmp_path / "history.parquet"
    more = ("--history", history, "--out", tmp_path / "watch.html", "--fail-above", "0.05")
    for name in ("day-1", "day-2"):
        done = watch(days, name, *more)
        assert done.exit_code == 0 and "has not changed" in done.output, done.output
    done = watch(days, "day-3", *more)
    assert done.exit_code == 1 and "because it is another classifier" in done.output
    assert "‘beta’ for yes" in done.output and "it has another fingerprint" in done.output
    # Again, as a scheduler would: today is replaced.
    assert watch(days, "day-3", *more).exit_code == 1
    table = pq.read_table(history)
    assert table["day"].unique().to_pylist() == ["day-1", "day-2", "day-3"]
    changed = [row["day"] for row in table.to_pylist() if row["about"] == "reasons" and row["changed"]]
    assert set(changed) == {"day-3"}
    assert "day by day" in (tmp_path / "watch.html").read_text(encoding="utf-8")
    assert complaint(watch(days, "day-1", *more)).startswith("day: got 'day-1', after which")
    other = complaint(watch(days, "day-3", *more, "--least", "0.1"))
    assert "the history of another reference, or of other settings" in other


def test_a_classifier_that_hides_its_change_is_found_by_texts_that_are_in_both(days):
    done = watch(days, "day-4", "--json")
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    change = next(change for change in changes if change["element"] == "‘beta’" and change["target"] == "yes")
    assert change["changed"] and change["cause"] == "another classifier"
    done = watch(days, "day-4")
    assert "the same fingerprint" in done.output and "30 texts that are in both have other scores" in done.output


def test_with_a_classifier_the_reference_is_explained_again(days):
    done = watch(days, "day-3", "--classifier", f"{days / 'code.py'}:new", "--json")
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    change = next(change for change in changes if change["element"] == "‘beta’" and change["target"] == "yes")
    assert change["effect_now"] > 0.3
    refused = complaint(watch(days, "day-3", "--classifier", f"{days / 'code.py'}:old"))
    assert "is not the one that explained `now`" in refused


def test_sides_that_cannot_be_compared_are_a_sentence(days, tmp_path):
    assert "holds no finished job" in complaint(watch(days, tmp_path))
    (tmp_path / "mine.parquet").write_text("mine")
    for more in ((), ("--force",)):
        assert "mine.parquet" in complaint(watch(days, "day-1", "--history", tmp_path / "mine.parquet", *more))
    assert (tmp_path / "mine.parquet").read_text() == "mine"
    other = tmp_path / "other"
    texts = ("--texts", days / "day-1.txt", "--out", other, "--classifier", f"{days / 'code.py'}:old")
    assert run("job", *texts, "--method", "lime", "-o", "samples=20").exit_code == 0
    assert "explained with another method" in complaint(watch(days, other))
    assert "got 'source' with a job; expected `id`" in complaint(watch(days, "day-1", "--group", "source"))
