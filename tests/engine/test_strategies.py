"""Codecs and disturbances in a whole scenario."""

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.collectives import algorithm
from dpsim.engine.calls import planned
from dpsim.engine.preparation import prepare
from tools.combinations_page import kinds_of

QUICKSTART = "scenarios/quickstart.yaml"
CODECS = kinds_of("compression")


@pytest.fixture(autouse=True)
def _root(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


def quickstart(*overrides):
    return load_scenario(
        QUICKSTART, ["run.steps=3", "run.warmup=1", "disturbance.jitter.sigma=0", *overrides]
    )


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("overlap", ["sequential", "buckets", "mg-wfbp", "priority"])
def test_every_codec_goes_with_every_overlap_and_parts_add_up(kind, overlap):
    result = simulate(
        quickstart(f"strategy.compression.kind={kind}", f"strategy.overlap.kind={overlap}")
    )
    steps = result.steps
    parts = steps.compute + steps.input + steps.encode + steps.exposed_comm + steps.straggler_wait
    np.testing.assert_allclose(parts, steps.step, rtol=1e-12)
    assert (result.parts_s["encode"] > 0) == (kind != "none")


@pytest.mark.parametrize("kind", CODECS)
def test_what_is_sent_is_what_the_encoder_makes(kind):
    scenario = quickstart(f"strategy.compression.kind={kind}", "strategy.overlap.kind=sequential")
    codec = scenario.strategy.compression
    stages = codec.stages(25_557_032)
    workers = scenario.cluster.ranks
    if codec.sums_in_flight:
        expected = sum(2 * (workers - 1) * nbytes for nbytes in stages)
    else:
        gather = algorithm("ring", "all-gather").schedule(workers)
        assert gather.rounds == workers - 1
        expected = sum((workers - 1) * workers * nbytes for nbytes in stages)
    assert simulate(scenario).traffic.sent_in_total == pytest.approx(expected, rel=1e-5)


def test_no_codec_is_exactly_the_job_without_one():
    job = prepare(quickstart())
    assert [call.stages for call in job.calls(0)] == [
        (("all-reduce", operation.nbytes),) for operation in planned(job, grouped=False)
    ]
    assert not any(call.encode.any() or call.decode.any() for call in job.calls(0))


def test_a_slow_worker_holds_up_all_others():
    plain = simulate(quickstart()).step_time_s["mean"]
    slowed = simulate(quickstart("disturbance.slow=[{workers: [3], factor: 2}]"))
    assert slowed.step_time_s["mean"] > 1.5 * plain
    assert slowed.steps.straggler_wait[:, 3].max() == pytest.approx(0, abs=1e-9)
    assert slowed.steps.straggler_wait[:, 0].min() > 0.5 * plain


def test_goodput_is_the_useful_part_of_the_time():
    goodput = simulate(quickstart("disturbance.crashes={mtbf: 100 h}")).to_json()["goodput"]
    assert sum(
        goodput[part] for part in ("useful", "checkpoints", "lost", "waiting")
    ) == pytest.approx(1)
    assert simulate(quickstart()).to_json()["goodput"] is None
