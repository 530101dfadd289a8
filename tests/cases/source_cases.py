"""What several tests of sources share."""

import csv
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import saying
from files import write_lines

from explearn_study.sections import SourceParams
from explearn_study.sources import load_task


def source(**options):
    return SourceParams.model_validate({"kind": "files", "adapter": "sst2", **options})


def rows(count, start=0, **more):
    """Texts with alternating labels, negative first."""
    return [
        {"id": f"x-{n}", "text": f"text number {n}", "label": ("negative", "positive")[n % 2], **more}
        for n in range(start, start + count)
    ]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        write_lines(path, content)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, list(content[0]))
            writer.writeheader()
            writer.writerows(content)
    else:
        pq.write_table(pa.Table.from_pylist(content), path)
    return path


def counts(data):
    return dict(Counter(example.split for example in data.examples))


def load(data_dir, task="mine", **options):
    return load_task(task, source(**options), data_dir, seed=13)


def complaint(data_dir, **options):
    return saying.complaint(lambda: load(data_dir, **options))
