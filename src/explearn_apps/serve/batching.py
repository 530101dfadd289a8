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

SHUTTING_DOWN = "the service is shutting down; try again later"


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
        self._closed = False

    def start(self) -> None:
        """Start working, in the running event loop."""
        self._task = asyncio.create_task(self._work_on())

    @property
    def working(self) -> bool:
        return self._task is not None and not self._task.done() and not self._closed

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
            raise busy(SHUTTING_DOWN)
        if self.waiting + len(items) > self._limits.waiting:
            raise busy(f"{self.waiting} texts are already waiting; try again in a moment")
        work: _Work = _Work(key, items, asyncio.get_running_loop().create_future())
        self._queue.append(work)
        self._arrived.set()
        return await work.future

    async def close(self) -> None:
        """End after the batch in work; requests that still wait are refused."""
        self._closed = True
        for work in self._queue:
            if not work.future.done():
                work.future.set_exception(busy(SHUTTING_DOWN))
        self._arrived.set()
        if self._task is not None:
            await self._task
        self._worker.shutdown()

    async def _work_on(self) -> None:
        while not self._closed:
            await self._arrived.wait()
            await self._do(self._take())

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

    async def _do(self, together: Sequence[_Work]) -> None:
        if not together:
            return
        items = list(chain.from_iterable(work.items for work in together))
        loop = asyncio.get_running_loop()
        try:
            results = iter(await loop.run_in_executor(self._worker, self._run, together[0].key, items))
        except Exception as error:
            if len(together) > 1:
                for work in together:
                    await self._do([work])
            elif not together[0].future.done():
                together[0].future.set_exception(error)
            return
        for work in together:
            answer = list(islice(results, len(work.items)))
            if not work.future.done():  # its request was not cancelled
                work.future.set_result(answer)
