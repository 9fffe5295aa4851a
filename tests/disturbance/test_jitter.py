"""Jitter of every kind has mean 1 and its stated spread, and the slowest of n workers follows order
statistics.
"""

import json
import math

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy import integrate, stats

from dpsim.base.kinds import kinds_of
from dpsim.disturbance import (
    CorrelatedJitterConfig,
    GammaJitterConfig,
    HistogramJitterConfig,
    JitterConfig,
    LognormalJitterConfig,
    ParetoJitterConfig,
)

KINDS = ["correlated", "gamma", "histogram", "lognormal", "pareto"]
made = TypeAdapter(JitterConfig).validate_python


def test_the_kinds_are_those_of_the_design():
    assert sorted(kinds_of(JitterConfig)) == KINDS


every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_a_name_is_enough_and_the_mean_is_one(kind):
    factors = made({"kind": kind}).factors(workers=50, steps=4000, seed=0)
    assert factors.shape == (4000, 50)
    assert (factors > 0).all()
    # What workers have in common does not average out over them: compare blocks of steps.
    blocks = factors.reshape(20, -1).mean(axis=1)
    assert factors.mean() == pytest.approx(1, abs=5 * blocks.std() / math.sqrt(20))


@every_kind
def test_a_worker_draws_the_same_whatever_the_others_and_the_steps(kind):
    jitter = made({"kind": kind})
    few, many = jitter.factors(3, 10, seed=7), jitter.factors(20, 40, seed=7)
    assert np.array_equal(few, many[:10, :3])


@every_kind
def test_seeds_and_workers_differ(kind):
    jitter = made({"kind": kind})
    first, second = jitter.factors(2, 50, seed=0), jitter.factors(2, 50, seed=1)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first[:, 0], first[:, 1])


@every_kind
def test_factors_have_no_digits_that_depend_on_the_processor(kind):
    factors = made({"kind": kind}).factors(8, 50, seed=0)
    assert np.array_equal(factors, factors.astype(np.float32))


def test_lognormal_draws_are_fixed_for_ever():
    drawn = LognormalJitterConfig(kind="lognormal", sigma=0.05).factors(2, 2, seed=0)
    normal = np.stack(
        [
            np.random.Generator(np.random.Philox(s)).standard_normal(2)
            for s in np.random.SeedSequence(0).spawn(2)
        ],
        axis=1,
    )
    factors = np.exp(0.05 * normal - 0.05**2 / 2)
    assert np.array_equal(drawn, factors.astype(np.float32))


def test_gamma_has_its_coefficient_of_variation_and_none_is_none():
    factors = GammaJitterConfig(kind="gamma", cv=0.3).factors(50, 4000, seed=0)
    assert factors.std() == pytest.approx(0.3, rel=0.01)
    assert (GammaJitterConfig(kind="gamma", cv=0).factors(2, 5, seed=0) == 1).all()


def test_pareto_has_its_tail():
    factors = ParetoJitterConfig(kind="pareto", tail_index=3).factors(50, 4000, seed=0)
    assert factors.min() == pytest.approx(2 / 3, rel=1e-4)
    assert (factors > 4 / 3).mean() == pytest.approx(2**-3, rel=0.02)


def expected_greatest(distribution, n):
    """Of n independent draws, from the quantile function: the integral of Q(u) n u**(n-1)."""
    return integrate.quad(lambda u: distribution.ppf(u) * n * u ** (n - 1), 0, 1, limit=200)[0]


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
def test_the_slowest_of_n_exponential_workers_takes_a_harmonic_number(workers):
    slowest = GammaJitterConfig(kind="gamma", cv=1).factors(workers, 40_000, seed=1).max(axis=1)
    harmonic = sum(1 / k for k in range(1, workers + 1))
    assert slowest.mean() == pytest.approx(harmonic, rel=0.02)


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
@pytest.mark.parametrize("sigma", [0.015, 0.2, 0.5])
def test_the_slowest_of_n_lognormal_workers_follows_order_statistics(workers, sigma):
    slowest = (
        LognormalJitterConfig(kind="lognormal", sigma=sigma)
        .factors(workers, 20_000, seed=1)
        .max(axis=1)
    )
    law = expected_greatest(stats.lognorm(sigma, scale=math.exp(-(sigma**2) / 2)), workers)
    assert slowest.mean() == pytest.approx(law, abs=4 * slowest.std() / math.sqrt(20_000))


@pytest.mark.parametrize("workers", [2, 16])
def test_the_slowest_of_n_pareto_workers_has_the_same_tail(workers):
    a = 2.7
    slowest = (
        ParetoJitterConfig(kind="pareto", tail_index=a).factors(workers, 40_000, seed=1).max(axis=1)
    )
    quantiles = [(a - 1) / a * (1 - q ** (1 / workers)) ** (-1 / a) for q in (0.5, 0.99)]
    assert np.quantile(slowest, [0.5, 0.99]) == pytest.approx(quantiles, rel=0.05)


def test_the_default_spread_is_that_of_measured_steps_of_eight():
    steps = LognormalJitterConfig(kind="lognormal").factors(8, 20_000, seed=0).max(axis=1)
    assert steps.std() / steps.mean() == pytest.approx(0.0094, rel=0.03)


