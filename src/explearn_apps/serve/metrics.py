"""Counters of the service, for Prometheus. Labels never hold text from clients."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters and histograms of one service."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("explearn_requests", "Answered requests.", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "explearn_request_seconds", "Time to answer.", ["path"], registry=registry, buckets=_SECONDS
        )
        self.in_work = Gauge("explearn_requests_in_work", "Requests in progress or waiting.", registry=registry)
        self.texts = Counter("explearn_texts", "Texts explained.", ["method"], registry=registry)
        self.batches = Histogram(
            "explearn_batch_texts", "Texts per batch.", ["method"], registry=registry, buckets=_TEXTS
        )
        self.waiting = Gauge("explearn_texts_waiting", "Texts waiting for the model.", registry=registry)
        self.model_seconds = Counter("explearn_model_seconds", "Time in the model.", ["method"], registry=registry)
