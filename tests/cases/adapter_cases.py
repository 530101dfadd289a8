"""What tests of adapters share."""

import saying

from explearn.text.mapping import MappedRow
from explearn.text.rows import RawRow
from explearn_study.sections import SourceParams
from explearn_study.sources.adapters import get_adapter


def source(adapter, **options):
    return SourceParams.model_validate({"kind": "files", "adapter": adapter, **options})


def mapped(adapter, values, classes=None, **options):
    row = RawRow("some/train.jsonl", "train", 7, values, classes or {})
    return get_adapter("task", source(adapter, **options)).map_row(row)


def example(adapter, values, **options):
    result = mapped(adapter, values, **options)
    assert isinstance(result, MappedRow)
    return result


def complaint(adapter, values, **options):
    return saying.complaint(lambda: mapped(adapter, values, **options), "some/train.jsonl, row 7, field '")