def test_the_default_histogram_is_that_of_one_run():
    factors = HistogramJitterConfig(kind="histogram").factors(10, 20_000, seed=0)
    assert factors.std() == pytest.approx(0.0078, rel=0.05)
    assert np.quantile(factors, [0.1, 0.9]) == pytest.approx([0.9976, 1.0024], abs=1.5e-3)


def test_a_histogram_draws_each_value_as_often_as_it_was_seen():
    jitter = made({"kind": "histogram", "table": {"values": [100, 300], "weights": [3, 1]}})
    factors = jitter.factors(1, 40_000, seed=0)
    assert sorted(set(factors.ravel())) == pytest.approx([100 / 150, 2.0])
    assert (factors == 2).mean() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "value,weight\n0.2,3\n0.6,1\n"),
        ("b.csv", "step_ms\n200\n200\n200\n600\n"),
        ("c.json", "[2, 2, 2, 6]"),
        ("d.json", json.dumps({"values": [2, 6], "weights": [0.75, 0.25]})),
    ],
)
def test_files_are_read_relative_to_the_scenario(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    jitter = TypeAdapter(JitterConfig).validate_python(
        {"kind": "histogram", "file": name}, context={"folder": tmp_path}
    )
    drawn = set(jitter.factors(2, 100, seed=0).ravel().round(6))
    assert drawn == {round(2 / 3, 6), 2.0}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            "step,time\n1,2\n",
            "must have a column 'value', or one column, but got step, time",
        ),
        ("b.csv", "", "must have a column 'value', or one column, but got none"),
        ("c.csv", "value\nfast\n", "must hold numbers from the second line on"),
        ("d.csv", "value\n", "must hold at least one value"),
        ("e.csv", "value\n1\n-2\n", "values must be positive numbers, but got -2.0"),
        ("f.csv", "value\nnan\n", "values must be positive numbers, but got nan"),
        ("g.json", "{", "must be a JSON list of numbers"),
        ("h.json", '["1"]', "must be a JSON list of numbers"),
        ("i.json", '{"values": [1, 2], "weights": [1]}', "as many weights as values"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValidationError, match=message) as caught:
        made({"kind": "histogram", "file": str(tmp_path / name)})
    assert name in str(caught.value)


def test_a_file_that_is_not_there():
    with pytest.raises(ValidationError, match=r"nowhere\.csv: cannot be read: No such file"):
        made({"kind": "histogram", "file": "nowhere.csv"})


def test_file_and_table_exclude_each_other():
    with pytest.raises(ValidationError, match="must not both be given"):
        made({"kind": "histogram", "file": "x.csv", "table": {"values": [1]}})


def test_weights_are_as_many_as_values():
    with pytest.raises(ValidationError, match="weights must be as many as values, 2, but got 1"):
        made({"kind": "histogram", "table": {"values": [1, 2], "weights": [1]}})


def correlated(**fields):
    quiet = {"kind": "correlated", "sigma": 0, "stall": 1}
    return CorrelatedJitterConfig.model_validate(quiet | fields)


@pytest.mark.parametrize(
    ("level", "within", "across"), [("sigma", 0, 0), ("node_sigma", 1, 0), ("job_sigma", 1, 1)]
)
def test_a_level_is_common_to_its_own_and_to_no_others(level, within, across):
    factors = correlated(**{level: 0.1}).factors(8, 20_000, seed=3, per_node=4)
    logs = np.corrcoef(np.log(factors), rowvar=False)
    assert np.log(factors).std() == pytest.approx(0.1, rel=0.02)
    assert [logs[0, 3], logs[0, 4]] == pytest.approx([within, across], abs=0.03)


def test_correlation_falls_to_one_e_th_in_its_memory():
    drawn = np.log(correlated(sigma=0.2, memory=10).factors(20, 20_000, seed=0))
    later = [np.mean(drawn[:-lag] * drawn[lag:]) / drawn.var() for lag in (1, 10, 20)]
    assert later == pytest.approx(np.exp([-0.1, -1, -2]), abs=0.03)


def test_delays_have_the_given_rate_length_and_tail():
    jitter = correlated(delay_chance=0.1, delay=0.5, delay_tail=4)
    factors = jitter.factors(50, 20_000, seed=0) * 1.05
    delays = factors[factors > 1 + 1e-6] - 1
    assert delays.size / factors.size == pytest.approx(0.1, rel=0.02)
    assert delays.mean() == pytest.approx(0.5, rel=0.03)
    assert (delays > 1.5).mean() == pytest.approx(2**-4, rel=0.05)
    combined = correlated(delay_chance=0.1, delay_of="job").factors(3, 1000, seed=0)
    assert (combined == combined[:, :1]).all()


def test_stalls_are_periodic_and_meet_all_workers():
    factors = correlated(stall_every=50, stall=3).factors(4, 1000, seed=5)
    stalled = np.flatnonzero(factors[:, 0] > 1.5)
    assert set(np.diff(stalled)) == {50}
    assert (factors == factors[:, :1]).all()
    assert factors.max() / factors.min() == pytest.approx(3)


@pytest.mark.parametrize("kind", [LognormalJitterConfig, GammaJitterConfig])
def test_half_of_the_field_that_says_the_spread_is_half_the_spread(kind):
    given = kind(kind=kind.model_fields["kind"].annotation.__args__[0])
    half = given.model_copy(update={kind.spread: getattr(given, kind.spread) / 2})
    wide, narrow = (each.factors(1, 10_000, seed=1).std() for each in (given, half))
    assert narrow == pytest.approx(wide / 2, rel=0.02)
