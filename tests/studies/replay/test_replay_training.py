"""That it learns, and that what is known of strategies comes out, over several seeds."""

from itertools import product

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim.scenario import shape_of
from dpsim.strategy import StrategyConfig
from tools.combinations_page import kinds_of

SERVERS = "parameter-server"
STRAGGLERS = {
    "jitter": {"kind": "gamma", "cv": 0.3},
    "transient": [{"rate": 0.1, "mean_steps": 2, "factor": 4}],
    "slow": [{"workers": [1], "factor": 1.5}],
}
SEEDS = range(3)
SYNCS = shape_of(StrategyConfig).below("sync").kinds()


def is_compatible(compression, aggregation, sync):
    """Whether the scenario's rules let them."""
    parts = {"compression": compression, "aggregation": aggregation, "sync": sync}
    try:
        StrategyConfig.model_validate({part: {"kind": kind} for part, kind in parts.items()})
    except ValidationError:
        return False
    return True


COMBINATIONS = [
    kinds
    for kinds in product(kinds_of("compression"), kinds_of("aggregation"), kinds_of("sync"))
    if is_compatible(*kinds)
]


def corrected_soon(sync):
    """Fields with which a central model follows the learners, though a codec leaves much out.

    What it leaves out of the corrections comes late, and momentum of 0.9 makes it swing then.
    """
    wanted = {"momentum": 0.5, "every": 1} if sync.central_model else {}
    return {name: value for name, value in wanted.items() if name in sync.model_fields}


def until(replay, loss):
    """The first point with at most that loss."""
    return next(point for point in replay.curve.points if point.loss <= loss)


@pytest.mark.pairwise
@pytest.mark.parametrize(
    ("compression", "aggregation", "sync"), COMBINATIONS, ids=lambda kind: kind
)
def test_every_combination_learns(replayed, compression, aggregation, sync):
    replay = replayed(
        3,
        aggregation=aggregation,
        sync={"kind": sync, **corrected_soon(SYNCS[sync])},
        compression={"kind": compression, "density": 0.1}
        if compression == "random-k"
        else compression,
        disturbance=STRAGGLERS,
        workload={"learners_per_gpu": 1 if SYNCS[sync].one_version else 2},
        settings={"steps": 60, "learning_rate": 0.4, "points": 6},
    )
    start, *_, end = replay.curve.points
    assert end.loss < 0.75 * start.loss
    assert end.accuracy > 0.5
    assert np.isfinite(replay.parameters).all()
    for column in ("time_s", "samples", "bytes"):
        assert (np.diff(replay.curve.column(column)) >= 0).all()
        assert replay.curve.column(column)[0] == 0 < replay.curve.column(column)[-1]


def test_asynchrony_is_first_per_second_and_last_per_sample(replayed):
    """The mean over three seeds, with stragglers; momentum makes it cost something to be late."""
    settings = {"model": "mlp", "batch": 8, "steps": 60, "momentum": 0.9, "points": 120}
    seconds, samples = {}, {}
    for name, sync in {"bsp": "bsp", "ssp": {"kind": "ssp", "staleness": 2}, "asp": "asp"}.items():
        runs = [
            until(
                replayed(
                    8,
                    aggregation=SERVERS,
                    sync=sync,
                    seed=seed,
                    disturbance=STRAGGLERS,
                    settings=settings,
                ),
                0.25,
            )
            for seed in SEEDS
        ]
        seconds[name] = np.mean([point.time_s for point in runs])
        samples[name] = np.mean([point.samples for point in runs])
    assert seconds["asp"] < 0.9 * seconds["ssp"] < 0.9 * 0.9 * seconds["bsp"]
    assert samples["asp"] > 1.05 * samples["ssp"] > 1.05 * samples["bsp"]


def test_top_k_needs_its_error_feedback(replayed):
    settings = {"model": "mlp", "batch": 8, "steps": 120, "learning_rate": 0.3, "points": 1}

    def accuracy(compression):
        runs = (
            replayed(4, seed=seed, compression=compression, settings=settings) for seed in SEEDS
        )
        return np.mean([run.curve.points[-1].accuracy for run in runs])

    dense, fed_back, forgetful = (
        accuracy(compression)
        for compression in ("none", {"kind": "top-k"}, {"kind": "top-k", "error_feedback": False})
    )
    assert fed_back > dense - 0.02
    assert forgetful < dense - 0.05


def test_a_large_batch_at_the_same_learning_rate_is_slower_per_sample(replayed):
    def samples(batch, rate=0.1):
        settings = {"batch": batch, "steps": 160, "points": 80, "learning_rate": rate}
        return np.mean(
            [until(replayed(4, seed=seed, settings=settings), 1.0).samples for seed in SEEDS]
        )

    assert samples(16) > 3 * samples(4)
    assert samples(16, rate=0.4) < 1.3 * samples(4)


def test_backups_and_local_steps_save_time(replayed):
    """To the same loss, with stragglers: without the slowest, and without meeting in each step."""
    settings = {"batch": 8, "steps": 80, "points": 80, "learning_rate": 0.4}
    of = {
        "bsp": "bsp",
        "backup": {"kind": "backup", "backups": 1},
        "local": {"kind": "local-sgd", "every": 8},
    }
    seconds = {
        name: np.mean(
            [
                until(
                    replayed(6, seed=seed, sync=sync, disturbance=STRAGGLERS, settings=settings),
                    0.7,
                ).time_s
                for seed in SEEDS
            ]
        )
        for name, sync in of.items()
    }
    assert seconds["backup"] < seconds["bsp"]
    assert seconds["local"] < seconds["bsp"]


@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_every_model_reaches_nine_in_ten(replayed, model):
    settings = {"model": model, "batch": 16, "steps": 150, "momentum": 0.9, "points": 30}
    replay = replayed(4, settings=settings)
    assert replay.curve.points[-1].accuracy > 0.9
    assert replay.time_to_target_s is not None


def test_training_that_diverges_is_an_answer(replayed):
    answer = replayed(settings={"model": "mlp", "learning_rate": 1e200}).to_json()
    assert answer["final_loss"] is None
    assert answer["time_to_target_s"] is None
