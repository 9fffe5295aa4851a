"""Library models on clusters.

What they read off the catalogue, whose algorithms they run, how they meet the engine.
"""

import gc
import weakref

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import Groups, algorithm, traffic
from dpsim.hardware import gpus as hardware_gpus
from dpsim.hardware import nodes
from dpsim.network import Background, Conditions, RoundsModel, named_model
from dpsim.network.libraries.gloo import MESSAGE_SECONDS, GlooModel, segment_count
from dpsim.network.libraries.library import library_model
from dpsim.network.libraries.mpi import MpiModel
from dpsim.network.libraries.nccl import NcclModel, predict
from dpsim.network.libraries.nccl.intra_node_text import parse_intra_node
from dpsim.network.libraries.nccl.machine import Bus
from dpsim.topology import ClusterConfig, UniformSwitch, build_cluster


def cluster(node, nodes=1, **more):
    return build_cluster(ClusterConfig(nodes=nodes, node=node, **more))


@pytest.mark.parametrize(
    ("node", "nodes", "intra", "rate", "transport", "nic_rate"),
    [
        ("dgx-h100", 1, "nvswitch", 450e9, "none", 0.0),
        ("dgx-h100", 2, "nvswitch", 450e9, "ib", 400e9),
        ("dgx-a100", 1, "nvswitch", 300e9, "none", 0.0),
        ("dgx1-v100", 4, "nvlink-mesh", 150e9, "ib", 50e9),
        ("aws-p4d", 2, "nvswitch", 300e9, "efa-v1", 50e9),
        ("gcp-a3-mega", 2, "nvswitch", 450e9, "tcpxo", 200e9),
        ("single-gpu", 2, "pcie", 15.7538e9, "tcp", 3.125e9),
    ],
)
def test_a_cluster_is_read_as_its_catalogue_entries_say(
    node, nodes, intra, rate, transport, nic_rate
):
    machine = NcclModel(cluster(node, nodes)).machine
    assert (machine.intra, machine.transport) == (intra, transport)
    assert machine.intra_rate == pytest.approx(rate)
    assert machine.nic_rate == pytest.approx(nic_rate)


def test_the_network_of_the_scenario_replaces_the_nodes_own():
    network = {"fabric": "single-switch", "nic": "25GbE", "nics_per_node": 1}
    machine = NcclModel(cluster("dgx1-v100", 4, network=network)).machine
    assert (machine.transport, machine.nic_rate) == ("tcp", 25e9 / 8)


def test_a_ring_within_a_socket_goes_from_peer_to_peer_and_is_staged_between_sockets():
    def bus(gpus, gpu="v100-pcie-16gb"):
        node = nodes()["pcie-8gpu"].model_copy(update={"gpu": hardware_gpus()[gpu]})
        return NcclModel(cluster(node, gpus_per_node=gpus)).machine.bus

    assert (bus(2), bus(8)) == (Bus(), Bus(staged=True))
    # Without peer access the two GPUs under a switch share its uplink for all that they copy.
    assert (bus(2, "rtx-4090"), bus(8, "rtx-4090")) == (Bus(True, 2), Bus(True, 2))


def test_amds_gpus_are_priced_as_rccl_runs_them():
    xgmi = {"name": "xgmi-gpu", "rate": "64 GB/s", "achievable": 1.0, "latency": "0.1 us"}
    node = {
        "gpu": "mi300x",
        "devices": {"gpu": 8, "cpu": 2},
        "edges": [
            {"between": ["gpu*", "gpu*"], "link": xgmi},
            {"between": ["gpu[0-3]", "cpu0"], "link": "pcie5-x16"},
            {"between": ["gpu[4-7]", "cpu1"], "link": "pcie5-x16"},
            {"between": ["cpu0", "cpu1"], "link": "xgmi2"},
        ],
        "nic_slots": ["cpu0", "cpu1"],
        "nic_bus": "pcie5-x16",
        "nics": {"link": "roce-400g", "count": 2},
    }
    model = NcclModel(cluster(node))
    assert (model.machine.intra, model.machine.gpus_per_node) == ("xgmi", 8)
    assert model.machine.intra_rate == 7 * 64e9
    outcome = model.finish(np.zeros(8), 2**30)
    # Rings over all seven links of each, which is all that a link can carry.
    assert (outcome.loads[outcome.loads > 0] == outcome.loads.max()).all()
    assert outcome.loads.max() == pytest.approx(2 * 7 / 8 * 2**30 / 7)


