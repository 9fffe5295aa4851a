"""Whole scenarios against theory, with tolerance.

Order statistics, saturation, slow workers, merging.
"""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpsim import simulate
from dpsim.engine import prepare
from dpsim.engine.calls import planned
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile

SERVERS = "parameter-server"
LONG = {"steps": 4000}


def expected_greatest(distribution, draws):
    """Of so many independent draws: the integral over x of 1 - F(x)**draws."""
    return integrate.quad(
        lambda x: 1 - distribution.cdf(x) ** draws, 0, distribution.ppf(1 - 1e-12), limit=500
    )[0]


JITTERS = {
    "exponential": ({"kind": "gamma", "cv": 1}, stats.expon()),
    "lognormal": ({"kind": "lognormal", "sigma": 0.5}, stats.lognorm(0.5, scale=np.exp(-0.125))),
    "gamma": ({"kind": "gamma", "cv": 0.3}, stats.gamma(0.3**-2, scale=0.3**2)),
}


@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize("name", JITTERS)
@pytest.mark.parametrize("workers", [1, 2, 8, 32])
def test_a_synchronous_step_is_the_expected_greatest_of_m_draws(tiny, name, workers):
    """10 s of passes times it, then 2 (m-1)/m S / B, then the update; its own draw stretches that
    too, but waits for nobody.
    """
    jitter, distribution = JITTERS[name]
    local = {
        "kind": "local-sgd",
        "every": 1,
    }  # the update comes before the averaging: all 10.5 s are stretched
    result = simulate(tiny(workers, sync=local, run=LONG, disturbance={"jitter": jitter}))
    expected = 10.5 * expected_greatest(distribution, workers) + 2 * (workers - 1) / workers * 2
    assert result.step_time_s["mean"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("workers", [2, 8, 32])
def test_the_greatest_of_m_exponential_draws_is_the_harmonic_number(workers):
    """The textbook's own closed form, against the integral above."""
    assert expected_greatest(stats.expon(), workers) == pytest.approx(
        sum(1 / k for k in range(1, workers + 1)), rel=1e-6
    )


@cache
def seconds_to_quorum(computing, stale, backups):
    """Until all but ``backups`` gradients count, where every pass is an exponential draw of mean 1.

    Of those who compute, ``stale`` are late ones of the update before: what they bring is dropped,
    and they begin anew.
    """
    if computing == backups:
        return 0.0
    fresh = (
        (computing - stale) / computing * seconds_to_quorum(computing - 1, stale, backups)
        if computing > stale
        else 0.0
    )
    again = stale / computing * seconds_to_quorum(computing, stale - 1, backups) if stale else 0.0
    return 1 / computing + fresh + again


@pytest.mark.parametrize(
    ("workers", "backups", "steps"),
    [(4, 1, 1000), pytest.param(8, 2, 500, marks=pytest.mark.wide), (16, 4, 150)],
)
def test_an_update_with_backups_takes_the_time_of_its_markov_chain(tiny, workers, backups, steps):
    """An update begins with all but b workers that compute anew and b late ones; draws have no
    memory. Bytes take no time here.
    """
    instant = {
        "fabric": "single-switch",
        "nic": {"rate": "1 PB/s", "latency": 0},
        "nics_per_node": 1,
    }
    result = simulate(
        tiny(
            workers,
            aggregation={"kind": SERVERS, "update_rate": "1 PB/s", "servers": 1},
            sync={"kind": "backup", "backups": backups},
            cluster={"network": instant},
            run={"steps": steps},
            disturbance={"jitter": {"kind": "gamma", "cv": 1}},
        )
    )
    updates_per_second = result.throughput_samples_per_s / 8 / (workers - backups)
    assert 1 / updates_per_second == pytest.approx(
        10 * seconds_to_quorum(workers, backups, backups), rel=0.06
    )


def closed_network(workers, compute, transfer, servers):
    """Iterations a second of workers that compute, push and pull for ever, by the product form of
    such a closed network.

    Each way is processor sharing that n flows leave at a rate of min(n, servers) / transfer:
    insensitive to all but means (Baskett, Chandy, Muntz and Palacios, JACM 22, 1975).
    """
    way = np.cumprod([1.0, *(transfer / min(n, servers) for n in range(1, workers + 1))])
    single = np.array([compute**n / math.factorial(n) for n in range(workers + 1)])
    ways = [
        np.convolve(np.convolve(way, way)[: total + 1], single)[total]
        for total in (workers, workers - 1)
    ]
    return ways[1] / ways[0]


@pytest.mark.parametrize(
    "count",
    [1, 4, *(pytest.param(count, marks=pytest.mark.wide) for count in (2, 8))],
)
def test_asynchronous_workers_saturate_servers_as_a_closed_network_does(tiny, count):
    """16 workers, k servers of B each way: at most k B / S, since pushes and pulls pass each
    other.
    """
    servers = {"kind": SERVERS, "servers": count, "colocated": False, "update_rate": "1 PB/s"}
    jitter = {"jitter": {"kind": "gamma", "cv": 1}}
    result = simulate(
        tiny(
            16, aggregation=servers, sync="asp", run={"steps": 80, "warmup": 20}, disturbance=jitter
        )
    )
    rate = result.throughput_samples_per_s / 8
    assert rate == pytest.approx(
        closed_network(16, compute=10, transfer=2, servers=count), rel=0.04
    )
    assert rate <= count * 1e6 / 2e6


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("sync", ["bsp", "asp"])
def test_workers_in_step_get_half_of_what_servers_could_carry(tiny, count, sync):
    """All push, then all pull: 10 s and 2 m S / (k B).

    Without jitter asynchronous workers stay in step for ever.
    """
    servers = {"kind": SERVERS, "servers": count, "colocated": False, "update_rate": "1 PB/s"}
    result = simulate(tiny(16, aggregation=servers, sync=sync))
    assert result.step_time_s["mean"] == pytest.approx(10 + 2 * 16 * 2 / count, rel=1e-6)


def test_more_servers_than_workers_help_no_more(tiny):
    """Then the workers' own links are the limit: 2 s each way."""
    elsewhere = {"kind": SERVERS, "colocated": False, "update_rate": "1 PB/s"}
    results = [
        simulate(tiny(4, aggregation={**elsewhere, "servers": count})) for count in (1, 2, 4, 8)
    ]
    assert [result.step_time_s["mean"] for result in results] == pytest.approx(
        [10 + 16, 10 + 8, 10 + 4, 10 + 4]
    )


@pytest.mark.parametrize("factor", [2, 4])
def test_a_slow_worker_costs_asynchronous_ones_its_own_share_only(tiny, factor):
    """Each of four at its own pace: 3 / t + 1 / t_slow; under BSP all at the slow one's."""
    servers = {"kind": SERVERS, "servers": 8, "colocated": False, "update_rate": "1 PB/s"}
    slow = {"slow": [{"workers": [0], "factor": factor}]}
    asp, bsp = (
        simulate(
            tiny(4, aggregation=servers, sync=sync, run={"steps": 20}, disturbance=slow)
        ).throughput_samples_per_s
        / 8
        for sync in ("asp", "bsp")
    )
    assert asp == pytest.approx(3 / 14 + 1 / (10 * factor + 4), rel=0.03)
    assert bsp == pytest.approx(4 / (10 * factor + 4), rel=1e-6)


def test_a_little_staleness_takes_up_jitter_and_a_slow_worker_takes_up_any_staleness(tiny):
    """SSP between BSP and ASP.

    With jitter its throughput rises with s; with a slow worker it comes to that worker's pace.
    """
    servers = {"kind": SERVERS, "servers": 4, "colocated": False, "update_rate": "1 PB/s"}
    syncs = ("bsp", *({"kind": "ssp", "staleness": s} for s in (1, 3, 9)), "asp")

    def paces(disturbance, steps):
        run = {"steps": steps}
        scenarios = [
            tiny(4, aggregation=servers, sync=sync, run=run, disturbance=disturbance)
            for sync in syncs
        ]
        return [simulate(scenario).throughput_samples_per_s for scenario in scenarios]

    jittered = paces({"jitter": {"kind": "gamma", "cv": 0.5}}, 60)
    assert jittered == sorted(jittered)
    assert jittered[2] > 1.15 * jittered[0]
    slowed = paces({"slow": [{"workers": [0], "factor": 3}]}, 60)
    assert slowed[3] == pytest.approx(slowed[0], rel=0.15)
    assert slowed[4] > 1.5 * slowed[0]


def profile(path, layers):
    """A model whose layer i has so many elements and takes so long backward; half of that
    forward.
    """
    seconds = tuple(second for second, _ in layers)
    times = MeasuredTimes(
        batch_sizes=(8,),
        forward_s=(tuple(second / 2 for second in seconds),),
        backward_s=(seconds,),
        optimizer_s=(0.1,),
    )
    model = Model(
        "drawn",
        tuple(Layer(f"l{i}", "linear", (elements,)) for i, (_, elements) in enumerate(layers)),
        "sample",
        times,
    )
    path.write_text(ModelProfile.of(model, {}).to_json())
    return {"model": {"profile": str(path)}}


LAYERS = st.lists(st.tuples(st.floats(0.01, 5), st.integers(1000, 500_000)), min_size=1, max_size=8)
LATENCY = st.just(0.0) | st.floats(
    1e-12, 3
)  # s: a quantity of the schema is 0 or above what is physical


@given(
    layers=LAYERS,
    latency=LATENCY,
    workers=st.sampled_from([2, 4]),
    slow=st.sampled_from([1.0, 0.2, 3.0]),
)
@settings(max_examples=25, deadline=None)
def test_merging_where_it_pays_is_never_slower_in_a_whole_step(
    tiny, tmp_path_factory, layers, latency, workers, slow
):
    """Without jitter, with an all-reduce of alpha + beta n; one worker may be slower, or faster.

    Greedy no slower than tensor by tensor nor than all in one, and the exact programme no slower
    than the greedy rule.
    """
    workload = profile(
        tmp_path_factory.mktemp("drawn") / "model.json",
        [(s, n // workers * workers) for s, n in layers],
    )
    disturbance = {"slow": [{"workers": [0], "factor": slow}]}
    policies = ("wfbp", "sequential", "mg-wfbp", {"kind": "mg-wfbp", "merge": "exact"})
    wfbp, whole, greedy, exact = (
        simulate(
            tiny(workers, latency, overlap=policy, workload=workload, disturbance=disturbance)
        ).step_time_s["mean"]
        for policy in policies
    )
    assert greedy <= min(wfbp, whole) * (1 + 1e-9)
    assert exact <= greedy * (1 + 1e-9)


SLOW_WORKER = {"slow": [{"workers": [0], "factor": 3}]}


def test_merging_expects_the_slow_worker_whom_all_wait_for(tiny):
    """An all-reduce takes 4 s and 1 s a layer. Layer 0 is ready 3 s after layer 1, and is merged.

    Slowed to 9 s it is not: the first is through at 21 + 5, the second at 30 + 5 instead of 30 + 6.
    """
    sent = [
        [call.name for call in prepare(tiny(2, 2.0, overlap="mg-wfbp", disturbance=each)).calls(0)]
        for each in ({}, SLOW_WORKER)
    ]
    assert sent == [["merged0"], ["merged0", "merged1"]]
    slowed = simulate(tiny(2, 2.0, overlap="mg-wfbp", disturbance=SLOW_WORKER))
    np.testing.assert_allclose(slowed.steps.step[:, 0], 30 + 5 + 1.5, rtol=1e-9)


def test_merging_expects_no_worker_whom_nobody_waits_for(tiny):
    sync = {"kind": "backup", "backups": 1}
    scenario = tiny(3, 1.0, overlap="mg-wfbp", sync=sync, disturbance=SLOW_WORKER)
    assert [call.name for call in prepare(scenario).calls(0)] == ["merged0"]


@pytest.mark.parametrize("overlap", ["mg-wfbp", {"kind": "mg-wfbp", "merge": "exact"}, "priority"])
def test_a_plan_for_a_slow_worker_is_that_for_as_slow_a_job(tiny, overlap):
    scenario = tiny(2, 2.0, overlap=overlap, disturbance=SLOW_WORKER)
    as_slow = prepare(tiny(2, 2.0, overlap=overlap)).scaled(3.0)
    assert planned(prepare(scenario), grouped=False) == planned(as_slow, grouped=False)


@given(layers=LAYERS, latency=LATENCY)
@settings(max_examples=15, deadline=None)
def test_no_policy_beats_the_longer_of_computing_and_communicating(
    tiny, tmp_path_factory, layers, latency
):
    """A step takes at least its passes, and at least its bytes at full bandwidth; and at most all
    of it one after the other.
    """
    workload = profile(tmp_path_factory.mktemp("drawn") / "model.json", layers)
    compute, nbytes = (
        1.5 * sum(second for second, _ in layers) + 0.1,
        4 * sum(elements for _, elements in layers),
    )
    for policy in (
        "sequential",
        "wfbp",
        "mg-wfbp",
        "buckets",
        {"kind": "priority", "slice_size": "300 kB"},
    ):
        steps = simulate(
            tiny(2, latency, overlap=policy, workload=workload, run={"steps": 6})
        ).steps
        step = steps.step.mean(axis=1)
        assert step.min() >= compute * (1 - 1e-9)
        assert step.sum() >= 5 * nbytes / 1e6 * (1 - 1e-9)  # the last step's may still be under way
        assert step.sum() <= 6 * (
            compute + (nbytes + 16 * len(layers) * 40) / 1e6 + 2 * latency * 40 * len(layers)
        )


def test_a_priority_that_matters(tiny, tmp_path_factory):
    """A small front layer behind a large one.

    It goes first, and the next forward pass begins while the large one still travels.
    """
    workload = profile(
        tmp_path_factory.mktemp("front") / "model.json", [(1.0, 25_000), (1.0, 1_000_000)]
    )
    priority, wfbp = (
        simulate(
            tiny(2, overlap=policy, workload=workload, run={"steps": 6, "warmup": 2})
        ).step_time_s["mean"]
        for policy in ({"kind": "priority", "slice_size": "100 kB"}, "wfbp")
    )
    assert priority < wfbp - 0.4
    assert priority >= 4.1 * (1 - 1e-9)  # all bytes at full bandwidth
