"""A real HTTP server on loopback that speaks the chat-completions protocol, with the faults of real ones."""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """What a client sent. `number` counts requests from 0; `attempt` those for the same last message."""

    number: int
    attempt: int
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def text(self):
        """The text asked about."""
        return str(json.loads(self.body["messages"][-1]["content"])["text"])


@dataclass(frozen=True)
class Reply:
    """What goes back. `raw` takes the place of the protocol's body; `drop` closes the connection half-way,
    `drip` sends ten pieces with so many seconds between."""

    content: str | None = None
    status: int = 200
    error: str = ""
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    finish: str = "stop"
    usage: tuple[int, int] | None = (100, 20)
    delay: float = 0.0
    raw: bytes | None = None
    drop: bool = False
    drip: float = 0.0

    def payload(self):
        if self.raw is not None:
            return self.raw
        if self.status >= 300:
            return json.dumps({"error": {"message": self.error, "code": self.code}}).encode()
        message = {"role": "assistant", "content": self.content}
        reply = {
            "id": "c",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish}],
        }
        if self.usage is not None:
            read, written = self.usage
            reply["usage"] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return json.dumps(reply).encode()


class ChatServer:
    """Runs in a thread of its own; a context manager. `answer` maps a request to a reply; `requests` are those seen."""

    def __init__(self, answer, keep=True):
        self.answer = answer
        self.requests = []
        self.in_flight = self.most_in_flight = self.served = 0
        self._keep = keep
        self._attempts = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=256), self._loop
        ).result()
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *exception):
        async def stop():
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _connection(self, reader, writer):
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = [line.partition(":") for line in head[1:] if line]
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        assert head[0].split()[:2] == ["POST", "/v1/chat/completions"], head[0]
        last = body["messages"][-1]["content"] + body["model"] if self._keep else ""
        self._attempts[last] = self._attempts.get(last, -1) + 1
        request = Request(self.served, self._attempts[last], headers, body)
        self.served += 1
        if self._keep:
            self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self.answer(request)
            await asyncio.sleep(reply.delay)
        finally:
            self.in_flight -= 1
        payload = reply.payload()
        lines = [f"HTTP/1.1 {reply.status} Status", "content-type: application/json", f"content-length: {len(payload)}"]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        written = "\r\n".join([*lines, "", ""]).encode() + payload
        for piece in range(10) if reply.drip else ():
            start = piece * len(written) // 10
            writer.write(written[start : (piece + 1) * len(written) // 10])
            await asyncio.sleep(reply.drip)
        if not reply.drip:
            writer.write(written[: len(written) // 2] if reply.drop else written)
        await writer.drain()
        return not reply.drop


def answer_json(label, *quotes, reason="It says so."):
    """An answer as asked for; a quote may come with its occurrence."""
    pairs = [(quote, 1) if isinstance(quote, str) else quote for quote in quotes]
    evidence = [{"quote": quote, "occurrence": occurrence} for quote, occurrence in pairs]
    return json.dumps({"label": label, "evidence": evidence, "reason": reason}, ensure_ascii=False)
