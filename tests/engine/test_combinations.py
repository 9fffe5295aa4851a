"""The table of combinations, walked.

Each is simulated and keeps the laws of every result, or is refused with its rule.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pairwise import covering
from pydantic import ValidationError

from dpsim import load_scenario, simulate
from dpsim.base.errors import ScenarioError
from dpsim.scenario import shape_of
from dpsim.strategy import StrategyConfig
from dpsim.strategy.combinations import RULES
from tools.combinations_page import combinations_page, forms_of, kinds_of

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
PARTS = ("aggregation", "sync", "overlap", "compression")
ALL = [dict(zip(PARTS, kinds, strict=True)) for kinds in product(*map(kinds_of, PARTS))]
SYNCS = shape_of(StrategyConfig).below("sync").kinds()
CODECS = shape_of(StrategyConfig).below("compression").kinds()
# Kinds whose workers do not end each step at once, and codecs whose payloads do not add up.
INDEPENDENT = {kind for kind, sync in SYNCS.items() if not sync.barrier}
GATHERED = {kind for kind, codec in CODECS.items() if not codec.sums_in_flight}


def is_refused(aggregation, sync, overlap, compression):
    """What the rules say, in other words than theirs."""
    match aggregation:
        case "gossip":
            # What a worker would wait for, or be corrected by, is more than its neighbours.
            beyond = (sync in INDEPENDENT and SYNCS[sync].waits) or SYNCS[sync].central_model
            return beyond or overlap == "priority"
        case "host":
            return sync in INDEPENDENT or compression in GATHERED
        case "sharded":
            apart = sync in INDEPENDENT or not SYNCS[sync].one_version
            return apart or compression in GATHERED or compression == "powersgd"
        case "parameter-server":
            return sync in INDEPENDENT and overlap == "priority"
    return False


def checked(kinds):
    """The strategy of these kinds; or, if it is refused, the reason."""
    try:
        return StrategyConfig.model_validate({part: {"kind": kind} for part, kind in kinds.items()})
    except ValidationError as error:
        (problem,) = error.errors()
        return problem["msg"].removeprefix("Value error, ")


def test_every_combination_is_accepted_or_refused_with_the_reason_of_a_rule():
    whys = {rule.why for rule in RULES}
    for kinds in ALL:
        found = checked(kinds)
        assert isinstance(found, str) == is_refused(**kinds), kinds
        if isinstance(found, str):
            message, _, why = found.partition(" is not possible: ")
            assert why in whys
            assert all(
                kinds[part] == kind
                for part, kind in (each.split() for each in message.split(" with "))
            ), (kinds, message)


def test_no_rule_is_idle():
    forms = [[form for kind in kinds_of(part) for form in forms_of(part, kind)] for part in PARTS]
    strategies = [
        StrategyConfig.model_construct(average_loss=loss, **dict(zip(PARTS, parts, strict=True)))
        for *parts, loss in product(*forms, (False, True))
    ]
    for rule in RULES:
        refused = [strategy for strategy in strategies if rule.forbids(strategy)]
        others = [other for other in RULES if other is not rule]
        assert any(not any(other.forbids(strategy) for other in others) for strategy in refused), (
            rule
        )


def test_a_refusal_says_where_and_why(request):
    quickstart = request.config.rootpath / "scenarios" / "quickstart.yaml"
    with pytest.raises(ScenarioError) as error:
        load_scenario(quickstart, ["strategy.aggregation.kind=sharded", "strategy.sync.kind=ssp"])
    assert str(error.value).startswith(f"{quickstart}:")
    assert str(error.value).endswith(
        "strategy: aggregation sharded with sync ssp is not possible: a worker holds only a part of "
        "the model and cannot train alone; a group can: local-sgd with group: node and every: 1"
    )


@pytest.mark.parametrize(
    ("aggregation", "sync"),
    [
        ("parameter-server", "backup"),
        ("parameter-server", "ssp"),
        ("parameter-server", "asp"),
        ("gossip", "asp"),
    ],
)
def test_independent_workers_have_no_common_loss(tiny, aggregation, sync):
    with pytest.raises(
        ValidationError,
        match=f"sync {sync} with average_loss is not possible: independent workers",
    ):
        tiny(aggregation=aggregation, sync=sync, average_loss=True)
    assert simulate(tiny(aggregation=aggregation, average_loss=True)).traffic.sent_in_total > 0


@pytest.mark.parametrize("sync", ["local-sgd", "sma"])
def test_a_single_process_has_one_model(tiny, sync):
    with pytest.raises(
        ValidationError,
        match=rf"aggregation\.way single-process with sync {sync} is not possible: a single process",
    ):
        tiny(aggregation={"kind": "host", "way": "single-process"}, sync=sync)
    tiny(aggregation={"kind": "host", "way": "copies"}, sync=sync)


ACCEPTED = [kinds for kinds in ALL if not is_refused(**kinds)]
OFTEN = [ACCEPTED[place] for place in covering([tuple(kinds.values()) for kinds in ACCEPTED])]


@pytest.mark.parametrize(
    ("aggregation", "sync"), sorted({(kinds["aggregation"], kinds["sync"]) for kinds in ACCEPTED})
)
@pytest.mark.parametrize("often", [True, pytest.param(False, marks=pytest.mark.wide)])
def test_every_combination_keeps_the_laws_of_a_result(tiny, aggregation, sync, often):
    """Shapes, no negative time, no NaN, parts that add up, staleness that can be; and the same
    again for the same seed.
    """
    jitter = {"jitter": {"kind": "gamma", "cv": 0.3}}
    for kinds in ACCEPTED:
        if (kinds["aggregation"], kinds["sync"]) != (aggregation, sync):
            continue
        if (kinds in OFTEN) != often:
            continue
        period = {"every": 2} if "every" in SYNCS[sync].model_fields else {}
        parts = {**kinds, "sync": {"kind": sync, **period}}
        scenario = tiny(4, 1e-3, run={"steps": 2}, disturbance=jitter, **parts)
        result = simulate(scenario)
        steps = result.steps
        seconds = np.array(
            [
                steps.compute,
                steps.exposed_comm,
                steps.straggler_wait,
                steps.overlapped_comm,
                steps.input,
                steps.encode,
            ]
        )
        assert seconds.shape == (6, 2, 4), kinds
        assert np.isfinite(seconds).all(), kinds
        assert (seconds >= 0).all(), kinds
        np.testing.assert_allclose(steps.step, seconds[[0, 1, 2, 4, 5]].sum(axis=0), rtol=1e-12)
        assert sum(result.parts_s.values()) == pytest.approx(result.step_time_s["mean"], rel=1e-12)
        assert (steps.clock_gap >= 0).all(), kinds
        assert (steps.versions >= -1).all(), kinds
        assert result.counted.all() or scenario.strategy.sync.gate(result.workers).drops, kinds
        assert result.traffic.sent_in_total >= result.traffic.sent_by_busiest > 0, kinds
        assert 0 < result.traffic.busiest_link_utilisation <= 1 + 1e-9, kinds
        if kinds["compression"] == "none":
            np.testing.assert_array_equal(simulate(scenario).steps.step, steps.step)


def test_the_page_is_that_of_the_rules():
    assert PAGE.read_text() == combinations_page(), (
        "the rules changed: run 'make golden', and look at the difference"
    )


if __name__ == "__main__":
    PAGE.write_text(combinations_page())