@pytest.mark.parametrize("node", ["mi300x-8gpu", "frontier-mi250x"])
def test_xgmi_links_count_alike_in_a_cluster_and_in_words(node):
    """Links between GPUs carry a ring; those of an MI250X to its host do not."""
    words, _ = parse_intra_node("xGMI", nodes()[node].gpu, 8)
    assert NcclModel(cluster(node)).machine.intra_rate == words.rate


def test_an_amd_gpu_in_a_node_with_only_nvlinks_has_a_rate():
    """One of each of two nodes meet: the links between a node's GPUs are needed nevertheless."""
    model = NcclModel(cluster("alps-gh200", 2, gpu="MI250X", gpus_per_node=1))
    assert 0 < model.finish(np.zeros(2), 2**20).finishes.max() < 1


def test_a_dgx1_reaches_what_was_measured_over_all_its_links():
    """8 V100 of one: 135.5 GB/s of bus bandwidth at 1 GiB (nccl_tests.csv, oci_v100_1n)."""
    model = NcclModel(cluster("dgx1-v100"))
    bus = 2 * 7 / 8 * 2**30 / took(model, 2**30)
    assert bus == pytest.approx(135.5e9, rel=0.1)


def test_all_to_all_between_nodes_leaves_by_the_cards():
    model = NcclModel(cluster("dgx-a100", 2), operation="all-to-all")
    outcome = model.finish(np.zeros(16), 2**30)
    assert outcome.loads[model.cluster.first_capacity[-1] :].sum() > 0
    assert (outcome.loads / model.network.capacities).max() <= outcome.finishes.max() * (1 + 1e-9)


def test_all_ranks_leave_at_once_after_the_last_has_entered():
    model = NcclModel(cluster("dgx-h100"))
    starts = np.array([0.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0])
    outcome = model.finish(starts, 2**20)
    expected = 5.0 + predict(model.machine, "all_reduce", 4, [2**20]).seconds[0]
    assert outcome.finishes.tolist() == [expected] * 8
    assert model.finish(starts, 0).finishes.max() > 5.0


def test_link_loads_are_those_of_rings_that_leave_by_all_cards():
    """As much in all as by one ring, but each of the eight cards of a node carries an eighth."""
    network = cluster("dgx-h100", 2)
    ring = RoundsModel(algorithm("ring").schedule(16), network)
    model = NcclModel(network, restriction="ring")
    loads = model.finish(np.zeros(16), 2**20).loads
    outside = loads[network.first_capacity[-1] :]
    assert outside.sum() == pytest.approx(ring.loads(2**20)[network.first_capacity[-1] :].sum())
    used = outside[outside > 0]
    assert len(used) == 2 * 2 * 8  # two nodes, up and down, eight cards
    np.testing.assert_allclose(used, 2 * 15 / 16 * 2**20 / 8)
    moved = model.traffic(2**20)
    assert moved.total == traffic(ring.schedule, 2**20, 4).total


def test_trees_send_a_vector_up_and_down_between_two_nodes():
    network = cluster("dgx-h100", 2)
    loads = NcclModel(network, restriction="tree").finish(np.zeros(16), 2**20).loads
    outside = loads[network.first_capacity[-1] :]
    # Half of it in each tree: the sum of a node goes one way, that of both the other.
    np.testing.assert_allclose(outside[outside > 0], 2**20 / 8)


def took(seconds_of, nbytes=10**9):
    return float(seconds_of.finish(np.zeros(seconds_of.network.ranks), nbytes).finishes.max())


@pytest.mark.parametrize("restriction", ["ring", "tree", "auto"])
def test_an_oversubscribed_fabric_slows_all_that_crosses_it(restriction):
    def seconds(oversubscription):
        network = {
            "fabric": "leaf-spine",
            "nodes_per_leaf": 2,
            "oversubscription": oversubscription,
        }
        model = NcclModel(cluster("dgx-h100", 8, network=network), restriction=restriction)
        outcome = model.finish(np.zeros(64), 10**9)
        busiest = (outcome.loads / model.network.capacities).max()
        assert busiest <= outcome.finishes.max() * (1 + 1e-9)
        return float(outcome.finishes.max())

    assert seconds(1) < seconds(8) < seconds(64)
    # 64 times less than two nodes' cards on the way out of a leaf, for a billion bytes.
    assert seconds(64) > 10**9 / (2 * 400e9 / 64)


