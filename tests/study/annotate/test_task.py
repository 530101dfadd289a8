"""The folder of marks, verdicts and decisions that people add to a task."""

import threading
from itertools import product

import pytest
from project_cases import TEXTS
from saying import complaint

from explearn import Rationale
from explearn_study.annotate.task import Store


def test_imports_at_the_same_time_lose_nothing(tmp_path):
    """Each adds its marks to what it has read: without a lock, the last one to write would drop the others'."""
    texts = TEXTS[:4]
    store = Store(tmp_path, texts)

    def add(annotator):
        for text in texts:
            store.add(store.human, [Rationale(text.id, annotator, "human", (True,) * len(text.all_words))])

    threads = [threading.Thread(target=add, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    actual = {(mark.example_id, mark.annotator) for mark in store.read(store.human)}
    assert actual == {(text.id, f"p{number}") for text, number in product(texts, range(4))}
    assert [path.name for path in tmp_path.iterdir()] == ["human.jsonl"]


@pytest.mark.parametrize("line", ['{"annotator": "x"}', "[]", '{"id": "a", "annotator": {}}'])
def test_a_line_that_cannot_be_used_is_named_and_nothing_is_added(tmp_path, line):
    store = Store(tmp_path, TEXTS)
    store.human.write_text(line + "\n", encoding="utf-8")
    complaint(lambda: store.add(store.human, [Rationale("f-5", "ana", "human", (True,))]), "row 1")
    assert store.human.read_text(encoding="utf-8") == line + "\n"
