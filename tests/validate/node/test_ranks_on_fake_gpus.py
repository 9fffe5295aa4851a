"""Three ranks with stand-ins for GPUs, which meet by NCCL's name: what is measured, what is trained."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np

from validate.microbench.benchmarks import BENCHMARKS
from validate.ranks.launch import launch, loopback

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
SCENARIO = str(HERE / "small.yaml")
THREE = "cluster.nodes=3"
SHARDED = "strategy.aggregation={kind: sharded, stage: %d, unit_size: 100 kB}"
CASES = {
    "ddp": ((THREE,), "real"),
    "fsdp": ((THREE, SHARDED % 3), "real"),
    "zero-1": ((THREE, SHARDED % 1), "real"),
    "hook": (
        (THREE, "strategy.aggregation={kind: allreduce}", "strategy.compression={kind: powersgd}"),
        "real",
    ),
    "bf16": ((THREE, "cluster.gpu=h100-sxm", "workload.precision=bf16"), "real"),
    "learners": (
        (
            THREE,
            "strategy={sync: {kind: sma}, aggregation: {kind: allreduce, library: gloo}}",
            "workload.learners_per_gpu=2",
        ),
        "real",
    ),
    "timed": ((THREE,), "timed"),
    "statistics": ((THREE, "workload.sync_batch_norm=3"), "real"),
}
# Two workers and a server, which has no part in the workers' statistics.
AT_A_SERVER = (
    "cluster.nodes=2",
    "workload.sync_batch_norm=2",
    "strategy.overlap.kind=sequential",
    "strategy.aggregation={kind: parameter-server, servers: 1, colocated: false}",
)
BULK_SYNCHRONOUS = ("ddp", "fsdp", "zero-1", "through-host", "schedule", "library", "buckets")
# Those whose messages go by the host, which NCCL does not reach.
BY_HOST = ("through-host", "parameter-server", "backup", "gossip", "ad-psgd", "compressed")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fake")
    command = [sys.executable, str(HERE / "fake_gpu_ranks.py"), str(folder), SCENARIO]
    launch(
        [*command, json.dumps({**CASES, "at a server": (AT_A_SERVER, "real")})],
        loopback(3),
        timeout_s=240,
        preload=["validate.node", "torch._dynamo", "pytest"],
    )
    return [json.loads((folder / f"rank-{rank}").read_text()) for rank in range(3)]


def test_each_has_a_gpu_of_its_own_and_they_meet_by_nccl(ranks):
    assert [(each["backend"], each["kind"]) for each in ranks] == [("nccl", "cuda")] * 3
    assert [each["gpu"] for each in ranks] == ["GPU-a", "GPU-b", "GPU-c"]
    for each in ranks:
        # pytorch issue 153960: given a device, NCCL hangs at times.
        assert [
            (backend, "device_id" in reported)
            for what, backend, *reported in each["requested"]
            if what == "group"
        ] == [("nccl", False)]
        assert {what[0] for what in each["requested"]} == {"group", "barrier", "new group"}


def test_everything_is_measured_and_no_collective_is_wrong(ranks):
    rows = ranks[0]["rows"]
    assert {row["what"] for row in rows} == {*BENCHMARKS}
    assert [row for row in rows if "not_run" in row] == []
    collectives = [row for row in rows if row["what"] == "collectives"]
    assert [row["algorithm"] for row in collectives].count("ring") == 2
    assert {row["wrong"] for row in collectives} == {0}
    assert {row["library"] for row in rows if row["what"] == "codecs"} == {"torch"}
    assert {row["at_once"] for row in rows if row["what"] == "copies"} == {1, 3}
    precisions = {row["precision"] for row in rows if row["what"] == "products"}
    assert precisions == {"fp32", "tf32", "fp16", "bf16"}


def test_ways_that_come_to_the_same_weights_do_so_by_nccl_s_calls(ranks):
    for each in ranks:
        wanted = np.array(each["weights"]["ddp"])
        for name in BULK_SYNCHRONOUS:
            np.testing.assert_allclose(each["weights"][name], wanted, atol=1e-10)


def test_a_group_of_hosts_is_made_only_for_items_by_host(ranks):
    for each in ranks:
        assert each["groups"] == [["new group", "gloo"]] * len(BY_HOST)


@pytest.mark.parametrize("name", CASES)
def test_scenarios_run_and_say_what_the_gpu_held(ranks, name):
    for each in ranks:
        row = each["scenarios"][name]
        assert (row["backend"], row["device"], len(row["step_s"])) == ("nccl", "cuda", 3)
        assert row["peak_bytes"] == 4 * 2**30


def test_workers_of_a_group_share_the_statistics_of_every_layer(ranks):
    for number, each in enumerate(ranks):
        assert {name for name, groups in each["shared"].items() if groups} - {"at a server"} == {
            "statistics"
        }
        # Three layers, in 3 steps and, separately, in 3 that do not count and 3 that do.
        assert each["shared"]["statistics"] == [[0, 1, 2]] * 3 * (3 + 3 + 3)
        at_a_server = [[0, 1]] * 3 * (3 + 3 + 3) if number < 2 else []
        assert each["shared"]["at a server"] == at_a_server
