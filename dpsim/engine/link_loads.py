"""The bytes on each link of a cluster, in a step or in one collective of a given size."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import limited
from dpsim.base.units import DATA, human
from dpsim.engine.job import Job
from dpsim.hardware import device_kind
from dpsim.network import CollectiveModel
from dpsim.topology import Cluster

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True, eq=False)
class LinkLoads:
    """Bytes that each capacity of a cluster carries while ``what`` communicates, in ``time_s``.

    ``over`` says which time utilisation refers to: "while in use" for single collectives.
    """

    what: str
    bytes: FloatArray
    time_s: float
    over: str = "while in use"

    def utilisation(self, capacities: FloatArray) -> FloatArray:
        """Return the share of each capacity (B/s) that is used during ``time_s``, from 0 to 1."""
        return np.minimum(self.shares(capacities), 1.0)

    def shares(self, capacities: FloatArray) -> FloatArray:
        """Return the bytes as shares of what each capacity (B/s) can carry in ``time_s``.

        A share exceeds 1 if some bytes are still in flight at the end of the time.
        """
        if self.time_s <= 0:
            return np.zeros(len(capacities))
        return np.asarray(self.bytes / (capacities * self.time_s))


@dataclass(frozen=True, slots=True)
class StepTraffic:
    """The mean traffic of one step: bytes of the busiest worker, of all workers, and on the links.

    ``busiest_link_utilisation`` is the share of its capacity that the busiest link carries in the
    time of ``links``. ``algorithms`` are the collective algorithms used, sorted by name; for
    ``auto``, the chosen ones.
    """

    sent_by_busiest: int
    sent_in_total: int
    links: LinkLoads
    busiest_link: str | None
    busiest_link_utilisation: float
    algorithms: tuple[str, ...] = ()


class _Collective(NamedTuple):
    """A collective of ``nbytes``, in its turn."""

    collective: str
    nbytes: int
    turn: int


def collective_loads(job: Job, collective: str, nbytes: int, turn: int = 0) -> FloatArray:
    """Return the bytes on each capacity in a collective that all workers enter together."""
    model = job.collective(collective, turn)
    # Without stragglers, because loads do not depend on when workers arrive.
    return model.loads(nbytes) if _on_network(job, model) else np.zeros(len(job.network.capacities))


def _on_network(job: Job, model: CollectiveModel) -> bool:
    """Return whether a collective uses the job's network.

    With parameter servers, the loss is averaged over the bare cluster instead.
    """
    return len(model.network.capacities) == len(job.network.capacities)


@limited()
def link_loads(job: Job, nbytes: int | None = None) -> LinkLoads:
    """Return the loads of one collective of ``nbytes`` bytes, or of all calls of one step.

    The collectives of a step run one after another, alone on the cluster and without computation in
    between.
    """
    by_step = [
        [stage for call in calls for stage in call.stages] for calls in job.calls_of.values()
    ]
    # If steps differ, take the one that sends most.
    sent = max(by_step, key=lambda stages: sum(nbytes for _, nbytes in stages), default=[])
    loads, seconds = np.zeros(len(job.network.capacities)), 0.0
    if not sent:
        return LinkLoads("no communication: one worker", loads, seconds)
    if nbytes is not None:
        sent = [(sent[0][0], nbytes)]
    for collective, size in sent:
        model = job.collective(collective)
        outcome = model.finish(np.zeros(job.workers), size)
        if _on_network(job, model):
            loads += outcome.loads
        seconds += float(outcome.finishes.max())
    used = {job.collective(collective).algorithm_for(size) for collective, size in sent}
    amount = human(sum(size for _, size in sent), DATA, 3)
    what = (
        f"one step's {amount} in {len(sent)} operations"
        if nbytes is None
        else f"one operation of {amount}"
    )
    return LinkLoads(f"{what} ({', '.join(sorted(used))})", loads, seconds)


def busiest_links(
    cluster: Cluster, loads: LinkLoads, most: int | None = None
) -> list[dict[str, Any]]:
    """Return the links that carry data, highest utilisation first.

    Devices with a limit of their own are included.
    """
    capacities = cluster.capacities
    shares = loads.utilisation(capacities)
    order = np.argsort(-shares.round(9), kind="stable")  # equal links in the order of their numbers
    loaded = order[loads.bytes[order] > 0][:most]
    return [
        {
            "link": cluster.link_name(int(link)),
            "rate_Bps": float(capacities[link]),
            "bytes": float(loads.bytes[link]),
            "utilisation": float(shares[link]),
        }
        for link in loaded
    ]


class LinkClass(NamedTuple):
    """All links between two kinds of devices: ``ends``, how many ``links``, rate (B/s) and load.

    ``share`` is the largest utilisation of a link, ``mean`` the mean over all, ``busiest`` the name
    of the most utilised link. Rates may differ: ``rate`` is the busiest link's.
    """

    ends: tuple[str, str]
    links: int
    rate: float
    share: float
    mean: float
    busiest: str


def link_classes(cluster: Cluster, loads: LinkLoads) -> list[LinkClass]:
    """Return the links by the kinds of devices they join, the most utilised class first."""
    graph, shares = cluster.graph(), loads.utilisation(cluster.capacities)
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for a, b, data in graph.edges(data=True):
        # Sorted, so that both directions of a link are in one class.
        one, other = sorted((_kind(graph, a), _kind(graph, b)))
        numbers[one, other].append(data["number"])
    found = []
    for ends, links in numbers.items():
        used = shares[links]
        busiest = links[int(used.argmax())]
        found.append(
            LinkClass(
                ends,
                len(links),
                float(cluster.capacities[busiest]),
                float(used.max()),
                float(used.mean()),
                cluster.link_name(busiest),
            )
        )
    return sorted(found, key=lambda each: -each.share)


def _kind(graph: nx.DiGraph[str], device: str) -> str:
    """Return a device's kind; a fabric's device has it in its name: ``leaf`` for ``leaf12``."""
    return str(graph.nodes[device].get("kind") or device_kind(device))


def step_traffic(job: Job, step_time: float) -> StepTraffic:
    """Return the mean traffic of all steps that count; a step takes ``step_time`` seconds."""
    capacities = job.network.capacities
    loads, sent, by_others = np.zeros(len(capacities)), np.zeros(job.workers), 0.0
    algorithms = set()
    for each, share in _collectives(job).items():
        loads += share * collective_loads(job, *each)
        model = job.collective(each.collective, each.turn)
        algorithms.add(model.algorithm_for(each.nbytes))
        moved = model.traffic(each.nbytes)
        sent += share * moved.sent
        by_others += share * moved.by_others
    links = LinkLoads("a step", loads, step_time, "over the step")
    total = float(sent.sum()) + by_others
    if not total:
        return StepTraffic(0, 0, links, None, 0.0)
    utilisation = links.utilisation(capacities)
    busiest = int(utilisation.argmax())
    return StepTraffic(
        # The mean over different steps may be a fraction of a byte.
        sent_by_busiest=round(sent.max()),
        sent_in_total=round(total),
        links=links,
        busiest_link=job.network.link_name(busiest),
        busiest_link_utilisation=float(utilisation[busiest]),
        algorithms=tuple(sorted(algorithms)),
    )


def bytes_in_step(job: Job, step: int) -> float:
    """Return the bytes that all workers send in step ``step``."""
    total: float = 0
    for call in job.calls(step):
        for name, nbytes in call.stages:
            turn = step % len(job.collectives[name])
            total += job.collective(name, step).traffic(nbytes).total * _repeats(job, turn)
    return total


def _collectives(job: Job) -> dict[_Collective, float]:
    """Return every collective, and how often it runs in a step on average."""
    kinds_of_step = Counter(job.exchange(step) for step in job.counted)
    often: dict[_Collective, float] = defaultdict(float)
    for kind, count in kinds_of_step.items():
        share = count / len(job.counted)
        sent = [stage for call in job.calls_of[kind] for stage in call.stages]
        for name, nbytes in sent:
            # Gossip's neighbours change from turn to turn; all turns are equally frequent.
            turns = len(job.collectives[name])
            for turn in range(turns):
                often[_Collective(name, nbytes, turn)] += share / turns * _repeats(job, turn)
    return often


def _repeats(job: Job, turn: int) -> float:
    """Return how often the calls of a turn are sent in a step of all workers."""
    if not job.independent_workers:
        return 1.0
    return job.scenario.strategy.aggregation.sends_per_iteration(
        job.workers, job.setting.seed, turn
    )
