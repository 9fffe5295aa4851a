"""Every rank starts at a time of its own.

What must hold then, and where the shortcuts of rounds are exact.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import UnequalSwitch

from dpsim.collectives import ALGORITHMS, Phase, Schedule, algorithm
from dpsim.collectives.schedule import fixed
from dpsim.network import FlowsModel, MessageCosts, RoundsModel
from dpsim.topology import UniformSwitch

RATE, LATENCY = 1e9, 1e-6
COSTLY = MessageCosts(overhead=1e-6, gamma=1e-9)
SHARING = (
    "all-to-all",
    "master-worker",
)  # messages of one round share a link: under flows a late one makes room for the others
EXCLUSIVE = [
    member
    for member in ALGORITHMS
    if member.operation != "all-reduce" or member.name not in SHARING
]

seconds = st.floats(0, 1e-3)


@st.composite
def several_starts(draw, most=8):
    return np.array(draw(st.lists(seconds, min_size=2, max_size=most)))


def model(kind, member, ranks, costs=COSTLY):
    return kind(member.schedule(ranks), UniformSwitch(ranks, RATE, LATENCY), costs)


@pytest.mark.parametrize(("kind", "members"), [(RoundsModel, ALGORITHMS), (FlowsModel, EXCLUSIVE)])
@given(starts=several_starts(), data=st.data())
def test_a_later_start_never_makes_anyone_finish_earlier(kind, members, starts, data):
    timed = model(kind, data.draw(st.sampled_from(members)), len(starts))
    later = starts.copy()
    later[data.draw(st.integers(0, len(starts) - 1))] += data.draw(seconds)
    slack = 1e-12
    assert (timed.finish(later, 4000).finishes >= timed.finish(starts, 4000).finishes - slack).all()


@pytest.mark.parametrize("kind", [RoundsModel, FlowsModel])
@given(starts=several_starts(), member=st.sampled_from(ALGORITHMS), shift=st.floats(0, 1e4))
def test_starting_all_later_finishes_all_later_by_as_much(kind, starts, member, shift):
    timed = model(kind, member, len(starts))
    rounding = 4e-16 * shift + 1e-14
    np.testing.assert_allclose(
        timed.finish(starts + shift, 4000).finishes,
        timed.finish(starts, 4000).finishes + shift,
        rtol=0,
        atol=8 * rounding,
    )


def test_a_long_ring_keeps_its_digits_late_in_a_run():
    ranks = 2048
    network = UnequalSwitch(np.linspace(1, 1.1, 2 * ranks) * 50e9, 5e-7)
    timed = RoundsModel(algorithm("ring").schedule(ranks), network)
    early, late = (
        timed.finish(np.full(ranks, begin), 4096).finishes - begin for begin in (0.0, 2.0**17)
    )
    np.testing.assert_allclose(
        late, early, rtol=0, atol=2.0**-35
    )  # the distance from 2^17 to the next number


@given(starts=several_starts(), seconds_per_byte_reduced=st.sampled_from([0.0, 1e-9]))
def test_a_ring_on_equal_links_ends_for_everyone_all_rounds_after_the_last_start(
    starts, seconds_per_byte_reduced
):
    ranks, chunk = len(starts), 4000
    costs = MessageCosts(overhead=1e-6, gamma=seconds_per_byte_reduced)
    message = costs.overhead + LATENCY + chunk / RATE
    expected = starts.max() + (ranks - 1) * (2 * message + chunk * costs.gamma)
    schedule, network = algorithm("ring").schedule(ranks), UniformSwitch(ranks, RATE, LATENCY)
    for timed in (
        RoundsModel(schedule, network, costs),
        RoundsModel(schedule, network, costs, collapse=False),
        FlowsModel(schedule, network, costs),
    ):
        np.testing.assert_allclose(
            timed.finish(starts, ranks * chunk).finishes, np.full(ranks, expected), rtol=1e-12
        )


@given(starts=several_starts(), member=st.sampled_from(EXCLUSIVE), seed=st.integers(0, 99))
def test_rounds_are_flows_where_no_link_is_shared_even_on_unequal_links(starts, member, seed):
    ranks = len(starts)
    generator = np.random.default_rng(seed)
    network = UnequalSwitch(
        RATE * (1 + generator.random(2 * ranks)), 1e-6 * generator.random(ranks)
    )
    nbytes = (
        4 * 840
    )  # elements that 1 .. 8 divide: in repeated rounds every chunk counts as the largest
    rounds, flows = (
        kind(member.schedule(ranks), network, COSTLY).finish(starts, nbytes)
        for kind in (RoundsModel, FlowsModel)
    )
    np.testing.assert_allclose(rounds.finishes, flows.finishes, rtol=1e-10)
    np.testing.assert_array_equal(rounds.loads, flows.loads)


@given(starts=several_starts(), turns=st.integers(1, 9))
def test_collapsing_any_number_of_rounds_changes_nothing(starts, turns):
    rank = np.arange(len(starts))
    around = Phase(rank, fixed((rank + 1) % len(rank)), fixed(0 * rank), reduce=True, turns=turns)
    schedule, network = (
        Schedule("pass on", "ring", len(rank), 1, (around,)),
        UniformSwitch(len(rank), RATE, LATENCY),
    )
    one_line, every_round = (
        RoundsModel(schedule, network, COSTLY, collapse=collapse).finish(starts, 4000).finishes
        for collapse in (True, False)
    )
    np.testing.assert_allclose(one_line, every_round, rtol=1e-12)


def plain_ring(starts, network, costs, chunk):
    """A ring all-reduce one round after another, one rank after another."""
    ranks = len(starts)
    rates = [
        min(network.capacities[i], network.capacities[ranks + (i + 1) % ranks])
        for i in range(ranks)
    ]
    seconds = network.latency + chunk / np.array(rates)
    ready = np.array(starts)
    for gamma in [costs.gamma] * (ranks - 1) + [0.0] * (ranks - 1):
        posted = ready + costs.overhead
        sent = np.maximum(posted, np.roll(posted, -1)) + seconds
        ready = np.maximum(sent, np.roll(sent, 1)) + chunk * gamma
    return ready


@given(
    ranks=st.integers(66, 160),
    spread=st.sampled_from([0.0, 1e-12, 1e-6, 0.1, 3.0]),
    skew=st.sampled_from([0.0, 1e-9, 1e-3]),
    seed=st.integers(0, 99),
    costs=st.sampled_from([MessageCosts(), COSTLY]),
)
def test_stopping_at_a_steady_step_changes_nothing(ranks, spread, skew, seed, costs):
    generator = np.random.default_rng(seed)
    network = UnequalSwitch(RATE * (1 + spread * generator.random(2 * ranks)), LATENCY)
    starts = skew * generator.random(ranks)
    found = (
        RoundsModel(algorithm("ring").schedule(ranks), network, costs)
        .finish(starts, ranks * 4000)
        .finishes
    )
    np.testing.assert_allclose(found, plain_ring(starts, network, costs, 4000), rtol=1e-12)
