"""Step constants from measured steps: true ones are recovered, undetermined ones reported."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import adjusted, corrected, prepare, priors_of
from dpsim.engine.kernel import simulate_job
from dpsim.hardware import CalibrationProfile, StepConstants
from dpsim.studies.calibrate import (
    MeasuredRun,
    calibrate,
    exposed_seconds,
    fit_constants,
    measure_next,
    measured_runs,
    plan,
    profile_of,
)

TEXT = """
name: mine
cluster: {nodes: 4, node: aws-g4dn, network: {fabric: single-switch}, condition: ordinary}
workload: {model: resnet18-cifar, batch_per_gpu: 512, software: reference}
run: {steps: 1, warmup: 0}
"""
TRUTH = StepConstants(
    compute=0.8, host=0.02, host_crowding=0.1, crowding=0.02, inside=4.0, between=6.0, decay=0.13,
    overlap=0.7,
)  # fmt: skip
PLACES = [(1, 1, 64), (1, 1, 512), (1, 4, 256), (2, 4, 128), (4, 4, 128), (4, 1, 512)]


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.yaml").write_text(TEXT)
    return tmp_path / "mine.yaml"


def job_of(scenario):
    """Return the job without the constants of ordinary clusters."""
    cluster = scenario.cluster.model_copy(update={"condition": "tuned"})
    return prepare(scenario.model_copy(update={"cluster": cluster}))


def seconds(scenario, constants):
    job = adjusted(job_of(scenario), constants)
    return float(simulate_job(job).steps.step.mean())


def run_at(own, nodes, per_node, batch, constants=TRUTH):
    sets = (
        f"cluster.nodes={nodes}",
        f"cluster.gpus_per_node={per_node}",
        f"workload.batch_per_gpu={batch}",
    )
    scenario = load_scenario(own, sets)
    return MeasuredRun(scenario, seconds(scenario, constants))


def test_constants_that_change_nothing_change_nothing(own):
    scenario = load_scenario(own)
    plain = float(simulate_job(job_of(scenario)).steps.step.mean())
    assert seconds(scenario, StepConstants()) == pytest.approx(plain)


@pytest.mark.parametrize(
    "change",
    [
        {"compute": 1.5}, {"host": 0.1}, {"crowding": 0.3}, {"between": 8.0}, {"overlap": 0.2},
    ],
)  # fmt: skip
def test_each_constant_makes_a_step_longer(own, change):
    scenario = load_scenario(own)
    assert seconds(scenario, StepConstants(**change)) > seconds(scenario, StepConstants())


def test_host_and_gpu_are_neither_in_turn_nor_at_once(own):
    scenario = load_scenario(own, ["cluster={node: aws-g4dn, gpus_per_node: 1}"])
    (times,) = job_of(scenario).times
    single = times.one_pass
    both = seconds(scenario, StepConstants(host=single)) - times.optimizer
    assert both == pytest.approx(2 ** (1 / 1.45) * single)


def test_bytes_inside_a_node_and_between_nodes_have_factors_of_their_own(own):
    inside = load_scenario(own, ["cluster.nodes=1", "strategy.overlap.kind=sequential"])
    between = load_scenario(own, ["strategy.overlap.kind=sequential"])
    assert seconds(inside, StepConstants(between=9)) == seconds(inside, StepConstants())
    assert seconds(between, StepConstants(inside=9)) == seconds(between, StepConstants())
    assert seconds(inside, StepConstants(inside=9)) > seconds(inside, StepConstants())


def test_a_fit_predicts_runs_that_it_has_not_seen(own):
    found = fit_constants([run_at(own, *place) for place in PLACES[:4]])
    for place in PLACES[4:]:
        run = run_at(own, *place)
        predicted = seconds(run.scenario, found.constants)
        assert predicted == pytest.approx(run.step_time, rel=0.2)
    # A run between nodes, which the description predicts much shorter.
    between = run_at(own, 2, 4, 64)
    assert seconds(between.scenario, StepConstants()) < 0.75 * between.step_time
    assert seconds(between.scenario, found.constants) == pytest.approx(between.step_time, rel=0.2)


def test_an_undetermined_constant_keeps_its_prior_and_is_reported(own):
    found = fit_constants([run_at(own, 1, 1, batch) for batch in (64, 512)])
    names = [prior.name for prior in found.free]
    between = names.index("between")
    prior = next(each for each in priors_of(load_scenario(own)) if each.name == "between")
    assert found.constants.between == pytest.approx(prior.value)
    assert not found.is_identified(between)
    assert found.is_identified(names.index("compute"))
    low, high = found.interval(between)
    assert low < prior.value / 2 < 2 * prior.value < high


def test_exposed_communication_tells_network_from_computing(own):
    """One run of four nodes: its step may be due to either."""
    run = run_at(own, 4, 4, 128)
    job = job_of(run.scenario)
    exposed = exposed_seconds(job, TRUTH, run.step_time)
    single, reported = fit_constants([run]), fit_constants([replace(run, exposed=exposed)])
    assert reported.constants.between == pytest.approx(TRUTH.between, rel=0.25)
    index = [prior.name for prior in reported.free].index("between")
    assert reported.is_identified(index)
    assert reported.covariance[index, index] < 0.5 * single.covariance[index, index]
    assert reported.exposed[0] == pytest.approx(exposed, abs=0.05 * run.step_time)


def test_two_nodes_leave_open_whether_more_reach_the_same_rate(own):
    slow = TRUTH.model_copy(update={"two_nodes": 2.0})
    runs = [run_at(own, *place, slow) for place in PLACES]
    one, both = fit_constants(runs[:4]), fit_constants(runs)
    names = [prior.name for prior in one.free]
    between, two = names.index("between"), names.index("two_nodes")
    assert not one.is_identified(two)
    assert both.is_identified(two)
    assert both.covariance[between, between] < 0.5 * one.covariance[between, between]
    assert both.constants.two_nodes == pytest.approx(2.0, rel=0.15)


def test_a_run_on_one_gpu_exposes_nothing(own):
    job = job_of(run_at(own, 1, 1, 64).scenario)
    assert exposed_seconds(job, TRUTH, seconds(job.scenario, TRUTH)) == pytest.approx(0, abs=1e-9)


def test_more_runs_narrow_what_they_tell(own):
    few = fit_constants([run_at(own, *place) for place in PLACES[:3]])
    many = fit_constants([run_at(own, *place) for place in PLACES])
    assert np.trace(many.covariance) < np.trace(few.covariance)


def test_what_to_measure_next_goes_beyond_a_node(own):
    found = fit_constants([run_at(own, *place) for place in PLACES[:3]])
    proposed = measure_next(found, load_scenario(own))
    assert 0 < len(proposed) <= 4
    assert proposed[0].run.nodes > 1
    assert not {each.run for each in proposed} & {run.place for run in found.runs}
    left = [each.spread_left for each in proposed]
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.7


def test_the_plan_is_of_one_gpu_a_node_and_two(own):
    runs = [each.run for each in plan(load_scenario(own))]
    assert [(run.nodes, run.gpus_per_node, run.batch) for run in runs] == [
        (1, 1, 128), (1, 1, 512), (1, 4, 256), (2, 4, 256),
    ]  # fmt: skip


def test_a_profile_predicts_as_the_fit_does(own):
    found = fit_constants([run_at(own, *place) for place in PLACES[:4]])
    profile = profile_of(found, "mine")
    (own.parent / "profile.json").write_text(profile.to_json())
    again = CalibrationProfile.model_validate_json(profile.to_json())
    assert again.step == found.constants
    result = simulate(load_scenario(own, ["calibration=profile.json"]))
    scenario = load_scenario(own)
    constants = corrected(found.constants, found.known, scenario.place, found.shared)
    assert result.step_time_s["mean"] == pytest.approx(seconds(scenario, constants))
    plain = simulate(load_scenario(own))
    near = simulate(load_scenario(own, ["calibration=profile.json", "cluster.nodes=2"]))
    widths = [each.interval.high / each.interval.low for each in (near, result, plain)]
    assert widths == pytest.approx(sorted(widths))
    assert "4 measured runs, the nearest on " in near.interval.basis


def test_what_the_constants_leave_corrects_runs_nearby_and_fades(own):
    """One known run is 30 % longer than constants can make it beside the others."""
    runs = [run_at(own, *place) for place in PLACES]
    runs[2] = replace(runs[2], step_time=1.3 * runs[2].step_time)
    found = fit_constants(runs)
    left = found.residuals[2]
    assert left > 0.1

    def correction(*place):
        step = corrected(found.constants, found.known, run_at(own, *place).place, found.shared)
        return np.log(step.compute / found.constants.compute)

    at_it = correction(*PLACES[2])
    assert 0.7 * left < at_it < left
    assert at_it > correction(1, 4, 128) > correction(1, 4, 64) > 0
    assert correction(1024, 4, 256) == pytest.approx(0, abs=1e-3)


def test_a_step_faster_than_its_links_is_reported_with_the_prediction(own, tmp_path):
    """4 nodes with a GPU each at a tenth of what their network takes for the bytes."""
    sets = ("workload.model=bert-base", "cluster.node=aws-g4dn-xlarge", "cluster.condition=tuned")
    scenario = load_scenario(own, [*sets, "cluster.gpus_per_node=1", "workload.batch_per_gpu=8"])
    found = calibrate([MeasuredRun(scenario, 0.1)], scenario)
    assert re.match(
        r"measured 100 ms on 4 nodes with 1 GPU, but 657 MB at the 588 MB/s of "
        r"node0/nic0->switch take 1\.12 s: .*25 Gbit/s of aws-g4dn-xlarge is a burst rate",
        found.warnings[0],
    )
    reported = simulate(scenario.model_copy(update={"calibration": found.profile}))
    assert found.rows[0]["predicted_ms"] == pytest.approx(
        1e3 * reported.step_time_s["mean"], rel=1e-9
    )
    likely = calibrate([MeasuredRun(scenario, 1.3)], scenario)
    assert not any("measured" in each for each in likely.warnings)


def test_runs_that_contradict_each_other_widen_what_is_predicted_near_them(own):
    def width(*factors):
        runs = [run_at(own, *place) for place in PLACES]
        runs = [
            replace(run, step_time=factor * run.step_time)
            for run, factor in zip(runs, factors, strict=True)
        ]
        profile = profile_of(fit_constants(runs), "mine", None)
        here = load_scenario(own, ["cluster.nodes=4", "cluster.gpus_per_node=4"])
        return simulate(here.model_copy(update={"calibration": profile})).interval.width

    assert width(1, 1, 1, 1, 1, 1) < width(1.3, 0.7, 1.3, 0.7, 1.3, 0.7)


def test_a_run_left_out_is_off_as_a_fit_without_it_says_but_for_what_constants_took(own):
    runs = [run_at(own, *place) for place in PLACES]
    runs[2] = replace(runs[2], step_time=1.05 * runs[2].step_time)
    found = fit_constants(runs)
    rest = fit_constants(runs[:2] + runs[3:])
    step = corrected(rest.constants, rest.known, runs[2].place, rest.shared)
    apart = np.log(runs[2].step_time / seconds(runs[2].scenario, step))
    # The constants saw the run, and took a part of its 5 %.
    assert 0.4 * apart < found.left_out[2] < 1.2 * apart


def test_tables_name_fields_of_the_scenario_and_placements(own, tmp_path):
    (tmp_path / "steps.csv").write_text(
        "placement,workload.batch_per_gpu,step_time_ms,exposed_ms\n4+3+1,64,150,30\n2,32,80,\n"
    )
    one, two = measured_runs(own, tmp_path / "steps.csv")
    assert [part.gpus_per_node for part in one.scenario.cluster.parts] == [4, 3, 1]
    assert one.scenario.workload.batch_per_gpu == 64
    assert (one.step_time, one.place.nodes, one.place.gpus_per_node) == (0.15, 3, 4)
    assert two.place.nodes == 1
    assert (one.exposed, two.exposed) == (0.03, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster.nodes\n1\n", "t.csv:1: must have the column 'step_time_ms'"),
        ("step_time_ms\n", "t.csv:2: must have at least 1 row"),
        ("step_time_ms\nfast\n", "t.csv:2: step_time_ms: must be a number above 0, but got 'fast'"),
        ("step_time_ms,exposed_ms\n5,6\n", "t.csv:2: exposed_ms: must be at least 0 and below"),
        ("placement,step_time_ms\n4+x,1\n", r"t.csv:2: placement: must be GPUs of each node"),
        ("cluster.nodez,step_time_ms\n1,1\n", "t.csv:2: .*cluster.nodez"),
        ("cluster.nodes,step_time_ms\n1\n", "t.csv:2: must have as many values"),
    ],
)
def test_an_invalid_table_is_refused_with_line_and_reason(own, tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DpsimError, match=message):
        measured_runs(own, tmp_path / "t.csv")
