"""What ``scenarios/ranking-flips.yaml`` says of itself."""

import pytest

from dpsim import load_scenario, simulate


@pytest.mark.parametrize(
    ("oversubscription", "fastest"), [(1, "halving-doubling"), (2, "ring"), (4, "halving-doubling")]
)
def test_the_ranking_of_algorithms_flips_between_machines(oversubscription, fastest, request):
    path = request.config.rootpath / "scenarios" / "ranking-flips.yaml"
    times = {
        name: simulate(
            load_scenario(
                path,
                [
                    "run.steps=2",
                    f"cluster.network.oversubscription={oversubscription}",
                    f"strategy.aggregation.algorithm={name}",
                ],
            )
        ).step_time_s["mean"]
        for name in ("ring", "halving-doubling")
    }
    assert min(times, key=times.get) == fastest
