"""Large jobs on a Ray cluster of this machine: `explearn job --ray N`."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_cases import explain, joined, random_texts, refused, small_batches  # noqa: F401

from explearn import ParamsError

ray = pytest.importorskip("ray")

from explearn_apps.jobs.ray_executor import share_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as environment:
        # Ray's workers step back before other processes: beside other tests they would get hardly any time.
        environment.setenv("RAY_worker_niceness", "0")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("ray") / "texts.parquet"
    pq.write_table(pa.table({"text": random_texts(620)}), path)
    return path


@pytest.mark.usefixtures("cluster")
class TestOnACluster:
    def test_two_workers_write_the_bytes_of_one_process(self, tiny_folder, texts, tmp_path):
        explain(tiny_folder, texts, tmp_path / "local", "--shard-texts", "250")
        said = explain(tiny_folder, texts, tmp_path / "ray", "--shard-texts", "250", "--ray", "2")
        assert "620 texts" in said and "3 parts" in said
        assert joined(tmp_path / "ray") == joined(tmp_path / "local")
        local, by_ray = (json.loads((tmp_path / name / "_manifest.json").read_text()) for name in ("local", "ray"))
        assert by_ray["parts"] == local["parts"]
        # A part that is lost is written again, by whichever executor goes on with the job.
        (tmp_path / "ray" / "part-00001.parquet").unlink()
        explain(tiny_folder, texts, tmp_path / "ray", "--shard-texts", "250")
        assert joined(tmp_path / "ray") == joined(tmp_path / "local")

    def test_a_text_that_a_worker_cannot_read_is_named_by_its_row(self, tiny_folder, tmp_path):
        path = tmp_path / "pairs.jsonl"
        rows = [{"text": "quick fox", "b": "lazy dog"}] * 5 + [{"text": "fox " * 90, "b": "dog " * 90}]
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        more = ("--pair-column", "b", "--windows", "5", "--ray", "1")
        said = f"{path}, row 6, field 'text': its shorter segment leaves no room"
        refused(said, tiny_folder, path, tmp_path / "out", *more)

    def test_a_classifier_that_no_worker_can_load_is_one_sentence(self, texts, tmp_path):
        (tmp_path / "empty").mkdir()
        refused(str(tmp_path / "empty"), tmp_path / "empty", texts, tmp_path / "out", "--ray", "auto")


@pytest.mark.parametrize("workers", ["0", "-1", "two"])
def test_no_number_of_workers_is_refused(tiny_folder, texts, tmp_path, workers):
    refused(f"got {workers!r}", tiny_folder, texts, tmp_path / "out", "--ray", workers)


def node(cpus, gpus=0, alive=True):
    return {"Alive": alive, "Resources": {"CPU": float(cpus), "GPU": float(gpus)}}


class TestShares:
    """(workers, GPUs each, CPUs reserved each, threads each)."""

    @pytest.mark.parametrize(
        ("nodes", "workers", "threads", "expected"),
        [
            ([node(8), node(4), node(64, alive=False)], None, None, (2, 0, 4, 4)),
            # CPUs of nodes without a GPU are no use to workers with one.
            ([node(8), node(8, 8)], None, None, (8, 1, 1, 1)),
            # A worker is on one node.
            ([node(5), node(5)], 3, None, (3, 0, 2, 2)),
            # A job that was begun with two threads keeps them.
            ([node(1)], None, 2, (1, 0, 1, 2)),
        ],
    )
    def test_are_one_a_device(self, nodes, workers, threads, expected):
        share = share_of(nodes, workers, threads)
        assert (share.workers, share.gpus, share.cpus, share.threads) == expected

    def test_more_than_the_gpus_are_refused(self):
        with pytest.raises(ParamsError, match="got 5; expected at most 4, one for each GPU"):
            share_of([node(32, 4)], 5, None)
