"""What the service counts, for Prometheus. No label holds anything that a client wrote."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters and histograms of one service.

    Attributes:
        requests: by path and status. seconds: from a request's head to its answer, by path.
        refused: by reason. aborted: whose client went away first.
        texts: explained, by method. batches: texts that went through the model together, by method.
        model_seconds: spent on them, by method.
        in_work: requests not answered yet. waiting: texts that wait for the model, each counted once a method.
    """

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self.requests = Counter("explearn_requests", "Answered requests.", ["path", "status"], registry=own)
        self.seconds = Histogram(
            "explearn_request_seconds", "Time to the answer.", ["path"], registry=own, buckets=_SECONDS
        )
        self.refused = Counter("explearn_refused", "Requests that were refused.", ["reason"], registry=own)
        self.aborted = Counter("explearn_aborted", "Requests whose client went away first.", registry=own)
        self.texts = Counter("explearn_texts", "Texts explained.", ["method"], registry=own)
        self.batches = Histogram("explearn_batch_texts", "Texts a batch.", ["method"], registry=own, buckets=_TEXTS)
        self.in_work = Gauge("explearn_requests_in_work", "Requests being worked on or waiting.", registry=own)
        self.waiting = Gauge("explearn_texts_waiting", "Texts that wait for the model.", registry=own)
        self.model_seconds = Counter("explearn_model_seconds", "Time in the model.", ["method"], registry=own)
