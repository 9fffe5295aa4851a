"""Steps of stage 3 against two streams that are worked out one call after the other."""

from collections import deque
from itertools import product

import pytest

from dpsim import simulate
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile

# Seconds forward and backward, and MB: gathers hide behind some units and hold up others.
UNITS = ((0.3, 0.2, 4.0), (0.2, 0.1, 0.4), (0.5, 1.0, 1.6), (0.1, 0.1, 0.4))
UPDATE = 0.25


@pytest.fixture(scope="module")
def four_units(tmp_path_factory):
    forward, backward, megabytes = zip(*UNITS, strict=True)
    times = MeasuredTimes(
        batch_sizes=(8,), forward_s=(forward,), backward_s=(backward,), optimizer_s=(UPDATE,)
    )
    layers = tuple(
        Layer(f"layer{number}", "linear", (round(size * 250_000),))
        for number, size in enumerate(megabytes)
    )
    path = tmp_path_factory.mktemp("units") / "four.json"
    path.write_text(ModelProfile.of(Model("four", layers, "sample", times), {}).to_json())
    return {"profile": str(path)}


def calls_of(passes, prefetch, words, limited, reshard):
    """When a call is issued (so many units computed), its rank there, its seconds, its use.

    On two workers a unit takes half of its bytes at 1 MB/s.
    """
    count, calls = len(UNITS), []
    turns = [*range(count), *reversed(range(count))]
    for number in range(passes):
        first = number * 2 * count
        for place, unit in enumerate(turns if reshard else turns[:count]):
            requested, rank = first + max(place - prefetch if limited else 0, 0), 2
            if place > count and words != "pre":
                # Where the unit before is done: before its gradients, or behind them.
                requested, rank = first + place, 0 if words == "post" else 2
            calls.append((requested, rank, UNITS[unit][2] / 2, first + place))
        if number == passes - 1:
            for place in range(count, 2 * count):
                calls.append((first + place + 1, 1, UNITS[turns[place]][2] / 2, first + 2 * count))
    return sorted(calls, key=lambda call: call[:2])


def by_hand(passes, **settings):
    """Seconds of a step whose calls follow one another beside what is computed."""
    turns = [(unit, 0) for unit in UNITS] + [(unit, 1) for unit in reversed(UNITS)]
    computing = [unit[way] for unit, way in turns] * passes + [UPDATE / 2]  # divided among two
    left, computed, due, wire = deque(calls_of(passes, **settings)), [0.0], {}, 0.0
    for turn, seconds in enumerate(computing):
        while left and left[0][0] <= turn:
            requested, _, taken, needed = left.popleft()
            wire = max(wire, computed[requested]) + taken
            due[needed] = wire
        computed.append(max(computed[-1], due.get(turn, 0.0)) + seconds)
    return computed[-1]


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("words", ["pre", "post", "none"])
def test_a_step_is_as_long_as_its_two_streams_take(tiny, four_units, words, passes):
    for prefetch, limited, reshard in product((0, 1, 2), (True, False), (True, False)):
        aggregation = {
            "kind": "sharded",
            "unit_size": "1 B",
            "prefetch": prefetch,
            "backward_prefetch": words,
            "limit_all_gathers": limited,
            "reshard_after_forward": reshard,
        }
        workload = {"model": four_units, "gradient_accumulation": passes}
        run = {"steps": 2}
        job = tiny(2, aggregation=aggregation, overlap="wfbp", workload=workload, run=run)
        hand = by_hand(passes, prefetch=prefetch, words=words, limited=limited, reshard=reshard)
        assert simulate(job).mean_step == pytest.approx(hand, rel=1e-7), (prefetch, limited)
