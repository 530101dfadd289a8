"""What the service takes, from whom, and how much at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from explearn.core.errors import ParamsError

CHAR_BYTES = 12
"""Most bytes that a character takes in a request: JSON as two escapes, \\ud83e\\udd8a, and a form as %F0%9F%A6%8A."""

MOST_BODY_BYTES = 256 * 2**20
"""Bound on the room that is made for the largest request."""

MOST_RATE = 1_000_000
"""Texts a second."""

MOST_SECONDS = 86_400
"""A day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the service. A request beyond one is answered by a status 4xx and one sentence.

    Attributes:
        body_bytes: of a request. body_seconds: that it may take to arrive.
        head_bytes: of a request's line and headers. head_seconds: that they may take to arrive.
        connections: open at once.
        texts: of a request. text_chars: of a text, its second segment included.
        methods, labels: of a request.
        scores: of an answer, one for each word of the texts, method and label.
        requests: in work or waiting at once. waiting: texts that may wait for the model, each counted once a method.
        seconds: that a request may wait for its answer. read_seconds: that its client may take to read it.
        rate: texts that a client may have explained a second, each counted once a method and label; 0: any number.
        burst: of them that may come at once.
        join_seconds: that a text waits for others of the same method, which then go through the model with it.
        join_texts: of a batch.
    """

    body_bytes: int = 4 * 2**20
    body_seconds: float = 10.0
    head_bytes: int = 16 * 1024
    head_seconds: float = 10.0
    connections: int = 1000
    texts: int = 32
    text_chars: int = 10_000
    methods: int = 8
    labels: int = 8
    scores: int = 1_000_000
    requests: int = 128
    waiting: int = 512
    seconds: float = 30.0
    read_seconds: float = 30.0
    rate: float = 100.0
    burst: int = 200
    join_seconds: float = 0.003
    join_texts: int = 32

    def __post_init__(self) -> None:
        """Raises ParamsError for a bound that is not finite, or below 1, or below 0 for times and `rate`."""
        for name in self.__slots__:
            value, least = getattr(self, name), 1
            if name.endswith("seconds") or name == "rate":
                least = 0
            if not value >= least:
                raise ParamsError(f"{name}: got {value!r}; expected at least {least}")
            if value == math.inf:
                raise ParamsError(f"{name}: got {value!r}; expected a finite number")

    @classmethod
    def of_options(cls, *, max_texts: int, max_chars: int, rate: float, timeout: float) -> Limits:
        """The limits of `explearn serve`, with room in the queue and in a body for the largest request.

        Raises ParamsError, naming the option, for a rate or a time out of its range.
        """
        for option, given, least, most in (("--rate", rate, 0, MOST_RATE), ("--timeout", timeout, 0.1, MOST_SECONDS)):
            if not least <= given <= most:
                raise ParamsError(f"{option}: got {given!r}; expected a number from {least} to {most:,}")
        usual = cls()
        # A form holds the text before it was changed, too. Beside the texts there are their quotes, and names.
        room = CHAR_BYTES * max(2, max_texts) * max_chars + 8 * max_texts + 64 * 1024
        return cls(
            texts=max_texts,
            text_chars=max_chars,
            # Each text once at least; a word takes two characters, with the space behind it.
            scores=max(usual.scores, max_texts * (max_chars // 2 + 1)),
            rate=rate,
            burst=max(1, int(2 * rate)),
            seconds=timeout,
            body_bytes=max(usual.body_bytes, min(MOST_BODY_BYTES, room)),
            # Each text waits once for every method, and once for its probabilities.
            waiting=max(usual.waiting, max_texts * (usual.methods + 1)),
        )
