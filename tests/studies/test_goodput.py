"""Goodput over weeks: against an exact Markov chain, a plain Monte Carlo, and published runs."""

import json
import math
import time

import numpy as np
import pytest
from goodput_jobs import AT_ITS_OWN, DAY, crashes

from dpsim.base.errors import DpsimError
from dpsim.disturbance.faults import FaultConfig, known_faults
from dpsim.studies.goodput import goodput_study


def markov_share(interval, cost, write, restart, mtbf):
    """The useful share by the chain of two states, solved: at the begin of a period the checkpoint
    of its begin can be gone back to (sure), or is still being written (unsure).

    A crash in the sure state repeats the period; in the unsure state, while it is written, it
    repeats the one before as well, which ends unsure where the lost one began.
    """
    period = interval + cost
    survives = math.exp(-period / mtbf)
    early = 1 - math.exp(-write / mtbf)
    again = mtbf * math.expm1(restart / mtbf)  # mean seconds of a restart that may crash itself
    spent = mtbf * (1 - survives) + (1 - survives) * again
    # sure = spent + (1 - survives) sure
    # unsure = spent + early (sure + unsure) + (1 - survives - early) sure
    equations = np.array([[survives, 0.0], [-(1 - survives), 1 - early]])
    _, unsure = np.linalg.solve(equations, [spent, spent])
    return interval / unsure


@AT_ITS_OWN
@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize("together", [1, 2.5])
@pytest.mark.parametrize(
    ("size", "restart", "runs"), [("0.001 GB", "0 s", 5), ("100 GB", "60 s", 20)]
)
def test_it_is_the_exact_chain_with_checkpoints_that_are_written_beside(
    size, restart, runs, together
):
    """Where several fail in one moment the job is interrupted once."""
    config = crashes(
        faults=[{"mtbf": f"{10_000 / together} s", "together": together}],
        checkpoint_interval="300 s",
        checkpoint_cost="20 s",
        asynchronous=True,
        checkpoint_size=size,
        storage_rate="1 GB/s",
        restart_time=restart,
    )
    study = goodput_study(config, 10, 10, 40 * DAY, runs=runs)
    write = config.write_seconds
    exact = markov_share(300, 20, write, config.restart_time + write, 1000)
    assert study.expected.useful == pytest.approx(exact, rel=1e-9)
    assert study.shares["useful"] == pytest.approx(exact, abs=0.002)
    assert sum(study.shares.values()) == pytest.approx(1)


def plain_share(
    seconds, generator, *, workers, mtbf, interval, cost, restart, spares, repair, together=1
):
    """Second by second: whoever is there may fail, perhaps with others, of whom each counts in
    mtbf; the job waits while too many are in repair.
    """
    back, saved, done, since, starting = [], 0, 0, 0, 0
    fails = (generator.random(seconds) < workers / mtbf / together).tolist()
    for now in range(seconds):
        back = [moment for moment in back if moment > now]
        if len(back) > spares:
            continue
        if fails[now]:
            struck = min(generator.geometric(1 / together), workers)
            back += [now + repair] * struck
            done, since, starting = saved, 0, restart
        elif starting:
            starting -= 1
        else:
            since += 1
            done += since <= interval
            if since == interval + cost:
                saved, since = done, 0
    return saved / seconds


@AT_ITS_OWN
@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("spares", [0, pytest.param(1, marks=pytest.mark.wide), 4])
def test_it_is_a_plain_monte_carlo_with_spares_and_repairs(spares, together):
    settings = {"workers": 8, "mtbf": 8000, "interval": 100, "cost": 5, "restart": 30}
    settings |= {"repair": 700, "spares": spares, "together": together}
    plain = plain_share(300_000, np.random.default_rng(1), **settings)
    config = crashes(
        faults=[{"mtbf": "8000 s", "repair_time": "700 s", "together": together}],
        checkpoint_interval="100 s",
        checkpoint_cost="5 s",
        restart_time="30 s",
        spares=spares,
    )
    study = goodput_study(config, 8, 8, 20 * DAY, runs=10)
    assert study.shares["useful"] == pytest.approx(plain, rel=0.04)
    if together == 1:
        assert study.expected.useful == pytest.approx(study.shares["useful"], rel=0.01)
    else:  # of groups of many sizes the closed form has an equal size
        assert study.expected.useful == pytest.approx(study.shares["useful"], rel=0.1)


