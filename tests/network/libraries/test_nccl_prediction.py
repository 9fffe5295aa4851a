"""NCCL's choice and its times: where the real library switches, and the limits that physics sets."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.base.errors import DpsimError
from dpsim.network.libraries.nccl import (
    OPS,
    Measured,
    NcclMachine,
    describe_system,
    explain,
    modelled,
    neighbours_of,
    predict,
    shipped_constants,
    shipped_neighbours,
)
from dpsim.network.libraries.nccl.machine import Bus
from dpsim.network.libraries.nccl.prediction import machine_constants
from dpsim.network.libraries.nccl.selection import choose

SIZES = np.exp2(np.arange(9, 31))
NVLINKS = {80: 300e9, 90: 450e9, 100: 900e9}


def nvswitch(capability, local=8, **more):
    return NcclMachine(
        "gpu", capability, "nvswitch", NVLINKS[capability], gpus_per_node=local, **more
    )


def first(machine, op, element, branch):
    return SIZES[choose(machine, op, element, SIZES).index(branch)]


@pytest.mark.parametrize(
    ("capability", "local", "branch", "size"),
    [
        (80, 2, ("ring", "Simple"), 2**20),
        (90, 2, ("ring", "Simple"), 2**21),
        (100, 2, ("ring", "Simple"), 2**22),
        (90, 8, ("nvls", "Simple"), 2**21),
    ],
)
def test_the_choice_changes_where_measured_tables_jump(capability, local, branch, size):
    assert first(nvswitch(capability, local), "all_reduce", 2, branch) == size


def test_int8_on_eight_b200_passes_through_ll128_between_8_and_32_mib():
    machine = nvswitch(100)
    branches = choose(machine, "all_reduce", 1, np.exp2([23.0, 24.0, 25.0]))
    assert branches == [("ring", "LL"), ("ring", "LL128"), ("ring", "Simple")]


def test_nvls_is_for_floating_point_on_hopper_and_later_with_several_gpus():
    def runs(machine, element):
        return ("nvls", "Simple") in choose(machine, "all_reduce", element, SIZES)

    assert runs(nvswitch(90), 2)
    assert not runs(nvswitch(90), 1)
    assert not runs(nvswitch(80), 2)
    assert not runs(nvswitch(90, 2), 2)
    assert not runs(nvswitch(90, nccl_version=(2, 16)), 2)


@pytest.mark.parametrize("op", ["broadcast", "reduce"])
def test_a_chain_leaves_ll128_at_the_same_size_however_long_it_is(op):
    """NCCL's estimate of a chain has one hop, that of a ring one for each rank."""

    def between(nodes):
        return nvswitch(80, nodes=nodes, transport="roce", nic_rate=50e9)

    simple = ("ring", "Simple")
    assert first(between(128), op, 2, simple) == first(between(2), op, 2, simple) == 2**22
    assert simple not in choose(between(128), "all_gather", 2, SIZES)


def test_nccl_algo_restricts_the_choice():
    machine = nvswitch(90, nodes=2, transport="ib", nic_rate=400e9, forced_algorithm="ring")
    assert {algorithm for algorithm, _ in choose(machine, "all_reduce", 4, SIZES)} == {"ring"}


machines = st.builds(
    nvswitch,
    st.sampled_from(sorted(NVLINKS)),
    st.sampled_from([2, 4, 8]),
    nodes=st.sampled_from([1, 2, 3, 8, 100]),
    transport=st.sampled_from(
        ["ib", "roce", "efa-v1", "efa-v2", "tcpx", "tcpxo", "tcp", "slingshot", "unknown"]
    ),
    nic_rate=st.sampled_from([3e9, 25e9, 400e9]),
)


@settings(deadline=None)  # the first call reads the shipped constants
@given(machines, st.sampled_from(OPS), st.sampled_from([1, 2, 4]))
def test_times_are_positive_and_never_fall_with_size(machine, op, element):
    found = predict(machine, op, element, SIZES, neighbours=())
    assert (found.seconds > 0).all()
    assert np.isfinite(found.seconds).all()
    assert (np.diff(found.seconds) >= 0).all()
    corrected = predict(machine, op, element, SIZES).seconds
    assert (np.diff(corrected) >= 0).all()
    assert (corrected > 0.5 * found.seconds).all()
    assert (corrected < 2 * found.seconds).all()


