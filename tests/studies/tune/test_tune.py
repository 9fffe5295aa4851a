"""A file in, its best configuration out.

The figures are those of the simulator, and the file that is written gives them again.
"""

from itertools import product

import pytest

from dpsim.base.errors import DpsimError
from dpsim.engine import simulate
from dpsim.scenario import load_scenario
from dpsim.studies.tune import Limits, Refused, tune
from dpsim.studies.tune.evaluator import shorter

OVER = {
    "strategy.overlap.kind": ("sequential", "wfbp", "priority"),
    "strategy.compression.kind": ("none", "cast"),
}
TARGET = """name: known
cluster: {nodes: 2, node: dgx1-v100, gpus_per_node: 1}
workload: {model: resnet50, batch_per_gpu: 32}
run: {steps: 2, warmup: 0}
"""

OF_THE_NETWORK = [
    "extrapolated: transfers are ideal: a library's overhead on this network was not measured",
    "warning: all 4 workers are slower than one alone",
]


def texts(over):
    return [f"{path}={','.join(map(str, values))}" for path, values in over.items()]


def by_hand(path, over):
    """Every combination with its result."""
    for values in product(*over.values()):
        yield (
            values,
            simulate(
                load_scenario(
                    path, [f"{key}={value}" for key, value in zip(over, values, strict=True)]
                )
            ),
        )


def step(result):
    return result.step_time_s["mean"]


def test_the_best_is_the_least_of_all_and_the_gain_is_against_the_file(tiny):
    found = tune(tiny, over=texts(OVER))
    values, result = min(by_hand(tiny, OVER), key=lambda pair: step(pair[1]))
    assert found.exhaustive
    assert tuple(found.best.values.values()) == values
    assert found.best.figure == step(result)
    assert found.gain == pytest.approx(
        step(result) / step(simulate(load_scenario(tiny))) - 1, rel=1e-12
    )


def test_throughput_is_better_the_higher(tiny):
    over = {"cluster.nodes": (1, 2, 4)}
    found = tune(tiny, over=texts(over), objective="throughput")
    assert found.best.figure == max(
        result.throughput_samples_per_s for _, result in by_hand(tiny, over)
    )


def test_more_nodes_are_faster_and_cost_more_so_all_are_on_the_front(tiny):
    found = tune(
        tiny,
        over=["cluster.nodes=1,2,4"],
        objective="throughput",
        overrides=["cluster.network.nic={rate: 1 GB/s, latency: 1 us}"],
    )
    assert [each.values["cluster.nodes"] for each in found.front] == [4, 2, 1]
    for each in found.front:
        assert each.time_s == pytest.approx(1e6 / each.result.throughput_samples_per_s)
        assert each.cost == pytest.approx(each.result.workers * each.time_s / 3600)  # GPU hours
    assert found.unit == "GPU hours"


def test_a_price_makes_costs_money(tiny):
    price = ["cost.price_per_gpu_hour=2.5", "cost.currency=CHF"]
    free, priced = (
        tune(tiny, over=["cluster.nodes=1,2"], overrides=overrides) for overrides in ([], price)
    )
    assert priced.unit == "CHF"
    assert priced.best.cost == pytest.approx(2.5 * free.best.cost)


@pytest.mark.parametrize("objective", ["time-to-target", "cost-to-target"])
def test_to_a_target_is_what_the_simulator_says(tmp_path, objective):
    path = tmp_path / "known.yaml"
    path.write_text(TARGET)
    over = {"workload.batch_per_gpu": (16, 32, 64), "cluster.nodes": (1, 2)}
    found = tune(path, over=texts(over), objective=objective)
    targets = [result.to_target.training for _, result in by_hand(path, over)]
    best = (
        min(each.time_s for each in targets)
        if objective == "time-to-target"
        else min(each.gpu_hours for each in targets)
    )
    assert found.best.figure == pytest.approx(best, rel=1e-12)
    assert found.span == "to the target"


def test_ways_to_synchronise_whose_steps_are_not_known_are_left_out(tmp_path):
    path = tmp_path / "known.yaml"
    path.write_text(TARGET)
    found = tune(path, over=["strategy.sync.kind=bsp,ssp"], objective="time-to-target")
    assert [why for why, _, _ in found.reasons] == [
        "steps to the target are not known with sync ssp"
    ]


def test_a_target_must_be_known(tiny):
    with pytest.raises(
        DpsimError,
        match="--objective time-to-target: must have a model whose steps to a target are known",
    ):
        tune(tiny, objective="time-to-target")


def test_what_is_written_is_the_best_with_the_same_figure(tiny, tmp_path):
    """Also into another folder, from which the model's profile has another name."""
    found = tune(tiny, over=texts(OVER))
    for target in (tiny.parent / "best.yaml", tmp_path / "best.yaml"):
        target.write_text(found.best_text(target))
        written = load_scenario(target)
        assert step(simulate(written)) == found.best.figure
        assert written.name == "tiny-tuned"
    text = target.read_text()
    assert text.startswith("# Found by dpsim tune tiny.yaml (dpsim ")
    assert f"{found.gain:+.1%} against that file" in text.replace("\n#   ", " ")


def test_figures_are_of_all_steps_and_the_search_is_of_few(write):
    path = write(steps=30, rest="disturbance: {jitter: {kind: lognormal, sigma: 0.1}}\n")
    found = tune(path, over=texts(OVER))
    assert {each.scenario.run.steps for each in found.evaluations} == {10}
    assert {each.scenario.run.steps for each in (found.best, found.baseline, *found.front)} == {30}


