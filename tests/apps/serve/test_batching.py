"""Requests that arrive together are worked on together, each gets its own results, and none harms another."""

import asyncio
import threading

import pytest
from starlette.exceptions import HTTPException

from explearn import DataError
from explearn_apps.serve.batching import Batcher
from explearn_apps.serve.limits import Limits

LIMITS = Limits(join_texts=4)


class Work:
    """Doubles numbers; it remembers its batches, and waits for `go` where `held`."""

    def __init__(self, held=False):
        self.batches = []
        self.threads = set()
        self.go = threading.Event()
        if not held:
            self.go.set()

    def __call__(self, key, items):
        self.batches.append((key, list(items)))
        self.threads.add(threading.get_ident())
        assert self.go.wait(10)
        if 13 in items:
            raise DataError("got 13")
        if 0 in items:
            raise ZeroDivisionError
        return [2 * item for item in items]


def with_batcher(work, case):
    async def run():
        batcher = Batcher(work, LIMITS)
        batcher.start()
        try:
            await asyncio.wait_for(case(batcher), 20)
        finally:
            work.go.set()
            await batcher.close()

    asyncio.run(run())


async def started(batcher, work):
    """A request whose batch is being worked on."""
    first = asyncio.ensure_future(batcher.submit("a", [1]))
    while not work.batches:
        await asyncio.sleep(0.01)
    return first


def test_methods_do_not_mix_and_the_oldest_comes_first():
    work = Work()

    async def case(batcher):
        answers = await asyncio.gather(*(batcher.submit(key, [n]) for key, n in (("a", 1), ("b", 2), ("a", 3))))
        assert answers == [[2], [4], [6]]

    with_batcher(work, case)
    assert work.batches == [("a", [1, 3]), ("b", [2])]
    assert len(work.threads) == 1 and threading.get_ident() not in work.threads


def test_a_text_that_cannot_be_used_harms_its_own_request_alone():
    work = Work()

    async def case(batcher):
        answers = await asyncio.gather(*(batcher.submit("a", [n]) for n in (1, 13, 2)), return_exceptions=True)
        assert answers[0] == [2] and answers[2] == [4]
        assert isinstance(answers[1], DataError)

    with_batcher(work, case)
    assert [items for _, items in work.batches] == [[1, 13, 2], [1], [13], [2]]


def test_more_than_may_wait_is_refused_with_a_time_to_come_back():
    work = Work(held=True)

    async def case(batcher):
        first = await started(batcher, work)
        waits = asyncio.ensure_future(batcher.submit("a", [1] * LIMITS.waiting))
        await asyncio.sleep(0.01)
        with pytest.raises(HTTPException) as refused:
            await batcher.submit("a", [1])
        assert refused.value.status_code == 429 and refused.value.headers == {"retry-after": "1"}
        work.go.set()
        assert len((await asyncio.gather(first, waits))[1]) == LIMITS.waiting

    with_batcher(work, case)
