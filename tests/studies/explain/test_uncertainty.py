"""Which uncertain input makes an interval, beside variances that are worked out without sampling."""

import json

import numpy as np
import pytest

from dpsim.base.uncertainty import ENDS
from dpsim.engine import run_scenario, step_errors
from dpsim.scenario import ComputeScale, MeasuredStep
from dpsim.studies.explain import explain, uncertainty_of

# A model of the catalogue: how long its layers take is predicted, those of `tiny` were measured.
NIC = {"rate": "1 GB/s", "latency": "0 s"}
PREDICTED = {
    "workload": {"model": "resnet50"},
    "cluster": {"network": {"fabric": "single-switch", "nic": NIC, "nics_per_node": 1}},
}
JITTER = {"jitter": {"kind": "lognormal", "sigma": 0.3}}


def rows(found):
    return {each.name: each for each in found.inputs}


def measured(scenario):
    """The scenario, of which a step was measured to take 20 s."""
    step = MeasuredStep(step_time="20 s", nodes=scenario.cluster.nodes, source="a test")
    return scenario.model_copy(update={"calibration": step})


def variance(of):
    """Of a distribution that is known by its quantile function: the mean over levels."""
    levels = (np.arange(200_000) + 0.5) / 200_000
    return float(of.ppf(levels).var())


def test_where_nothing_is_hidden_shares_are_those_of_a_sum(tiny):
    """A step of K seconds of computing and E of communication is c K + m E: variances add up."""
    run = run_scenario(tiny(**PREDICTED))
    errors = step_errors(run.job, run.steps)
    assert errors.hidden == 0
    computing = errors.rest**2 * variance(errors.computing)
    sending = errors.exposed**2 * variance(errors.sending)

    found = rows(uncertainty_of(run))
    for name, own in (("computing", computing), ("communication", sending)):
        share = own / (computing + sending)
        assert found[name].first_order == pytest.approx(share, abs=0.02)
        assert found[name].total == pytest.approx(share, abs=0.02)
    assert found["jitter"].total == pytest.approx(0.0, abs=1e-9)


def test_the_interval_is_the_one_of_the_run_where_steps_are_alike(tiny):
    run = run_scenario(tiny(**PREDICTED))
    found = uncertainty_of(run)
    output = run.result.interval
    assert found.low == pytest.approx(output.low, rel=0.03)
    assert found.high == pytest.approx(output.high, rel=0.03)
    assert found.step_time_s == run.result.mean_step


def test_an_input_lies_where_its_distribution_says(tiny):
    run = run_scenario(tiny(**PREDICTED))
    errors = step_errors(run.job, run.steps)
    found = rows(uncertainty_of(run))
    computing = errors.computing.ppf(np.array(ENDS)).tolist()
    assert [found["computing"].low, found["computing"].high] == computing
    assert found["computing"].basis == errors.computing.basis
    # Alone it moves its own seconds, and the rest stays as predicted.
    low, high = (factor * errors.rest + errors.exposed for factor in computing)
    assert errors.hidden == 0
    assert found["computing"].alone_s == pytest.approx((low, high), rel=0.03)


def test_a_measured_step_leaves_little_of_computing_uncertain(tiny):
    described = rows(uncertainty_of(run_scenario(tiny(2, **PREDICTED))))
    found = rows(uncertainty_of(run_scenario(measured(tiny(2, **PREDICTED)))))
    assert found["computing"].high < 1.06 < described["computing"].high


def test_a_single_worker_communicates_nothing(tiny):
    found = uncertainty_of(run_scenario(tiny(1, **PREDICTED)))
    by_name = rows(found)
    assert by_name["computing"].total == pytest.approx(1.0, abs=0.01)
    assert (by_name["communication"].low, by_name["communication"].high) == (1.0, 1.0)
    assert found.latency_share is None


def test_where_nothing_is_uncertain_there_are_no_shares(tiny):
    output = ComputeScale(compute_scale=1, source="a test")
    run = run_scenario(tiny(1, **PREDICTED).model_copy(update={"calibration": output}))
    found = uncertainty_of(run)
    assert {each.first_order for each in found.inputs} == {None}
    assert found.low == found.high == pytest.approx(run.result.mean_step)


def test_jitter_counts_for_more_in_fewer_steps(tiny):
    def share(steps):
        run = run_scenario(tiny(4, disturbance=JITTER, run={"steps": steps}))
        return rows(uncertainty_of(run))["jitter"]

    few, many = share(4), share(64)
    assert few.unit == "s"
    assert few.total > 2 * many.total > 0
    assert few.high - few.low > 2 * (many.high - many.low)


def test_latency_is_what_one_element_takes(tiny):
    """Of collectives of 2 s in all, what a latency adds to them is latency."""
    assert uncertainty_of(run_scenario(tiny())).latency_share == pytest.approx(0.0, abs=1e-4)
    run = run_scenario(tiny(latency=1.0))
    share = uncertainty_of(run).latency_share
    exposed = float(run.steps.exposed_comm.mean() + run.steps.overlapped_comm.mean())
    without = run_scenario(tiny()).steps
    bytes_alone = float(without.exposed_comm.mean() + without.overlapped_comm.mean())
    assert share == pytest.approx(1 - bytes_alone / exposed, abs=1e-4)


def test_uncertainty_is_reported_on_request(tiny):
    assert explain(tiny()).uncertainty is None
    found = explain(tiny(), uncertainty=True)
    reported = json.loads(json.dumps(found.to_json()["uncertainty"], allow_nan=False))
    assert [row["name"] for row in reported["inputs"]] == [
        each.name for each in found.uncertainty.inputs
    ]
    assert reported["inputs"][0]["without_s"].keys() == {"low", "high"}
