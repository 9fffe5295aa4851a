"""Small replays on the tiny machine."""

import pytest

from dpsim.studies.replay import replay

QUICK = {"model": "softmax", "batch": 4, "steps": 12, "points": 12}


@pytest.fixture(scope="session")
def replayed(tiny):
    """Replays ``workers`` that meet as ``strategies`` say; ``settings`` are those of the small
    model.
    """

    def run(workers=4, *, seed=0, disturbance=(), workload=(), settings=(), **strategies):
        scenario = tiny(
            workers,
            1e-3,
            run={"seed": seed},
            disturbance=disturbance,
            workload=workload,
            **strategies,
        )
        chosen = scenario.replay.model_copy(update={**QUICK, **dict(settings)})
        return replay(scenario.model_copy(update={"replay": chosen}))

    return run
