"""Steps as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process stands for each node and one for the network between them, a thread for each stream of a
GPU and for each link; counters show the load of each link, as a share of its rate, and how stale
workers are. Format: Google, "Trace Event Format", 2016; times are microseconds from the start of
the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpsim.engine import Interval, Job, OnLinks, Run, Transfer
from dpsim.strategy.sync import DROPPED

MOST_WORKERS = 64
MOST_LINKS = 64
STREAMS = ("compute", "communication", "input")
STEPS = 3  # that a trace shows, unless it is of another recording
_FIRST_LINK = 10_000  # threads of links, after those of GPUs
_MICRO = 1e6

Event = dict[str, Any]


def trace(run: Run, workers: int = MOST_WORKERS, links: int = MOST_LINKS) -> Event:
    """The trace of the steps that ``run`` recorded of all workers.

    It shows the first ``workers`` and the busiest ``links``.
    """
    job, shown = run.job, min(workers, run.job.workers)
    carried = run.link_transfers()
    busiest = sorted(
        carried,
        key=lambda link: (
            -sum(each.nbytes for each in carried[link]) / float(job.network.capacities[link])
        ),
    )[:links]
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
    """The streams of the first workers: steps, what is done in them, and counters of staleness."""
    job, records, warmup = run.job, run.all_steps, run.scenario.run.warmup
    numbers = range(run.recorded.start + warmup, run.recorded.stop + warmup)
    from_start = np.vstack([np.zeros(job.workers), np.cumsum(records.step, axis=0)])
    bounds = from_start[numbers.start : numbers.stop + 1]
    for worker in range(shown):
        pid, name = _node(job, worker), f"gpu{job.cluster.local_of[worker]}"
        streams = {_thread(job, worker, stream): f"{name} {stream}" for stream in STREAMS}
        yield from _names(pid, f"node {pid - 1}", streams)
        compute = _thread(job, worker, "compute")
        for row, number in enumerate(numbers):
            start, end = float(bounds[row, worker]), float(bounds[row + 1, worker])
            yield _slice(pid, compute, f"step {number - warmup}", start, end)
            gap = int(records.clock_gap[number, worker])
            yield _counter(pid, f"{name} clock gap", start, iterations=gap)
            versions = int(records.versions[number, worker])
            if versions != DROPPED:
                yield _counter(pid, f"{name} staleness", end, versions=versions)
    for each in run.intervals(workers=shown):
        thread = _thread(job, each.worker, each.stream)
        start, end = _inside(each, bounds[:, each.worker])
        yield _slice(_node(job, each.worker), thread, each.name, start, end)


def _inside(each: Interval, bounds: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """What is computed lies in its step.

    Clocks that were added up in another order may differ in the last digit.
    """
    if each.stream != "compute":
        return each.start, each.end
    number = int(
        np.clip(np.searchsorted(bounds, (each.start + each.end) / 2) - 1, 0, len(bounds) - 2)
    )
    return max(each.start, float(bounds[number])), min(each.end, float(bounds[number + 1]))


def _links(job: Job, carried: OnLinks) -> Iterator[Event]:
    """A thread for each link, with the time that it is busy, and the counter of its load."""
    for link, transfers in carried.items():
        name = job.network.link_name(link)
        pid, process = _place(name, job.cluster.nodes)
        yield from _names(pid, process, {_FIRST_LINK + link: name})
        for together in _busy(transfers):
            what = together[0].name if len(together) == 1 else f"{len(together)} transfers"
            nbytes = round(sum(each.nbytes for each in together))
            yield _slice(
                pid,
                _FIRST_LINK + link,
                what,
                together[0].start,
                max(each.end for each in together),
                bytes=nbytes,
            )
        for time, share in _loads(transfers, float(job.network.capacities[link])):
            yield _counter(pid, f"load of {name}", time, share=share)


def _busy(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """Transfers in order, those that overlap together."""
    groups: list[list[Transfer]] = []
    until = -np.inf
    for each in transfers:
        if each.start < until:
            groups[-1].append(each)
        else:
            groups.append([each])
        until = max(until, each.end)
    return groups


def _loads(transfers: Sequence[Transfer], rate: float) -> list[tuple[float, float]]:
    """When the load changes, and to what share of ``rate``: each transfer's mean over its time.

    A transfer's rate varies while it shares the link, so means may add up to more than there is:
    the link then is full.
    """
    changes: dict[float, float] = {}
    for each in transfers:
        share = each.nbytes / (each.end - each.start) / rate
        changes[each.start] = changes.get(each.start, 0.0) + share
        changes[each.end] = changes.get(each.end, 0.0) - share
    times = sorted(changes)
    return list(
        zip(
            times,
            np.clip(np.cumsum([changes[time] for time in times]), 0.0, 1.0).round(9).tolist(),
            strict=True,
        )
    )


def _place(link: str, nodes: int) -> tuple[int, str]:
    """The process of a link: the node where it begins or else ends, or the network."""
    for end in link.split("->"):
        node = end.partition("/")[0].removeprefix("node")
        if node.isdigit():
            return int(node) + 1, f"node {node}"
    return nodes + 1, "network"


def _node(job: Job, worker: int) -> int:
    """The process of a worker's node."""
    return int(job.cluster.node_of[worker]) + 1


def _thread(job: Job, worker: int, stream: str) -> int:
    return 1 + len(STREAMS) * int(job.cluster.local_of[worker]) + STREAMS.index(stream)


def _names(pid: int, process: str, threads: dict[int, str]) -> Iterator[Event]:
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
