"""What the benchmarks share: paired timing, a classifier, texts."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from explearn.predictors import pretrained
from explearn.predictors.finetune import load_encoder
from explearn.predictors.loading import quiet_transformers
from explearn.predictors.predictor import Predictor

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus" / "reviews.jsonl"


Clock = Callable[[], float]


def seconds(function: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    function()
    return clock() - start


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median of the paired ratios with their quartiles, and the median time of either side."""

    median: float
    low: float
    high: float
    slow_seconds: float
    fast_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.median:.2f} x (quartiles {self.low:.2f} to {self.high:.2f}; "
            f"{self.slow_seconds:.2f} s against {self.fast_seconds:.2f} s)"
        )


def paired(
    slow: Callable[[], object], fast: Callable[[], object], runs: int, clock: Clock = time.perf_counter
) -> Ratio:
    """Time two functions in turn, `runs` times: a drift of the machine's speed touches both."""
    pairs = [(seconds(slow, clock), seconds(fast, clock)) for _ in range(runs)]
    ratios = sorted(a / b for a, b in pairs)
    return Ratio(
        statistics.median(ratios),
        ratios[len(ratios) // 4],
        ratios[3 * len(ratios) // 4 if len(ratios) > 1 else 0],
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
    )


def load_classifier(folder: Path | None, device: str = "cpu", precision: str = "fp32") -> Predictor:
    """A classifier from a folder, or the embedded encoder with a new head, which is as fast as a trained one."""
    quiet_transformers()
    if folder is not None:
        return pretrained.load_classifier(folder, device=device, precision=precision)
    with tempfile.TemporaryDirectory() as temporary:
        model, tokenizer = load_encoder("embedded", ["no", "yes"], limit=512)
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        return pretrained.load_classifier(temporary, device=device, precision=precision)


def load_texts(path: Path, count: int) -> list[str]:
    """The first `count` values of the field text (or words) of a JSON Lines file."""
    texts = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            texts.append(row["text"] if "text" in row else " ".join(row["words"]))
            if len(texts) == count:
                return texts
    raise SystemExit(f"{path} has {len(texts)} texts; expected {count}")