def test_a_choice_that_costs_more_than_the_next_for_more_bytes_is_held_to_that():
    """LL that is a thousandth as quick as it is: NCCL still chooses it up to 64 KiB."""
    machine = nvswitch(80, nodes=2, transport="ib", nic_rate=200e9)
    slow = {**shipped_constants(), ("ib", "net_c_LL"): math.log(1e-3)}
    found = predict(machine, "all_gather", 4, SIZES, slow)
    runs_ll = np.array([protocol == "LL" for protocol in found.protocol])
    first_beyond = found.seconds[~runs_ll][0]
    held = found.seconds[runs_ll]
    assert held[-1] == held[-2] <= first_beyond
    # Nor more than half as much again as the best that NCCL may choose at the size.
    only = [
        predict(replace(machine, forced_protocol=name), "all_gather", 4, SIZES, slow)
        for name in ("ll", "ll128", "simple")
    ]
    best = np.min([each.seconds for each in only], axis=0)
    assert (found.seconds <= 1.5 * best * (1 + 1e-9)).all()


H100 = {"system": "h100_sxm", "num_gpus": "8", "nccl_version": "2.29"}


def measured(machine, times, name="own", sizes=SIZES):
    """A neighbour that was measured to take ``times`` as long as the model says."""
    model = predict(machine, "all_reduce", 2, sizes, neighbours=()).seconds
    curve = Measured(name, machine, "all_reduce", 2, sizes, times * model)
    return neighbours_of([curve], modelled())


def factor(machine, neighbours, sizes=SIZES):
    """What neighbours make of the model's times."""
    found = predict(machine, "all_reduce", 2, sizes, neighbours=neighbours).seconds
    return found / predict(machine, "all_reduce", 2, sizes, neighbours=()).seconds


def test_the_nearest_measured_machines_correct_the_time_and_are_named():
    machine = describe_system(H100).machine
    found = predict(machine, "all_reduce", 2, SIZES)
    assert "h100_sxm" in found.neighbours
    assert not any("A100" in name for name in found.neighbours)
    assert explain(machine, "all_reduce", 2, 2**20).to_json()["nearest_machines"] == list(
        found.neighbours
    )
    # One that measured the model's own times changes nothing; one twice as slow, about half of it.
    np.testing.assert_allclose(factor(machine, measured(machine, 1.0)), 1.0)
    np.testing.assert_allclose(factor(machine, measured(machine, 2.0)), 2**0.5, rtol=0.04)
    two = measured(machine, 2.0) + measured(machine, 2.0, "another")
    np.testing.assert_allclose(factor(machine, two), 2 ** (2 / 3), rtol=0.04)


@pytest.mark.parametrize(
    "other",
    [
        {"gpus_per_node": 4},
        {"capability": 80, "intra_rate": 300e9},
        {"nccl_version": (2, 18)},
        {"forced_algorithm": "ring"},
    ],
)
def test_machines_of_another_kind_are_no_neighbours(other):
    machine = describe_system(H100).machine
    assert predict(machine, "all_reduce", 2, SIZES, neighbours=measured(machine, 2.0)).neighbours
    strangers = measured(replace(machine, **other), 2.0)
    assert predict(machine, "all_reduce", 2, SIZES, neighbours=strangers).neighbours == ()


def test_neighbours_tell_nothing_of_several_nodes_nor_of_pcie():
    """Rates over PCIe are the hosts', which differ by more than the model errs."""
    for machine in (
        nvswitch(90, nodes=2, transport="ib", nic_rate=400e9),
        describe_system({**H100, "system": "l40s"}).machine,
    ):
        assert measured(machine, 2.0) == ()
        found = predict(machine, "all_reduce", 2, SIZES)
        assert found.neighbours == ()
        separate = predict(machine, "all_reduce", 2, SIZES, neighbours=()).seconds
        assert found.seconds.tolist() == separate.tolist()


def test_a_correction_is_smooth_over_sizes():
    """One size that took four times as long moves its neighbours with it, and itself by little."""
    machine = describe_system(H100).machine
    peak = np.where(SIZES == 2**24, 4.0, 1.0)
    found = factor(machine, measured(machine, peak))
    assert found.max() < 1.25
    assert np.abs(np.diff(np.log2(found))).max() < 0.1


