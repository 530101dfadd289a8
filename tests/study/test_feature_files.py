"""The files of the stage features, and the texts that they are of."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny
from rounding import assert_close, tolerance

from explearn import Example, ParamsError
from explearn.core.parquet import read_metadata
from explearn.methods.consensus.signals import compute_signals
from explearn.text.sampling import texts_to_explain
from explearn_study import feature_files
from explearn_study.feature_files import (
    read_features,
    read_signals,
    texts_to_learn_from,
    write_features,
    write_signals,
)

HALF = 2**-11
"""Largest relative rounding error of float16."""

EXAMPLES = tiny.examples()


@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
@pytest.mark.parametrize("hidden", [False, True])
def test_what_is_read_is_what_the_model_computes(tmp_path, kind, hidden):
    of = tiny.classifier(kind, 3)
    write_features(tmp_path / "f.parquet", of, EXAMPLES, layers=[-2], hidden=hidden)
    actual = list(read_features(tmp_path / "f.parquet", hidden))
    assert [row.example_id for row in actual] == [example.id for example in EXAMPLES]
    for row, example in zip(actual, EXAMPLES, strict=True):
        (encoding,) = of.read([example])
        alone = of.batch([encoding])
        attention = tiny.eager_attentions(of, alone)[-2][0].numpy()
        expected = np.concatenate([attention[:, 0], attention[:, :, 0]]).T[encoding.positions]
        np.testing.assert_allclose(row.attention, expected, rtol=2 * HALF, atol=tolerance())
        assert row.word_ids.tolist() == [encoding.word_ids[i] for i in encoding.positions]
        assert_close(row.probabilities, of.predict_proba([encoding])[0])
        assert row.predicted == of.predict([example])[0]
        if hidden:
            states = of.model(**alone.model_inputs(), output_hidden_states=True).hidden_states[-1][0].numpy()
            np.testing.assert_allclose(row.hidden, states[encoding.positions], rtol=2 * HALF, atol=tolerance(10))
        else:
            assert row.hidden is None


def test_the_metadata_say_where_the_features_come_from(tmp_path):
    of = tiny.classifier()
    write_features(tmp_path / "f.parquet", of, EXAMPLES)
    assert read_metadata(tmp_path / "f.parquet") == {
        "classifier": of.fingerprint,
        "attended": [0, 1, 2],
        "layers": 3,
        "heads": 4,
        "hidden_size": 32,
        "texts": 8,
    }


def test_reading_holds_one_row_group_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_files, "SHARD_TEXTS", 2)
    write_features(tmp_path / "f.parquet", tiny.classifier(), EXAMPLES)
    read = []
    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, group, **kw: (read.append(group), original(self, group, **kw))[1]
    )
    rows = read_features(tmp_path / "f.parquet")
    next(rows), next(rows)
    assert read == [0]
    next(rows)
    assert read == [0, 1]


def test_a_text_without_pieces_has_no_features(tmp_path):
    examples = [Example("x", ("\u200b",), "no", "test", "task"), EXAMPLES[0]]
    write_features(tmp_path / "f.parquet", tiny.classifier(), examples)
    assert [row.attention.shape for row in read_features(tmp_path / "f.parquet")] == [(0, 24), (4, 24)]


def test_layers_that_do_not_exist_leave_the_earlier_file(tmp_path):
    path = tmp_path / "f.parquet"
    write_features(path, tiny.classifier(), EXAMPLES)
    before = path.read_bytes()
    with pytest.raises(ParamsError, match="layer 9 does not exist"):
        write_features(path, tiny.classifier(), EXAMPLES, layers=[9])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["f.parquet"]


def test_signals_that_are_written_are_read(tmp_path):
    classifier = tiny.classifier("bert", 3)
    write_signals(tmp_path / "signals.parquet", classifier, EXAMPLES)
    assert read_metadata(tmp_path / "signals.parquet")["classifier"] == classifier.fingerprint
    found = list(read_signals(tmp_path / "signals.parquet"))
    for actual, one in zip(found, compute_signals(classifier, EXAMPLES), strict=True):
        np.testing.assert_array_equal(actual.scores, one.scores)
        for name in ("example_id", "words", "predicted", "probability", "target"):
            assert getattr(actual, name) == getattr(one, name)


@pytest.mark.parametrize("most", [4, 10, 13])
@pytest.mark.parametrize("unmarked", [0, 3, 100])
def test_more_texts_without_marks_do_not_change_the_draw_of_the_others(most, unmarked):
    texts = [Example(f"t{number}", ("word",), "yes", "train", "mine") for number in range(20)]
    marked = {text.id for text in texts[::2]}
    before = {text.id for text in texts_to_explain(texts, marked, most, 13)}
    actual = {text.id for text in texts_to_learn_from(texts, marked, most, unmarked, 13)}
    more = actual - before
    assert before <= actual and not more & marked
    assert len(more) == min(unmarked, 10 - len(before - marked))
