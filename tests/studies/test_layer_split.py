"""A model split by layers: the cut, tiny timelines, the formula for equal stages, and bounds."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_docs import section

from dpsim import load_scenario
from dpsim.base.errors import DpsimError
from dpsim.studies.layer_split import Hop, LayerSplit, balance, layer_split, on_devices, time_step
from dpsim.topology import build_cluster

ROOT = Path(__file__).parents[2]
FILE = ROOT / "scenarios" / "layer-split.yaml"
FREE = Hop(0.0, float("inf"))


def stage(forward, backward, update=0.0, sent=1.0):
    return SimpleNamespace(forward=forward, backward=backward, update=update, sent=sent)


@pytest.mark.parametrize(
    ("seconds", "parts", "ends"),
    [
        ([1, 1, 1, 1], 2, [2, 4]),
        ([4, 1, 1, 1, 1], 2, [1, 5]),
        ([1, 2, 3, 4, 5], 3, [3, 4, 5]),
        ([1, 1, 9], 3, [1, 2, 3]),
        ([7], 1, [1]),
    ],
)
def test_the_cut_makes_the_longest_run_shortest(seconds, parts, ends):
    assert balance(np.array(seconds, dtype=float), parts) == ends


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.data())
def test_no_other_cut_has_a_shorter_longest_run(seconds, data):
    from itertools import combinations

    parts = data.draw(st.integers(1, len(seconds)))

    def longest(ends):
        return max(sum(seconds[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True))

    every = ([*inner, len(seconds)] for inner in combinations(range(1, len(seconds)), parts - 1))
    found = balance(np.array(seconds, dtype=float), parts)
    assert len(found) == parts
    assert sorted(set(found)) == found
    assert longest(found) == min(map(longest, every))


def test_more_stages_than_pieces_is_an_error():
    with pytest.raises(
        DpsimError, match="devices: must be at most the 2 blocks of the model, but got 3"
    ):
        balance(np.ones(2), 3)


def test_two_stages_two_micro_batches_and_a_slow_link():
    # Forward 1 s and 2 s, backward 3 s and 1 s, 10 bytes at 10 B/s and 0.5 s of latency, update
    # 0.25 s on the first.
    found = time_step([stage(1, 3, update=0.25, sent=10), stage(2, 1)], [Hop(0.5, 10)], 2)
    assert found.forward.tolist() == [[1, 2], [4.5, 6.5]]  # arrive at 2.5 and 3.5
    assert found.backward.tolist() == [[12, 15], [7.5, 8.5]]  # arrive back at 9 and 10
    assert found.step == 15.25


def test_messages_over_one_link_follow_one_another():
    found = time_step([stage(1, 1, sent=30), stage(1, 1)], [Hop(0.0, 10)], 2)
    assert found.forward[1].tolist() == [5, 8]  # ready at 1 and 2, on the link until 4 and 7


@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("micro_batches", [1, 3, 8])
def test_equal_stages_follow_the_formula_of_gpipe(stages, micro_batches):
    found = time_step([stage(2, 3)] * stages, [FREE] * (stages - 1), micro_batches)
    assert found.step == (micro_batches + stages - 1) * (2 + 3)
    bubble = 1 - micro_batches * 5 / found.step
    assert bubble == pytest.approx((stages - 1) / (micro_batches + stages - 1))


times = st.floats(0.01, 10)


@given(
    st.lists(st.tuples(times, times, times, st.floats(1, 1e3)), min_size=1, max_size=5),
    st.integers(1, 6),
    st.data(),
)
def test_a_step_lies_between_its_bounds(parts, micro_batches, data):
    stages = [stage(*part) for part in parts]
    hops = [Hop(data.draw(st.floats(0, 1)), data.draw(st.floats(1, 1e3))) for _ in parts[1:]]
    found = time_step(stages, hops, micro_batches)
    update = max(each.update for each in stages)
    single = sum(each.forward + each.backward for each in stages)
    wires = sum(hop.latency + each.sent / hop.rate for hop, each in zip(hops, stages, strict=False))
    busiest = max(micro_batches * (each.forward + each.backward) + each.update for each in stages)
    assert found.step >= max(busiest, single + 2 * wires) * (1 - 1e-9)
    assert found.step <= (micro_batches * (single + 2 * wires) + update) * (1 + 1e-9)


@pytest.mark.parametrize("micro_batches", [3, 6, 7, 10])
def test_one_device_never_idles_less_than_not_at_all(micro_batches):
    for tenth in range(1, 60):
        single = stage(tenth / 10, tenth / 7, tenth / 3)
        split = LayerSplit((single,), micro_batches, time_step([single], [], micro_batches))
        assert 0 <= split.idle < 1e-12


def test_one_micro_batch_is_one_device_at_a_time():
    scenario = load_scenario(FILE)
    found = layer_split(scenario, 4, 1)
    wires = (
        2
        * sum(each.sent for each in found.stages)
        / build_cluster(scenario.cluster).capacities.min()
    )
    passes = sum(each.forward + each.backward for each in found.stages)
    assert found.pipeline.step == pytest.approx(passes + wires + found.stages[0].update, rel=1e-3)
    assert found.idle == pytest.approx(3 / 4, abs=0.02)


def test_stages_cover_the_model_and_hold_less_than_all_of_it():
    scenario = load_scenario(FILE)
    model = scenario.build_model()
    whole = layer_split(scenario, 1, 16)
    parts = layer_split(scenario, 8, 16)
    assert [each.first for each in parts.stages[1:]] == [each.end for each in parts.stages[:-1]]
    assert (parts.stages[0].first, parts.stages[-1].end) == (0, len(model.layers))
    assert sum(each.memory.held.weights for each in parts.stages) == pytest.approx(
        whole.memory.held.weights
    )
    assert sum(each.memory.held.activations for each in parts.stages) == pytest.approx(
        whole.memory.held.activations
    )
    assert parts.memory.held.total < whole.memory.held.total / 4
    assert sum(each.forward for each in parts.stages) == pytest.approx(whole.stages[0].forward)
    assert whole.bytes_sent == 0
    assert (
        parts.bytes_sent == 2 * 7 * 64 * 128 * 1024 * 4
    )  # 7 cuts both ways, 64 sequences of 128 tokens of 1,024 values in fp32


@pytest.mark.parametrize(
    ("overrides", "devices", "parts", "message"),
    [
        ([], 9, 1, "devices: must be from 1 to the cluster's 8, but got 9"),
        ([], 3, 1, "devices: must divide the global batch of 64, but got 3"),
        ([], 2, 5, "micro-batches: must divide the global batch of 64, but got 5"),
        (
            ["cluster.node=dgx1-v100"],
            12,
            1,
            "devices: must divide the global batch of 512, but got 12",
        ),
        (
            ["cluster.node=dgx1-v100", "workload.batch_per_gpu=12"],
            12,
            1,
            "devices: must fill nodes of 8, but got 12",
        ),
        (
            ["calibration={step_time: 1 s, source: a test}"],
            2,
            1,
            "calibration: must be catalogue here",
        ),
    ],
)
def test_an_impossible_split_is_reported(overrides, devices, parts, message):
    with pytest.raises(DpsimError, match=message):
        layer_split(load_scenario(FILE, overrides), devices, parts)


def test_data_parallelism_beside_it_has_the_same_global_batch():
    scenario = load_scenario(FILE)
    assert [on_devices(scenario, devices).global_batch for devices in (1, 2, 4, 8)] == [64] * 4


def test_the_command_prints_both_beside_each_other(dpsim):
    _, out, _ = dpsim("layer-split", FILE, "--devices", 4, "--micro-batches", "1,16", "--json")
    answer = json.loads(out)
    assert list(answer) == ["schema_version", "kind", "name", "global_batch", "rows"]
    assert [(row["way"], row["micro_batches"]) for row in answer["rows"]] == [
        ("data-parallel", None),
        ("layer-split", 1),
        ("layer-split", 16),
    ]
    text = section("dpsim layer-split")
    assert all(
        f"`{key}`" in text
        for key in (*answer, *answer["rows"][0])
        if key not in ("schema_version", "kind")
    )
    naive, piped = answer["rows"][1:]
    assert piped["step_time_s"] < naive["step_time_s"]


@pytest.mark.parametrize("option", ["--devices", "--micro-batches"])
def test_a_bad_number_is_refused(option, dpsim):
    code, _, err = dpsim("layer-split", FILE, option, "2,x")
    assert code == 2
    assert f"{option}: must be whole numbers of at least 1, such as 1,2,4, but got '2,x'" in err


def test_a_scenario_of_a_testbed_is_split_on_its_cluster():
    scenario = load_scenario(ROOT / "scenarios" / "testbed" / "allreduce.yaml")
    assert on_devices(scenario, 2).cluster.ranks == 2