@AT_ITS_OWN
def test_racks_and_single_workers_wait_as_the_closed_form_says():
    """Racks of 32 come back within hours, single workers within a day; 2 of 256 stand by."""
    config = crashes(
        faults=[
            {"name": "gpu", "mtbf": "500 days", "repair_time": "1 day"},
            {"name": "switch", "per": "rack", "mtbf": "60 days", "repair_time": "4 h"},
        ],
        checkpoint_interval="1000 s",
        checkpoint_cost="1 s",
        restart_time="60 s",
        spares=2,
    )
    study = goodput_study(config, 256, 8, 300 * DAY, runs=40)
    assert study.expected.waiting == pytest.approx(study.shares["waiting"], rel=0.05)
    # A loss system of three servers at a load of 256 / 500, and the racks' repairs: 8 / 60 days
    # times 4 h.
    load, racks = 256 / 500, 8 / 60 / 6
    blocked = load**3 / 6 / (1 + load + load**2 / 2)  # over the time that it runs
    assert study.expected.waiting == pytest.approx(1 - 1 / (1 + blocked + racks), rel=1e-9)


@AT_ITS_OWN
def test_an_elastic_job_misses_those_in_repair_and_nothing_else():
    """Crashes that cost next to nothing: workers in repair are Poisson, of mean 2 here."""
    config = crashes(
        mtbf="50000 s",
        checkpoint_interval="1 s",
        checkpoint_cost="1 us",
        restart_time="0 s",
        repair_time="1000 s",
        elastic=True,
    )
    study = goodput_study(config, 100, 100, 5 * DAY, runs=10)
    # Fewer fail where fewer are there: of 100, each is away 1000 of 51000 seconds.
    assert study.shares["waiting"] == pytest.approx(1 / 51, rel=0.03)
    assert study.expected.waiting == pytest.approx(0.02)
    waits = goodput_study(config.model_copy(update={"elastic": False}), 100, 100, 5 * DAY, runs=4)
    assert waits.shares["waiting"] > 0.6


@AT_ITS_OWN
def test_an_elastic_job_misses_the_failed_workers_beyond_its_spares():
    """Groups in repair are Poisson, of mean 2 here, and workers in one geometric, of mean 3."""
    fault = {"mtbf": "500000 s", "repair_time": "3000 s", "together": 3}
    config = crashes(
        faults=[fault],
        checkpoint_interval="1 s",
        checkpoint_cost="1 us",
        restart_time="0 s",
        elastic=True,
        spares=5,
    )
    groups = np.arange(60)
    chance = np.exp(-2) * np.cumprod([1, *(2 / groups[1:])])
    in_repair = np.random.default_rng(0).geometric(1 / 3, (20_000, 60))
    # (draws, groups): workers in repair where so many groups are.
    missing = np.maximum(np.cumsum(in_repair, axis=1) - config.spares, 0).mean(axis=0)
    wanted = chance[1:] @ missing[:-1] / 1000
    study = goodput_study(config, 1000, 1000, 10 * DAY, runs=20)
    assert study.shares["waiting"] == pytest.approx(wanted, rel=0.05)
    assert study.expected.waiting == pytest.approx(wanted, rel=0.15)


def test_the_best_interval_is_found_from_one_that_is_far_off():
    """Checkpoints every 10,000 s and of 10 s, where Daly's formula says 784 s."""
    config = crashes(
        mtbf="1000000 s", checkpoint_interval="10000 s", checkpoint_cost="10 s", restart_time="1 s"
    )
    study = goodput_study(config, 32, 8, 30 * DAY, runs=20)
    assert study.daly / 1.5 < study.best < study.daly * 1.5
    assert dict(study.tried)[10_000] == pytest.approx(study.shares["useful"])


@AT_ITS_OWN
def test_a_planned_stop_loses_no_work_but_takes_a_checkpoint_and_a_restart():
    config = crashes(
        faults=[{"name": "update", "per": "job", "mtbf": "1 h", "planned": True}],
        checkpoint_interval="100 h",
        checkpoint_cost="40 s",
        restart_time="60 s",
        detection_time="1 h",
    )
    study = goodput_study(config, 4, 4, 50 * DAY, runs=4)
    assert study.shares["lost"] == 0
    # Stops come while it restarts, too, and then it restarts once more.
    assert study.shares["restarting"] == pytest.approx(100 / 3600, rel=0.06)
    assert study.shares["useful"] == pytest.approx(study.expected.useful, abs=0.002)


@AT_ITS_OWN
def test_a_rack_takes_all_its_workers_away():
    config = crashes(
        faults=[{"per": "rack", "nodes_per_rack": 2, "mtbf": "100 h", "repair_time": "10 h"}],
        spares=16,
    )
    held = goodput_study(config, 64, 8, 20 * DAY, runs=10)
    short = goodput_study(config.model_copy(update={"spares": 15}), 64, 8, 20 * DAY, runs=10)
    assert config.causes(64, 8)[0].workers == 16
    assert short.shares["waiting"] > 2 * held.shares["waiting"]


