"""The input pipeline.

Known timelines, its steady period, and the same times from a model of processes.
"""

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.workload import Pipeline
from dpsim.workload.input import STAGES, StorageInput


def pipeline(read=0.0, decode=0.0, copy=0.0, loaders=1, prefetch=1):
    return Pipeline(
        *(np.array([float(seconds)]) for seconds in (read, decode, copy)), loaders, prefetch
    )


def takes(pipe, step, steps):
    """When each step has its batch, for a GPU that computes ``step`` seconds on each."""
    loading, clock, taken = pipe.start(), np.zeros(len(pipe.read)), []
    for _ in range(steps):
        start = loading.take(clock)
        taken.append(start)
        clock = start + step
    return np.array(taken)


def as_processes(pipe, step, steps):
    """The same as a queue of SimPy processes.

    A slot, one disk, a crew of loaders, one copy engine, a queue, a GPU.
    """
    env = simpy.Environment()
    disk, crew, engine = (simpy.Resource(env, capacity) for capacity in (1, pipe.loaders, 1))
    slots, queue, taken = simpy.Container(env, init=pipe.prefetch), simpy.Store(env), []

    def batch(slot_granted):
        for resource, seconds in (
            (disk, pipe.read[0]),
            (crew, pipe.decode[0]),
            (engine, pipe.copy[0]),
        ):
            with resource.request() as turn:
                if resource is disk:
                    slot_granted.succeed()
                yield turn
                yield env.timeout(seconds)
        queue.put(None)

    def loader():
        for _ in range(steps):
            yield slots.get(1)
            queued = env.event()
            env.process(batch(queued))
            yield queued

    def gpu():
        for _ in range(steps):
            yield queue.get()
            taken.append(env.now)
            slots.put(1)
            yield env.timeout(step)

    env.process(loader())
    env.process(gpu())
    env.run()
    return taken


def test_the_first_batch_passes_all_stages_and_the_next_are_waiting():
    assert takes(pipeline(1, 2, 3, loaders=1, prefetch=4), step=10, steps=3).ravel().tolist() == [
        6,
        16,
        26,
    ]


def test_without_anything_ahead_each_batch_passes_all_stages_after_the_last_is_taken():
    assert takes(pipeline(1, 2, 3, prefetch=1), step=4, steps=3).ravel().tolist() == [6, 12, 18]


def test_two_loaders_decode_side_by_side():
    """Read at 1, 2, 3, 4; decoded by turns at 5, 6, 9, 10."""
    assert takes(pipeline(1, 4, 0, loaders=2, prefetch=8), step=0, steps=4).ravel().tolist() == [
        5,
        6,
        9,
        10,
    ]


def test_a_full_prefetch_queue_feeds_fast_steps_until_it_is_empty():
    """The GPU does not ask before 20.

    Four batches wait then; the next are read at 22, 24, 26 and 28.
    """
    loading, clock, waits = pipeline(2, 0, 0, prefetch=4).start(), np.array([20.0]), []
    for _ in range(8):
        start = loading.take(clock)
        waits.append(float(start[0] - clock[0]))
        clock = start + 1
    assert waits == [0, 0, 0, 0, 0, 0, 0, 1]


SECONDS = dict.fromkeys(("read", "decode", "copy", "step"), st.integers(0, 20).map(float))
any_pipeline = given(**SECONDS, loaders=st.integers(1, 4), prefetch=st.integers(1, 6))


@any_pipeline
@settings(deadline=None)
def test_the_recursion_gives_the_times_of_the_processes(
    read, decode, copy, step, loaders, prefetch
):
    pipe = pipeline(read, decode, copy, loaders, prefetch)
    assert takes(pipe, step, 30).ravel().tolist() == as_processes(pipe, step, 30)


@any_pipeline
def test_the_steady_period_is_the_slowest_cycle(read, decode, copy, step, loaders, prefetch):
    pipe = pipeline(read, decode, copy, loaders, prefetch)
    taken = takes(pipe, step, 400).ravel()
    # Over a multiple of both cycle lengths, as batches may come in bunches.
    assert (taken[-1] - taken[-121]) / 120 == pytest.approx(max(step, pipe.period()[0]), rel=1e-12)


def test_storage_is_shared_and_the_slowest_stage_is_named():
    config = StorageInput(
        kind="storage",
        bandwidth="1 GB/s",
        bytes_per_sample="100 kB",
        cpu_seconds_per_sample="1 ms",
        loader_workers=4,
    )
    node_of, copy_rate = np.repeat([0, 1], [8, 1]), np.repeat([6e9, 12e9], [8, 1])
    pipe = config.pipeline(64, node_of, copy_rate)
    assert pipe.read.tolist() == pytest.approx([64 * 8e-4] * 8 + [64 * 1e-4])
    assert pipe.decode.tolist() == pytest.approx([0.064] * 9)
    assert pipe.copy.tolist() == pytest.approx([64 * 602112 / 6e9] * 8 + [64 * 602112 / 12e9])
    assert pipe.prefetch == 8
    assert pipe.slowest_stage() == "storage"
    assert pipe.of(8).slowest_stage() == "decoding"
    assert pipeline(1, 1, 3, prefetch=1).slowest_stage() == STAGES[3]


def test_the_kind_suffices_and_survives_a_round_trip():
    config = StorageInput(kind="storage")
    assert StorageInput.model_validate_json(config.model_dump_json()) == config
    pipe = config.pipeline(10, np.array([0]), np.array([1e9]))
    assert (pipe.loaders, pipe.prefetch) == (
        8,
        16,
    )  # torch's two batches ahead for each loader worker
