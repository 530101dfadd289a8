"""An audit that reads the scores of a large job."""

import pyarrow.parquet as pq
import pytest
from job_cases import explain, random_texts

import explearn
from explearn.core.errors import DataError, ParamsError

TEXTS = random_texts(200)


@pytest.fixture(scope="module")
def case(tiny_folder, tmp_path_factory):
    """A classifier, a file of texts, and a finished job on them with two methods."""
    folder = tmp_path_factory.mktemp("job")
    texts = folder / "texts.txt"
    texts.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    explain(tiny_folder, texts, folder / "out", "--method", "gae", "--method", "attn_lrp", "--shard-texts", "50")
    return tiny_folder, texts, folder / "out"


def test_findings_are_those_of_scores_computed_here(case, tmp_path):
    classifier, texts, job = case
    read = explearn.audit(classifier, texts, method="gae", scores=job, out=tmp_path / "audit.html")
    here = explearn.audit(classifier, texts, method="gae")
    assert (read.method, read.unexplained) == ("gae", 0)
    for one, other in zip(read.findings, here.findings, strict=True):
        assert (one.element, one.target, one.confirmed) == (other.element, other.target, other.confirmed)
        assert one.score == pytest.approx(other.score, abs=1e-5)  # the batches differ


def test_a_job_that_does_not_fit_is_a_sentence(case, tmp_path):
    classifier, texts, job = case
    with pytest.raises(ParamsError, match=r"expected one of those in .*: gae, attn_lrp"):
        explearn.audit(classifier, texts, scores=job)
    with pytest.raises(DataError, match="holds no finished job"):
        explearn.audit(classifier, texts, method="gae", scores=tmp_path)
    others = list(reversed(TEXTS))
    with pytest.raises(DataError, match="text 1 has other words"):
        explearn.audit(classifier, others, method="gae", scores=job)
    other = explearn.load_classifier(classifier).renamed({"bad": "poor"})
    with pytest.raises(DataError, match="of another classifier"):
        explearn.audit(other, texts, method="gae", scores=job)
    part = job / "part-00001.parquet"
    pq.write_table(pq.read_table(part).slice(0, 100), part)
    with pytest.raises(DataError, match="part-00001"):
        explearn.audit(classifier, texts, method="gae", scores=job)
