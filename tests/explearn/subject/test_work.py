"""Finished parts of a call."""

import pytest
import tiny

from explearn import ParamsError, get_explainer
from explearn.core.writing import replacing
from explearn.metrics.runs import MethodRun
from explearn.subject.work import Work


def test_a_part_is_kept_while_it_is_made_from_the_same(tmp_path):
    for work in (Work(tmp_path), Work(tmp_path)):
        assert work.part("sum", (2, 3), lambda: 5) == 5
    assert Work(tmp_path).part("sum", (2, 3), lambda: 0) == 5
    assert Work(tmp_path).part("sum", (2, 4), lambda: 6) == 6
    assert Work().part("sum", (2, 3), lambda: 0) == 0


@pytest.mark.parametrize("value", ["{}", "[[], []]", "6", "torn"])
def test_a_part_that_was_changed_is_named_and_stays(tmp_path, value):
    work = Work(tmp_path)
    work.part("sum", (2, 3), lambda: 5)
    part = tmp_path / "sum.json"
    changed = part.read_text(encoding="utf-8").replace("5", value)
    part.write_text(changed, encoding="utf-8")
    with pytest.raises(ParamsError, match=r"sum\.json: exists and is not a part of a working folder"):
        Work(tmp_path).part("sum", (2, 3), lambda: 5)
    assert part.read_text(encoding="utf-8") == changed
    with replacing(force=True):
        assert Work(tmp_path).part("sum", (2, 3), lambda: 7) == 7


def test_a_run_is_kept_and_a_changed_one_stays(tmp_path):
    run = MethodRun("random", list(get_explainer("random").explain(tiny.classifier(), tiny.TEXTS)))
    for source, expected in (("a", False), ("a", True), ("b", False)):
        made, kept = Work(tmp_path).run("random", source, lambda: run)
        assert kept is expected and made.attributions[0].words == run.attributions[0].words
    (tmp_path / "random.parquet").write_bytes(b"torn")
    with pytest.raises(ParamsError, match=r"random\.parquet: exists"):
        Work(tmp_path).run("random", "b", lambda: run)


def test_a_folder_of_something_else_stays_as_it_is(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ParamsError, match=r"'thesis\.txt', which is not a part of a working folder"):
        Work(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
