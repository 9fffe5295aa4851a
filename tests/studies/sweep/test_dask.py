"""The same sweep on processes of this machine and on a Dask cluster."""

from importlib.util import find_spec

import pytest
from tiny_sweeps import seeds

from dpsim import sweep

pytestmark = pytest.mark.skipif(
    find_spec("distributed") is None, reason="Dask is not installed: pip install -e '.[cluster]'"
)


def cluster_of(workers):
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",  # any port: two runs of the tests are no rivals
    )


def test_a_scheduler_and_two_workers_give_the_table_that_processes_give(write, tmp_path):
    path = write(seeds(24))
    sweep(path, tmp_path / "processes", workers=2)
    with cluster_of(2) as cluster:
        swept = sweep(path, tmp_path / "dask", dask=cluster.scheduler_address)
    assert (swept.points, swept.computed, swept.failed) == (24, 24, 0)
    assert (tmp_path / "dask" / "results.parquet").read_bytes() == (
        tmp_path / "processes" / "results.parquet"
    ).read_bytes()


def test_a_scheduler_without_workers_is_said_to_have_none(write, tmp_path, monkeypatch):
    monkeypatch.setattr("dpsim.studies.sweep.execute._CONNECT_WITHIN", 1.0)
    with (
        cluster_of(0) as cluster,
        pytest.raises(ValueError, match="has no workers"),
    ):
        sweep(write(), tmp_path / "out", dask=cluster.scheduler_address)
