"""The file of answers: nothing lost, nothing doubled, whatever ends the process."""

import json
import os

import pytest

from explearn import DataError
from explearn_study.annotate.llm.cache import AnswerCache, CachedAnswer, read_answers


def answer(number, content="{}"):
    return CachedAnswer(
        key=f"{number:064x}",
        model="m",
        prompt="evidence-1",
        version="v",
        id=f"t-{number}",
        content=content,
        finish="stop",
        requests=1,
        input_tokens=10,
        output_tokens=5,
    )


def line(number):
    return answer(number).model_dump_json().encode() + b"\n"


def fill(path, *answers):
    with AnswerCache(path) as cache:
        for item in answers:
            cache.append(item)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "annotations" / "t" / "answers.jsonl"


def test_answers_come_back_as_they_were(path):
    answers = [answer(n, text) for n, text in enumerate(["", "\u2028 \x00 \n \U0001f600", '"\\', "x" * 9999])]
    fill(path, *answers)
    assert list(read_answers(path)) == answers
    assert all(json.loads(line) for line in path.read_bytes().split(b"\n")[:-1])


def test_an_append_counts_once_it_is_on_disk(path, monkeypatch):
    """When `append` returns, fsync has been called after the answer was written."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    with AnswerCache(path) as cache:
        for n in range(3):
            cache.append(answer(n))
            assert synced[-1] == path.stat().st_size > 0
    assert len(list(read_answers(path))) == 3


@pytest.mark.parametrize("cut", [1, 100])
def test_a_torn_last_line_is_passed_over_and_cut_off(path, cut):
    fill(path, answer(1), answer(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert list(read_answers(path)) == [answer(1)]
    fill(path, answer(3))
    assert list(read_answers(path)) == [answer(1), answer(3)]


def test_two_runs_at_once_are_refused(path):
    with AnswerCache(path), pytest.raises(DataError, match="another run is writing to it"):
        AnswerCache(path).__enter__()
    fill(path, answer(1))


def test_a_full_disk_ends_in_one_sentence_and_tears_no_line(path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    fill(path, answer(1))
    with monkeypatch.context() as patched, AnswerCache(path) as cache:
        patched.setattr(os, "fsync", full)
        with pytest.raises(DataError, match=r"cannot be written \(No space left"):
            cache.append(answer(2))
    fill(path, answer(3))
    assert list(read_answers(path)) == [answer(1), answer(3)]
