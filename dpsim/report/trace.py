"""Steps as Chrome trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing.

There is a process for each node and one for the network between them, a thread for each stream of a
GPU and for each link; counters show the load of each link, as a share of its rate, and the
staleness of workers. Format: Google, "Trace Event Format", 2016; times are microseconds from the
start of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine import Interval, Job, OnLinks, Run, load_over_time, overlapping
from dpsim.strategy.sync import DROPPED

MOST_WORKERS = 64
MOST_LINKS = 64
STREAMS = ("compute", "communication", "input")
STEPS = 3  # steps that a command records for a trace
_FIRST_LINK = 10_000  # number of the first link's thread, after the GPUs'
_MICRO = 1e6

Event = dict[str, Any]


def trace(run: Run, workers: int = MOST_WORKERS, links: int = MOST_LINKS) -> Event:
    """Return the trace of the steps that ``run`` recorded of all workers.

    The trace shows the first ``workers`` and the busiest ``links``.
    """
    job = run.job
    shown = min(workers, job.workers)
    carried = run.link_transfers()
    # Rank links by the seconds that their bytes need, so that slow links count as busier.
    needs = {
        link: sum(each.nbytes for each in transfers) / float(job.network.capacities[link])
        for link, transfers in carried.items()
    }
    busiest = sorted(needs, key=lambda link: -needs[link])[:links]

    events = [
        *_gpus(run, shown),
        *_links(job, {link: carried[link] for link in sorted(busiest)}),
    ]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "scenario": run.scenario.name,
            "first_step": run.recorded.start,
            "steps": len(run.recorded),
            "workers": job.workers,
            "workers_shown": shown,
            "links_loaded": len(carried),
            "links_shown": len(busiest),
        },
    }


def _gpus(run: Run, shown: int) -> Iterator[Event]:
    """Yield the streams of the first workers: steps, their intervals, and staleness counters."""
    job, bounds = run.job, run.boundaries()
    for worker in range(shown):
        pid, name = _node(job, worker), f"gpu{job.cluster.local_of[worker]}"
        streams = {_thread(job, worker, stream): f"{name} {stream}" for stream in STREAMS}
        yield from _names(pid, f"node {pid - 1}", streams)
        yield from _steps(run, worker, bounds[:, worker].tolist())
    for each in run.intervals(workers=shown):
        thread = _thread(job, each.worker, each.stream)
        start, end = _inside(each, bounds[:, each.worker])
        yield _slice(_node(job, each.worker), thread, each.name, start, end)


def _steps(run: Run, worker: int, bounds: Sequence[float]) -> Iterator[Event]:
    """Yield a worker's recorded steps, and its staleness at their beginnings and ends."""
    job, steps = run.job, run.steps
    pid, compute = _node(job, worker), _thread(job, worker, "compute")
    name = f"gpu{job.cluster.local_of[worker]}"
    for step, (start, end) in zip(run.recorded, pairwise(bounds), strict=True):
        yield _slice(pid, compute, f"step {step}", start, end)
        gap = int(steps.clock_gap[step, worker])
        yield _counter(pid, f"{name} clock gap", start, iterations=gap)
        versions = int(steps.versions[step, worker])
        if versions != DROPPED:  # a marker, not a number of versions
            yield _counter(pid, f"{name} staleness", end, versions=versions)


def _inside(each: Interval, bounds: FloatArray) -> tuple[float, float]:
    """Return the start and end of an interval; computing is clipped to its step.

    Viewers nest slices by their times, and steps are added up in another order than intervals: the
    last digit may differ.
    """
    if each.stream != "compute":
        return each.start, each.end
    # The interval's middle determines its step, because rounding cannot move it to another step.
    middle = (each.start + each.end) / 2
    number = int(np.clip(np.searchsorted(bounds, middle) - 1, 0, len(bounds) - 2))
    return max(each.start, float(bounds[number])), min(each.end, float(bounds[number + 1]))


def _links(job: Job, carried: OnLinks) -> Iterator[Event]:
    """Yield a thread for each link, with its busy times, and the counter of its load."""
    for link, transfers in carried.items():
        name = job.network.link_name(link)
        thread = _FIRST_LINK + link
        pid, process = _place(name, job.cluster.nodes)
        yield from _names(pid, process, {thread: name})
        # Viewers nest the slices of a thread, so transfers that overlap on the link are one slice.
        for group in overlapping(transfers):
            label = group[0].name if len(group) == 1 else f"{len(group)} transfers"
            nbytes = round(sum(each.nbytes for each in group))
            end = max(each.end for each in group)
            yield _slice(pid, thread, label, group[0].start, end, bytes=nbytes)
        for time, share in load_over_time(transfers, float(job.network.capacities[link])):
            yield _counter(pid, f"load of {name}", time, share=share)


def _place(link: str, nodes: int) -> tuple[int, str]:
    """Return the process of a link: the node at its start or else its end, or the network."""
    for end in link.split("->"):
        node = end.partition("/")[0].removeprefix("node")
        if node.isdigit():
            return int(node) + 1, f"node {node}"
    return nodes + 1, "network"


def _node(job: Job, worker: int) -> int:
    """Return the process of a worker's node."""
    return int(job.cluster.node_of[worker]) + 1


def _thread(job: Job, worker: int, stream: str) -> int:
    """Return the thread of a worker's stream, within its node."""
    return 1 + len(STREAMS) * int(job.cluster.local_of[worker]) + STREAMS.index(stream)


def _names(pid: int, process: str, threads: dict[int, str]) -> Iterator[Event]:
    # Phases of the format: M is a name, X a slice with its length, C a counter.
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": process}}
    for tid, name in threads.items():
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": pid,
            "tid": tid,
            "args": {"sort_index": tid},
        }


def _slice(pid: int, tid: int, name: str, start: float, end: float, **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": "dpsim",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start * _MICRO,
        "dur": (end - start) * _MICRO,
        "args": args,
    }


def _counter(pid: int, name: str, time: float, **values: float) -> Event:
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": time * _MICRO, "args": values}