def test_a_slow_uplink_takes_as_long_as_its_bytes_need():
    slow = {"name": "slow", "rate": "10 MB/s", "achievable": 1.0, "latency": "1 us"}
    network = {"fabric": "single-switch", "nic": slow, "nics_per_node": 1}
    for operation, share in (("all-reduce", 1.0), ("all-gather", 15 / 16)):
        model = NcclModel(cluster("dgx-a100", 2, network=network), operation=operation)
        outcome = model.finish(np.zeros(16), 10**9)
        assert outcome.finishes.max() >= share * 100
        assert (outcome.loads / model.network.capacities).max() <= outcome.finishes.max()


def test_directions_that_share_a_link_leave_half_of_it():
    full, half = (
        took(NcclModel(cluster("dgx-a100", 4, network={"fabric": "single-switch", "duplex": d})))
        for d in (1.0, 0.5)
    )
    assert 1.5 * full < half < 2.5 * full


@pytest.mark.parametrize(
    ("restriction", "runs"), [("ring", {"ring"}), ("tree", {"tree"}), ("in-network", {"nvls"})]
)
def test_an_algorithm_restricts_nccl(restriction, runs):
    model = NcclModel(cluster("dgx-h100"), restriction=restriction)
    assert {model.algorithm_for(size).split("/")[0] for size in (8, 2**20, 2**30)} == runs


def test_between_nodes_in_network_is_nvlstree():
    assert (
        NcclModel(cluster("dgx-h100", 4), restriction="in-network").algorithm_for(2**30)
        == "nvlstree/Simple"
    )


def test_int8_does_not_reduce_in_the_switch():
    assert NcclModel(cluster("dgx-h100"), itemsize=1).algorithm_for(2**30) == "ring/Simple"


