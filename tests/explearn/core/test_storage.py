"""Attributions in Parquet files."""

import dataclasses

from drawn import assert_same, attributions
from fakes import attribution
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explearn import Attribution
from explearn.core.storage import ATTRIBUTION_SCHEMA, read_attributions, write_attributions


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(attributions(), max_size=3))
def test_what_is_written_is_read(tmp_path, expected):
    write_attributions(tmp_path / "a.parquet", expected)
    for actual, one in zip(read_attributions(tmp_path / "a.parquet"), expected, strict=True):
        assert_same(actual, one)


def test_the_columns_are_the_fields_of_a_record():
    names = ["id" if f.name == "example_id" else f.name for f in dataclasses.fields(Attribution)]
    assert list(attribution(["a"], [1.0]).to_dict()) == ATTRIBUTION_SCHEMA.names == names
