"""Valid scenarios and clusters, drawn from the schema itself by the generator of tests/fuzz.

A new kind or field is drawn by being there. Each is drawn until its parts are compatible and it is
cheap enough to be simulated several times; a number draws the same on every machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from dpsim.base.errors import DpsimError
from dpsim.disturbance import DisturbanceConfig
from dpsim.engine import Job, prepare, prepared_by, run_scenario
from dpsim.engine.kernel import engine_for, in_simpy
from dpsim.engine.run import Run
from dpsim.engine.run_length import counted_steps, settled_length
from dpsim.scenario import CostConfig, RunConfig, Scenario
from dpsim.strategy import StrategyConfig
from dpsim.topology import ClusterConfig
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile, WorkloadConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from hostile_values import Generator

_PROFILES = 8  # models of a few measured layers, beside those of the catalogue
_MOST_WORKERS = 16
_MOST_CARDS = 200
_TRIES = 30
_MOST_STEPS = 12
_MOST_CALLS = 2_000  # workers x stages of collectives in a run
_MOST_MESSAGES = 500  # squared workers x stages, where SimPy simulates any
_MOST_LAYERS = 600

# Fields that are seldom drawn by chance, and are what a scenario is about.
_OFTEN: dict[type[BaseModel], tuple[str, ...]] = {
    ClusterConfig: ("network",),
    StrategyConfig: ("aggregation", "sync", "overlap", "compression"),
    DisturbanceConfig: ("jitter", "slow"),
}


def profiles(folder: Path) -> list[str]:
    """Files of models of one to five layers, with measured times."""
    return [_profile(folder / f"model{number}.json", number) for number in range(_PROFILES)]


def _profile(path: Path, seed: int) -> str:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 6))
    forward = tuple(map(float, random.uniform(1e-4, 5e-3, count)))
    times = MeasuredTimes(
        batch_sizes=(8,),
        forward_s=(forward,),
        backward_s=(tuple(2 * each for each in forward),),
        optimizer_s=(1e-3,),
    )
    layers = tuple(
        Layer(f"layer{number}", "linear", (int(elements),))
        for number, elements in enumerate(random.integers(1, 2_000_000, count))
    )
    path.write_text(ModelProfile.of(Model(f"drawn{seed}", layers, "sample", times), {}).to_json())
    return str(path)


def run(number: int, models: list[str]) -> Run:
    """The run of the valid scenario of this number."""
    random = Random(f"scenario {number}")
    parts = _parts(random, models)
    content = {name: draw() for name, draw in parts.items()}
    while True:
        again = set(parts)
        try:
            drawn = Scenario.model_validate({"name": "drawn", **content})
            job = prepare(settled_length(drawn)) if _is_small(drawn) else None
            if job is not None and _is_cheap(job):
                # What is prepared to be looked at is not prepared again.
                with prepared_by(lambda one, job=job: job if one == job.scenario else prepare(one)):
                    found = run_scenario(drawn)
                    assert found.result.step_time_s["mean"] > 0
                return found
        except (DpsimError, ValidationError) as error:
            # Incompatible parts: the one at fault, where it is named.
            named = re.search(r"^(\w+)\.", str(error), re.MULTILINE)
            if named is not None and named[1] in parts:
                again = {named[1]}
        content |= {name: parts[name]() for name in parts if name in again}


def cluster(number: int) -> ClusterConfig:
    """The valid cluster of this number, of two workers or more."""
    random = Random(f"cluster {number}")
    while True:
        drawn = ClusterConfig.model_validate(_cluster(random, 4 * _MOST_WORKERS))
        if drawn.ranks > 1:
            return drawn


def _generator(random: Random) -> Generator:
    """One that draws nothing that a field does not take."""
    generator = Generator(random)
    generator.odd = generator.extreme = 0.0
    return generator


def _part(random: Random, model: type[BaseModel]) -> dict[str, Any]:
    """A part that is valid by itself: were whole scenarios drawn, only simple ones would be left.

    The first of the fields that matter stays for some tries, since it says what goes with it.
    """
    first, *others = _OFTEN.get(model, (None,))
    for turn in count():
        if turn % _TRIES == 0 and first is not None:
            chosen = _generator(random).value(model, first)
        generator = _generator(random)
        content = generator.mapping(model)
        for field in others:
            if random.random() < 0.6:
                content[field] = generator.value(model, field)
            else:
                content.pop(field, None)
        if first is not None:
            content[first] = chosen
        if model is ClusterConfig and "groups" in content:
            content = {key: content[key] for key in ("groups", "network") if key in content}
        with suppress(DpsimError, ValidationError):
            model.model_validate(content)
            return content
    raise AssertionError("count ends never")


def _cluster(random: Random, most_workers: int) -> dict[str, Any]:
    """One of few workers and few network cards."""
    while True:
        content = _part(random, ClusterConfig)
        drawn = ClusterConfig.model_validate(content)
        if drawn.ranks <= most_workers:
            fabric = drawn.build().fabric
            if fabric is None or fabric.ports.count <= _MOST_CARDS:
                return content


def _parts(random: Random, models: list[str]) -> dict[str, Callable[[], dict[str, Any]]]:
    """What draws each part of a scenario."""
    return {
        "cluster": lambda: _cluster(random, _MOST_WORKERS),
        "workload": lambda: _workload(random, models),
        "strategy": lambda: _part(random, StrategyConfig),
        "disturbance": lambda: _part(random, DisturbanceConfig),
        "run": lambda: _run(random),
        "cost": lambda: _part(random, CostConfig),
    }


def _run(random: Random) -> dict[str, Any]:
    few = {"steps": random.randint(2, 4), "warmup": random.randint(0, 1)}
    return _part(random, RunConfig) | few | {"allow_out_of_memory": True}


def _workload(random: Random, models: list[str]) -> dict[str, Any]:
    content = _part(random, WorkloadConfig)
    if random.random() < 0.5:
        content["model"] = {"profile": random.choice(models)}
        for of_text in ("sequence_length", "attention"):
            content.pop(of_text, None)
    return content


def _is_small(drawn: Scenario) -> bool:
    """Whether it has few steps, layers and slices of gradients, before anything is prepared."""
    if counted_steps(drawn) > _MOST_STEPS:
        return False
    model = drawn.build_model()
    slices = getattr(drawn.strategy.overlap, "slice_size", None)
    few = slices is None or 4 * model.parameters < _MOST_CALLS * slices
    return few and len(model.layers) <= _MOST_LAYERS


def _is_cheap(job: Job) -> bool:
    stages = sum(len(call.stages) for call in job.calls(0)) * job.counted.stop
    vectors = in_simpy(job, engine_for(job).name) == "nothing"
    messages = 0 if vectors else job.workers**2 * stages
    return job.workers * stages <= _MOST_CALLS and messages <= _MOST_MESSAGES