WRONG = {
    "butterfly is not NCCL's": (
        ("nccl", "butterfly", "dgx-h100"),
        "algorithm must be auto, ring, tree or in-network",
    ),
    "no NVLS before Hopper": (
        ("nccl", "in-network", "dgx-a100"),
        "algorithm in-network must be one that NCCL can run here",
    ),
    "TPUs": (
        ("nccl", "auto", "tpu-v3"),
        "library nccl must have GPUs of NVIDIA or AMD, but got 'tpu-v3'",
    ),
    "gloo has its ring": (
        ("gloo", "tree", "dgx-a100"),
        "algorithm must be auto or ring with library gloo",
    ),
    "MPI chooses": (("mpi", "ring", "dgx-a100"), "algorithm must be auto with library mpi"),
    "no such library": (("ncll", "auto", "dgx-a100"), "did you mean 'nccl'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_library_does_not_have(case):
    (library, restriction, node), message = WRONG[case]
    with pytest.raises(DpsimError, match=message):
        library_model(library, restriction, cluster(node))


@pytest.mark.parametrize("library", ["nccl", "mpi"])
def test_nodes_of_unequal_numbers_of_gpus_are_refused(library):
    groups = [{"node": "dgx-a100"}, {"node": "dgx-a100", "gpus_per_node": 4}]
    uneven = build_cluster(ClusterConfig.model_validate({"groups": groups}))
    with pytest.raises(DpsimError, match=r"equal numbers of GPUs per node here, but got \[4, 8\]"):
        library_model(library, "auto", uneven)


def test_a_group_of_one_gpu_per_node_is_limited_only_by_its_card():
    on = cluster("dgx-h100", 16)
    model = NcclModel(on, groups=Groups(8, across=True))
    assert model.machine.intra == "nvswitch"
    # Twice 15/16 of the vector leaves each GPU by its card of 50 GB/s.
    least = 2 * 15 / 16 * 10**9 / 50e9
    assert least <= took(model) <= 1.1 * least


@pytest.mark.parametrize("nodes", [2, 64])
def test_a_broadcast_is_a_chain_that_sends_the_vector_on(nodes):
    on = cluster("dgx-h100", nodes)
    model = NcclModel(on, operation="broadcast")
    done = model.finish(np.zeros(on.ranks), 10**11)
    assert 0.25 <= done.finishes.max() <= 0.28  # 100 GB over cards of 400 GB/s
    sent = model.traffic(1000).sent
    assert (sent.max(), sent.sum()) == (1000, 1000 * (on.ranks - 1))
    utilisation = done.loads / on.capacities / done.finishes.max()
    assert utilisation.max() <= 1


@pytest.mark.parametrize("library", ["nccl", "mpi"])
def test_libraries_need_a_cluster_whose_parts_are_known(library):
    with pytest.raises(DpsimError, match=f"library {library} must have a cluster"):
        library_model(library, "auto", UniformSwitch(4, 1e9, 0.0))


def test_other_operations():
    assert NcclModel(cluster("dgx-h100"), operation="all-to-all").algorithm_for(8) == "p2p/Simple"
    with pytest.raises(DpsimError, match="operation must be one that library nccl models"):
        NcclModel(cluster("dgx-h100"), operation="gather")
    with pytest.raises(
        DpsimError, match="all-reduce or reduce-scatter or all-gather with library gloo"
    ):
        library_model("gloo", "auto", cluster("dgx-h100"), operation="all-to-all")


def test_libraries_are_no_network_models_under_contention():
    traffic_beside = Conditions(background=(Background(0, 1),))
    for kind, conditions in (("flows", Conditions()), ("auto", traffic_beside)):
        with pytest.raises(DpsimError, match="network model must be auto with library nccl"):
            named_model(kind, "auto", cluster("dgx-h100"), conditions=conditions, library="nccl")


@pytest.mark.parametrize(
    ("ranks", "nbytes", "segments"),
    [(4, 1, 8), (4, 2**20, 8), (4, 9 * 2**20, 12), (3, 16 * 2**20, 18)],
)
def test_gloo_cuts_a_vector_into_segments(ranks, nbytes, segments):
    assert segment_count(ranks, nbytes) == segments


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_gloo_takes_what_was_measured(ranks):
    rate = 0.9927 * 200e6 / 8
    model = GlooModel(UniformSwitch(ranks, rate, 0.0))
    for size in (2**20, 2**22, 2**24):
        measured = 2 * (ranks - 1) * (150e-6 + size / ranks / rate)
        assert model.finish(np.zeros(ranks), size).finishes[0] == pytest.approx(measured, rel=0.02)


def test_gloo_without_bytes_takes_the_time_of_its_messages():
    assert GlooModel(UniformSwitch(4, 1e9, 0.0)).finish(np.zeros(4), 0).finishes[
        0
    ] == pytest.approx(6 * 1.5 * MESSAGE_SECONDS)
    assert GlooModel(UniformSwitch(1, 1e9, 0.0)).finish(np.zeros(1), 8).finishes[0] == 0.0


@pytest.mark.parametrize(
    ("operation", "share", "moved"),
    [("all-gather", 0.5, 0.5), ("reduce-scatter", 1.0, 1.0)],  # torch all-reduces to scatter sums
)
def test_gloo_gathers_in_half_of_an_all_reduce(operation, share, moved):
    whole = GlooModel(UniformSwitch(4, 1e9, 0.0))
    part = GlooModel(UniformSwitch(4, 1e9, 0.0), operation=operation)
    start, size = np.zeros(4), 2**24
    assert part.finish(start, size).finishes == pytest.approx(
        share * whole.finish(start, size).finishes
    )
    assert part.traffic(size).busiest == moved * whole.traffic(size).busiest


@pytest.mark.parametrize("operation", ["all-gather", "reduce-scatter"])
def test_rabenseifner_is_a_reduce_scatter_and_an_all_gather(operation):
    whole = MpiModel(cluster("dgx-a100", 4))
    half = MpiModel(cluster("dgx-a100", 4), operation=operation)
    start, size = np.zeros(32), 2**26
    assert whole.algorithm_for(size) == "rabenseifner"
    assert half.finish(start, size).finishes == pytest.approx(
        whole.finish(start, size).finishes / 2
    )


def test_mpi_doubles_for_small_vectors_and_halves_for_large_ones():
    model = MpiModel(cluster("dgx-a100", 4))
    assert model.algorithm_for(8) == "doubling"
    assert model.algorithm_for(2**24) == "rabenseifner"
    times = [model.finish(np.zeros(32), size).finishes[0] for size in (8, 2**10, 2**20, 2**24)]
    assert times == sorted(times)
    assert model.traffic(2**24).busiest < 2 * 2**24


@pytest.mark.parametrize("library", ["nccl", "gloo", "mpi"])
def test_a_model_that_nobody_asks_any_more_is_gone_with_its_cluster(library):
    network = cluster("dgx-a100", 2)
    model = library_model(library, "auto", network)
    model.finish(np.zeros(network.ranks), 2**20)
    model.loads(2**20)
    model.traffic(2**20)
    gone = weakref.ref(model), weakref.ref(network)
    del model, network
    gc.collect()
    assert [each() for each in gone] == [None, None]