def test_averaging_is_searched_over_whole_periods(write):
    path = write(steps=20)
    local = load_scenario(path, ["strategy.sync.kind=local-sgd", "strategy.sync.every=3"])
    assert shorter(local).run.steps == 6  # at least 4, two periods
    found = tune(path, over=["strategy.sync.kind=bsp,local-sgd", "strategy.sync.every=8,32"])
    assert not found.reasons
    assert found.best.values["strategy.sync.every"] == 32  # longer than the run, which is made so
    assert len(found.best.result.steps.step) == 32


@pytest.mark.parametrize(("every", "switch", "warmup"), [(8, 3, 4), (50, 3, 4), (8, 15, 4)])
def test_averaging_after_a_switch_is_searched_over_whole_periods(write, every, switch, warmup):
    """Steps of BSP are among those that count only where they are in the file."""
    sync = f"strategy.sync={{kind: local-sgd, every: {every}, switch_after: {switch}}}"
    local = load_scenario(write(steps=20), [sync, f"run.warmup={warmup}"])
    assert step(simulate(shorter(local))) == pytest.approx(step(simulate(local)), rel=0.03)


def test_a_measured_step_scales_compute_as_it_is_and_not_every_variant_to_it(write):
    path = write(nodes=2, rest="calibration: {nodes: 1, step_time: 0.9 s, source: a stopwatch}\n")
    found = tune(path, over=["workload.batch_per_gpu=8,16"], objective="throughput")
    scales = {
        each.scenario.calibration.compute_scale for each in (found.baseline, *found.evaluations)
    }
    assert len(scales) == 1
    assert scales.pop() == pytest.approx(
        0.9 / 0.425, rel=1e-6
    )  # the layers' times add up to 0.425 s
    assert found.evaluations[1].figure > found.evaluations[0].figure


def test_a_file_that_is_the_best_is_not_compared_with_itself(tiny):
    kind = load_scenario(tiny).strategy.overlap.kind
    notes = tune(tiny, over=[f"strategy.overlap.kind={kind}"]).notes
    assert notes == ["the best is the file as it is", *OF_THE_NETWORK]


def test_notes_say_what_time_does_not_show(tiny):
    found = tune(
        tiny, over=["strategy.compression.kind=none,powersgd", "strategy.sync.kind=bsp,ssp"]
    )
    assert found.best.values["strategy.sync.kind"] == "ssp"
    assert any(
        "sync ssp (gradients are stale)" in note and "does not show" in note for note in found.notes
    )
    assert found.exact.values == {"strategy.compression.kind": "none", "strategy.sync.kind": "bsp"}
    plain = tune(tiny, over=texts(OVER), limits=Limits(accuracy_penalty=0.0))
    assert plain.notes == OF_THE_NETWORK


def test_a_file_that_cannot_be_is_no_baseline(write):
    path = write(memory="1.35 GB")  # a GPU needs 1.357 GB, sharded 1.331 GB
    found = tune(path, over=["strategy.aggregation.kind=sharded"])
    assert isinstance(found.baseline, Refused)
    assert found.gain is None
    assert found.notes[0].startswith(
        "the file's own configuration cannot be: cannot be simulated: workload: must fit"
    )


def test_a_file_that_is_better_than_all_that_is_searched_says_so(tiny):
    found = tune(tiny, over=["strategy.aggregation.algorithm=master-worker"])
    assert found.gain > 0
    assert (
        "the file's own configuration, which is none of those that were tried, is better than all "
        "of them" in found.notes
    )


def test_a_sweep_in_the_file_does_not_matter(write):
    plain, swept = write(), write(rest="sweep: {parameters: {run.seed: {values: [1, 2]}}}\n")
    assert tune(swept, over=texts(OVER)).best.figure == tune(plain, over=texts(OVER)).best.figure


def test_a_third_of_a_search_is_for_what_leaves_the_updates_as_they_are(tiny):
    over = [
        "strategy.aggregation.algorithm=ring,tree",
        "strategy.overlap.kind=sequential,wfbp,priority,mg-wfbp",
        "strategy.compression.kind=none,cast,powersgd",
        "strategy.sync.kind=bsp,local-sgd,ssp",
    ]
    found = tune(tiny, over=over, evaluations=24)
    single = tune(tiny, over=over, limits=Limits(accuracy_penalty=0))
    assert not found.exhaustive
    assert found.exact.figure == single.best.figure
    assert found.best.figure <= found.exact.figure
    first = found.evaluations[:8]
    assert not any(each.to_json()["changes_updates"] for each in first)
    assert any(each.to_json()["changes_updates"] for each in found.evaluations[8:])


def test_why_the_best_won_is_what_is_lost_without_each_value(tiny):
    found = tune(tiny, over=texts(OVER))
    by_path = {reason.path: reason for reason in found.why}
    for path, reason in by_path.items():
        rest = {key: value for key, value in found.best.values.items() if key != path}
        other = simulate(load_scenario(tiny, [f"{key}={value}" for key, value in rest.items()]))
        assert reason.value == found.best.values[path]
        assert reason.loss == pytest.approx(step(other) / found.best.figure - 1)
    assert by_path["strategy.overlap.kind"].loss > 0
    assert by_path["strategy.overlap.kind"].part == "exposed_comm"