def test_a_correction_stays_beyond_the_largest_measured_size_and_fades_below_the_smallest():
    machine = describe_system(H100).machine
    found = factor(
        machine,
        measured(machine, 4.0, sizes=np.exp2(np.arange(17.0, 22.0))),
        np.exp2([3.0, 8.0, 11.0, 13.0, 17.0, 21.0, 33.0]),
    )
    assert found[:2] == pytest.approx(1.0, abs=0.02)
    assert (np.diff(found[1:5]) > 0.01).all()
    assert found[4:] == pytest.approx(2.0, rel=0.1)
    assert found[-1] == pytest.approx(found[-2])


def test_what_other_constants_leave_of_a_neighbour_follows_from_what_the_shipped_ones_leave():
    machine = describe_system(H100).machine
    slower = {**shipped_constants(), ("common", "o"): math.log(50e-6)}
    (neighbour,) = measured(machine, 2.0)
    moved = neighbour.under(modelled(), modelled(slower))
    taken = np.exp2(moved.octaves)
    both = [
        np.exp(each.logs) * predict(machine, "all_reduce", 2, taken, known, ()).seconds
        for each, known in ((neighbour, None), (moved, slower))
    ]
    np.testing.assert_allclose(*both)


def test_the_shipped_neighbours_are_as_they_were_written():
    assert len(shipped_neighbours()) > 100
    assert sum(len(each.logs) for each in shipped_neighbours()) < 1500
    assert {each.machine.nodes for each in shipped_neighbours()} == {1}


@pytest.mark.parametrize(
    ("local", "loops", "times"),
    # The vector in loops of NVLS's kernel (4 MiB a GPU), and the fill in that of eight GPUs.
    [(8, 0.0, 1), (8, 1.0, 1), (72, 0.0, 1), (72, 0.5, 5), (72, 1.0, 9), (72, 4.0, 9), (4, 1.0, 1)],
)
def test_nvls_fills_a_loop_of_its_kernel_as_far_as_the_vector_goes(local, loops, times):
    def fill(ranks, nbytes):
        machine = nvswitch(100, ranks, forced_algorithm="nvls")
        (launch,) = machine_constants(machine)["o"]
        # Links so fast that all else takes no time.
        known = {**shipped_constants(), ("common", "f_N"): 40.0}
        found = predict(machine, "all_reduce", 2, [nbytes], known, neighbours=())
        return found.seconds[0] - launch

    of_eight = fill(8, 1)
    assert fill(local, 1 + loops * local * 2**22) == pytest.approx(times * of_eight, rel=1e-5)


def test_a_rack_answers_small_vectors_about_as_soon_as_a_node():
    """8 bytes on 72 GPUs of a rack were measured to take 55 us."""
    small, large = predict(nvswitch(100, 72), "all_reduce", 4, [8, 2**29]).seconds
    assert 20e-6 < small < 60e-6
    assert large == pytest.approx(1.82e-3, rel=0.1)  # nccl_tests_2.csv: 1,807 and 1,836 us


@pytest.mark.parametrize(("links", "weight"), [(1.0, 1.0), (0.5, 0.5), (1.1, 1.0)])
def test_local_copies_are_as_quick_on_a_part_of_the_links(links, weight):
    full, part = nvswitch(90), replace(nvswitch(90), intra_rate=links * NVLINKS[90])
    for name in ("copy", "copy_ag", "copy_rs", "copy_p2p"):
        (most,), (found,) = machine_constants(full)[name], machine_constants(part)[name]
        assert found == pytest.approx(weight * most)


@pytest.mark.parametrize("capability", sorted(NVLINKS))
@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter", "alltoall"])
def test_large_sizes_approach_the_port_from_below(capability, op):
    machine = nvswitch(capability)
    huge = 2.0**36
    bus = huge * 7 / 8 / predict(machine, op, 2, [huge]).seconds[0]
    assert 0.6 * machine.intra_rate < bus < machine.intra_rate


def test_an_all_reduce_over_two_nodes_may_beat_the_ring_bound_of_the_cards_but_not_their_rate():
    machine = nvswitch(90, nodes=2, transport="ib", nic_rate=400e9)
    rate = 2**36 / predict(machine, "all_reduce", 4, [2**36]).seconds[0]
    ring_bound = 400e9 * 16 / 30
    assert ring_bound < rate < 400e9


def test_slower_networks_take_longer():
    times = [
        predict(
            nvswitch(80, nodes=2, transport=transport, nic_rate=25e9), "all_reduce", 4, [1024]
        ).seconds[0]
        for transport in ("ib", "efa-v1")
    ]
    assert times[0] < times[1]


