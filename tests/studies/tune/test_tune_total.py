"""The requested total: the front has its time and cost, and limits apply to it."""

from dpsim.studies.tune import Limits, tune

OVER = ["cluster.nodes=1,2,4"]
PRICE = ["cost={price_per_gpu_hour: 3, samples: 20000}"]
DAY = 86400.0


def test_the_front_and_the_budget_use_the_requested_total(tiny):
    found = tune(tiny, over=OVER, objective="throughput", overrides=PRICE)
    assert (found.span, found.unit) == ("of 20,000 samples", "USD")
    for each in found.front:
        assert (each.time_s, each.cost) == (each.result.total.time_s, each.result.total.price)
    costs = sorted(each.cost for each in found.evaluations)
    limits = Limits(budget=(costs[0] + costs[1]) / 2)
    within = tune(tiny, over=OVER, objective="throughput", overrides=PRICE, limits=limits)
    assert [each.cost for each in within.evaluations] == costs[:1]
    ((why, count, _),) = within.reasons
    assert (why, count) == (f"costs more than {limits.budget:g} USD (--budget)", 2)


def test_a_deadline_leaves_out_what_takes_longer(tiny):
    found = tune(tiny, over=OVER, objective="throughput", overrides=PRICE)
    times = sorted(each.time_s for each in found.evaluations)
    limits = Limits(days=(times[1] + times[2]) / 2 / DAY)
    within = tune(tiny, over=OVER, objective="throughput", overrides=PRICE, limits=limits)
    assert sorted(each.time_s for each in within.evaluations) == times[:2]
    assert [why for why, _, _ in within.reasons] == [
        f"takes more than {limits.days:g} days (--within)"
    ]


def test_without_a_total_they_are_of_a_million_samples(tiny):
    found = tune(tiny, over=OVER, objective="throughput")
    assert (found.span, found.unit) == ("of a million samples", "GPU hours")