CHANGES = {
    "detection_time": {"detection_time": "20 min"},
    "slowdown": {"slowdown": 0.5},
    "asynchronous": {"asynchronous": False, "checkpoint_cost": None},
    "checkpoint_size": {"checkpoint_size": "4 TB"},
    "storage_rate": {"storage_rate": "1 GB/s"},
    "faults": {"faults": "gpu-servers"},
}


@AT_ITS_OWN
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_field_changes_simulation_and_closed_form_alike(change):
    base = {
        "mtbf": "2000 h",
        "asynchronous": True,
        "checkpoint_size": "1 TB",
        "storage_rate": "10 GB/s",
        "checkpoint_cost": "30 s",
        "spares": 1000,
    }
    before = goodput_study(crashes(**base), 512, 8, 10 * DAY, runs=20)
    after = goodput_study(crashes(**base | change), 512, 8, 10 * DAY, runs=20)
    moved = after.shares["useful"] - before.shares["useful"]
    assert abs(moved) > 0.003
    assert moved == pytest.approx(after.expected.useful - before.expected.useful, abs=0.01)


@AT_ITS_OWN
def test_repairs_of_wide_spread_are_mostly_short():
    """Of the same mean, the median is exp(-2) times as long, and in the first days few go on."""

    def waiting(spread):
        fault = {"mtbf": "2000 h", "per": "node", "repair_time": "30 h", "repair_spread": spread}
        study = goodput_study(crashes(faults=[fault], elastic=True), 64, 8, 2 * DAY, runs=400)
        return study.shares["waiting"]

    assert waiting(2.0) < 0.7 * waiting(0.0)


def llama3(**fields):
    """Its own interruptions; 14 bytes of state for each of 405e9 parameters, at the sustained rate
    of its storage. The restart is an assumption: it is not published.
    """
    return crashes(
        faults="llama3",
        checkpoint_size="5.67 TB",
        storage_rate="2 TB/s",
        **{"restart_time": "600 s"} | fields,
    )


def test_llama_3_is_interrupted_466_times_and_above_nine_tenths_useful():
    before = time.process_time()
    study = goodput_study(llama3(), 16_384, 8, 54 * DAY, runs=15)
    assert time.process_time() - before < 5
    low, high = (sum(getattr(row, end) for row in study.causes) for end in ("low", "high"))
    assert low < 466 < high
    assert study.interruptions == pytest.approx(466, rel=0.02)
    assert study.low > 0.9
    assert study.shares["useful"] == pytest.approx(study.expected.useful, abs=0.003)
    assert study.best == pytest.approx(study.daly, rel=0.5)


def test_llama_3_would_not_be_with_restarts_of_twenty_minutes():
    assert llama3(restart_time="1200 s").goodput(16_384, per_node=8).useful < 0.9


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"checkpoint_size": "1 TB"}, "must be given together"),
        ({"asynchronous": True}, "must be given with checkpoint_size"),
        ({"slowdown": 0.5}, "must be 0 unless asynchronous, but got 0.5"),
        (
            {"checkpoint_size": "1 TB", "storage_rate": "1 GB/s", "checkpoint_cost": "1 s"},
            "must be left out where checkpoint_size is given",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(fields, rule):
    with pytest.raises(ValueError, match=rule):
        crashes(**fields)


def test_too_many_interruptions_are_refused():
    with pytest.raises(DpsimError, match="must have at most 20,000 interruptions"):
        goodput_study(crashes(mtbf="1 h"), 16_384, 8, 54 * DAY)


def test_relapses_of_too_many_earlier_faults_are_refused():
    fault = {"mtbf": "1000 h", "relapse": 0.9, "repair_time": "1e6 h"}
    with pytest.raises(DpsimError, match="must have at most 20,000 interruptions"):
        goodput_study(crashes(faults=[fault]), 64, 8, DAY)


def test_the_llama_3_table_adds_up_to_what_was_published():
    causes = [fault.cause(16_384, 8) for fault in known_faults("llama3")]
    counts = [cause.rate * 54 * DAY for cause in causes]
    assert sum(counts) == pytest.approx(466, rel=1e-3)
    planned = sum(n for n, cause in zip(counts, causes, strict=True) if cause.planned)
    assert planned == pytest.approx(47, rel=1e-3)


def test_a_fault_says_who_is_struck():
    reported = {per: FaultConfig.model_validate({"per": per}) for per in ("worker", "node", "rack")}
    struck = [fault.cause(64, 8).rate * fault.mtbf for fault in reported.values()]
    assert struck == pytest.approx([64, 8, 2])
    together = FaultConfig(together=4, relapse=0.5).cause(64, 8)
    # Of eight that fail, four come back and fail again one by one; the others were struck at once.
    assert together.rate * FaultConfig().mtbf == pytest.approx(64 * 5 / 8)
    assert together.taken[0] == pytest.approx(8 / 5)
    assert json.loads(FaultConfig(per="job").model_dump_json())["per"] == "job"