def test_a_ring_that_only_gathers_fills_slow_cards_and_feeds_fast_ones_with_40_gb_a_second():
    def rate(nic_rate, op):
        machine = nvswitch(90, nodes=2, transport="ib", nic_rate=nic_rate)
        machine = replace(machine, forced_algorithm="ring", forced_protocol="simple")
        (time,) = predict(machine, op, 4, 2**36).seconds
        rounds = 2 if op == "all_reduce" else 1
        return rounds * 15 / 16 * 2**36 / time / nic_rate

    assert rate(100e9, "all_gather") == pytest.approx(rate(100e9, "all_reduce"), rel=0.01)
    assert 40e9 < rate(400e9, "reduce_scatter") * 400e9 / 8 < 45e9
    assert rate(400e9, "all_reduce") > 0.9


def test_two_of_eight_gpus_take_trees_of_the_simple_protocol_where_their_few_channels_do():
    """Measured on 2 x 2 H100: from 64 to 128 MiB the rate jumps by half."""
    machine = nvswitch(90, local=2, nodes=2, transport="ib", nic_rate=100e9)
    before, after = choose(machine, "all_reduce", 4, np.exp2([26.0, 27.0]))
    assert before != after == ("tree", "Simple")


@pytest.mark.parametrize(
    ("op", "local", "ways"),
    [("all_reduce", 4, 2), ("all_reduce", 3, 1), ("alltoall", 4, 1), ("sendrecv", 4, 1)],
)
def test_between_bridged_pairs_two_rings_take_a_way_of_each_link(op, local, ways):
    huge = 2.0**34
    plain, bridged = (
        predict(
            NcclMachine("gpu", 80, "pcie", 31.5e9, bus, gpus_per_node=local), op, 4, [huge]
        ).seconds[0]
        for bus in (Bus(), Bus(one_way=True))
    )
    assert plain / bridged == pytest.approx(ways, rel=0.01)


def test_tcp_by_the_card_answers_sooner_than_tcp_by_the_kernel():
    times = [
        predict(
            nvswitch(90, nodes=2, transport=transport, nic_rate=200e9), "all_gather", 4, [1024]
        ).seconds[0]
        for transport in ("ib", "tcpxo", "tcpx")
    ]
    assert times == sorted(times)


def test_a_launch_from_one_process_has_a_floor():
    plain, single = (
        predict(nvswitch(80, launch=launch), "all_reduce", 4, [8]).seconds[0]
        for launch in ("default", "single-process")
    )
    assert single > plain + 5e-6


def test_one_rank_takes_no_time():
    found = predict(nvswitch(90, 1), "all_reduce", 2, [8, 16])
    assert found.seconds.tolist() == [0.0, 0.0]
    assert found.algorithm == ("none", "none")


def test_wrong_questions():
    with pytest.raises(DpsimError, match="did you mean 'all_reduce'"):
        predict(nvswitch(90), "all_redoce", 2, [8])
    with pytest.raises(DpsimError, match="nbytes must be above 0, but got 0"):
        predict(nvswitch(90), "all_reduce", 2, [0])


def test_explain_says_what_runs_why_and_what_would_change_it():
    machine = describe_system(
        {"system": "h100_sxm", "num_gpus": "8", "nccl_version": "2.29"}
    ).machine
    found = explain(machine, "all_reduce", 2, 2**20)
    predicted = predict(machine, "all_reduce", 2, [2**20])
    assert (
        found.chosen == f"{predicted.algorithm[0]}/{predicted.protocol[0]}" == found.rivals[0].name
    )
    assert found.predicted == found.rivals[0].predicted == predicted.seconds[0]
    assert [rival.nccl_estimate for rival in found.rivals] == sorted(
        rival.nccl_estimate for rival in found.rivals
    )
    assert sum(found.terms.values()) == pytest.approx(found.predicted)
    assert found.constants == ("common", "nvlink-hopper")
    size, other = found.above
    assert found.below is None
    assert size > 2**20
    assert other == "nvls/Simple" == explain(machine, "all_reduce", 2, size).chosen
    assert explain(machine, "all_reduce", 2, 8).dominant == "latency"
    assert explain(machine, "all_reduce", 2, 2**32).dominant == "transfer"
    assert (
        explain(machine, "alltoall", 2, 8).reason == "p2p/Simple is the only one that can run here"
    )
