"""Batching of requests that arrive together, in the one thread that uses the model."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from explearn_apps.serve.limits import Limits
from explearn_apps.serve.responses import busy


@dataclass(slots=True, eq=False)
class _Work:
    """The items of one request for one method."""

    key: Hashable
    items: Sequence[Any]
    future: asyncio.Future[list[Any]] = field(repr=False)


class Batcher:
    """Joins work with the same key into batches, and does it in one thread.

    The oldest work comes first. The next batch collects while one is running. Work of cancelled requests is dropped. If
    a joined batch fails, because of any one request, its requests are retried separately.

    Args:
        run: function of a key and items that returns a result for each item; called in the thread.
        limits: `join_texts` and `waiting`.
    """

    def __init__(self, run: Callable[[Any, Sequence[Any]], Sequence[Any]], limits: Limits) -> None:
        self._run = run
        self._limits = limits
        self._queue: deque[_Work] = deque()
        self._arrived = asyncio.Event()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="explearn-model")
        self._task: asyncio.Task[None] | None = None

    def run_alone(self, key: Hashable, items: Sequence[Any]) -> Sequence[Any]:
        """Call `run` in the thread, wait, and return its result."""
        return self._worker.submit(self._run, key, items).result()

    def start(self) -> None:
        """Start working, in the running event loop."""
        self._task = asyncio.create_task(self._work_on())

    @property
    def working(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def waiting(self) -> int:
        """Number of items not yet started."""
        return sum(len(work.items) for work in self._queue if not work.future.done())

    async def submit(self, key: Hashable, items: Sequence[Any]) -> list[Any]:
        """Return the results of some items, in order. Errors of `run` pass through.

        Raises:
            HTTPException: too many are waiting.
        """
        if not self.working:
            raise busy("the service is shutting down; try again later")
        if self.waiting + len(items) > self._limits.waiting:
            raise busy(f"{self.waiting} texts are already waiting; try again in a moment")
        work: _Work = _Work(key, items, asyncio.get_running_loop().create_future())
        self._queue.append(work)
        self._arrived.set()
        return await work.future

    async def close(self) -> None:
        """Stop the thread after its batch; requests that still wait are refused."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._queue:
            future = self._queue.popleft().future
            if not future.done():
                future.set_exception(busy("the service is shutting down; try again later"))
        await asyncio.to_thread(self._worker.shutdown)

    async def _work_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            together = self._take()
            if together:
                await loop.run_in_executor(self._worker, self._do, loop, together)

    def _take(self) -> list[_Work]:
        """Take the oldest work, and other work with the same key that fits into its batch."""
        taken: list[_Work] = []
        left: deque[_Work] = deque()
        room = self._limits.join_texts
        for work in self._queue:
            if work.future.done():
                continue
            if not taken or (work.key == taken[0].key and len(work.items) <= room):
                taken.append(work)
                room -= len(work.items)
            else:
                left.append(work)
        self._queue = left
        if not self._queue:
            self._arrived.clear()
        return taken

    # ---- in the thread -------------------------------------------------------------------------------------------

    def _do(self, loop: asyncio.AbstractEventLoop, together: Sequence[_Work]) -> None:
        live = [work for work in together if not work.future.done()]
        if not live:
            return
        items = list(chain.from_iterable(work.items for work in live))
        try:
            results = self._run(live[0].key, items)
        except Exception as error:
            if len(live) > 1:
                for work in live:
                    self._do(loop, [work])
                return
            loop.call_soon_threadsafe(_settle, live[0].future, error)
            return
        remaining = iter(results)
        for work in live:
            loop.call_soon_threadsafe(_settle, work.future, list(islice(remaining, len(work.items))))


def _settle(future: asyncio.Future[list[Any]], outcome: list[Any] | Exception) -> None:
    if future.done():  # its request was cancelled
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
