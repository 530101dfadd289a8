"""What several tests of sources share."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explearn.core.errors import DataError
from explearn.core.examples import Split
from explearn_study.sources import SourceDataset, load_task
from explearn_study.sources.params import SourceParams


def source(**options: Any) -> SourceParams:
    return SourceParams.model_validate({"kind": "files", "adapter": "sst2", **options})


def rows(count: int, start: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Texts with alternating labels, negative first."""
    return [
        {"id": f"x-{n}", "text": f"text number {n}", "label": ("negative", "positive")[n % 2], **more}
        for n in range(start, start + count)
    ]


def write(path: Path, content: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, list(content[0]))
            writer.writeheader()
            writer.writerows(content)
    else:
        pq.write_table(pa.Table.from_pylist(content), path)
    return path


def counts(data: SourceDataset) -> dict[Split, int]:
    return dict(Counter(example.split for example in data.examples))


def load(data_dir: Path, task: str = "mine", **options: Any) -> SourceDataset:
    return load_task(task, source(**options), data_dir, seed=13)


def complaint(data_dir: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        load(data_dir, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message
