"""Collectives over a measured transport.

Exact where it says little, and the effects that it is for.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.collectives import algorithm, algorithm_names
from dpsim.hardware.calibration import Transport
from dpsim.network import RoundsModel, TransportModel, transport_model
from dpsim.network.libraries.gloo import segment_count
from dpsim.network.transport.rank_programs import gloo_programs, schedule_programs
from dpsim.topology import TestbedConfig, UniformSwitch, build_cluster

RATE, LATENCY = 1e6, 1e-3
PLAIN = Transport(latency=LATENCY, window=1e9, queue=1e9)


def seconds(name, ranks, nbytes, transport=PLAIN, starts=None, rate=RATE):
    model = TransportModel(
        UniformSwitch(ranks, rate, 0.0),
        transport,
        None if name == "gloo" else algorithm(name).schedule(ranks),
    )
    return model.finish(np.zeros(ranks) if starts is None else np.array(starts), nbytes).finishes


@pytest.mark.parametrize(
    ("name", "rounds", "chunk"),
    [("ring", 6, 4), ("halving-doubling", None, None), ("butterfly", 2, 1)],
)
def test_a_round_takes_an_announcement_a_way_and_its_bytes(name, rounds, chunk):
    nbytes = 4_000_000
    by_rounds = RoundsModel(
        algorithm(name).schedule(4), UniformSwitch(4, RATE, 2 * LATENCY)
    ).finish(np.zeros(4), nbytes)
    assert seconds(name, 4, nbytes) == pytest.approx(by_rounds.finishes, rel=1e-6)
    if rounds:
        assert seconds(name, 4, nbytes).max() == pytest.approx(
            rounds * (2 * LATENCY + nbytes / chunk / RATE)
        )


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_every_algorithm_ends_on_every_rank_and_takes_no_less_than_its_bytes(name, ranks):
    nbytes = 80_000
    ends = seconds(name, ranks, nbytes)
    assert ends.shape == (ranks,)
    if ranks > 1:
        assert ends.max() >= 2 * (ranks - 1) / ranks * nbytes / RATE * (1 - 1e-9), (
            "or they cannot all have the sum"
        )
    else:
        assert ends.max() == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.integers(4, 3_000_000))
def test_gloo_cuts_every_byte_once_and_what_is_sent_is_received(ranks, nbytes):
    segments = segment_count(ranks, nbytes)
    programs = gloo_programs(ranks, nbytes, segments, 4)
    for half in (0, 1):
        for rank in range(ranks):
            sent = [size for step in programs[rank][half].steps for _, size in step.sends]
            received = [
                size
                for step in programs[(rank - 1) % ranks][half].steps
                for _, size in step.receives
            ]
            assert sent == received
        total = sum(
            size
            for rank in range(ranks)
            for step in programs[rank][half].steps
            for _, size in step.sends
        )
        assert total == (ranks - 1) * nbytes


@pytest.mark.parametrize("name", algorithm_names())
def test_a_schedules_messages_are_all_sent_and_received(name):
    programs = schedule_programs(algorithm(name).schedule(6), 60_000, 4)
    steps = [(rank, step) for rank, (phase,) in enumerate(programs) for step in phase.steps]
    sent = sorted((rank, peer, size) for rank, step in steps for peer, size in step.sends)
    received = sorted((peer, rank, size) for rank, step in steps for peer, size in step.receives)
    assert sent == received


def test_links_at_rest_carry_their_burst_for_nothing():
    rested = Transport(latency=0.0, window=1e9, queue=1e9, burst=0.5)
    assert seconds("butterfly", 2, 2_000_000, rested).max() == pytest.approx(1.5)


def test_what_comes_right_after_finds_links_without_rest():
    model = TransportModel(
        UniformSwitch(2, RATE, 0.0),
        Transport(burst=0.5, window=1e9, queue=1e9),
        algorithm("butterfly").schedule(2),
    )
    first = model.finish(np.zeros(2), 2_000_000)
    assert first.refilled_at == pytest.approx(2.0)
    then = model.finish_after(first.finishes, 2_000_000, first.refilled_at)
    assert then.finishes.max() - first.finishes.max() == pytest.approx(2.0)
    later = model.finish_after(np.full(2, 1.7), 2_000_000, first.refilled_at)
    assert later.finishes.max() - 1.7 == pytest.approx(2.0 - 0.2)


def test_processors_that_ranks_share_make_small_messages_take_turns():
    one, two = (Transport(overhead=1e-3, cores=cores, window=1e9, queue=1e9) for cores in (1, 2))
    assert seconds("butterfly", 2, 4, one).max() > 1.5 * seconds("butterfly", 2, 4, two).max()


def test_in_an_all_to_all_announcements_wait_behind_data():
    free, behind = (
        Transport(overhead=1e-4, cores=1, window=window, queue=1e9) for window in (8192, 1e9)
    )
    assert (
        seconds("all-to-all", 4, 100_000, behind).max()
        > 1.2 * seconds("all-to-all", 4, 100_000, free).max()
    )


def seconds_up_to(most):
    """Times on a grid of powers of two, so that moving them does not round them.

    Of two events at one moment, rounding would decide which comes first.
    """
    return st.integers(0, most * 2**20).map(lambda ticks: ticks / 2**20)


@given(seconds_up_to(100), st.lists(seconds_up_to(1), min_size=3, max_size=3))
@settings(max_examples=15, deadline=None)
def test_starting_later_ends_later_by_as_much(shift, starts):
    early, late = (seconds("ring", 3, 100_000, starts=np.array(starts) + by) for by in (0.0, shift))
    assert late - shift == pytest.approx(early, abs=1e-5)
    assert np.all(early >= max(starts)), "nobody has the sum before the last has begun"


def test_the_library_is_gloos_own_ring():
    assert seconds("gloo", 4, 4_000_000).max() == pytest.approx(6.0, rel=0.02)


def test_a_transport_without_processors_and_limiters_is_left_to_the_other_models():
    cluster = build_cluster(TestbedConfig().cluster())
    assert transport_model("ring", cluster, Transport(latency=1e-4)) is None
    assert transport_model("ring", cluster, Transport(cores=2), library="nccl") is None
    assert isinstance(transport_model("ring", cluster, Transport(cores=2)), TransportModel)


def test_auto_is_the_fastest_of_all():
    cluster, transport = (
        build_cluster(TestbedConfig().cluster()),
        Transport(latency=1e-4, cores=2, entry=1e-4),
    )
    model = transport_model("auto", cluster, transport)
    each = {
        name: transport_model(name, cluster, transport).finish(np.zeros(4), 4096).finishes.max()
        for name in algorithm_names()
    }
    assert model.finish(np.zeros(4), 4096).finishes.max() == min(each.values())
    assert each[model.algorithm_for(4096)] == min(each.values())
